//! The contract of a device, and the records in which a device describes itself.

use crate::contract::{DeviceClock, DeviceError, ElementType, Scalar, View, ViewMut};
use num_complex::{Complex32, Complex64};
use serde::{Deserialize, Serialize};

/// The hardware of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A group of CPU cores.
    #[default]
    Cpu,
    /// An NVIDIA GPU with its host core.
    Cuda,
}

impl DeviceKind {
    /// Returns its name in platform files, reports and stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// Returns `true` if such a device computes in a memory of its own: matrices are copied there, and it gathers panels.
    #[must_use]
    pub fn has_own_memory(self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Cuda => true,
        }
    }

    /// Returns the clock that the times of such a device follow.
    pub fn clock(self) -> DeviceClock {
        match self {
            Self::Cpu => DeviceClock::Cores,
            Self::Cuda => DeviceClock::Accelerator,
        }
    }
}

/// Description of a device for reports: every field says what really runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Name, unique in its node.
    pub name: String,
    /// The hardware that computes.
    pub kind: DeviceKind,
    /// The library that does the arithmetic, with its version.
    pub blas: String,
    /// The pace that slows the device down on purpose, such as `slowdown 4`; `None` at full speed. For reports alone.
    pub paced: Option<String>,
    /// The clock that its time follows.
    pub clock: DeviceClock,
    /// Logical indices of the cores it uses.
    pub cores: Vec<u32>,
    /// `true` if its threads are bound to these cores.
    pub pinned: bool,
    /// PCI address of a GPU, such as `0000:17:00.0`; `None` for other devices.
    #[serde(default)]
    pub bus_id: Option<String>,
}

impl DeviceInfo {
    /// Describes a device without a library, cores of its own, pace or PCI address: `blas` is `none`.
    #[must_use]
    pub fn new(name: &str, kind: DeviceKind, clock: DeviceClock) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            blas: "none".to_owned(),
            paced: None,
            clock,
            cores: Vec::new(),
            pinned: false,
            bus_id: None,
        }
    }
}

/// The inner dimensions of a job's updates, known before the job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The largest inner dimension of an update.
    pub k_max: usize,
    /// The sum of the inner dimensions of all updates. If less comes, a device that gathers panels has taken more memory
    /// than it needed, and computes the panels it still holds at the end of the job. If more comes, the device counts from
    /// 0 again.
    pub k_total: usize,
}

impl Depth {
    /// Returns the depth of an unknown number of updates with `k <= k_max`.
    #[must_use]
    pub fn endless(k_max: usize) -> Self {
        Self { k_max, k_total: usize::MAX }
    }

    /// Returns the depth of `updates` updates with inner dimension `k`.
    #[must_use]
    pub fn of(k: usize, updates: usize) -> Self {
        Self { k_max: k, k_total: k.saturating_mul(updates) }
    }

    /// Returns the number of updates if all but the last have `k_max`; at least 1.
    #[must_use]
    pub fn updates(&self) -> usize {
        self.k_total.div_ceil(self.k_max.max(1)).max(1)
    }

    /// Returns the fraction of the job that one update is, at most 1; 0 if the number of updates is unknown.
    #[must_use]
    pub fn part_of_update(&self) -> f64 {
        match self.k_total {
            0 | usize::MAX => 0.0,
            total => (self.k_max as f64 / total as f64).min(1.0),
        }
    }
}

/// The size of a job: C is `rows × cols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobShape {
    /// Rows of C.
    pub rows: usize,
    /// Columns of C.
    pub cols: usize,
    /// The inner dimensions of the updates.
    pub depth: Depth,
    /// Type of the elements.
    pub element: ElementType,
}

impl JobShape {
    /// Returns the shape of a job on a `rows × cols` matrix with elements of type `T`.
    #[must_use]
    pub fn of<T: Scalar>(rows: usize, cols: usize, depth: Depth) -> Self {
        Self { rows, cols, depth, element: T::TYPE }
    }

    /// Returns the same job on `cols` columns, for one device of several.
    #[must_use]
    pub fn with_cols(self, cols: usize) -> Self {
        Self { cols, ..self }
    }
}

/// The place of a device's thread: its core, the units that it may run on, and those that it ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ThreadPlace {
    /// Logical index of its core.
    pub core: u32,
    /// Processing units that the system lets it run on, read back from the system; empty if it does not tell.
    pub bound_to: Vec<u32>,
    /// Processing units on which updates began and ended.
    pub ran_on: Vec<u32>,
}

