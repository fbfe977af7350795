//! The worker of a group of CPU cores.

use crate::blas::Blas;
use crate::cpu::thread_cpu_time_s;
use crate::topology::{CoreInfo, Topology};
use crate::view::even_widths;
use crate::worker::{DeviceInfo, DeviceKind, Job, UpdateTime, Worker};
use crate::{DeviceError, View, ViewMut};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A group of CPU cores: one thread for each, which updates its own contiguous columns of C.
///
/// The threads are ours and the BLAS under them is sequential, so that a group computes on its own cores and on
/// no others. Thread `i` always has the columns of share `i`, so its data stay in its caches and, after a first touch
/// by the same split, in its NUMA node.
///
/// ```
/// use isochron_devices::{CpuWorker, EmbeddedBlas, Topology, View, ViewMut, Worker};
/// use std::sync::Arc;
///
/// let topology = Arc::new(Topology::discover()?);
/// let cores = topology.cores().into_iter().take(1).collect();
/// let mut worker = CpuWorker::new(topology, "cpu0", cores, false, Arc::new(EmbeddedBlas))?;
/// let mut c = [10.0];
/// worker.begin(ViewMut::new(&mut c, 1, 1, 1), 2)?;
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
    /// `None`: one thread that is not pinned, so the calling thread does the work itself.
    pool: Option<ThreadPool>,
    job: Job,
}

impl CpuWorker {
    /// A device of these cores, with one thread each, bound to its core when `pin` is set.
    ///
    /// # Errors
    /// [`DeviceError::Config`] when there is no core or a thread cannot be started; [`DeviceError::Binding`] when
    /// one cannot be bound, as with a topology that is not this machine's.
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
        let pool = if pin || cores.len() > 1 {
            Some(start_threads(name, cores.len())?)
        } else {
            None
        };
        if let Some(pool) = pool.as_ref().filter(|_| pin) {
            // Every thread of the pool runs this exactly once, with its own index.
            pool.broadcast(|thread| topology.bind_current_thread(&cores[thread.index()]))
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        let info = DeviceInfo {
            name: name.to_owned(),
            kind: DeviceKind::Cpu,
            blas: blas.name().to_owned(),
            paced: None,
            cores: cores.iter().map(|core| core.core).collect(),
            pinned: pin,
        };
        Ok(Self {
            info,
            blas,
            pool,
            job: Job::default(),
        })
    }
}

impl Worker for CpuWorker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Nothing: the update works in place. The library's own packing buffers, a few megabytes a thread that do not
    /// depend on the size, are not counted.
    fn memory_needed(&self, _rows: usize, _cols: usize, _k_max: usize) -> u64 {
        0
    }

    fn begin(&mut self, c: ViewMut<'_, f64>, k_max: usize) -> Result<(), DeviceError> {
        self.job.begin(&c, k_max);
        Ok(())
    }

    fn update(
        &mut self,
        alpha: f64,
        a: View<'_, f64>,
        b: View<'_, f64>,
        c: ViewMut<'_, f64>,
    ) -> Result<UpdateTime, DeviceError> {
        self.job.update(&a, &b, &c)?;
        let start = Instant::now();
        let cpu_s = match &self.pool {
            None => timed_gemm(self.blas.as_ref(), alpha, a, b, c),
            Some(pool) => shared_gemm(pool, self.blas.as_ref(), alpha, a, b, c),
        };
        Ok(UpdateTime {
            busy_s: start.elapsed().as_secs_f64(),
            cpu_s,
        })
    }

    fn finish(&mut self, c: ViewMut<'_, f64>) -> Result<(), DeviceError> {
        self.job.finish(&c)
    }
}

fn start_threads(name: &str, count: usize) -> Result<ThreadPool, DeviceError> {
    let thread_name = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |i| format!("{thread_name}-{i}"))
        .build()
        .map_err(|error| DeviceError::Config {
            device: name.to_owned(),
            reason: format!("cannot start {count} threads: {error}"),
        })
}

/// One thread's update; returns the CPU time that it took.
fn timed_gemm(
    blas: &dyn Blas,
    alpha: f64,
    a: View<'_, f64>,
    b: View<'_, f64>,
    c: ViewMut<'_, f64>,
) -> f64 {
    let start_s = thread_cpu_time_s();
    blas.gemm(alpha, a, b, c);
    thread_cpu_time_s() - start_s
}

/// The update with the columns dealt to the threads of the pool; returns the largest CPU time among them.
///
/// A broadcast runs once on every thread: work stealing could give two shares to one thread while another sleeps.
fn shared_gemm(
    pool: &ThreadPool,
    blas: &dyn Blas,
    alpha: f64,
    a: View<'_, f64>,
    b: View<'_, f64>,
    c: ViewMut<'_, f64>,
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
        let share = shares[thread.index()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        share.map_or(0.0, |(b, c)| timed_gemm(blas, alpha, a, b, c))
    });
    times.into_iter().fold(0.0, f64::max)
}
