//! The arithmetic of a GPU device: `C += alpha·A·B`, with C on the GPU or streaming through it.

use super::allocate::host_limit_bytes;
use super::blas::BlasHandle;
use super::check::Outcome;
use super::context::Context;
use super::find::CudaInfo;
use super::lanes::Lanes;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{self, CudaLimits, Placement, SLOTS, TilePlan};
use super::resident::Resident;
use super::staging::Staging;
use super::streamed::Streamed;
use super::{CudaConfig, find, speed};
use crate::worker::{Depth, JobNeeds, JobShape};
use crate::{DeviceError, Element, ElementType, View, ViewMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// The part of the free memory of a GPU that is left alone: cuBLAS loads code, and others come and go.
const LEFT_FREE: u64 = 16;
/// Assumed where the GPU is not known: a middling one.
const UNKNOWN_PEAK_FLOPS_PER_S: f64 = 10e12;

/// One GPU, for every element type: the functional heart of [`CudaWorker`](super::CudaWorker), which is an engine with
/// its own host threads.
///
/// A job is [`begin`](Self::begin), any number of [`update`](Self::update), [`finish`](Self::finish), all with one C of one
/// type. The caller keeps the order, the type and the shapes, as [`Job`](crate::Job) checks them.
///
/// Everything may be called from any thread. Copies between matrices and pinned memory use all threads of the rayon pool
/// that the caller is a thread of, and only its own thread otherwise.
#[derive(Debug)]
pub struct Engine {
    pub(super) name: String,
    pub(super) context: Arc<Context>,
    gpu: CudaInfo,
    /// Of jobs of any type; the peak is that of `f64`.
    pub(super) limits: CudaLimits,
    /// What jobs may pin where nobody limits them further.
    pub(super) host_bytes: u64,
    job: Option<Running>,
    /// Whether a product had to be computed in parts, and that was said.
    pub(super) multiplies_parts: bool,
    pub(super) staging: Staging,
    pub(super) device: Option<DeviceMemory>,
    pub(super) pinned: Option<PinnedMemory>,
    pub(super) blas: BlasHandle,
    pub(super) lanes: Lanes,
}

/// A job under way.
#[derive(Debug)]
struct Running {
    shape: JobShape,
    /// How it is laid out: in smaller tiles than planned, where memory was refused.
    plan: TilePlan,
    state: State,
}

/// Where C is, and what is known of the panels.
#[derive(Debug)]
enum State {
    Resident(Resident),
    Streamed(Streamed),
}

impl Engine {
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
        let device_bytes = config
            .memory_limit_bytes
            .map_or(allowed, |limit| limit.min(allowed));
        let host_bytes = config.host_limit_bytes.unwrap_or_else(host_limit_bytes);
        let link_bytes_per_s = match config.link_bytes_per_s {
            Some(given) => given,
            None => {
                speed::link_bytes_per_s(&context, &lanes, &mut staging, (device_bytes, host_bytes))?
            }
        };
        let peak = info.peak_flops_per_s(ElementType::F64);
        tracing::info!(device = name, peak, link_bytes_per_s, "found a GPU");
        Ok(Self {
            name: name.to_owned(),
            gpu: info.clone(),
            limits: CudaLimits {
                device_bytes,
                host_bytes,
                peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S),
                link_bytes_per_s,
            },
            host_bytes,
            context,
            job: None,
            multiplies_parts: false,
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
    pub fn plan(&self, job: &JobShape) -> Option<TilePlan> {
        let shape = counted(job)?;
        match self.job.as_ref().filter(|running| running.shape == shape) {
            Some(running) => Some(running.plan),
            None => plan::plan(&shape, &self.limits_of(shape.element)),
        }
    }

    /// The limits of jobs of this type.
    pub(super) fn limits_of(&self, element: ElementType) -> CudaLimits {
        let peak = self.gpu.peak_flops_per_s(element);
        CudaLimits {
            peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S),
            ..self.limits
        }
    }

    /// Returns the resources that a job needs; the host bytes are those that it pins.
    pub fn job_needs(&self, job: &JobShape) -> JobNeeds {
        match self.plan(job) {
            Some(plan) => JobNeeds {
                host_bytes: plan.host_bytes,
                own_bytes: plan.device_bytes,
                updates_per_visit: plan.updates_per_visit,
            },
            None => JobNeeds {
                host_bytes: self.least_host_bytes(job).unwrap_or(0),
                ..JobNeeds::default()
            },
        }
    }

    /// Returns the least host memory with which the job can be laid out; `None` if no amount suffices.
    fn least_host_bytes(&self, job: &JobShape) -> Option<u64> {
        let shape = counted(job)?;
        plan::least_host_bytes(&shape, &self.limits_of(shape.element))
    }

    /// Takes the memory of a job, so that its [`begin`](Self::begin) finds it; a job under way is abandoned.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn reserve(&mut self, job: &JobShape) -> Result<(), DeviceError> {
        self.abandon()?;
        if let Some(shape) = counted(job) {
            self.allocate(&shape)?;
        }
        Ok(())
    }

    /// Starts a job on `c`, with updates as `depth` says. When memory is refused, smaller tiles are tried, down to the
    /// smallest.
    ///
    /// # Errors
    /// [`DeviceError::CudaMemory`] when the smallest tiles exceed the limits; [`DeviceError::Cuda`] when a call fails, with
    /// the allocation that was refused where that is the reason.
    pub fn begin<T: Element>(&mut self, c: View<'_, T>, depth: Depth) -> Result<(), DeviceError> {
        // What a job left behind that was abandoned, or that a panic ended.
        self.abandon()?;
        let Some(shape) = counted(&JobShape::of::<T>((c.rows(), c.cols()), depth)) else {
            return Ok(());
        };
        let place = self.allocate(&shape)?;
        self.guarded(|engine| engine.start(shape, place, c))
    }

    /// `C += alpha·A·B`; in smaller products, down to small ones, where cuBLAS finds no memory. When it returns, the arithmetic is done, or the panels are gathered. `next` are the panels of the
    /// next update, where they are known: a C on the GPU has them copied meanwhile. Nobody may write them until that update
    /// has returned; when another one follows they are forgotten.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; the job is over then.
    ///
    /// # Panics
    /// When the shapes do not fit each other, or the update is not of the job: its type, C or `k_max`.
    pub fn update<T: Element>(
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
                fits && k <= job.shape.depth.k_max && job.shape.element == T::TYPE,
                "the update is not of this job"
            );
            let nothing = k == 0 || alpha == T::ZERO;
            let outcome = match &mut job.state {
                State::Resident(resident) if nothing => {
                    resident.forget();
                    Ok(())
                }
                State::Resident(resident) => resident.update(engine, alpha, (a, b), next),
                State::Streamed(streamed) => streamed.update(engine, alpha, (a, b), c),
            };
            engine.job = Some(job);
            outcome
        })
    }

    /// Ends the job: when it returns, `c` holds the result.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; the job is over in any case.
    ///
    /// # Panics
    /// When C is of another type than the job.
    pub fn finish<T: Element>(&mut self, c: ViewMut<'_, T>) -> Result<(), DeviceError> {
        if c.is_empty() {
            return Ok(());
        }
        self.guarded(|engine| {
            let mut job = engine.running();
            assert!(job.shape.element == T::TYPE, "the C is not of this job");
            match &mut job.state {
                State::Streamed(streamed) => streamed.visit(engine, c),
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

    fn running(&mut self) -> Running {
        self.job
            .take()
            .unwrap_or_else(|| panic!("{}: an update or a finish outside a job", self.name))
    }

    fn start<T: Element>(
        &mut self,
        shape: JobShape,
        (plan, device, start): (TilePlan, u64, NonNull<u8>),
        c: View<'_, T>,
    ) -> Outcome<()> {
        let slot_bytes = plan.slot_elements * size_of::<T>();
        // SAFETY: the pinned memory holds the slots first, and the engine keeps it while a job runs; nothing is under way.
        unsafe { self.staging.place(start, slot_bytes) };
        let state = match plan.placement {
            Placement::Resident => State::Resident(Resident::new(device, shape)),
            Placement::Streamed { .. } => {
                // SAFETY: behind the slots the plan has room for the panels that are gathered, if any.
                let panels = unsafe { start.add(SLOTS * slot_bytes) };
                // SAFETY: as above; nobody else uses that part, and it stays allocated while the job runs.
                let streamed = unsafe { Streamed::new(panels, shape, &plan, device) };
                State::Streamed(streamed)
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

impl Drop for Engine {
    /// Waits for what is under way: memory must not be freed before.
    fn drop(&mut self) {
        let _bound = self.context.bind();
        let _ = self.lanes.settle();
    }
}

/// Returns the job with room for at least one element of panel depth; `None` if C is empty.
fn counted(job: &JobShape) -> Option<JobShape> {
    let k_max = job.depth.k_max.max(1);
    let depth = Depth {
        k_max,
        k_total: job.depth.k_total.max(k_max),
    };
    (job.rows > 0 && job.cols > 0).then_some(JobShape { depth, ..*job })
}
