//! The worker of a group of CPU cores.

use crate::contract::{
    Blas, Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, ElementType, JobCheck, JobShape,
    PanelPair, ReservedThreads, Scalar, ThreadPlace, UpdateTime, Updates, View, ViewMut, Worker,
    even_widths,
};
use crate::cpu::place::columns_by_domain;
use crate::host::cpu_time::thread_cpu_time_s;
use crate::host::threads::{Seen, bind_threads, confine_threads, start_threads};
use crate::host::topology::{CoreInfo, Topology};
use crate::with_element;
use rayon::ThreadPool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A group of CPU cores: one thread for each, which updates its own contiguous columns of C.
///
/// The threads are ours and the BLAS under them is sequential, so a group computes on its own cores only. Thread `i`
/// always has the columns of share `i`, so its data stay in its caches and in its NUMA domain. [`Updates::scale`] lets
/// that thread write them first. On a host with several domains [`Updates::begin`] moves the pages that lie elsewhere:
/// other threads wrote them first (a matrix read from a file), or the slices have changed since. A page with columns of
/// two threads lies with one of them. Updates too small to wake threads for run on the calling thread. The library's own packing buffers, a few megabytes a thread, are no part of
/// [`Worker::job_needs`].
///
/// ```
/// use isochron_devices::{CpuWorker, Depth, EmbeddedBlas, Topology, Updates, View, ViewMut};
/// use std::sync::Arc;
///
/// let topology = Arc::new(Topology::discover()?);
/// let cores = topology.cores().into_iter().take(1).collect();
/// let mut worker = CpuWorker::new(topology, "cpu0", cores, false, Arc::new(EmbeddedBlas))?;
/// let mut c = [10.0];
/// worker.begin(ViewMut::new(&mut c, 1, 1, 1), Depth::of(2, 1))?;
/// let (a, b) = (View::new(&[1.0, 2.0], 1, 2, 1), View::new(&[3.0, 4.0], 2, 1, 2));
/// let time = worker.update(1.0, a, b, ViewMut::new(&mut c, 1, 1, 1))?;
/// worker.finish(ViewMut::new(&mut c, 1, 1, 1))?;
/// assert_eq!(c, [21.0]);
/// assert!(time.busy_s >= 0.0);
/// # Ok::<(), isochron_devices::DeviceError>(())
/// ```
pub struct CpuWorker {
    info: DeviceInfo,
    blas: Arc<dyn Blas>,
    /// The library's memory for these threads.
    _room: ReservedThreads,
    /// `None` for one thread that is not bound: the calling thread then does the work itself.
    pool: Option<ThreadPool>,
    topology: Arc<Topology>,
    cores: Vec<CoreInfo>,
    /// The units on which each thread was seen.
    seen: Vec<Seen>,
    /// `true` if the host has several NUMA domains and the threads are bound.
    has_domains: bool,
    /// The types for which the library is ready.
    ready_types: Vec<ElementType>,
    job: JobCheck,
}

impl CpuWorker {
    /// Makes a device of these cores, with one thread each, bound to its core if `pin` is set. Other threads may run on
    /// every core of the process, but not on those that [`Topology::with_allowed_pus`] has taken away.
    ///
    /// # Errors
    /// Returns [`DeviceError::Config`] if there is no core; [`DeviceError::Threads`] if a thread cannot be started;
    /// [`DeviceError::BlasMemory`] if the library lacks memory for that many threads; [`DeviceError::Binding`] and
    /// [`DeviceError::BindingTogether`] if one cannot be bound, as with a topology that is not this machine's.
    pub fn new(
        topology: Arc<Topology>,
        name: &str,
        cores: Vec<CoreInfo>,
        pin: bool,
        blas: Arc<dyn Blas>,
    ) -> Result<Self, DeviceError> {
        if cores.is_empty() {
            return Err(DeviceError::Config {
                device: name.to_owned(),
                reason: "it has no cores".to_owned(),
            });
        }
        let room = blas.reserve(cores.len())?;
        let has_threads = pin || cores.len() > 1 || topology.units_left().is_some();
        let pool = has_threads.then(|| start_threads(name, cores.len())).transpose()?;
        if let Some(pool) = &pool {
            if pin {
                bind_threads(pool, &topology, &cores)?
            } else {
                confine_threads(pool, &topology)?
            }
        }
        let info = DeviceInfo {
            name: name.to_owned(),
            kind: DeviceKind::Cpu,
            blas: blas.name().to_owned(),
            paced: None,
            clock: DeviceClock::Cores,
            cores: cores.iter().map(|core| core.core).collect(),
            pinned: pin,
            bus_id: None,
        };
        Ok(Self {
            info,
            blas,
            _room: room,
            pool,
            seen: cores.iter().map(|_| Seen::default()).collect(),
            has_domains: pin && topology.numa_nodes().len() > 1,
            topology,
            cores,
            ready_types: Vec::new(),
            job: JobCheck::default(),
        })
    }

    /// Lets the library allocate its packing buffers and choose its kernels, by a small product of every thread.
    fn make_ready<T: Scalar>(&self) {
        match &self.pool {
            Some(pool) => drop(pool.broadcast(|_| multiply_zeros::<T>(self.blas.as_ref()))),
            None => multiply_zeros::<T>(self.blas.as_ref()),
        }
    }

