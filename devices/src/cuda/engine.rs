//! The arithmetic of a GPU device: `C += alpha·A·B`, with C on the GPU or streaming through it.

use super::blas::{BlasHandle, Element, Product};
use super::check::{CallError, Outcome};
use super::context::Context;
use super::find::CudaInfo;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{self, Limits, Placement, SLOTS, Shape, TilePlan};
use super::staging::{Place, Staging};
use super::stream::{Event, Stream};
use super::streamed::Gathered;
use super::{CudaConfig, find};
use crate::{DeviceError, View, ViewMut};
use std::sync::Arc;

/// What is held of memory beyond what a job needs is given back when it is more than this, in bytes, and more than half.
const WORTH_FREEING: u64 = 64 << 20;
/// The part of the free memory of a GPU that is left alone: cuBLAS loads code, and others come and go.
const LEFT_FREE: u64 = 16;
/// Assumed where the GPU is not known: a middling one.
const UNKNOWN_PEAK_FLOPS_PER_S: f64 = 10e12;

/// One GPU, for one element type: the functional heart of [`CudaWorker`](super::CudaWorker), which is `Engine<f64>` with
/// its own host thread.
///
/// A job is [`begin`](Self::begin), any number of [`update`](Self::update), [`finish`](Self::finish), all with one C. The
/// caller keeps the order and the shapes, as [`Job`](crate::Job) checks them.
///
/// Everything may be called from any thread. Copies between matrices and pinned memory use all threads of the rayon pool
/// that the caller is a thread of, and only its own thread otherwise.
#[derive(Debug)]
pub struct Engine<T: Element> {
    name: String,
    context: Arc<Context>,
    limits: Limits,
    job: Option<Running<T>>,
    pub(super) staging: Staging<T>,
    device: Option<DeviceMemory>,
    pinned: Option<PinnedMemory>,
    pub(super) blas: BlasHandle,
    pub(super) lanes: Lanes,
}

/// The streams, and what they tell each other. Four of them: the tiles of C come, go and are computed at the same time,
/// and panels must not queue behind tiles.
#[derive(Debug)]
pub(super) struct Lanes {
    pub compute: Stream,
    pub panels: Stream,
    pub upload: Stream,
    pub download: Stream,
    /// What was copied last is there.
    pub copied: Event,
    /// The arithmetic of a tile is done.
    pub computed: [Event; SLOTS],
    /// A panel is no longer needed.
    pub panel_free: [Event; SLOTS],
}

/// A job under way.
#[derive(Debug)]
struct Running<T> {
    plan: TilePlan,
    shape: Shape,
    gathered: Option<Gathered<T>>,
}

impl Lanes {
    fn new(context: &Arc<Context>) -> Outcome<Self> {
        let (stream, event) = (|| Stream::new(context), || Event::new(context));
        Ok(Self {
            compute: stream()?,
            panels: stream()?,
            upload: stream()?,
            download: stream()?,
            copied: event()?,
            computed: [event()?, event()?],
            panel_free: [event()?, event()?],
        })
    }

    /// Waits until nothing is under way. Every stream is waited for, whatever the others say.
    fn settle(&self) -> Outcome<()> {
        let streams = [&self.compute, &self.panels, &self.upload, &self.download];
        let outcomes = streams.map(Stream::synchronize);
        outcomes.into_iter().collect()
    }
}

impl<T: Element> Engine<T> {
    /// An engine on the GPU `info`, called `name` in errors.
    ///
    /// # Errors
    /// [`DeviceError::CudaLibrary`] without cuBLAS; [`DeviceError::Cuda`] when a call fails.
    pub fn new(name: &str, info: &CudaInfo, config: &CudaConfig) -> Result<Self, DeviceError> {
        find::blas()?;
        Self::create(name, info, config).map_err(|error| error.on(name))
    }

