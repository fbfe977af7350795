//! The devices of one node, driven together.

use crate::contract::{
    Depth, DeviceError, DeviceInfo, JobNeeds, JobShape, PanelPair, Scalar, ThreadPlace, UpdateTime,
    Updates, ViewMut, Worker, check_size,
};
use crate::host::fork::HomeProcess;
use crate::host::operation::Operation;
use core_turns::take_turn;
use drive::{Drivers, TeamWorker};
use std::ops::Range;
use std::sync::Mutex;
use sync::lock;

mod core_turns;
mod drive;
mod gate;
mod running;
mod sync;

/// All devices of a node, each with its own driver thread.
///
/// Every call makes all of them work at the same time, on neighbouring vertical slices of C, and returns when the last one
/// is done. They start together: none starts before the driver threads of all devices with columns are awake.
///
/// Teams of one process with common cores take turns on them.
///
/// `slices` are the columns of each device, from left to right; they sum to the columns of C. A device with 0 columns
/// is left alone, and its time is 0.
pub struct DeviceTeam {
    devices: Vec<TeamWorker>,
    infos: Vec<DeviceInfo>,
    drivers: Drivers,
    share_of_time: f64,
    /// The process that has the threads.
    home: HomeProcess,
}

impl DeviceTeam {
    /// Makes a team of these devices; there may be none.
    ///
    /// # Errors
    /// Returns [`DeviceError::Config`] if the driver threads cannot be started.
    pub fn new(workers: Vec<Box<dyn Worker>>) -> Result<Self, DeviceError> {
        Ok(Self {
            drivers: Drivers::new(workers.len())?,
            infos: workers.iter().map(|w| w.info().clone()).collect(),
            devices: workers.into_iter().map(Mutex::new).collect(),
            share_of_time: 1.0,
            home: HomeProcess::current(),
        })
    }

    /// Sets the share of time that each thread gets in a long run, above 0. It is 1 unless set.
    ///
    /// It is below 1 if a CPU quota pays for fewer cores than compute on this host, or other ranks compute on the same cores.
    /// [Measured](crate::measure_team) times are then those of a long run.
    ///
    /// # Panics
    /// If it is 0 or less, or not a number.
    pub fn set_share_of_time(&mut self, share: f64) {
        assert!(share > 0.0, "{share} of the time");
        self.share_of_time = share;
    }

    /// Returns the [share of time](Self::set_share_of_time) that each thread gets.
    pub(crate) fn share_of_time(&self) -> f64 {
        self.share_of_time
    }

