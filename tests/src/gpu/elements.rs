//! Every element type.

use isochron_devices::cuda::CudaConfig;
use isochron_devices::internal::Placement;
use isochron_devices::{CudaWorker, Scalar};
use num_complex::{Complex32, Complex64};

use super::case::{Case, Job};
use super::{assert_clean, worker_with};
use crate::emulator::Control;

/// Every element type, on the GPU and streaming: with panels that come ahead of their update, and gathered for a visit.
pub fn elements(control: Option<&Control>) -> usize {
    for limit in [None, Some(8 * 160 * 150 / 4)] {
        // One worker has jobs of each type in turn.
        let mut worker = limited_worker(limit, None);
        let streams = limit.is_some();
        element::<f32>(&mut worker, streams);
        element::<Complex64>(&mut worker, streams);
        element::<f64>(&mut worker, streams);
        element::<Complex32>(&mut worker, streams);
    }
    assert_clean(control, "elements");
    8
}

/// Every element type, streaming with less and less memory, down to the least that there can be.
pub fn little_memory(control: &Control) -> usize {
    by_type!(with_little_memory(control))
}

/// Narrow updates in between, and a factor that changes in mid-visit.
pub(super) const MANY: Job<'_> = (
    (160, 150),
    &[(5, 2.0), (5, 2.0), (5, 2.0), (3, 2.0), (5, -1.0), (5, -1.0), (1, 3.0), (5, 3.0), (5, 3.0)],
);

/// The panels of an update are larger than C; one has nothing in it, and one (of real numbers) no factor.
pub(super) const DEEP: Job<'_> =
    ((50, 70), &[(90, 1.0), (0, 1.0), (90, 1.0), (40, -2.0), (90, 0.0), (7, 1.0)]);

/// Makes a worker with limits on GPU memory and on pinned host memory.
pub(super) fn limited_worker(device_bytes: Option<u64>, host_bytes: Option<u64>) -> CudaWorker {
    let config = CudaConfig {
        memory_limit_bytes: device_bytes,
        host_limit_bytes: host_bytes,
        // So slow a link that as much as possible is gathered, whatever the GPU.
        link_bytes_per_s: Some(1e6),
    };
    worker_with(&config).expect("a GPU")
}

fn element<T: Scalar>(worker: &mut CudaWorker, streams: bool) {
    let case = Case::<T>::of_job(MANY);
    let plan = worker.plan(&case.shape()).expect("a plan");
    let gathers = plan.placement != Placement::Resident && plan.updates_per_visit > 1;
    assert_eq!(gathers, streams, "{plan:?}");
    case.run_exactly(worker, &format!("{plan:?}"));
}

/// Limits in elements: of GPU memory, too few for C down to the least, and of pinned memory, from enough down to the
/// least. An update of [`DEEP`] has panels of 10800 elements, one of [`MANY`] of 1550.
const LIMITS: [(u64, u64); 8] = [
    (9000, 1 << 20),
    (576, 1 << 20),
    (2000, 22_000),
    (2000, 18_000),
    (2000, 14_000),
    (9000, 4000),
    (2000, 400),
    (576, 128),
];

fn with_little_memory<T: Scalar>(control: &Control) -> usize {
    let [deep, many] = [DEEP, MANY].map(Case::<T>::of_job);
    let deep = LIMITS.map(|limits| limited(control, &deep, limits));
    let many = LIMITS.map(|limits| limited(control, &many, limits));
    // The panels of several updates, where they are small enough, of one, of none.
    assert_eq!(deep, [90, 90, 90, 0, 0, 0, 0, 0]);
    assert!(many[0] > 5 && many.contains(&5), "{many:?}");
    assert!(many.is_sorted_by(|more, less| more >= less) && many.ends_with(&[0, 0]));
    deep.len() + many.len()
}

/// Runs a job within limits, in elements, of GPU memory and of pinned memory. Returns the inner dimension that it
/// gathers.
fn limited<T: Scalar>(control: &Control, case: &Case<T>, (device, host): (u64, u64)) -> usize {
    let what = format!("{device} elements of GPU memory, {host} of pinned memory");
    let (device, host) = (device * size_of::<T>() as u64, host * size_of::<T>() as u64);
    let mut worker = limited_worker(Some(device), Some(host));
    control.reset();
    case.run_exactly(&mut worker, &what);
    let plan = worker.plan(&case.shape()).expect("a plan");
    assert_eq!(control.device_peak_bytes(), plan.device_bytes, "{what}");
    assert_eq!(control.pinned_peak_bytes(), plan.host_bytes, "{what}");
    assert!(plan.device_bytes <= device && plan.host_bytes <= host, "{plan:?}");
    drop(worker);
    assert_clean(Some(control), &what);
    match plan.placement {
        Placement::Streamed(tiles) => tiles.gather_k,
        Placement::Resident => panic!("{what}: {plan:?}"),
    }
}
