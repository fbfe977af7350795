//! Matrices larger than the memory, and memory that others have taken.

use isochron_devices::internal::Placement;
use isochron_devices::{CudaConfig, CudaWorker, Updates, ViewMut, Worker};

use super::case::{Case, integers};
use super::{assert_clean, worker, worker_with};
use crate::emulator::Control;

/// Matrices up to eight times as large as the memory, exact; and not a byte more memory than was planned.
pub fn out_of_core(control: Option<&Control>) -> usize {
    const LIMIT: u64 = 1 << 20;
    let shapes =
        [(300, 310, 40), (512, 512, 32), (1024, 1024, 64), (2111, 509, 50), (97, 10_007, 16)];
    for (rows, cols, k) in shapes {
        if let Some(control) = control {
            control.reset();
        }
        let case = Case::new((rows, cols, k), 5);
        let mut worker = worker(Some(LIMIT)).expect("a GPU");
        let job = case.shape();
        let plan = worker.plan(&job).expect("a plan");
        let c_bytes = (8 * rows * cols) as u64;
        assert_eq!(
            plan.placement == Placement::Resident,
            c_bytes + (2 * 8 * k * (rows + cols)) as u64 <= LIMIT
        );
        assert!(plan.device_bytes <= LIMIT);
        case.run_exactly(&mut worker, &format!("{rows}x{cols}"));
        if let Some(control) = control {
            assert_eq!(control.device_peak_bytes(), plan.device_bytes, "the GPU's memory");
            assert_eq!(control.pinned_peak_bytes(), plan.host_bytes, "pinned memory");
            let needs = worker.job_needs(&job);
            assert_eq!(needs.host_bytes, plan.host_bytes);
            assert_eq!(needs.own_bytes, plan.device_bytes);
        }
        drop(worker);
        assert_clean(control, "out of core");
    }
    shapes.len()
}

/// Checks that nothing is gathered if the panels of one update exceed the pinnable memory, and that the result is the
/// same.
pub fn narrow_limits(control: Option<&Control>) -> usize {
    let case = Case::new((300, 300, 300), 2);
    let limits = [10_000_000, 1_000_000, 20_000, 1024];
    for host_bytes in limits {
        let config = CudaConfig {
            memory_limit_bytes: Some(512 << 10),
            host_limit_bytes: Some(host_bytes),
            ..CudaConfig::default()
        };
        let mut worker = worker_with(&config).expect("a GPU");
        let plan = worker.plan(&case.shape()).expect("a plan");
        let Placement::Streamed(tiles) = plan.placement else {
            panic!("{plan:?}");
        };
        // Panels of 1.44 MB.
        assert_eq!(tiles.gather_k > 0, host_bytes > 1_440_000, "{plan:?}");
        assert!(plan.host_bytes <= host_bytes, "{plan:?}");
        case.run_exactly(&mut worker, &format!("{host_bytes} bytes of pinned memory"));
        drop(worker);
        assert_clean(control, "narrow limits");
    }
    limits.len()
}

/// Memory that another program has taken since the plan was made: smaller tiles, and the same result.
pub fn taken_memory(control: &Control) -> usize {
    let case = Case::new((200, 300, 32), 3);
    let memory = [600, 400, 200, 100, 50, 25].map(|kib| kib << 10);
    for bytes in memory {
        control.reset();
        control.set_memory(1 << 20);
        let mut worker = worker(None).expect("a GPU");
        control.set_memory(bytes);
        case.run_exactly(&mut worker, &format!("{bytes} bytes"));
        assert!(control.device_peak_bytes() <= bytes);
        told_plan_is_the_running_one(&mut worker, &case, bytes);
        // The next job has more again, and uses it.
        control.set_memory(1 << 20);
        case.run_exactly(&mut worker, "memory that is back");
        drop(worker);
        assert_clean(Some(control), "taken memory");
    }
    // So little that no tile fits: an error that says so, from the driver and from the limit.
    control.set_memory(1 << 20);
    let mut full = worker(None).expect("a GPU");
    control.set_memory(100);
    let error = case.run(&mut full).expect_err("no memory at all").to_string();
    assert!(error.contains("CUDA_ERROR_OUT_OF_MEMORY") && error.contains("cuMemAlloc"), "{error}");
    control.set_memory(1 << 20);
    let mut tiny = worker(Some(1000)).expect("a GPU");
    let error = case.run(&mut tiny).expect_err("a limit too low").to_string();
    assert!(error.contains("1000 bytes of GPU memory"), "{error}");
    memory.len() + 2
}

/// While a job runs in smaller tiles than were planned, the worker answers for these.
fn told_plan_is_the_running_one(worker: &mut CudaWorker, case: &Case, bytes: u64) {
    let job = case.shape();
    let (rows, cols) = (job.rows, job.cols);
    let mut c = integers(rows * cols, 3);
    let c = ViewMut::new(&mut c, rows, cols, rows);
    worker.begin(c, job.depth).expect("a job in smaller tiles");
    let plan = worker.plan(&job).expect("a plan");
    assert!(plan.device_bytes <= bytes, "{plan:?}");
    let needs = worker.job_needs(&job);
    assert_eq!(needs.host_bytes, plan.host_bytes);
    assert_eq!(needs.updates_per_visit, plan.updates_per_visit);
}
