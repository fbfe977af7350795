//! The devices of one node, driven together.

use crate::worker::{Depth, DeviceInfo, Panels, ResidentPeak, UpdateTime, Worker};
use crate::{DeviceError, ThreadPlace, ViewMut};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How long the calling thread sleeps between two looks at its messages while the devices compute: short against an
/// update of milliseconds, long enough to leave the core to the devices.
const MEANWHILE_PAUSE: Duration = Duration::from_micros(75);

/// All devices of a node. Each has its own driver thread; every call makes all of them work at the same time, on
/// neighbouring vertical slices of C, and returns when the last one is done.
///
/// `slices` are the columns of each device, from left to right; they sum to the columns of C. A device with 0 columns
/// is left alone, and its time is 0.
pub struct DeviceTeam {
    /// A device, owned for the duration of a call by its driver thread.
    devices: Vec<Mutex<Box<dyn Worker>>>,
    infos: Vec<DeviceInfo>,
    /// One thread a device.
    drivers: ThreadPool,
}

impl DeviceTeam {
    /// The team of these devices; there may be none.
    ///
    /// # Errors
    /// [`DeviceError::Config`] when the driver threads cannot be started.
    pub fn new(workers: Vec<Box<dyn Worker>>) -> Result<Self, DeviceError> {
        let drivers = ThreadPoolBuilder::new()
            // rayon takes 0 for "as many as there are cores".
            .num_threads(workers.len().max(1))
            .thread_name(|i| format!("driver-{i}"))
            .build()
            .map_err(|error| DeviceError::Config {
                device: "team".to_owned(),
                reason: format!("cannot start {} driver threads: {error}", workers.len()),
            })?;
        Ok(Self {
            infos: workers.iter().map(|w| w.info().clone()).collect(),
            devices: workers.into_iter().map(Mutex::new).collect(),
            drivers,
        })
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there is no device.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// What the devices are, in the order of the slices.
    pub fn infos(&self) -> &[DeviceInfo] {
        &self.infos
    }

    /// Bytes that a job needs beyond the matrices in host memory, over all devices.
    ///
    /// # Errors
    /// [`DeviceError::Slices`] when there are more or fewer slices than devices.
    pub fn memory_needed(
        &mut self,
        rows: usize,
        slices: &[usize],
        depth: Depth,
    ) -> Result<u64, DeviceError> {
        self.check(slices, slices.iter().sum())?;
        let needed = self.devices.iter_mut().zip(slices).map(|(device, &cols)| {
            device
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .memory_needed(rows, cols, depth)
        });
        Ok(needed.sum())
    }

    /// Where the threads of each device are bound, and where they ran, as [`Worker::threads`].
    pub fn threads(&self) -> Vec<Vec<ThreadPlace>> {
        let devices = self.devices.iter();
        devices.map(|device| lock(device).threads()).collect()
    }

    /// Measures one device while the others are idle, as [`Worker::resident_peak`].
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// When there is no device of this index.
    pub fn resident_peak(&mut self, index: usize) -> Result<Option<ResidentPeak>, DeviceError> {
        let device = self.devices[index].get_mut();
        device
            .unwrap_or_else(PoisonError::into_inner)
            .resident_peak()
    }

    /// `C = beta·C` by all devices at the same time, as [`Worker::scale`].
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn scale(
        &mut self,
        beta: f64,
        c: ViewMut<'_, f64>,
        slices: &[usize],
    ) -> Result<(), DeviceError> {
        self.check(slices, c.cols())?;
        let tasks = c.split_columns(slices.iter().copied());
        self.drive(tasks, &mut || {}, |worker, c| {
            worker.scale(beta, c);
            Ok(())
        })?;
        Ok(())
    }

    /// How many consecutive updates belong together, as [`Worker::updates_per_visit`] of the device with the most: the
    /// others' are powers of two, so that this is a multiple of each, or it is all that the job has.
    ///
    /// # Errors
    /// [`DeviceError::Slices`] when there are more or fewer slices than devices.
    pub fn updates_per_visit(
        &self,
        rows: usize,
        slices: &[usize],
        depth: Depth,
    ) -> Result<usize, DeviceError> {
        self.check(slices, slices.iter().sum())?;
        let devices = self.devices.iter().zip(slices);
        let most = devices.map(|(device, &cols)| lock(device).updates_per_visit(rows, cols, depth));
        Ok(most.max().unwrap_or(1))
    }

    /// Whether the first update of a job is unlike the others, as [`Worker::copies_ahead`] of any device.
    pub fn copies_ahead(&self) -> bool {
        self.devices
            .iter()
            .any(|device| lock(device).copies_ahead())
    }

    /// Takes the memory that a job will need on every device, as [`Worker::reserve`].
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn reserve(
        &mut self,
        rows: usize,
        slices: &[usize],
        depth: Depth,
    ) -> Result<(), DeviceError> {
        self.check(slices, slices.iter().sum())?;
        self.drive(slices.to_vec(), &mut || {}, |worker, cols| match cols {
            0 => Ok(()),
            _ => worker.reserve(rows, cols, depth),
        })?;
        Ok(())
    }

    /// Starts a job on every device, as [`Worker::begin`]. Returns the time of each device.
    ///
    /// # Errors
    /// [`DeviceError::Slices`] and [`DeviceError::Width`] when `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed.
    pub fn begin(
        &mut self,
        c: ViewMut<'_, f64>,
        slices: &[usize],
        depth: Depth,
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.check(slices, c.cols())?;
        let tasks = c.split_columns(slices.iter().copied());
        self.drive(tasks, &mut || {}, |worker, c| match c.cols() {
            0 => Ok(UpdateTime::default()),
            _ => worker.begin(c, depth),
        })
    }

    /// `C += alpha·A·B` by all devices at the same time, as [`Worker::update`]; A: `rows × k`, B: `k × cols`. Where the
    /// panels of the next update are here already, `next`, each device may copy its part of them meanwhile, as
    /// [`Worker::update_ahead`].
    ///
    /// While they compute, the calling thread calls `meanwhile` again and again, for the progress of its messages,
    /// and at least once; between the calls it sleeps briefly. Returns the time of each device.
    ///
    /// # Errors
    /// As [`begin`](Self::begin). A panic in a device is such an error too; the others finish their update first.
    pub fn update(
        &mut self,
        alpha: f64,
        panels: Panels<'_>,
        next: Option<Panels<'_>>,
        c: ViewMut<'_, f64>,
        slices: &[usize],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.check(slices, c.cols())?;
        for (a, b) in [Some(panels), next].into_iter().flatten() {
            if b.cols() != c.cols() {
                return Err(DeviceError::Shape {
                    matrix: "B",
                    expected_rows: a.cols(),
                    expected_cols: c.cols(),
                    found_rows: b.rows(),
                    found_cols: b.cols(),
                });
            }
        }
        let mut first = 0;
        let tasks = c
            .split_columns(slices.iter().copied())
            .into_iter()
            .map(|c| {
                let columns = first..first + c.cols();
                first = columns.end;
                (columns, c)
            });
        self.drive(tasks.collect(), meanwhile, |worker, (columns, c)| {
            let (a, b) = part(panels, &columns);
            match next {
                _ if c.cols() == 0 => Ok(UpdateTime::default()),
                None => worker.update(alpha, a, b, c),
                Some(next) => worker.update_ahead(alpha, (a, b), part(next, &columns), c),
            }
        })
    }

    /// Ends the job on every device, as [`Worker::finish`]; then `c` holds the result. Returns the time of each device.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn finish(
        &mut self,
        c: ViewMut<'_, f64>,
        slices: &[usize],
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.check(slices, c.cols())?;
        let tasks = c.split_columns(slices.iter().copied());
        self.drive(tasks, &mut || {}, |worker, c| match c.cols() {
            0 => Ok(UpdateTime::default()),
            _ => worker.finish(c),
        })
    }