/// The resources that a worker needs for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobNeeds {
    /// Bytes of host memory beyond the matrices. If the worker's [limit](Worker::limit_memory) is too low for the job, this
    /// is the least that would suffice.
    pub host_bytes: u64,
    /// Bytes of the device's own memory; 0 for a device that has none, and for a job that does not fit.
    pub own_bytes: u64,
    /// Number of consecutive updates with `k = k_max` that belong together. A device that gathers the panels of several
    /// updates and then computes them all shows its speed only over a whole visit. A power of two, or
    /// [all updates of the job](Depth::updates); 1 for most devices.
    pub updates_per_visit: usize,
}

impl Default for JobNeeds {
    /// Returns the needs of a device that updates C in place.
    fn default() -> Self {
        Self { host_bytes: 0, own_bytes: 0, updates_per_visit: 1 }
    }
}

/// The time that a device worked for one call: an update, or the beginning or the end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct UpdateTime {
    /// The device's time in seconds: wall time with transfers, or the time that a pace prescribes.
    pub busy_s: f64,
    /// The largest CPU time of one of its threads, in seconds.
    pub cpu_s: f64,
}

impl UpdateTime {
    /// Adds the time of a call that came after this one.
    #[must_use]
    pub fn and(self, next: Self) -> Self {
        Self { busy_s: self.busy_s + next.busy_s, cpu_s: self.cpu_s + next.cpu_s }
    }
}

/// The A (`rows × k`) and the B (`k × cols`) of an update.
pub type PanelPair<'a, T> = (View<'a, T>, View<'a, T>);

/// A device: it computes `C += alpha·A·B` on its slice of the node's matrix, for every type of elements.
///
/// A device implements [`Updates`] for each element type; [`Scalar::updates`] selects one of them of a `dyn Worker`.
///
/// Every implementation in this crate passes the same tests of these promises, and boxes itself by `into`: a crate that boxes
/// one compiles the arithmetic of all element types again.
pub trait Worker: Updates<f32> + Updates<f64> + Updates<Complex32> + Updates<Complex64> {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns the resources that `job` needs, between jobs; during a job of this shape, the resources it has. By default they
    /// are those of a device that updates C in place.
    fn job_needs(&self, _job: &JobShape) -> JobNeeds {
        JobNeeds::default()
    }

    /// Returns the bytes of host memory held from earlier jobs. The next job uses them again or gives them back.
    fn memory_held(&self) -> u64 {
        0
    }

    /// Limits [`JobNeeds::host_bytes`] of the jobs that follow; a device that could use more works with less. `u64::MAX`
    /// restores the limit that the device was made with.
    fn limit_memory(&mut self, _bytes: u64) {}

    /// Returns `true` if the device copies the panels that [`update_ahead`](Updates::update_ahead) announces. The first
    /// update of a job then takes longer than the others, since no call has announced its panels.
    fn copies_ahead(&self) -> bool {
        false
    }

    /// Returns the cores to which the computing threads are bound, and on which they ran; empty for a device without such
    /// threads.
    fn threads(&self) -> Vec<ThreadPlace> {
        Vec::new()
    }

    /// Returns what disturbed the device so far, one line each, for reports.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the cores at full speed that the device is likely to be worth. They size the first measurement, and nothing
    /// else. `None` if that is unknown.
    fn likely_cores(&self) -> Option<f64> {
        None
    }

    /// Takes the memory for `job` between jobs, so that `begin` does not spend time on it. A job under way is abandoned. By
    /// default it does nothing.
    ///
    /// # Errors
    /// Returns [`DeviceError::Memory`] if the job does not fit; errors of the device.
    fn reserve(&mut self, _job: &JobShape) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The arithmetic of a device with elements of one type.
///
/// A job is `begin`, any number of updates, then `finish`, all with the same C (`rows × cols`) and the same type. Their
/// times sum up to the device's time for the job. The worker may keep C elsewhere meanwhile, so C is valid only after
/// `finish`. After an error the job is over: the content of C is unspecified, and the next call is `begin`.
pub trait Updates<T: Scalar>: Send {
    /// Computes `C = beta·C` between jobs, with the threads that will update C; `beta = 0` overwrites C without reading it.
    ///
    /// The system places a page of memory near the thread that writes it first. So this call puts a fresh C next to the
    /// cores that will work on it.
    fn scale(&mut self, beta: T, mut c: ViewMut<'_, T>) {
        c.scale(beta);
    }

    /// Starts a job on `c`; `depth` announces its updates. Returns the time that this took: a device that keeps C elsewhere
    /// copies it now. A job under way is abandoned.
    ///
    /// # Errors
    /// Returns [`DeviceError::Memory`] if the job does not fit; errors of the device.
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError>;

