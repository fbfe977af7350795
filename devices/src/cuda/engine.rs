//! The arithmetic of a GPU device: `C += alpha·A·B`, with C on the GPU or streaming through it.

use super::blas::{BlasHandle, Element};
use super::check::{CallError, Outcome};
use super::context::Context;
use super::find::CudaInfo;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{self, Limits, Placement, SLOTS, Shape, TilePlan};
use super::resident::Resident;
use super::staging::Staging;
use super::stream::{Event, Stream};
use super::streamed::Gathered;
use super::{CudaConfig, find, speed};
use crate::memory::memory_available_bytes;
use crate::worker::Depth;
use crate::{DeviceError, View, ViewMut};
use std::ptr::NonNull;
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
    shape: Shape,
    /// How it is laid out: in smaller tiles than planned, where memory was refused.
    plan: TilePlan,
    state: State<T>,
}

/// Where C is, and what is known of the panels.
#[derive(Debug)]
enum State<T> {
    Resident(Resident),
    Streamed(Gathered<T>),
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
    pub fn settle(&self) -> Outcome<()> {
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
        let own = Arc::clone(&context);
        let _bound = own.bind()?;
        let lanes = Lanes::new(&context)?;
        let blas = BlasHandle::new(&context, &lanes.compute)?;
        let mut staging = Staging::new(&context)?;
        speed::first_product(&context, &lanes, (&blas, &mut staging))?;
        // Asked for after cuBLAS has taken its share.
        let free = context.free_bytes()?;
        let allowed = free - free / LEFT_FREE;
        let peak = T::peak_flops_per_s(info);
        let link_bytes_per_s = match config.link_bytes_per_s {
            Some(given) => given,
            None => speed::link_bytes_per_s(&context, &lanes, &mut staging, allowed)?,
        };
        tracing::info!(device = name, peak, link_bytes_per_s, "found a GPU");
        Ok(Self {
            name: name.to_owned(),
            limits: Limits {
                device_bytes: config
                    .memory_limit_bytes
                    .map_or(allowed, |limit| limit.min(allowed)),
                host_bytes: config.host_limit_bytes.unwrap_or_else(host_limit_bytes),
                peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S),
                link_bytes_per_s,
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
        let version = self.context.bind().and_then(|_bound| self.blas.version());
        version.map_err(|error| error.on(&self.name))
    }

    /// Bytes of GPU memory that jobs may use.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.limits.device_bytes
    }

    /// What the link between host and GPU carries in one direction, bytes/s: measured when the engine was made, with the
    /// copies on the host, unless the configuration says it.
    pub fn link_bytes_per_s(&self) -> f64 {
        self.limits.link_bytes_per_s
    }

    /// How a job is laid out: the one under way as it is, another one as it would be if every allocation succeeded.
    /// `None` when there is nothing to compute, or it does not fit in however small tiles.
    pub fn plan(&self, rows: usize, cols: usize, depth: Depth) -> Option<TilePlan> {
        let shape = shape::<T>(rows, cols, depth)?;
        if let Some(job) = self.job.as_ref().filter(|job| job.shape == shape) {
            return Some(job.plan);
        }
        plan::plan(shape, T::FLOP, &self.limits)
    }

    /// Takes the memory of a job, so that its [`begin`](Self::begin) finds it; a job under way is abandoned.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn reserve(&mut self, rows: usize, cols: usize, depth: Depth) -> Result<(), DeviceError> {
        self.abandon()?;
        if let Some(shape) = shape::<T>(rows, cols, depth) {
            self.allocate(shape)?;
        }
        Ok(())
    }

    /// Starts a job on `c`, with updates as `depth` says. When memory is refused, smaller tiles are tried, down to the
    /// smallest.
    ///
    /// # Errors
    /// [`DeviceError::CudaMemory`] when the smallest tiles exceed the limits; [`DeviceError::Cuda`] when a call fails, with
    /// the allocation that was refused where that is the reason.
    pub fn begin(&mut self, c: View<'_, T>, depth: Depth) -> Result<(), DeviceError> {
        // What a job left behind that was abandoned, or that a panic ended.
        self.abandon()?;
        let Some(shape) = shape::<T>(c.rows(), c.cols(), depth) else {
            return Ok(());
        };
        let place = self.allocate(shape)?;
        self.guarded(|engine| engine.start(shape, place, c))
    }

