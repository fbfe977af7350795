//! Cases of the GPU path: on a real GPU, and on the emulated one where memory is small and calls fail.

pub(crate) mod case;
mod elements;
mod failures;
mod memory;
mod paced;
mod products;
mod speeds;

pub use elements::{elements, little_memory};
pub use failures::failures;
pub use memory::{narrow_limits, out_of_core, taken_memory};
pub use paced::{paced_conform, paced_visits};
pub use products::refused_products;
pub use speeds::speeds;

use isochron_devices::internal::conformance;
use isochron_devices::{CudaConfig, CudaInfo, CudaWorker, DeviceError, Topology, cuda};

use std::sync::{Arc, LazyLock};

use crate::emulator::Control;

/// The first GPU.
fn first() -> Result<CudaInfo, DeviceError> {
    Ok(cuda::devices()?.swap_remove(0))
}

fn config(memory_limit_bytes: Option<u64>) -> CudaConfig {
    CudaConfig { memory_limit_bytes, ..CudaConfig::default() }
}

/// A worker with the memory limit given, on threads that are not bound.
pub(crate) fn worker(limit: Option<u64>) -> Result<CudaWorker, DeviceError> {
    worker_with(&config(limit))
}

/// A worker on threads that are not bound.
fn worker_with(config: &CudaConfig) -> Result<CudaWorker, DeviceError> {
    // Made once: hwloc loads its plugins each time, which takes longer than a case.
    static TOPOLOGY: LazyLock<Arc<Topology>> = LazyLock::new(|| {
        let topology = Topology::from_synthetic("core:2 pu:1");
        Arc::new(topology.expect("a description"))
    });
    let topology = Arc::clone(&TOPOLOGY);
    let cores = topology.cores();
    CudaWorker::new(topology, "cuda0", &first()?, &cores, false, config)
}

/// Nothing is left, and nothing was done that must not be.
pub(crate) fn assert_clean(control: Option<&Control>, what: &str) {
    let Some(control) = control else { return };
    assert_eq!(control.live(), 0, "{what}: something was leaked");
    let violation = control.violation();
    assert_eq!(control.violations(), 0, "{what}: {violation}");
    assert_eq!(control.pageable_copies(), 0, "{what}: a copy was not of pinned memory");
}

/// Makes a worker that lives as long as the process, on a real GPU. The last worker that goes takes the driver's
/// context with it, and the next one waits for another: most of the time of cases that make hundreds of workers. The
/// emulator counts the workers that are left, so it gets none.
pub fn keep_awake(control: Option<&Control>) {
    if control.is_none() {
        std::mem::forget(worker(None));
    }
}

/// The contract, with C on the GPU and streaming through it.
pub fn conform(control: Option<&Control>) -> usize {
    let limits = [None, Some(40_000), Some(12_000)];
    for limit in limits {
        conformance::run(&mut || worker(limit).expect("a GPU").into());
        assert_clean(control, "conformance");
    }
    limits.len()
}
