//! The contract of a device, and what a device says about itself.

use crate::{DeviceClock, DeviceError, Element, ElementType, ThreadPlace, View, ViewMut};
use num_complex::{Complex32, Complex64};
use serde::{Deserialize, Serialize};

/// What a device is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A group of CPU cores.
    Cpu,
    /// An NVIDIA GPU with its host core.
    Cuda,
}

/// What a device is, for reports: every field says what really runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Name, unique in its node.
    pub name: String,
    /// What it is made of.
    pub kind: DeviceKind,
    /// The library that does the arithmetic, with its version.
    pub blas: String,
    /// How the device is made slower on purpose, such as `slowdown 4`; `None` when it is not. For reports alone.
    pub paced: Option<String>,
    /// The clock that its time follows.
    pub clock: DeviceClock,
    /// Logical indices of the cores that it uses.
    pub cores: Vec<u32>,
    /// Whether its threads are bound to these cores.
    pub pinned: bool,
    /// The address of a GPU on the buses of its host, such as `0000:17:00.0`; `None` for other devices.
    #[serde(default)]
    pub bus_id: Option<String>,
}

/// How deep a job is: the inner dimensions of its updates, known before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The largest inner dimension of an update.
    pub k_max: usize,
    /// The inner dimensions of all updates together. It may be more than will come, which costs memory, and the arithmetic
    /// of what was gathered in vain is left to the job's end. Where more comes, a device counts from 0 again.
    pub k_total: usize,
}

impl Depth {
    /// Updates of `k <= k_max` of which nobody knows how many there will be.
    #[must_use]
    pub fn endless(k_max: usize) -> Self {
        Self {
            k_max,
            k_total: usize::MAX,
        }
    }

    /// `updates` updates of `k`.
    #[must_use]
    pub fn of(k: usize, updates: usize) -> Self {
        Self {
            k_max: k,
            k_total: k.saturating_mul(updates),
        }
    }

    /// The number of updates when all but the last have `k_max`; at least 1.
    #[must_use]
    pub fn updates(&self) -> usize {
        self.k_total.div_ceil(self.k_max.max(1)).max(1)
    }

    /// The part of the job that one update is, at most 1; 0 where nobody knows how many there will be.
    #[must_use]
    pub fn part_of_update(&self) -> f64 {
        match self.k_total {
            0 | usize::MAX => 0.0,
            total => (self.k_max as f64 / total as f64).min(1.0),
        }
    }
}

/// How long a device worked for one call: an update, or the beginning or the end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct UpdateTime {
    /// What counts as the device's time in seconds: wall time with transfers, or the time that a pace prescribes.
    pub busy_s: f64,
    /// The largest CPU time, in seconds, that one of its threads used.
    pub cpu_s: f64,
}

/// The best speed that a device's library showed with all operands in the device's own memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ResidentPeak {
    /// Speed in flop/s.
    pub flops_per_s: f64,
    /// Side of the squares whose product showed it.
    pub side: usize,
}

/// The A and the B of an update.
pub type Panels<'a, T> = (View<'a, T>, View<'a, T>);

/// A device: it multiplies `C += alpha·A·B` on its slice of the node's matrix, for every type of elements.
///
/// What depends on the type is [`Updates`], which a device implements for each; [`Element::updates`] picks one where
/// the device is a `dyn Worker`.
///
/// Every implementation passes [`conformance::run`](crate::conformance::run).
pub trait Worker: Updates<f32> + Updates<f64> + Updates<Complex32> + Updates<Complex64> {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// Bytes that a job of this size needs beyond the matrices in host memory; where its limit is too low for the job, the
    /// least that would do.
    fn memory_needed(&self, rows: usize, cols: usize, depth: Depth, element: ElementType) -> u64;