    fn check(&self, slices: &[usize], cols: usize) -> Result<(), DeviceError> {
        if slices.len() != self.devices.len() {
            return Err(DeviceError::Slices {
                devices: self.devices.len(),
                slices: slices.len(),
            });
        }
        let covered: usize = slices.iter().sum();
        if covered != cols {
            return Err(DeviceError::Width { covered, cols });
        }
        Ok(())
    }

    /// Runs `call` on every device with its task, each on the device's own driver thread, and `meanwhile` on this one.
    ///
    /// A broadcast job runs exactly once on every thread of the pool. Plain jobs would be stolen: a driver that waits
    /// for the threads of its device would start another device's job inside, and notice its own end too late.
    fn drive<T: Send, R: Send>(
        &self,
        tasks: Vec<T>,
        meanwhile: &mut dyn FnMut(),
        call: impl Fn(&mut dyn Worker, T) -> Result<R, DeviceError> + Sync,
    ) -> Result<Vec<R>, DeviceError> {
        let tasks: Vec<_> = tasks.into_iter().map(|t| Mutex::new(Some(t))).collect();
        let results: Vec<Mutex<Option<Result<R, DeviceError>>>> =
            tasks.iter().map(|_| Mutex::new(None)).collect();
        let running = Running::new(self.drivers.current_num_threads());
        self.drivers.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, driver| {
                let i = driver.index();
                // A team without devices has a thread nevertheless.
                if let Some(task) = tasks.get(i).and_then(|task| lock(task).take()) {
                    let mut worker = lock(&self.devices[i]);
                    let outcome = caught(|| call(worker.as_mut(), task));
                    *lock(&results[i]) = Some(outcome);
                }
                running.one_is_done();
            });
            running.wait(meanwhile);
        });
        let outcomes = results
            .into_iter()
            .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
        outcomes
            .zip(&self.infos)
            .map(|(outcome, info)| {
                let missing = || {
                    Err(DeviceError::Panic {
                        message: "the driver ended without a result".to_owned(),
                    })
                };
                outcome
                    .unwrap_or_else(missing)
                    .map_err(|source| DeviceError::Device {
                        device: info.name.clone(),
                        source: Box::new(source),
                    })
            })
            .collect()
    }
}

/// What a device with these columns of C needs of panels.
fn part<'p>((a, b): Panels<'p>, columns: &Range<usize>) -> Panels<'p> {
    (a, b.columns(columns.clone()))
}

/// A lock that a panic elsewhere does not spoil: panics are caught inside, and reported.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
