//! Jobs on a GPU: `C += alpha·A·B`, with C on the GPU or streaming through it.

use super::CudaConfig;
use super::allocate::JobMemory;
use super::check::CallResult;
use super::find::CudaInfo;
use super::gpu::OpenGpu;
use super::plan::{self, Placement, SLOTS, TilePlan};
use super::resident::Resident;
use super::streamed::Streamed;
use crate::contract::{Depth, DeviceError, JobNeeds, JobShape, PanelPair, Scalar, View, ViewMut};

/// The jobs of one GPU, for every element type. A [`CudaWorker`](super::CudaWorker) is an engine with host threads of
/// its own.
///
/// A job is [`begin`](Self::begin), any number of [`update`](Self::update), [`finish`](Self::finish), all with one C of
/// one type. The caller keeps the order, the type and the shapes, as [`JobCheck`](crate::JobCheck) checks them.
#[derive(Debug)]
pub struct Engine {
    pub gpu: OpenGpu,
    job: Option<CudaJob>,
}

/// A job under way.
#[derive(Debug)]
struct CudaJob {
    shape: JobShape,
    /// The layout: with smaller tiles than planned if memory was refused.
    plan: TilePlan,
    place: PlaceOfC,
}

/// The place of C, and the state of the panels.
#[derive(Debug)]
enum PlaceOfC {
    Resident(Resident),
    Streamed(Streamed),
}

impl Engine {
    /// Opens a GPU as [`OpenGpu::open`].
    pub fn new(name: &str, info: &CudaInfo, config: &CudaConfig) -> Result<Self, DeviceError> {
        Ok(Self { gpu: OpenGpu::open(name, info, config)?, job: None })
    }

    /// Returns the layout of a job: for the one under way its own, for another one that with which every allocation
    /// would succeed. `None` if there is nothing to compute, or the job does not fit even in the smallest tiles.
    pub fn plan(&self, job: &JobShape) -> Option<TilePlan> {
        let shape = count_depth(job)?;
        match self.job.as_ref().filter(|running| running.shape == shape) {
            Some(running) => Some(running.plan),
            None => plan::plan(&shape, &self.gpu.limits_of(shape.element)),
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
                // The least with which it can be laid out, if any amount suffices.
                host_bytes: count_depth(job)
                    .and_then(|job| plan::least_host_bytes(&job, &self.gpu.limits_of(job.element)))
                    .unwrap_or(0),
                ..JobNeeds::default()
            },
        }
    }

    /// Takes the memory of a job, so that its [`begin`](Self::begin) finds it; a job under way is abandoned.
    ///
    /// # Errors
    /// Returns [`DeviceError::CudaMemory`] if the smallest tiles exceed the limits; [`DeviceError::Cuda`] if a call
    /// fails, with the allocation that was refused if that is the reason.
    pub fn reserve(&mut self, job: &JobShape) -> Result<(), DeviceError> {
        let gpu = self.abandon()?;
        if let Some(shape) = count_depth(job) {
            gpu.allocate(&shape)?;
        }
        Ok(())
    }

    /// Starts a job on `c`; `depth` announces its updates. If memory is refused, smaller tiles are tried, down to the
    /// smallest.
    ///
    /// # Errors
    /// Returns [`DeviceError::CudaMemory`] if the smallest tiles exceed the limits; [`DeviceError::Cuda`] if a call
    /// fails, with the allocation that was refused if that is the reason.
    pub fn begin<T: Scalar>(&mut self, c: View<'_, T>, depth: Depth) -> Result<(), DeviceError> {
        // A job may have been abandoned, or ended by a panic.
        self.abandon()?;
        let Some(shape) = count_depth(&JobShape::of::<T>(c.rows(), c.cols(), depth)) else {
            return Ok(());
        };
        let memory = self.gpu.allocate(&shape)?;
        let started = self.gpu.run(|gpu| CudaJob::start(gpu, shape, &memory, c));
        self.job = Some(started?);
        Ok(())
    }

    /// Computes `C += alpha·A·B`, in smaller products if cuBLAS finds no memory. When it returns, the arithmetic is
    /// done, or the panels are gathered.
    ///
    /// `next` are the panels of the next update, if they are known: if C is on the GPU they are copied meanwhile. They
    /// must not be written until that update has returned. If another update follows, they are forgotten.
    ///
    /// # Errors
    /// Returns [`DeviceError::Cuda`]; the job is over then.
    ///
    /// # Panics
    /// If the shapes do not match, or the update is not of the job: its type, C or `k_max`.
    pub fn update<T: Scalar>(
        &mut self,
        alpha: T,
        (a, b): PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
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
        let mut job = self.take_job();
        let fits = job.shape.rows == c.rows() && job.shape.cols == c.cols();
        assert!(
            fits && k <= job.shape.depth.k_max && job.shape.element == T::TYPE,
            "the update is not of this job"
        );
        self.gpu.run(|gpu| match &mut job.place {
            PlaceOfC::Resident(resident) if k == 0 || alpha == T::ZERO => {
                resident.forget_ahead();
                Ok(())
            }
            PlaceOfC::Resident(resident) => resident.update(gpu, alpha, (a, b), next),
            PlaceOfC::Streamed(streamed) => streamed.update(gpu, alpha, (a, b), c),
        })?;
        self.job = Some(job);
        Ok(())
    }

    /// Ends the job: when it returns, `c` holds the result.
    ///
    /// # Errors
    /// Returns [`DeviceError::Cuda`]; the job is over in any case.
    ///
    /// # Panics
    /// If C is of another type than the job.
    pub fn finish<T: Scalar>(&mut self, c: ViewMut<'_, T>) -> Result<(), DeviceError> {
        if c.is_empty() {
            return Ok(());
        }
        let mut job = self.take_job();
        assert!(job.shape.element == T::TYPE, "the C is not of this job");
        self.gpu.run(|gpu| match &mut job.place {
            PlaceOfC::Streamed(streamed) => streamed.visit(gpu, c),
            PlaceOfC::Resident(resident) => {
                let OpenGpu { staging, lanes, .. } = gpu;
                staging.download(&lanes.download, resident.place_of_c(), c)
            }
        })
    }

    /// Ends a job that is not to be finished; returns the GPU, on which no work is under way.
    pub fn abandon(&mut self) -> Result<&mut OpenGpu, DeviceError> {
        self.job = None;
        self.gpu.run(|gpu| gpu.lanes.settle())?;
        Ok(&mut self.gpu)
    }

    /// Takes the job out: it is put back when a call has succeeded.
    fn take_job(&mut self) -> CudaJob {
        self.job.take().unwrap_or_else(|| {
            let name = &self.gpu.name;
            panic!("{name}: an update or a finish outside a job")
        })
    }
}

