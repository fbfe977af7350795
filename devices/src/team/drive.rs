//! One driver thread for each device, and calls that run on all of them at the same time.

use super::gate::Gate;
use super::running::RunningDrivers;
use super::sync::lock;
use crate::contract::{DeviceError, Worker};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// A device, which its driver thread owns for the duration of a call.
pub(super) type TeamWorker = Mutex<Box<dyn Worker>>;

/// The driver threads.
pub(super) struct Drivers {
    /// One thread a device.
    pool: ThreadPool,
}

impl Drivers {
    /// Starts the threads of `devices` devices.
    pub fn new(devices: usize) -> Result<Self, DeviceError> {
        let pool = ThreadPoolBuilder::new()
            // rayon takes 0 for "as many as there are cores".
            .num_threads(devices.max(1))
            .thread_name(|i| format!("driver-{i}"))
            .build()
            .map_err(|error| DeviceError::no_threads("a thread that drives each device", error))?;
        Ok(Self { pool })
    }

    /// Runs `call` on every device that has a task, on the device's own driver thread, and `meanwhile` on this thread.
    /// A device without a task is left alone, and has the default result. If one device alone has a task and no message is
    /// under way, it runs on this thread: waking another one takes longer than a small update.
    ///
    /// No call begins before the threads of all devices with a task are awake, so the devices start together.
    ///
    /// A broadcast job runs exactly once on every thread of the pool. Plain jobs would be stolen: a driver that waits
    /// for the threads of its device would start another device's job meanwhile, and notice its own end too late.
    pub fn drive<T: Send, R: Default + Send>(
        &self,
        devices: &[TeamWorker],
        tasks: Vec<Option<T>>,
        meanwhile: &mut dyn FnMut() -> bool,
        call: impl Fn(&mut dyn Worker, T) -> Result<R, DeviceError> + Sync,
    ) -> Vec<Result<R, DeviceError>> {
        let wanted = tasks.iter().flatten().count();
        if wanted <= 1 && !meanwhile() {
            return tasks
                .into_iter()
                .zip(devices)
                .map(|(task, device)| match task {
                    Some(task) => {
                        let mut worker = lock(device);
                        catch_panic(|| call(worker.as_mut(), task))
                    }
                    None => Ok(R::default()),
                })
                .collect();
        }
        let gate = Gate::new(wanted);
        let results: Vec<Mutex<Result<R, DeviceError>>> = tasks
            .iter()
            .map(|task| Mutex::new(task.as_ref().map_or(Ok(R::default()), |_| Err(no_result()))))
            .collect();
        let tasks: Vec<_> = tasks.into_iter().map(Mutex::new).collect();
        let running = RunningDrivers::new(self.pool.current_num_threads());
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, driver| {
                let i = driver.index();
                // A team without devices has a thread nevertheless.
                if let Some(task) = tasks.get(i).and_then(|task| lock(task).take()) {
                    let mut worker = lock(&devices[i]);
                    // A device may panic behind the gate, and nothing may before it.
                    gate.pass();
                    *lock(&results[i]) = catch_panic(|| call(worker.as_mut(), task));
                }
                running.end_driver();
            });
            running.wait_for_drivers(meanwhile);
        });
        results
            .into_iter()
            .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect()
    }
}

fn no_result() -> DeviceError {
    DeviceError::Panic("the driver ended without a result".to_owned())
}

/// Returns the result of `work`, or its panic as an error.
fn catch_panic<R>(work: impl FnOnce() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
    // A worker that panicked is abandoned in the middle of its job, as its contract allows after an error.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(DeviceError::Panic(panic_message(payload.as_ref()))))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "of unknown content".to_owned())
}
