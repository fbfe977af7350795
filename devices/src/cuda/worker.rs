//! The worker of a GPU with its host cores.

use super::CudaConfig;
use super::engine::Engine;
use super::find::CudaInfo;
use super::memory::PinnedMemory;
use super::plan::TilePlan;
use crate::contract::{
    Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, JobCheck, JobNeeds, JobShape,
    PanelPair, Scalar, ThreadPlace, UpdateTime, Updates, ViewMut, Worker,
};
use crate::host::cpu_time::thread_cpu_time_s;
use crate::host::threads::{Seen, bind_threads, confine_threads, start_threads};
use crate::host::topology::{CoreInfo, Topology};
use rayon::ThreadPool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A GPU and the host cores that drive it: one device.
///
/// C is on the GPU from `begin` to `finish` if it fits, and streams through it in tiles otherwise.
/// `begin` and `finish` copy C; an update copies A and B, and waits for the arithmetic. So `busy_s` is wall time with
/// all transfers of the update. Nothing runs between calls, so the times of `begin`, of the updates and of `finish` sum
/// up to the time of the job. Arithmetic hides the transfers: those of the next update if
/// [`update_ahead`](Updates::update_ahead) announces it, otherwise most of the update's own.
///
/// If tiles stream, updates gather panels until a visit is worth it. The last of
/// [`updates_per_visit`](JobNeeds::updates_per_visit) updates takes nearly all of their time, so only the mean over all
/// of them shows the speed of the device. The last update of the job ends with a visit; `finish` makes one only if
/// fewer updates came than were announced.
///
/// # Deviations
/// * **Transfers of a GPU**: the papers count transfers in the time of an update, and do not describe any overlap
///   (thesis, section 5.2.3; Clarke et al. 2012, section 4). Here the arithmetic hides them, because the GPU would wait
///   for its link otherwise. If the next panels have arrived already (SUMMA keeps them a step ahead), they are copied
///   during this update; if not, an update hides its own, in stripes. In both cases an update waits for its own
///   arithmetic. If it returned earlier, it would seem to take no time next to a slower device, and its error would
///   come one update late.
pub struct CudaWorker {
    info: DeviceInfo,
    job: JobCheck,
    engine: Engine,
    hands: ThreadPool,
    topology: Arc<Topology>,
    /// Cores on which the thread that drives the GPU was seen.
    seen: Seen,
}

impl CudaWorker {
    /// Makes the device `name` of `gpu` and these host cores: one drives the GPU, more of them copy faster. With `pin`
    /// the threads are bound to the cores; without cores there is one thread, which has no core of its own. Such threads
    /// keep off the cores that [`Topology::with_allowed_pus`] has taken away.
    ///
    /// # Errors
    /// Returns [`DeviceError::CudaLibrary`] without cuBLAS; [`DeviceError::Cuda`] if the GPU cannot be used;
    /// [`DeviceError::Config`] if a thread cannot be started or the configuration is invalid; [`DeviceError::Binding`]
    /// and [`DeviceError::BindingTogether`] if a thread cannot be bound.
    pub fn new(
        topology: Arc<Topology>,
        name: &str,
        gpu: &CudaInfo,
        cores: &[CoreInfo],
        pin: bool,
        config: &CudaConfig,
    ) -> Result<Self, DeviceError> {
        config.check(name)?;
        let hands = start_threads(name, cores.len().max(1))?;
        let pinned = pin && !cores.is_empty();
        if pinned {
            bind_threads(&hands, &topology, cores)?
        } else {
            confine_threads(&hands, &topology)?
        }
        // The driving thread opens the GPU, so that the driver's tables and the pinned memory are near it.
        let mut engine = run_on_first(&hands, || Engine::new(name, gpu, config))?;
        let version = engine.gpu.run(|gpu| gpu.blas.version())?;
        let info = DeviceInfo {
            name: name.to_owned(),
            kind: DeviceKind::Cuda,
            blas: format!("cuBLAS {version} on {} ({})", gpu.name, gpu.pci_bus_id),
            paced: None,
            clock: DeviceClock::Accelerator,
            cores: cores.iter().map(|core| core.core).collect(),
            pinned,
            bus_id: Some(gpu.pci_bus_id.clone()),
        };
        Ok(Self { info, job: JobCheck::default(), engine, hands, topology, seen: Seen::default() })
    }

    /// Returns the layout of a job; `None` if there is nothing to compute, or the job does not fit even in the smallest
    /// tiles.
    pub fn plan(&self, job: &JobShape) -> Option<TilePlan> {
        self.engine.plan(job)
    }

