//! One thread for each device, and calls that run on all of them at the same time.

use crate::DeviceError;
use crate::worker::Worker;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How long the calling thread sleeps between two looks at its messages while the devices compute: short against an
/// update of milliseconds, long enough to leave the core to the devices.
const MEANWHILE_PAUSE: Duration = Duration::from_micros(75);

/// How often a driver looks whether the others have come before it sleeps: some microseconds, which is how far apart
/// threads wake up, and less than waking up again takes.
const LOOKS: u32 = 256;

/// A device, owned for the duration of a call by its driver thread.
pub(super) type Device = Mutex<Box<dyn Worker>>;

/// The driver threads.
pub(super) struct Drivers {
    /// One thread a device.
    pool: ThreadPool,
}

impl Drivers {
    /// Threads for so many devices.
    pub fn new(devices: usize) -> Result<Self, DeviceError> {
        let pool = ThreadPoolBuilder::new()
            // rayon takes 0 for "as many as there are cores".
            .num_threads(devices.max(1))
            .thread_name(|i| format!("driver-{i}"))
            .build()
            .map_err(|error| DeviceError::Config {
                device: "team".to_owned(),
                reason: format!("cannot start {devices} driver threads: {error}"),
            })?;
        Ok(Self { pool })
    }

    /// Runs `call` on every device that has a task, each on the device's own driver thread, and `meanwhile` on this one.
    /// A device without a task is left alone, and has the default result.
    ///
    /// No call begins before the threads of all that have a task are awake, so that the devices start together.
    ///
    /// A broadcast job runs exactly once on every thread of the pool. Plain jobs would be stolen: a driver that waits
    /// for the threads of its device would start another device's job inside, and notice its own end too late.
    pub fn drive<T: Send, R: Default + Send>(
        &self,
        devices: &[Device],
        tasks: Vec<Option<T>>,
        meanwhile: &mut dyn FnMut(),
        call: impl Fn(&mut dyn Worker, T) -> Result<R, DeviceError> + Sync,
    ) -> Vec<Result<R, DeviceError>> {
        let gate = Gate::new(tasks.iter().flatten().count());
        let results: Vec<Mutex<Result<R, DeviceError>>> = tasks
            .iter()
            .map(|task| Mutex::new(task.as_ref().map_or(Ok(R::default()), |_| Err(no_result()))))
            .collect();
        let tasks: Vec<_> = tasks.into_iter().map(Mutex::new).collect();
        let running = Running::new(self.pool.current_num_threads());
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, driver| {
                let i = driver.index();
                // A team without devices has a thread nevertheless.
                if let Some(task) = tasks.get(i).and_then(|task| lock(task).take()) {
                    let mut worker = lock(&devices[i]);
                    // A device may panic behind the gate, and nothing may before it.
                    gate.pass();
                    *lock(&results[i]) = caught(|| call(worker.as_mut(), task));
                }
                running.one_is_done();
            });
            running.wait(meanwhile);
        });
        let outcome = |slot: Mutex<_>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().map(outcome).collect()
    }
}

fn no_result() -> DeviceError {
    DeviceError::Panic {
        message: "the driver ended without a result".to_owned(),
    }
}

/// A lock that a panic elsewhere does not spoil: panics are caught inside, and reported.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of `work`, or its panic as an error.
fn caught<R>(work: impl FnOnce() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
    // A worker that panicked is abandoned in the middle of its job, which is what its contract says of errors.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(DeviceError::Panic {
            message: panic_message(payload.as_ref()),
        })
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "of unknown content".to_owned())
}

/// Where threads wait for each other once.
struct Gate {
    /// How many have not come yet.
    missing: AtomicUsize,
    /// Held by those who go to sleep, and by the last one before it wakes them.
    sleep: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// A gate that opens when so many threads have come.
    fn new(threads: usize) -> Self {
        Self {
            missing: AtomicUsize::new(threads),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Returns when all have called it.
    fn pass(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Who has looked before and not slept yet holds the lock until it sleeps.
            drop(lock(&self.sleep));
            return self.opened.notify_all();
        }
        let is_open = || self.missing.load(Ordering::Acquire) == 0;
        for _ in 0..LOOKS {
            if is_open() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut asleep = lock(&self.sleep);
        while !is_open() {
            let woken = self.opened.wait(asleep);
            asleep = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How many drivers are still at work, and who waits for them.
struct Running {
    count: AtomicUsize,
    caller: Thread,
}

impl Running {
    fn new(count: usize) -> Self {
        Self {
            count: AtomicUsize::new(count),
            caller: std::thread::current(),
        }
    }

    fn one_is_done(&self) {
        // Release: what the device wrote is visible to the caller that sees the count at 0.
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.unpark();
        }
    }

    /// Calls `meanwhile` until all are done, at least once.
    fn wait(&self, meanwhile: &mut dyn FnMut()) {
        loop {
            meanwhile();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            // An unpark that came before is not lost, so the last device ends this pause at once.
            std::thread::park_timeout(MEANWHILE_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_the_gate_before_all_have_come() {
        for threads in [1, 2, 5] {
            for _ in 0..200 {
                let (gate, come) = (Gate::new(threads), AtomicUsize::new(0));
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            come.fetch_add(1, Ordering::SeqCst);
                            gate.pass();
                            assert_eq!(come.load(Ordering::SeqCst), threads);
                        });
                    }
                });
            }
        }
    }
}