impl CudaJob {
    /// Lays a job out in its memory, and copies C to the GPU if it stays there.
    fn start<T: Scalar>(
        gpu: &mut OpenGpu,
        shape: JobShape,
        memory: &JobMemory,
        c: View<'_, T>,
    ) -> CallResult<Self> {
        let JobMemory { plan, device, pinned } = *memory;
        let slot_bytes = plan.slot_elements * size_of::<T>();
        // SAFETY: the pinned memory begins with the slots, and is held while a job runs. No work is under way, since
        // `begin` has abandoned any older job.
        unsafe { gpu.staging.place(pinned, slot_bytes) };
        let place = match plan.placement {
            Placement::Resident => {
                let resident = Resident::new(device, shape);
                gpu.staging.upload(&gpu.lanes.upload, c, resident.place_of_c())?;
                gpu.lanes.upload.synchronize()?;
                PlaceOfC::Resident(resident)
            }
            Placement::Streamed(_) => {
                // SAFETY: behind the slots the plan has room for the panels that are gathered, if any.
                let panels = unsafe { pinned.add(SLOTS * slot_bytes) };
                // SAFETY: as above; that part has no other user, and stays allocated while the job runs.
                let streamed = unsafe { Streamed::new(panels, shape, &plan, device) };
                PlaceOfC::Streamed(streamed)
            }
        };
        Ok(Self { shape, plan, place })
    }
}

/// Returns the job with room for panels of at least one element; `None` if C is empty.
fn count_depth(job: &JobShape) -> Option<JobShape> {
    let k_max = job.depth.k_max.max(1);
    let depth = Depth { k_max, k_total: job.depth.k_total.max(k_max) };
    (job.rows > 0 && job.cols > 0).then_some(JobShape { depth, ..*job })
}