    /// Bytes of its own memory, which is not the host's, that a job of this size takes; 0 for a device without any, and
    /// where the job does not fit.
    fn own_memory_needed(
        &self,
        _rows: usize,
        _cols: usize,
        _depth: Depth,
        _element: ElementType,
    ) -> u64 {
        0
    }

    /// Bytes of host memory that it holds from earlier jobs, and uses again or gives back when a job begins.
    fn memory_held(&self) -> u64 {
        0
    }

    /// Bounds, between jobs, what [`memory_needed`](Self::memory_needed) may be: a device that could use more makes do with
    /// it. `u64::MAX` leaves it with the limit that it was made with.
    fn limit_memory(&mut self, _bytes: u64) {}

    /// How many consecutive updates with `k = k_max` belong together: a device that gathers the panels of several before
    /// it computes has a speed over so many, and not over one. A power of two, or [all of the job's](Depth::updates); 1 for
    /// most devices.
    fn updates_per_visit(
        &self,
        _rows: usize,
        _cols: usize,
        _depth: Depth,
        _element: ElementType,
    ) -> usize {
        1
    }

    /// Whether it copies the panels that [`update_ahead`](Updates::update_ahead) announces: then the first update of a job
    /// takes longer than the others, since nobody has announced it.
    fn copies_ahead(&self) -> bool {
        false
    }

    /// Where the threads that compute are bound, and where they ran; empty for a device without such threads.
    fn threads(&self) -> Vec<ThreadPlace> {
        Vec::new()
    }

    /// Takes the memory that a job of this size will need, between jobs: then its time is no part of `begin`'s. A job that
    /// was not finished is abandoned. Does nothing where a device needs none.
    ///
    /// # Errors
    /// As [`begin`](Updates::begin).
    fn reserve(
        &mut self,
        _rows: usize,
        _cols: usize,
        _depth: Depth,
        _element: ElementType,
    ) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The arithmetic of a device with elements of one type.
///
/// A job is `begin`, any number of `update`, then `finish`, all with the same C (`rows × cols`) and the same type; the
/// times of the three sum up to what the job takes of the device. In between the worker may keep C elsewhere, so C is
/// valid only after `finish`. After an error the job is over: the content of C is unspecified, and the next call is
/// `begin`.
pub trait Updates<T: Element>: Send {
    /// Measures, between jobs, how fast the device's library is with all operands in the device's own memory. `None` for a
    /// device that computes in host memory: its updates show that.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn resident_peak(&mut self) -> Result<Option<ResidentPeak>, DeviceError> {
        Ok(None)
    }

    /// `C = beta·C` between jobs, by the threads that will update C; with `beta = 0` C is overwritten, whatever it holds.
    ///
    /// The system places a page of memory where the thread runs that writes it first, so this puts a C that nobody has
    /// written yet next to the cores that will work on it.
    fn scale(&mut self, beta: T, mut c: ViewMut<'_, T>) {
        c.scale(beta);
    }

    /// Starts a job on `c`, whose updates have the inner dimensions that `depth` says. Returns what that took: a device
    /// that keeps C elsewhere copies it here.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when the job does not fit; whatever the device reports. A job that was not finished
    /// is abandoned.
    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError>;