    /// Moves the pages of C next to the threads that update them. Pages stay if the system refuses, which costs time
    /// but no results.
    fn move_pages<T: Scalar>(&self, c: &ViewMut<'_, T>) {
        if !self.has_domains || c.span().len() * size_of::<T>() < WORTH_MOVING_BYTES {
            return;
        }
        for (columns, numa) in columns_by_domain(&self.cores, c.cols()) {
            let area = c.rb().columns(columns).span();
            // SAFETY: the memory of a view is one allocation.
            if let Err(error) = unsafe { self.topology.move_to_numa(area, numa) } {
                tracing::debug!(device = self.info.name, %error, "memory stays where it is");
            }
        }
    }
}

/// Side of the squares that make a library ready: large enough that it packs them (OpenBLAS has kernels without packing for
/// products of up to 100³ multiplications), and a tenth of a millisecond's work.
const READY_SIDE: usize = 128;
/// Fewest multiplications of a job for which a library is made ready: as many as 128 products of these squares.
const WORTH_BEING_READY: usize = 128 * READY_SIDE * READY_SIDE * READY_SIDE;

fn multiply_zeros<T: Scalar>(blas: &dyn Blas) {
    let factor = vec![T::ZERO; READY_SIDE * READY_SIDE];
    let mut product = factor.clone();
    T::select_gemm(blas).gemm(
        T::ONE,
        View::new(&factor, READY_SIDE, READY_SIDE, READY_SIDE),
        View::new(&factor, READY_SIDE, READY_SIDE, READY_SIDE),
        ViewMut::new(&mut product, READY_SIDE, READY_SIDE, READY_SIDE),
    );
}

/// Fewest operations of an update for which several threads are woken: that takes some ten microseconds, in which the calling
/// thread has done the work.
const FLOP_WORTH_SHARING: f64 = (1 << 23) as f64;
/// Fewest operations of an update that the calling thread leaves to the only thread of the device, on whose core and in whose
/// NUMA domain it belongs.
const FLOP_WORTH_HANDING_OVER: f64 = (1 << 25) as f64;
/// Fewest bytes of a C to scale for which several threads are woken.
const BYTES_WORTH_SHARING: usize = 1 << 20;

/// A C smaller than this fits the caches, and shares its pages with other data: it may be first written, and stay, anywhere.
const WORTH_MOVING_BYTES: usize = 8 << 20;

impl From<CpuWorker> for Box<dyn Worker> {
    // A crate that boxed the device itself would compile the arithmetic of all element types again.
    #[inline(never)]
    fn from(worker: CpuWorker) -> Self {
        Box::new(worker)
    }
}

impl Worker for CpuWorker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn threads(&self) -> Vec<ThreadPlace> {
        let bound = match &self.pool {
            Some(pool) => pool.broadcast(|_| self.topology.current_binding()),
            None => vec![self.topology.current_binding()],
        };
        self.cores
            .iter()
            .zip(&self.seen)
            .zip(bound)
            .map(|((core, seen), bound_to)| ThreadPlace {
                core: core.core,
                bound_to: bound_to.unwrap_or_default(),
                ran_on: seen.units(),
            })
            .collect()
    }

    fn likely_cores(&self) -> Option<f64> {
        Some(self.cores.len() as f64)
    }

    fn reserve(&mut self, job: &JobShape) -> Result<(), DeviceError> {
        let element = job.element;
        let products =
            [job.cols, job.depth.k_total].into_iter().fold(job.rows, usize::saturating_mul);
        if products >= WORTH_BEING_READY && !self.ready_types.contains(&element) {
            with_element!(element, T => self.make_ready::<T>());
            self.ready_types.push(element);
        }
        Ok(())
    }
}

impl<T: Scalar> Updates<T> for CpuWorker {
    fn scale(&mut self, beta: T, mut c: ViewMut<'_, T>) {
        let bytes = (c.rows() * c.cols()).saturating_mul(size_of::<T>());
        let worth_waking =
            if self.cores.len() > 1 { BYTES_WORTH_SHARING } else { WORTH_MOVING_BYTES };
        let Some(pool) = self.pool.as_ref().filter(|_| bytes >= worth_waking) else {
            return c.scale(beta);
        };
        let widths = even_widths(c.cols(), pool.current_num_threads());
        let shares = c.split_columns(widths);
        let shares: Vec<_> = shares.into_iter().map(Mutex::new).collect();
        pool.broadcast(|thread| {
            let share = shares[thread.index()].lock();
            share.unwrap_or_else(PoisonError::into_inner).scale(beta);
        });
    }

    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        self.job.begin(&c, depth);
        let (start, start_s) = (Instant::now(), thread_cpu_time_s());
        self.move_pages(&c);
        Ok(UpdateTime {
            busy_s: start.elapsed().as_secs_f64(),
            cpu_s: thread_cpu_time_s() - start_s,
        })
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        (a, b): PanelPair<'_, T>,
        _next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        self.job.update(&a, &b, &c)?;
        let start = Instant::now();
        let flop = T::TYPE.flop() * a.rows() as f64 * a.cols() as f64 * b.cols() as f64;
        let worth_waking =
            if self.cores.len() > 1 { FLOP_WORTH_SHARING } else { FLOP_WORTH_HANDING_OVER };
        let blas = self.blas.as_ref();
        let cpu_s = match &self.pool {
            Some(pool) if flop >= worth_waking => {
                shared_gemm(pool, blas, &self.seen, alpha, a, b, c)
            }
            // The calling thread is no thread of the device, which is seen on its own units only.
            Some(_) => run_gemm(blas, alpha, a, b, c),
            None => run_seen_gemm(blas, &self.seen[0], alpha, a, b, c),
        };
        Ok(UpdateTime { busy_s: start.elapsed().as_secs_f64(), cpu_s })
    }

    /// Takes no time: C is in its place.
    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        self.job.finish(&c)?;
        Ok(UpdateTime::default())
    }
}