    /// `C += alpha·A·B`. When it returns, the arithmetic is done, or the panels are gathered. `next` are the panels of the
    /// next update, where they are known: a C on the GPU has them copied meanwhile. Nobody may write them until that update
    /// has returned; when another one follows they are forgotten.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; the job is over then.
    ///
    /// # Panics
    /// When the shapes do not fit each other, the job or its `k_max`.
    pub fn update(
        &mut self,
        alpha: T,
        (a, b): (View<'_, T>, View<'_, T>),
        next: Option<(View<'_, T>, View<'_, T>)>,
        c: ViewMut<'_, T>,
    ) -> Result<(), DeviceError> {
        let k = a.cols();
        assert!(
            a.rows() == c.rows() && b.rows() == k && b.cols() == c.cols(),
            "the shapes of an update do not fit"
        );
        if c.is_empty() {
            return Ok(());
        }
        self.guarded(|engine| {
            let mut job = engine.running();
            let fits = job.shape.rows == c.rows() && job.shape.cols == c.cols();
            assert!(
                fits && k <= job.shape.k_max,
                "the update is not of this job"
            );
            let nothing = k == 0 || alpha == T::ZERO;
            let outcome = match &mut job.state {
                State::Resident(resident) if nothing => {
                    resident.forget();
                    Ok(())
                }
                State::Resident(resident) => resident.update(engine, alpha, (a, b), next),
                State::Streamed(gathered) => gathered.add(engine, alpha, (a, b), c),
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
            match &mut job.state {
                State::Streamed(gathered) => gathered.visit(engine, c),
                State::Resident(resident) => {
                    let Self { staging, lanes, .. } = engine;
                    staging.download(&lanes.download, resident.c(), c)
                }
            }
        })
    }

    /// Ends a job that is not to be finished.
    pub(super) fn abandon(&mut self) -> Result<(), DeviceError> {
        self.guarded(|engine| {
            engine.job = None;
            engine.lanes.settle()
        })
    }

    /// Runs `work` in the bound context. After a failure the job is over and nothing is under way.
    pub(super) fn guarded<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Outcome<R>,
    ) -> Result<R, DeviceError> {
        let context = Arc::clone(&self.context);
        let bound = context.bind();
        let outcome = match &bound {
            Ok(_) => work(self),
            Err(error) => Err(*error),
        };
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

    /// Finds memory for a job, in smaller and smaller tiles: how it is laid out, and where the memory begins on the GPU and
    /// on the host.
    fn allocate(&mut self, shape: Shape) -> Result<(TilePlan, u64, NonNull<T>), DeviceError> {
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
            let error = match self.hold(plan.device_bytes, plan.host_bytes) {
                Ok((device, start)) => return Ok((plan, device, start)),
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

    /// Allocates so many bytes of GPU memory and of pinned memory, unless they are held already; where they begin.
    pub(super) fn hold(
        &mut self,
        device_bytes: u64,
        host_bytes: u64,
    ) -> Outcome<(u64, NonNull<T>)> {
        let context = Arc::clone(&self.context);
        let _bound = context.bind()?;
        let suits = |held: u64, needed: u64| {
            held >= needed && (held - needed <= needed || held - needed <= WORTH_FREEING)
        };
        let allowed = self.limits.device_bytes;
        let device = match self.device.take() {
            Some(held) if suits(held.bytes(), device_bytes) && held.bytes() <= allowed => held,
            // What is too small or too large goes first.
            other => {
                drop(other);
                DeviceMemory::new(&context, device_bytes)?
            }
        };
        let device = self.device.insert(device).address();
        let pinned = match self.pinned.take() {
            Some(held) if suits(held.bytes(), host_bytes) => held,
            other => {
                drop(other);
                PinnedMemory::new(&context, host_bytes)?
            }
        };
        Ok((device, self.pinned.insert(pinned).start().cast()))
    }

    fn start(
        &mut self,
        shape: Shape,
        (plan, device, start): (TilePlan, u64, NonNull<T>),
        c: View<'_, T>,
    ) -> Outcome<()> {
        // SAFETY: the pinned memory holds the slots first, and the engine keeps it while a job runs; nothing is under way.
        unsafe { self.staging.place(start, plan.slot_elements) };
        let state = match plan.placement {
            Placement::Resident => State::Resident(Resident::new(device, shape)),
            Placement::Streamed { .. } => {
                // SAFETY: behind the slots the plan has room for the panels.
                let panels = unsafe { start.add(SLOTS * plan.slot_elements) };
                // SAFETY: as above; nobody else uses that part, and it stays allocated while the job runs.
                let gathered = unsafe { Gathered::new(panels, shape, &plan, device) };
                State::Streamed(gathered)
            }
        };
        if let State::Resident(resident) = &state {
            self.staging.upload(&self.lanes.upload, c, resident.c())?;
            self.lanes.upload.synchronize()?;
        }
        self.job = Some(Running { shape, plan, state });
        Ok(())
    }
}

impl<T: Element> Drop for Engine<T> {
    /// Waits for what is under way: memory must not be freed before.
    fn drop(&mut self) {
        let _bound = self.context.bind();
        let _ = self.lanes.settle();
    }
}

/// The shape of a job; `None` when there is nothing in it.
fn shape<T>(rows: usize, cols: usize, depth: Depth) -> Option<Shape> {
    let k_max = depth.k_max.max(1);
    (rows > 0 && cols > 0).then_some(Shape {
        rows,
        cols,
        k_max,
        k_total: depth.k_total.max(k_max),
        element_bytes: size_of::<T>(),
    })
}

/// What jobs may pin where nobody says: a quarter of what is left, since pinned memory is nobody else's.
fn host_limit_bytes() -> u64 {
    memory_available_bytes().map_or(u64::MAX, |bytes| bytes / 4)
}