    /// `C += alpha·A·B`, with A: `rows × k`, B: `k × cols`, C: `rows × cols`. Any dimension may be 0, and
    /// `alpha = 0` reads neither A nor B.
    ///
    /// # Errors
    /// [`DeviceError::Order`] outside a job; [`DeviceError::Element`] in one of another type; [`DeviceError::Shape`] when
    /// the shapes do not fit each other or C is not the one of `begin`; [`DeviceError::InnerDimension`] when `k > k_max`;
    /// whatever the device reports.
    fn update(
        &mut self,
        alpha: T,
        a: View<'_, T>,
        b: View<'_, T>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError>;

    /// As [`update`](Self::update), where the A and B of the next update of the job are known: `next` are those views, on
    /// memory that nobody writes until that update has returned.
    ///
    /// A device that copies its operands copies them while it computes, so that the time of an update is that of the
    /// arithmetic or of the copies, whichever is longer. Other devices have no use for `next`.
    ///
    /// # Errors
    /// As [`update`](Self::update), for `a`, `b` and `c`; `next` is looked at when it is updated with.
    fn update_ahead(
        &mut self,
        alpha: T,
        (a, b): Panels<'_, T>,
        _next: Panels<'_, T>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.update(alpha, a, b, c)
    }

    /// Ends the job: when it returns, `c` holds the result. Returns what that took: copies of C, and the arithmetic of what
    /// was gathered and not computed with yet, where less came than `begin` was told.
    ///
    /// # Errors
    /// [`DeviceError::Order`] outside a job; [`DeviceError::Element`] in one of another type; [`DeviceError::Shape`] when C
    /// is not the one of `begin`; whatever the device reports.
    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError>;
}

/// The job that a worker is in: checks the order, the type and the shapes that [`Updates`] asks for.
///
/// A worker keeps one, and calls it first in `begin`, `update` and `finish`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Job {
    open: Option<Open>,
}

/// What the calls of a job have in common.
#[derive(Debug, Clone, Copy)]
struct Open {
    rows: usize,
    cols: usize,
    k_max: usize,
    element: ElementType,
}

impl Job {
    /// Opens a job on a `rows × cols` matrix; an older one is abandoned.
    pub fn begin<T: Element>(&mut self, c: &ViewMut<'_, T>, depth: Depth) {
        self.open = Some(Open {
            rows: c.rows(),
            cols: c.cols(),
            k_max: depth.k_max,
            element: T::TYPE,
        });
    }

    /// Checks the operands of an update.
    ///
    /// # Errors
    /// As [`Updates::update`]: `Order`, `Element`, `Shape`, `InnerDimension`. The job is closed.
    pub fn update<T: Element>(
        &mut self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let checked = self.check(a, b, c);
        if checked.is_err() {
            self.open = None;
        }
        checked
    }

    /// Closes the job.
    ///
    /// # Errors
    /// As [`Updates::finish`]: `Order`, `Element`, `Shape`.
    pub fn finish<T: Element>(&mut self, c: &ViewMut<'_, T>) -> Result<(), DeviceError> {
        self.open.take().ok_or(BEFORE_BEGIN_FINISH)?.check(c)
    }

    fn check<T: Element>(
        &self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let open = self.open.ok_or(BEFORE_BEGIN_UPDATE)?;
        open.check(c)?;
        shape("A", (open.rows, a.cols()), (a.rows(), a.cols()))?;
        shape("B", (a.cols(), open.cols), (b.rows(), b.cols()))?;
        let (k, k_max) = (a.cols(), open.k_max);
        if k > k_max {
            return Err(DeviceError::InnerDimension { k, k_max });
        }
        Ok(())
    }
}

impl Open {
    /// Whether `c` may be the job's.
    fn check<T: Element>(&self, c: &ViewMut<'_, T>) -> Result<(), DeviceError> {
        if self.element != T::TYPE {
            return Err(DeviceError::Element {
                job: self.element,
                call: T::TYPE,
            });
        }
        shape("C", (self.rows, self.cols), (c.rows(), c.cols()))
    }
}

const BEFORE_BEGIN_UPDATE: DeviceError = DeviceError::Order {
    call: "update",
    when: "before begin",
};

const BEFORE_BEGIN_FINISH: DeviceError = DeviceError::Order {
    call: "finish",
    when: "before begin",
};

fn shape(
    matrix: &'static str,
    expected: (usize, usize),
    found: (usize, usize),
) -> Result<(), DeviceError> {
    if expected == found {
        return Ok(());
    }
    Err(DeviceError::Shape {
        matrix,
        expected_rows: expected.0,
        expected_cols: expected.1,
        found_rows: found.0,
        found_cols: found.1,
    })
}