    /// Returns the cores at full speed that each device is [likely](Worker::likely_cores) to be worth in a long run.
    pub fn likely_cores(&self) -> Vec<Option<f64>> {
        self.infos
            .iter()
            .zip(&self.devices)
            .map(|(info, device)| {
                let cores = lock(device).likely_cores()?;
                let is_shared = info.clock.keeps_cores_busy();
                Some(if is_shared { cores * self.share_of_time } else { cores })
            })
            .collect()
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns `true` if there is no device.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Returns the descriptions of the devices, in the order of the slices.
    pub fn infos(&self) -> &[DeviceInfo] {
        &self.infos
    }

    /// Returns the resources that each device needs for its slice of `job`, as [`Worker::job_needs`].
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or the job.
    pub fn job_needs(
        &self,
        job: &JobShape,
        slices: &[usize],
    ) -> Result<Vec<JobNeeds>, DeviceError> {
        self.check_slices(slices, job.cols)?;
        let needs = self
            .devices
            .iter()
            .zip(slices)
            .map(|(device, &cols)| lock(device).job_needs(&job.with_cols(cols)));
        Ok(needs.collect())
    }

    /// Returns the bytes of host memory that `job` needs beyond the matrices, over all devices.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or the job.
    pub fn memory_needed(&self, job: &JobShape, slices: &[usize]) -> Result<u64, DeviceError> {
        let needs = self.job_needs(job, slices)?;
        Ok(needs.iter().map(|needs| needs.host_bytes).sum())
    }

    /// Returns the bytes of host memory that the devices hold from earlier jobs, as [`Worker::memory_held`].
    pub fn memory_held(&self) -> u64 {
        let held = self.devices.iter().map(|device| lock(device).memory_held());
        held.sum()
    }

    /// Bounds the memory that each device may need, as [`Worker::limit_memory`].
    pub fn limit_memory(&mut self, bytes_each: u64) {
        for device in &self.devices {
            lock(device).limit_memory(bytes_each);
        }
    }

    /// Returns the places of each device's threads, as [`Worker::threads`]. A forked child has no such threads.
    pub fn threads(&self) -> Vec<Vec<ThreadPlace>> {
        if !self.home.is_current() {
            return vec![Vec::new(); self.devices.len()];
        }
        self.devices.iter().map(|device| lock(device).threads()).collect()
    }

    /// Returns what disturbed the devices so far, as [`Worker::notices`].
    pub fn notices(&self) -> Vec<String> {
        self.devices.iter().flat_map(|device| lock(device).notices()).collect()
    }

    /// Scales `C = beta·C` on all devices at the same time, as [`Updates::scale`].
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child.
    pub fn scale<T: Scalar>(
        &mut self,
        beta: T,
        c: ViewMut<'_, T>,
        slices: &[usize],
    ) -> Result<(), DeviceError> {
        self.drive_slices(c, slices, |worker, c| {
            worker.scale(beta, c);
            Ok(())
        })?;
        Ok(())
    }

    /// Returns the number of consecutive updates that belong together: [`JobNeeds::updates_per_visit`] of the device with
    /// the most. The others' numbers are powers of two, so this is a multiple of each, or all updates of the job.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or the job.
    pub fn updates_per_visit(
        &self,
        job: &JobShape,
        slices: &[usize],
    ) -> Result<usize, DeviceError> {
        let needs = self.job_needs(job, slices)?;
        Ok(needs.iter().map(|needs| needs.updates_per_visit).max().unwrap_or(1))
    }

    /// Returns `true` if the first update of a job is unlike the others, as [`Worker::copies_ahead`] of any device.
    pub(crate) fn copies_ahead(&self) -> bool {
        self.devices.iter().any(|device| lock(device).copies_ahead())
    }

    /// Takes the memory that a job will need on every device, as [`Worker::reserve`].
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child.
    pub fn reserve(&mut self, job: &JobShape, slices: &[usize]) -> Result<(), DeviceError> {
        self.check_slices(slices, job.cols)?;
        // Pinned memory is made about as fast as C is copied.
        let _running = Operation::begin_copy(job.element.bytes() * job.rows * job.cols);
        let tasks = slices.iter().map(|&cols| (cols > 0).then_some(cols));
        self.drive(tasks.collect(), &mut || false, |worker, cols| {
            worker.reserve(&job.with_cols(cols))
        })?;
        Ok(())
    }

    /// Starts a job on every device, as [`Updates::begin`]. Returns the time of each device.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] when `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child.
    pub fn begin<T: Scalar>(
        &mut self,
        c: ViewMut<'_, T>,
        slices: &[usize],
        depth: Depth,
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.drive_slices(c, slices, |worker, c| worker.begin(c, depth))
    }

    /// Updates `C += alpha·A·B` on all devices at the same time, as [`Updates::update`], and returns the time of each.
    /// A: `rows × k`, B: `k × cols`.
    ///
    /// `next` are the panels of the next update, if they have come already. Each device may copy its part of them meanwhile,
    /// as [`Updates::update_ahead`].
    ///
    /// While the devices compute, the calling thread calls `meanwhile` for the progress of its messages, at least once and as
    /// long as it returns `true`. Between the calls it sleeps briefly. A short update of one device alone runs on the calling
    /// thread, after one such call.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child. A panic in
    /// a device is an error too; the others finish their update first.
    pub fn update<T: Scalar>(
        &mut self,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
        slices: &[usize],
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.check_slices(slices, c.cols())?;
        for (a, b) in [Some(panels), next].into_iter().flatten() {
            if b.cols() != c.cols() {
                check_size("B", (a.cols(), c.cols()), (b.rows(), b.cols()))?;
            }
        }
        let columns = cut_columns(slices).into_iter();
        let products = (c.rows() as f64) * (c.cols() as f64) * (panels.0.cols() as f64);
        let flop = T::TYPE.flop() * products;
        let _running = Operation::begin(flop);
        let is_short =
            flop < FLOP_WORTH_DRIVING && slices.iter().filter(|&&cols| cols > 0).count() == 1;
        let mut progress = || meanwhile() && !is_short;
        let tasks =
            columns.zip(split_slices(c, slices)).map(|(columns, c)| c.map(|c| (columns, c)));
        self.drive(tasks.collect(), &mut progress, |worker, (columns, c)| {
            let next = next.map(|next| cut_panels(next, &columns));
            T::updates(worker).update_ahead(alpha, cut_panels(panels, &columns), next, c)
        })
    }

    /// Ends the job on every device, as [`Updates::finish`], and returns the time of each. Then `c` holds the result.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child.
    pub fn finish<T: Scalar>(
        &mut self,
        c: ViewMut<'_, T>,
        slices: &[usize],
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        self.drive_slices(c, slices, |worker, c| worker.finish(c))
    }

    /// Changes the slices in the middle of a job, from the first of `slices` to the second. Devices whose columns change end
    /// their job and begin it again on their new ones; the others go on. Returns the time of each device.
    ///
    /// # Errors
    /// Returns [`DeviceError::Slices`] and [`DeviceError::Width`] if `slices` do not fit the team or `c`;
    /// [`DeviceError::Device`] with the first device that failed; [`DeviceError::Forked`] in a forked child.
    pub fn redivide<T: Scalar>(
        &mut self,
        mut c: ViewMut<'_, T>,
        slices: [&[usize]; 2],
        depth: Depth,
    ) -> Result<Vec<UpdateTime>, DeviceError> {
        for slices in slices {
            self.check_slices(slices, c.cols())?;
        }
        let [from, to] = slices.map(cut_columns);
        let changes: Vec<bool> = from.iter().zip(&to).map(|(from, to)| from != to).collect();
        let _running = Operation::begin_copy(2 * size_of::<T>() * c.rows() * c.cols());
        // Every old slice is back before a new one begins on the same columns.
        let tasks = keep_changed(split_slices(c.reborrow(), slices[0]), &changes);
        let ended = self.drive(tasks, &mut || false, |worker, c| T::updates(worker).finish(c))?;
        let tasks = keep_changed(split_slices(c, slices[1]), &changes);
        let begun =
            self.drive(tasks, &mut || false, |worker, c| T::updates(worker).begin(c, depth))?;
        Ok(ended.into_iter().zip(begun).map(|(ended, begun)| ended.and(begun)).collect())
    }

    fn check_slices(&self, slices: &[usize], cols: usize) -> Result<(), DeviceError> {
        if slices.len() != self.devices.len() {
            return Err(DeviceError::Slices { devices: self.devices.len(), slices: slices.len() });
        }
        let covered: usize = slices.iter().sum();
        if covered != cols {
            return Err(DeviceError::Width { covered, cols });
        }
        Ok(())
    }

    /// Runs `call` on every device that has columns, with its slice of `c`.
    fn drive_slices<T: Scalar, R: Default + Send>(
        &self,
        c: ViewMut<'_, T>,
        slices: &[usize],
        call: impl Fn(&mut dyn Updates<T>, ViewMut<'_, T>) -> Result<R, DeviceError> + Sync,
    ) -> Result<Vec<R>, DeviceError> {
        self.check_slices(slices, c.cols())?;
        let _running = Operation::begin_copy(size_of::<T>() * c.rows() * c.cols());
        self.drive(split_slices(c, slices), &mut || false, |worker, c| call(T::updates(worker), c))
    }

    /// Runs `call` on every device that has a task, as [`Drivers::drive`].
    fn drive<W: Send, R: Default + Send>(
        &self,
        tasks: Vec<Option<W>>,
        meanwhile: &mut dyn FnMut() -> bool,
        call: impl Fn(&mut dyn Worker, W) -> Result<R, DeviceError> + Sync,
    ) -> Result<Vec<R>, DeviceError> {
        self.home.check("team of devices")?;
        let drivers = &self.drivers;
        drivers
            .drive(&self.devices, tasks, meanwhile, |worker, task| {
                let _turn = take_turn(worker.info());
                call(worker, task)
            })
            .into_iter()
            .zip(&self.infos)
            .map(|(outcome, info)| {
                outcome.map_err(|source| DeviceError::Device {
                    device: info.name.clone(),
                    source: Box::new(source),
                })
            })
            .collect()
    }
}

/// Fewest operations of an update of one device during which messages make progress. A smaller one is over within a third of a
/// millisecond, of which waking another thread would be a large part.
const FLOP_WORTH_DRIVING: f64 = (1 << 24) as f64;

/// Splits C into the columns of each device; `None` for a device without columns.
fn split_slices<'c, T: Scalar>(c: ViewMut<'c, T>, slices: &[usize]) -> Vec<Option<ViewMut<'c, T>>> {
    c.split_columns(slices.iter().copied())
        .into_iter()
        .map(|part| (part.cols() > 0).then_some(part))
        .collect()
}

/// Returns the columns of each device, from left to right. Those of a device without columns begin at 0.
fn cut_columns(slices: &[usize]) -> Vec<Range<usize>> {
    let mut first = 0;
    let columns = slices.iter().map(|&cols| {
        let columns = first..first + cols;
        first = columns.end;
        if columns.is_empty() { 0..0 } else { columns }
    });
    columns.collect()
}

/// Leaves out the tasks of devices that do not change.
fn keep_changed<T>(tasks: Vec<Option<T>>, changes: &[bool]) -> Vec<Option<T>> {
    tasks.into_iter().zip(changes).map(|(task, &changes)| task.filter(|_| changes)).collect()
}

/// Returns the part of the panels that a device with these columns of C needs.
fn cut_panels<'p, T: Scalar>((a, b): PanelPair<'p, T>, columns: &Range<usize>) -> PanelPair<'p, T> {
    (a, b.columns(columns.clone()))
}