    fn create(name: &str, info: &CudaInfo, config: &CudaConfig) -> Outcome<Self> {
        let context = Arc::new(Context::new(info.ordinal)?);
        let lanes = Lanes::new(&context)?;
        let blas = BlasHandle::new(&context, &lanes.compute)?;
        let staging = Staging::new(&context)?;
        // Asked for after cuBLAS has taken its share.
        let free = context.free_bytes()?;
        let allowed = free - free / LEFT_FREE;
        let peak = T::peak_flops_per_s(info);
        Ok(Self {
            name: name.to_owned(),
            limits: Limits {
                device_bytes: config
                    .memory_limit_bytes
                    .map_or(allowed, |limit| limit.min(allowed)),
                host_bytes: config.host_limit_bytes.unwrap_or(u64::MAX),
                peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S),
                link_bytes_per_s: config.link_bytes_per_s,
            },
            context,
            job: None,
            staging,
            device: None,
            pinned: None,
            blas,
            lanes,
        })
    }

    /// Version of cuBLAS.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`].
    pub fn blas_version(&self) -> Result<String, DeviceError> {
        let version = self.context.bind().and_then(|()| self.blas.version());
        version.map_err(|error| error.on(&self.name))
    }

    /// Bytes of GPU memory that jobs may use.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.limits.device_bytes
    }

    /// How a job would be laid out if every allocation succeeded; `None` when there is nothing to compute, or it does
    /// not fit in however small tiles.
    pub fn plan(&self, rows: usize, cols: usize, k_max: usize) -> Option<TilePlan> {
        let shape = shape::<T>(rows, cols, k_max)?;
        plan::plan(shape, T::FLOP, &self.limits)
    }

    /// Starts a job on `c`, with updates of `k <= k_max`. When memory is refused, smaller tiles are tried, down to the
    /// smallest.
    ///
    /// # Errors
    /// [`DeviceError::CudaMemory`] when the smallest tiles exceed the limits; [`DeviceError::Cuda`] when a call fails, with
    /// the allocation that was refused where that is the reason.
    pub fn begin(&mut self, c: View<'_, T>, k_max: usize) -> Result<(), DeviceError> {
        // What a job left behind that was abandoned, or that a panic ended.
        self.guarded(|engine| {
            engine.job = None;
            engine.lanes.settle()
        })?;
        let Some(shape) = shape::<T>(c.rows(), c.cols(), k_max) else {
            return Ok(());
        };
        let plan = self.allocate(shape)?;
        self.guarded(|engine| engine.start(shape, plan, c))
    }

    /// `C += alpha·A·B`. When it returns, the arithmetic is done, or the panels are gathered.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; the job is over then.
    ///
    /// # Panics
    /// When the shapes do not fit each other, the job or its `k_max`.
    pub fn update(
        &mut self,
        alpha: T,
        a: View<'_, T>,
        b: View<'_, T>,
        c: ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let k = a.cols();
        assert!(
            a.rows() == c.rows() && b.rows() == k && b.cols() == c.cols(),
            "the shapes of an update do not fit"
        );
        if c.is_empty() || k == 0 || alpha == T::ZERO {
            return Ok(());
        }
        self.guarded(|engine| {
            let mut job = engine.running();
            let fits = job.shape.rows == c.rows() && job.shape.cols == c.cols();
            assert!(
                fits && k <= job.shape.k_max,
                "the update is not of this job"
            );
            let outcome = match &mut job.gathered {
                None => engine.update_resident(&job, alpha, a, b),
                Some(gathered) => gathered.add(engine, alpha, (a, b), c),
            };
            engine.job = Some(job);
            outcome
        })
    }

    /// Ends the job: when it returns, `c` holds the result.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; the job is over in any case.
    pub fn finish(&mut self, c: ViewMut<'_, T>) -> Result<(), DeviceError> {
        if c.is_empty() {
            return Ok(());
        }
        self.guarded(|engine| {
            let mut job = engine.running();
            match &mut job.gathered {
                Some(gathered) => gathered.visit(engine, c),
                None => {
                    let place = engine.resident_places(&job).c;
                    let Self { staging, lanes, .. } = engine;
                    staging.download(&lanes.download, place, c)
                }
            }
        })
    }

    /// Runs `work` in the bound context. After a failure the job is over and nothing is under way.
    fn guarded<R>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<R>) -> Result<R, DeviceError> {
        let outcome = self.context.bind().and_then(|()| work(self));
        outcome.map_err(|error| {
            self.job = None;
            // A device that is lost has nothing under way; there is nothing else to learn from this.
            let _ = self.lanes.settle();
            error.on(&self.name)
        })
    }

    fn running(&mut self) -> Running<T> {
        self.job
            .take()
            .unwrap_or_else(|| panic!("{}: an update or a finish outside a job", self.name))
    }

    /// Finds memory for a job, in smaller and smaller tiles.
    fn allocate(&mut self, shape: Shape) -> Result<TilePlan, DeviceError> {
        let mut limits = self.limits;
        let mut refused: Option<CallError> = None;
        loop {
            let Some(plan) = plan::plan(shape, T::FLOP, &limits) else {
                return Err(refused.map_or_else(
                    || DeviceError::CudaMemory {
                        device: self.name.clone(),
                        rows: shape.rows,
                        cols: shape.cols,
                        k_max: shape.k_max,
                        device_bytes: self.limits.device_bytes,
                        host_bytes: self.limits.host_bytes,
                    },
                    |error| error.on(&self.name),
                ));
            };
            let error = match self.hold(&plan) {
                Ok(()) => return Ok(plan),
                Err(error) => error,
            };
            // What is held already is of no use to smaller tiles, and may be what the others lack.
            self.device = None;
            self.pinned = None;
            if !error.is_out_of_memory() {
                return self.guarded(|_| Err(error));
            }
            if error.call == "cuMemHostAlloc" {
                limits.host_bytes = plan.host_bytes / 2;
            } else {
                limits.device_bytes = plan.device_bytes / 2;
            }
            tracing::warn!(
                device = self.name,
                error = %error.on(&self.name),
                device_bytes = limits.device_bytes.min(plan.device_bytes),
                "memory was refused: trying smaller tiles"
            );
            refused = Some(error);
        }
    }

    /// Allocates what a plan needs, unless it is held already.
    fn hold(&mut self, plan: &TilePlan) -> Outcome<()> {
        self.context.bind()?;
        let suits = |held: u64, needed: u64| {
            held >= needed && (held - needed <= needed || held - needed <= WORTH_FREEING)
        };
        let allowed = self.limits.device_bytes;
        let device = self.device.as_ref().map(DeviceMemory::bytes);
        if !device.is_some_and(|held| suits(held, plan.device_bytes) && held <= allowed) {
            self.device = None;
            self.device = Some(DeviceMemory::new(&self.context, plan.device_bytes)?);
        }
        let pinned = self.pinned.as_ref().map(PinnedMemory::bytes);
        if !pinned.is_some_and(|held| suits(held, plan.host_bytes)) {
            self.pinned = None;
            self.pinned = Some(PinnedMemory::new(&self.context, plan.host_bytes)?);
        }
        Ok(())
    }

    fn start(&mut self, shape: Shape, plan: TilePlan, c: View<'_, T>) -> Outcome<()> {
        let pinned = self.pinned.as_ref().map(PinnedMemory::start);
        let start = pinned
            .unwrap_or_else(|| unreachable!("memory was allocated"))
            .cast::<T>();
        // SAFETY: the pinned memory holds the slots first, and the engine keeps it while a job runs; nothing is under way.
        unsafe { self.staging.place(start, plan.slot_elements) };
        let gathered = match plan.placement {
            Placement::Resident => None,
            Placement::Streamed { .. } => {
                // SAFETY: behind the slots the plan has room for the panels.
                let panels = unsafe { start.add(SLOTS * plan.slot_elements) };
                // SAFETY: as above; nobody else uses that part, and it stays allocated while the job runs.
                Some(unsafe { Gathered::new(panels, shape, &plan, self.device_start()) })
            }
        };
        let job = Running {
            plan,
            shape,
            gathered,
        };
        if job.gathered.is_none() {
            let place = self.resident_places(&job).c;
            self.staging.upload(&self.lanes.upload, c, place)?;
            self.lanes.upload.synchronize()?;
        }
        self.job = Some(job);
        Ok(())
    }

    fn device_start(&self) -> u64 {
        let device = self.device.as_ref().map(DeviceMemory::address);
        device.unwrap_or_else(|| unreachable!("memory was allocated"))
    }

    /// Where C and the panels of a resident job lie.
    fn resident_places(&self, job: &Running<T>) -> Resident {
        debug_assert_eq!(job.plan.placement, Placement::Resident);
        let Shape {
            rows, cols, k_max, ..
        } = job.shape;
        let at = |element: usize, ld: usize| Place {
            address: self.device_start() + (element * size_of::<T>()) as u64,
            ld,
        };
        Resident {
            c: at(0, rows),
            a: at(rows * cols, rows),
            b: at(rows * cols + rows * k_max, k_max),
        }
    }

    /// An update of a C that is on the GPU.
    ///
    /// The panels arrive in stripes, of A and of B in turn, and whatever a new stripe makes possible is computed while the
    /// next one travels: after `i` stripes of A and `j` of B, the product of the first `i·j` parts of C. Work grows with the
    /// product and traffic with the sum, so that the GPU soon has enough to do. The call waits for the arithmetic at its end:
    /// its time is then that of this update, and an error is reported by the update that it happened in.
    fn update_resident(
        &mut self,
        job: &Running<T>,
        alpha: T,
        a: View<'_, T>,
        b: View<'_, T>,
    ) -> Outcome<()> {
        let places = self.resident_places(job);
        let k = a.cols();
        let stripes_of_a = stripes(a.rows());
        let stripes_of_b = stripes(b.cols());
        let (mut rows, mut cols) = (0, 0);
        for i in 0..stripes_of_a.len().max(stripes_of_b.len()) {
            if let Some(stripe) = stripes_of_a.get(i) {
                let to = places.a.at::<T>(stripe.start, 0);
                self.bring(a.block(stripe.clone(), 0..k), to)?;
                self.multiply(&places, alpha, (stripe.clone(), 0..cols), k)?;
                rows = stripe.end;
            }
            if let Some(stripe) = stripes_of_b.get(i) {
                let to = places.b.at::<T>(0, stripe.start);
                self.bring(b.columns(stripe.clone()), to)?;
                self.multiply(&places, alpha, (0..rows, stripe.clone()), k)?;
                cols = stripe.end;
            }
        }
        let done = &self.lanes.computed[0];
        done.record(&self.lanes.compute)?;
        done.synchronize()
    }

    /// Copies a stripe of a panel; arithmetic that is queued from now on begins when it is there.
    fn bring(&mut self, stripe: View<'_, T>, to: Place) -> Outcome<()> {
        let Self { staging, lanes, .. } = self;
        staging.upload(&lanes.upload, stripe, to)?;
        lanes.copied.record(&lanes.upload)?;
        lanes.compute.wait(&lanes.copied)
    }

    fn multiply(
        &self,
        places: &Resident,
        alpha: T,
        (rows, cols): (std::ops::Range<usize>, std::ops::Range<usize>),
        k: usize,
    ) -> Outcome<()> {
        if rows.is_empty() || cols.is_empty() {
            return Ok(());
        }
        let pair = |place: Place| (place.address, place.ld);
        let product = Product {
            m: rows.len(),
            n: cols.len(),
            k,
            a: pair(places.a.at::<T>(rows.start, 0)),
            b: pair(places.b.at::<T>(0, cols.start)),
            c: pair(places.c.at::<T>(rows.start, cols.start)),
        };
        // SAFETY: the three lie in the memory of the job, as the plan says, which is kept until the work is done; their
        // dimensions are below the limits that the plan keeps.
        unsafe { T::multiply(&self.blas, alpha, &product) }
    }
}