    /// Computes `C += alpha·A·B`, with A: `rows × k`, B: `k × cols`, C: `rows × cols`. Any dimension may be 0;
    /// `alpha = 0` reads neither A nor B.
    ///
    /// `next` are A and B of the next update, if they have come already. That update checks them, and their memory must not be
    /// written until it has returned. A device that copies its operands copies `next` while it computes, so an update takes the
    /// time of the arithmetic or of the copies, whichever is longer. Other devices ignore `next`.
    ///
    /// # Errors
    /// Returns [`DeviceError::Order`] outside a job; [`DeviceError::Element`] in a job of another type;
    /// [`DeviceError::Shape`] if the shapes do not match or C is not the one of `begin`;
    /// [`DeviceError::InnerDimension`] if `k > k_max`; errors of the device.
    fn update_ahead(
        &mut self,
        alpha: T,
        panels: PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError>;

    /// Computes as [`update_ahead`](Self::update_ahead), without knowing the next update.
    ///
    /// # Errors
    /// Returns [`DeviceError::Order`] outside a job; [`DeviceError::Element`] in a job of another type;
    /// [`DeviceError::Shape`] if the shapes do not match or C is not the one of `begin`;
    /// [`DeviceError::InnerDimension`] if `k > k_max`; errors of the device.
    fn update(
        &mut self,
        alpha: T,
        a: View<'_, T>,
        b: View<'_, T>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.update_ahead(alpha, (a, b), None, c)
    }

    /// Ends the job: afterwards `c` holds the result. Returns the time that this took: copies of C, and the arithmetic of
    /// panels that are still gathered because less came than `begin` announced.
    ///
    /// # Errors
    /// Returns [`DeviceError::Order`] outside a job; [`DeviceError::Element`] in a job of another type;
    /// [`DeviceError::Shape`] if C is not the one of `begin`; errors of the device.
    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError>;
}

/// Checks the order, the type and the shapes of a worker's calls, as [`Updates`] asks for.
///
/// A worker keeps one, and calls it first in `begin`, `update` and `finish`.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobCheck {
    open: Option<JobShape>,
}

impl JobCheck {
    /// Opens a job on the matrix `c`; a job that is open is abandoned.
    pub fn begin<T: Scalar>(&mut self, c: &ViewMut<'_, T>, depth: Depth) {
        self.open = Some(JobShape::of::<T>(c.rows(), c.cols(), depth));
    }

    /// Checks the operands of an update.
    ///
    /// # Errors
    /// Returns [`DeviceError::Order`], [`DeviceError::Element`], [`DeviceError::Shape`] and
    /// [`DeviceError::InnerDimension`] as [`Updates::update_ahead`] does. The job is closed.
    pub fn update<T: Scalar>(
        &mut self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let checked = self.check_operands(a, b, c);
        if checked.is_err() {
            self.open = None;
        }
        checked
    }

    /// Closes the job.
    ///
    /// # Errors
    /// Returns [`DeviceError::Order`], [`DeviceError::Element`] and [`DeviceError::Shape`] where [`Updates::finish`]
    /// has them.
    pub fn finish<T: Scalar>(&mut self, c: &ViewMut<'_, T>) -> Result<(), DeviceError> {
        self.open.take().ok_or(DeviceError::Order { call: "finish" })?.check_c(c)
    }

    fn check_operands<T: Scalar>(
        &self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let open = self.open.ok_or(DeviceError::Order { call: "update" })?;
        open.check_c(c)?;
        check_size("A", (open.rows, a.cols()), (a.rows(), a.cols()))?;
        check_size("B", (a.cols(), open.cols), (b.rows(), b.cols()))?;
        let (k, k_max) = (a.cols(), open.depth.k_max);
        if k > k_max {
            return Err(DeviceError::InnerDimension { k, k_max });
        }
        Ok(())
    }
}

impl JobShape {
    /// Checks that `c` has the type and the size of the job's C.
    fn check_c<T: Scalar>(&self, c: &ViewMut<'_, T>) -> Result<(), DeviceError> {
        if self.element != T::TYPE {
            return Err(DeviceError::Element { job: self.element, call: T::TYPE });
        }
        check_size("C", (self.rows, self.cols), (c.rows(), c.cols()))
    }
}

/// Checks the size of an operand.
pub(crate) fn check_size(
    matrix: &'static str,
    expected: (usize, usize),
    found: (usize, usize),
) -> Result<(), DeviceError> {
    if expected == found {
        return Ok(());
    }
    Err(DeviceError::Shape { matrix, expected, found })
}