    /// Measures one product `C += A·B` with all matrices in the GPU's memory, in seconds; A: `m×k`, B: `k×n`, C: `m×n`.
    /// The result is the mean over `count` products that are queued one behind the other, after a first one that is not
    /// counted. A job under way is abandoned. `None` if the limits have no room for the matrices, or there is nothing
    /// to compute.
    ///
    /// # Errors
    /// Returns [`DeviceError::Cuda`] if a call fails.
    pub fn time_products<T: Scalar>(
        &mut self,
        m: usize,
        n: usize,
        k: usize,
        count: u32,
    ) -> Result<Option<f64>, DeviceError> {
        self.run_between_jobs(|engine| engine.abandon()?.time_products::<T>(m, n, k, count))
    }

    /// Returns the bytes per second that the link between host and GPU carries in one direction. Without a configured
    /// value it was measured when the worker was made, with the copies on the host.
    pub fn link_bytes_per_s(&self) -> f64 {
        self.engine.gpu.limits.link_bytes_per_s
    }
}

impl From<CudaWorker> for Box<dyn Worker> {
    // A crate that boxed the device itself would compile the arithmetic of all element types again.
    #[inline(never)]
    fn from(worker: CudaWorker) -> Self {
        Box::new(worker)
    }
}

impl Worker for CudaWorker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns pinned host memory for copies, and for gathered panels if C does not fit on the GPU. The GPU's own
    /// memory is too small for a job only under tiny limits.
    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        self.engine.job_needs(job)
    }

    fn memory_held(&self) -> u64 {
        self.engine.gpu.pinned.as_ref().map_or(0, PinnedMemory::bytes)
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.engine.gpu.limit_pinned(bytes);
    }

    fn copies_ahead(&self) -> bool {
        true
    }

    fn threads(&self) -> Vec<ThreadPlace> {
        let topology = &self.topology;
        let bound = self.hands.broadcast(|_| topology.current_binding().unwrap_or_default());
        self.info
            .cores
            .iter()
            .zip(bound)
            .enumerate()
            .map(|(i, (&core, bound_to))| ThreadPlace {
                core,
                bound_to,
                ran_on: match i {
                    0 => self.seen.units(),
                    // The other threads only help to copy.
                    _ => Vec::new(),
                },
            })
            .collect()
    }

    fn reserve(&mut self, job: &JobShape) -> Result<(), DeviceError> {
        self.run_between_jobs(|engine| engine.reserve(job))
    }
}

impl<T: Scalar> Updates<T> for CudaWorker {
    fn scale(&mut self, beta: T, mut c: ViewMut<'_, T>) {
        run_on_first(&self.hands, || c.scale(beta));
    }

    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        self.job.begin(&c, depth);
        self.time_call(|engine| engine.begin(c.rb(), depth))
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        (a, b): PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.job.update(&a, &b, &c)?;
        self.time_call(|engine| engine.update(alpha, (a, b), next, c))
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        self.job.finish(&c)?;
        self.time_call(|engine| engine.finish(c))
    }
}

impl CudaWorker {
    /// Runs `work` on the first host core. A job under way is abandoned.
    fn run_between_jobs<R: Send>(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<R, DeviceError> + Send,
    ) -> Result<R, DeviceError> {
        self.job = JobCheck::default();
        let engine = &mut self.engine;
        run_on_first(&self.hands, || work(engine))
    }

    /// Runs `work` on the first host core, and returns its time. After an error the job is over.
    fn time_call(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<(), DeviceError> + Send,
    ) -> Result<UpdateTime, DeviceError> {
        let (engine, seen) = (&mut self.engine, &self.seen);
        let start = Instant::now();
        let done = run_on_first(&self.hands, || {
            let start_s = thread_cpu_time_s();
            work(engine)?;
            seen.note_unit();
            Ok(thread_cpu_time_s() - start_s)
        });
        let busy_s = start.elapsed().as_secs_f64();
        match done {
            Ok(cpu_s) => Ok(UpdateTime { busy_s, cpu_s }),
            Err(error) => {
                self.job = JobCheck::default();
                Err(error)
            }
        }
    }
}

/// Runs `work` on the first thread of the pool; the other threads can help it.
///
/// It is a broadcast and not a plain job: the calling driver thread must not start another device's work while it
/// waits.
fn run_on_first<R: Send>(pool: &ThreadPool, work: impl FnOnce() -> R + Send) -> R {
    let work = Mutex::new(Some(work));
    let results = pool.broadcast(|thread| {
        if thread.index() != 0 {
            return None;
        }
        let taken = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.map(|work| work())
    });
    results
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_else(|| unreachable!("a broadcast runs on every thread of the pool"))
}