impl<T: Element> Drop for Engine<T> {
    /// Waits for what is under way: memory must not be freed before.
    fn drop(&mut self) {
        let _ = self.context.bind();
        let _ = self.lanes.settle();
    }
}

/// Where the matrices of a resident job lie.
struct Resident {
    c: Place,
    a: Place,
    b: Place,
}

/// The smallest stripe of a panel, in rows of A or columns of B: smaller products leave a GPU half empty.
const MIN_STRIPE: usize = 1024;
/// The most stripes: from there on, what the first one costs is a sixteenth of the traffic.
const MAX_STRIPES: usize = 8;

/// Cuts `n` rows or columns into stripes of nearly equal size.
fn stripes(n: usize) -> Vec<std::ops::Range<usize>> {
    let count = (n / MIN_STRIPE).clamp(1, MAX_STRIPES);
    let mut first = 0;
    crate::view::even_widths(n, count)
        .map(|width| {
            let stripe = first..first + width;
            first = stripe.end;
            stripe
        })
        .collect()
}

/// The shape of a job; `None` when there is nothing in it.
fn shape<T>(rows: usize, cols: usize, k_max: usize) -> Option<Shape> {
    (rows > 0 && cols > 0).then_some(Shape {
        rows,
        cols,
        k_max: k_max.max(1),
        element_bytes: size_of::<T>(),
    })
}