/// Runs an update on the calling thread, and returns its CPU time in seconds.
fn run_gemm<T: Scalar>(
    blas: &dyn Blas,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    c: ViewMut<'_, T>,
) -> f64 {
    let start_s = thread_cpu_time_s();
    T::select_gemm(blas).gemm(alpha, a, b, c);
    thread_cpu_time_s() - start_s
}

/// Does the same, and notes the units on which the thread begins and ends.
fn run_seen_gemm<T: Scalar>(
    blas: &dyn Blas,
    seen: &Seen,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    c: ViewMut<'_, T>,
) -> f64 {
    seen.note_unit();
    let cpu_s = run_gemm(blas, alpha, a, b, c);
    seen.note_unit();
    cpu_s
}

/// Deals the columns of an update to the threads of the pool, and returns the largest CPU time of a thread in seconds.
///
/// A broadcast runs once on every thread: work stealing could give two shares to one thread while another sleeps.
fn shared_gemm<T: Scalar>(
    pool: &ThreadPool,
    blas: &dyn Blas,
    seen: &[Seen],
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    c: ViewMut<'_, T>,
) -> f64 {
    let threads = pool.current_num_threads();
    let mut first = 0;
    let shares: Vec<_> = c
        .split_columns(even_widths(b.cols(), threads))
        .into_iter()
        .map(|c| {
            let columns = first..first + c.cols();
            first = columns.end;
            Mutex::new(Some((b.columns(columns), c)))
        })
        .collect();
    let times = pool.broadcast(|thread| {
        let share = shares[thread.index()].lock().unwrap_or_else(PoisonError::into_inner).take();
        let seen = &seen[thread.index()];
        share.map_or(0.0, |(b, c)| run_seen_gemm(blas, seen, alpha, a, b, c))
    });
    times.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blas::EmbeddedBlas;

    /// Reserves a job of this size, and returns the types for which the library is ready then.
    fn reserve_square(
        worker: &mut CpuWorker,
        size: usize,
        element: ElementType,
    ) -> Vec<ElementType> {
        let job = JobShape { rows: size, cols: size, depth: Depth::of(size, 1), element };
        worker.reserve(&job).unwrap();
        worker.ready_types.clone()
    }

    #[test]
    fn a_library_is_made_ready_once_for_a_type_and_for_large_jobs_only() {
        let topology = Arc::new(Topology::discover().unwrap());
        let core = topology.cores()[0].clone();
        let blas = Arc::new(EmbeddedBlas);
        let mut worker = CpuWorker::new(topology, "cpu0", vec![core], false, blas).unwrap();
        let large = 6 * READY_SIDE;
        assert!(reserve_square(&mut worker, READY_SIDE, ElementType::F32).is_empty());
        for _ in 0..2 {
            let ready = reserve_square(&mut worker, large, ElementType::F32);
            assert_eq!(ready, [ElementType::F32]);
        }
        let both = [ElementType::F32, ElementType::C64];
        assert_eq!(reserve_square(&mut worker, large, ElementType::C64), both);
        assert_eq!(reserve_square(&mut worker, 0, ElementType::F64), both);
    }

    /// The calls are the same on a host with one NUMA domain, where all pages are in place.
    #[test]
    fn moving_pages_changes_no_element_and_may_fail() {
        let topology = Arc::new(Topology::discover().unwrap());
        let core = topology.cores()[0].clone();
        let nowhere = CoreInfo { numa: 63, ..core.clone() };
        let blas = Arc::new(EmbeddedBlas);
        let cores = vec![core, nowhere];
        let mut worker = CpuWorker::new(topology, "cpu0", cores, false, blas).unwrap();
        worker.has_domains = true;
        let (rows, cols) = (1024, 1025);
        let mut c: Vec<f64> = (0..rows * cols).map(|place| place as f64).collect();
        assert!(size_of_val(c.as_slice()) >= WORTH_MOVING_BYTES);
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), Depth::of(1, 1)).unwrap();
        assert!(c.iter().enumerate().all(|(place, &found)| found == place as f64));
        worker.finish(ViewMut::new(&mut c, rows, cols, rows)).unwrap();
    }
}
