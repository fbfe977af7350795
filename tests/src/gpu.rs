//! Cases of the GPU path: on a real GPU, and on the emulated one where memory is small and calls fail.

use isochron_devices::blas::Blas;
use isochron_devices::cuda::{self, Element, Engine, Placement};
use isochron_devices::{
    CudaConfig, CudaInfo, CudaWorker, Depth, DeviceError, EmbeddedBlas, Topology, View, ViewMut,
    Worker, conformance,
};
use num_complex::{Complex32, Complex64};

use std::sync::Arc;

use crate::emulator::Control;

/// The first GPU.
fn first() -> Result<CudaInfo, DeviceError> {
    Ok(cuda::devices()?.swap_remove(0))
}

fn config(memory_limit_bytes: Option<u64>) -> CudaConfig {
    CudaConfig {
        memory_limit_bytes,
        ..CudaConfig::default()
    }
}

/// A worker with the memory limit given, on threads that are not bound.
pub(crate) fn worker(limit: Option<u64>) -> Result<CudaWorker, DeviceError> {
    let topology = Arc::new(Topology::from_synthetic("core:2 pu:1")?);
    let cores = topology.cores();
    CudaWorker::new(
        topology,
        "cuda0",
        &first()?,
        (&cores, false),
        &config(limit),
    )
}

/// Nothing is left, and nothing was done that must not be.
pub(crate) fn assert_clean(control: Option<&Control>, what: &str) {
    let Some(control) = control else { return };
    assert_eq!(control.live(), 0, "{what}: something was leaked");
    assert_eq!(control.violations(), 0, "{what}: memory was freed in use");
    assert_eq!(
        control.pageable_copies(),
        0,
        "{what}: a copy was not of pinned memory"
    );
}

/// The contract, with C on the GPU and streaming through it.
pub fn conform(control: Option<&Control>) -> usize {
    let limits = [None, Some(40_000), Some(6_000)];
    for limit in limits {
        conformance::run(&mut || Box::new(worker(limit).expect("a GPU")));
        assert_clean(control, "conformance");
    }
    limits.len()
}

/// Small integers, so that every sum is exact in any order.
pub(crate) fn integers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7 + i / 11 + seed) % 9) as f64 - 4.0)
        .collect()
}

/// A multiplication in updates of `k` columns each: what a worker makes of it, and what it should.
pub(crate) struct Case {
    rows: usize,
    cols: usize,
    k: usize,
    updates: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    expected: Vec<f64>,
}

impl Case {
    pub fn new((rows, cols, k): (usize, usize, usize), updates: usize) -> Self {
        let all = k * updates;
        let (a, b) = (integers(rows * all, 1), integers(all * cols, 2));
        let mut expected = integers(rows * cols, 3);
        let c = ViewMut::new(&mut expected, rows, cols, rows);
        EmbeddedBlas.dgemm(
            1.0,
            View::new(&a, rows, all, rows),
            View::new(&b, all, cols, all),
            c,
        );
        Self {
            rows,
            cols,
            k,
            updates,
            a,
            b,
            expected,
        }
    }

    /// The whole multiplication's.
    pub fn depth(&self) -> Depth {
        Depth::of(self.k, self.updates)
    }

    /// The panels of an update.
    pub fn panels(&self, update: usize) -> (View<'_, f64>, View<'_, f64>) {
        let all = self.k * self.updates;
        let k = update * self.k..(update + 1) * self.k;
        (
            View::new(&self.a, self.rows, all, self.rows).columns(k.clone()),
            View::new(&self.b, all, self.cols, all).block(k, 0..self.cols),
        )
    }

    /// Runs the whole multiplication on a worker.
    pub fn run(&self, worker: &mut dyn Worker) -> Result<Vec<f64>, DeviceError> {
        let (rows, cols) = (self.rows, self.cols);
        let mut c = integers(rows * cols, 3);
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), self.depth())?;
        for update in 0..self.updates {
            let (now, c) = (self.panels(update), ViewMut::new(&mut c, rows, cols, rows));
            // Some panels come ahead of their update, and some do not.
            if update % 3 == 2 || update + 1 == self.updates {
                worker.update(1.0, now.0, now.1, c)?;
            } else {
                worker.update_ahead(1.0, now, self.panels(update + 1), c)?;
            }
        }
        worker.finish(ViewMut::new(&mut c, rows, cols, rows))?;
        Ok(c)
    }

    pub fn assert_exact(&self, found: &[f64], what: &str) {
        let wrong = found.iter().zip(&self.expected).position(|(f, e)| f != e);
        if let Some(at) = wrong {
            let place = (at % self.rows, at / self.rows);
            panic!(
                "{what}: C{place:?} is {}, expected {}",
                found[at], self.expected[at]
            );
        }
    }
}

/// Matrices up to eight times as large as the memory, exact; and not a byte more memory than was planned.
pub fn out_of_core(control: Option<&Control>) -> usize {
    const LIMIT: u64 = 1 << 20;
    let shapes = [
        (300, 310, 40),
        (512, 512, 32),
        (1024, 1024, 64),
        (2111, 509, 50),
        (97, 10_007, 16),
    ];
    for (rows, cols, k) in shapes {
        if let Some(control) = control {
            control.reset();
        }
        let case = Case::new((rows, cols, k), 5);
        let mut worker = worker(Some(LIMIT)).expect("a GPU");
        let depth = case.depth();
        let plan = worker.plan(rows, cols, depth).expect("a plan");
        let c_bytes = (8 * rows * cols) as u64;
        assert_eq!(
            plan.placement == Placement::Resident,
            c_bytes + (2 * 8 * k * (rows + cols)) as u64 <= LIMIT
        );
        assert!(plan.device_bytes <= LIMIT);
        let found = case.run(&mut worker).expect("a result");
        case.assert_exact(&found, &format!("{rows}x{cols}"));
        if let Some(control) = control {
            assert_eq!(
                control.device_peak_bytes(),
                plan.device_bytes,
                "the GPU's memory"
            );
            assert_eq!(
                control.pinned_peak_bytes(),
                plan.host_bytes,
                "pinned memory"
            );
            assert_eq!(worker.memory_needed(rows, cols, depth), plan.host_bytes);
        }
        drop(worker);
        assert_clean(control, "out of core");
    }
    shapes.len()
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
        let found = case.run(&mut worker).expect("a result in smaller tiles");
        case.assert_exact(&found, &format!("{bytes} bytes"));
        assert!(control.device_peak_bytes() <= bytes);
        told_plan_is_the_running_one(&mut worker, &case, bytes);
        // The next job has more again, and uses it.
        control.set_memory(1 << 20);
        let found = case.run(&mut worker).expect("a result");
        case.assert_exact(&found, "memory that is back");
        drop(worker);
        assert_clean(Some(control), "taken memory");
    }
    // So little that no tile fits: an error that says so, from the driver and from the limit.
    control.set_memory(1 << 20);
    let mut full = worker(None).expect("a GPU");
    control.set_memory(100);
    let error = case
        .run(&mut full)
        .expect_err("no memory at all")
        .to_string();
    assert!(
        error.contains("CUDA_ERROR_OUT_OF_MEMORY") && error.contains("cuMemAlloc"),
        "{error}"
    );
    control.set_memory(1 << 20);
    let mut tiny = worker(Some(1000)).expect("a GPU");
    let error = case
        .run(&mut tiny)
        .expect_err("a limit too low")
        .to_string();
    assert!(error.contains("1000 bytes of GPU memory"), "{error}");
    memory.len() + 2
}

/// While a job runs in smaller tiles than were planned, the worker answers for these.
fn told_plan_is_the_running_one(worker: &mut CudaWorker, case: &Case, bytes: u64) {
    let (rows, cols, depth) = (case.rows, case.cols, case.depth());
    let mut c = integers(rows * cols, 3);
    let c = ViewMut::new(&mut c, rows, cols, rows);
    worker.begin(c, depth).expect("a job in smaller tiles");
    let plan = worker.plan(rows, cols, depth).expect("a plan");
    assert!(plan.device_bytes <= bytes, "{plan:?}");
    assert_eq!(worker.memory_needed(rows, cols, depth), plan.host_bytes);
    assert_eq!(
        worker.updates_per_visit(rows, cols, depth),
        plan.updates_per_visit
    );
}

/// How a call is made to fail.
const FAILURES: [(&str, u32, bool); 4] = [
    ("out of memory", 2, false),
    ("a lost device", 719, false),
    ("an error that leaves the device as it is", 801, false),
    ("work that fails when it runs", 700, true),
];

/// Every call in turn fails, in each of these ways: the result is exact or there is an error, and nothing is left.
pub fn failures(control: &Control) -> usize {
    let case = Case::new((60, 56, 12), 3);
    let mut runs = 0;
    for limit in [None, Some(20_000)] {
        for failure in FAILURES {
            let mut number = 0;
            loop {
                number += 1;
                runs += 1;
                if !fails_cleanly(control, &case, limit, failure, number) {
                    break;
                }
            }
            assert!(number > 50, "{number} calls are too few to be all");
        }
    }
    runs
}

/// One run with the `number`-th call failing; whether there was such a call.
fn fails_cleanly(
    control: &Control,
    case: &Case,
    limit: Option<u64>,
    (what, code, later): (&str, u32, bool),
    number: u64,
) -> bool {
    control.reset();
    control.fail(number, code, later);
    let outcome = worker(limit).and_then(|mut worker| {
        let outcome = case.run(&mut worker);
        let lost = outcome.is_err() && !matches!(code, 2 | 801);
        if outcome.is_err() && !lost {
            control_second_run(control, case, &mut worker);
        }
        outcome
    });
    let failed = control.failed();
    let place = format!("{what} at call {number}, {failed}");
    match &outcome {
        Ok(found) => case.assert_exact(found, &place),
        Err(DeviceError::Cuda { .. }) => assert!(!failed.is_empty(), "an error without a cause"),
        Err(other) => panic!("{place}: {other}"),
    }
    let allocates = matches!(failed.as_str(), "cuMemAlloc_v2" | "cuMemHostAlloc");
    if allocates && code == 2 {
        assert!(outcome.is_ok(), "{place}: {}", outcome.unwrap_err());
    }
    assert_clean(Some(control), &place);
    !failed.is_empty()
}

/// A worker that has failed is as good as new, unless its device is lost.
fn control_second_run(control: &Control, case: &Case, worker: &mut dyn Worker) {
    // What waits for work fails only because the work did, which loses the device.
    if !control.failed().ends_with("Synchronize") {
        let found = case.run(worker).expect("the worker is as good as new");
        case.assert_exact(&found, "after a failure");
    }
}

/// What is measured of a GPU and its link; on the emulator with every call failing in turn as well.
pub fn speeds(control: Option<&Control>) -> usize {
    // Room for the smallest square, and for the probe of the link beside what a job may use.
    let config = config(Some(3 * 8 * 256 * 256));
    let measure = || {
        let mut engine = Engine::<f64>::new("cuda0", &first()?, &config)?;
        let peak = engine.resident_peak()?;
        Ok::<_, DeviceError>((engine.link_bytes_per_s(), peak))
    };
    let (link, peak) = measure().expect("a working GPU");
    let peak = peak.expect("the smallest square fits");
    assert!(link.is_finite() && link > 1e6, "{link} bytes/s");
    assert!(peak.flops_per_s.is_finite() && peak.flops_per_s > 1e6);
    assert_eq!(peak.side, 256);
    let Some(control) = control else { return 1 };
    let mut number = 0;
    loop {
        number += 1;
        control.reset();
        // Out of memory first, and then whatever else.
        control.fail(number, [2, 801][number as usize % 2], false);
        let outcome = measure();
        let failed = control.failed();
        assert_clean(Some(control), &format!("call {number}, {failed}"));
        match outcome {
            Ok(_) if failed.is_empty() => return number as usize,
            Ok(_) => {}
            Err(DeviceError::Cuda { .. }) => {
                assert!(!failed.is_empty(), "an error without a cause")
            }
            Err(other) => panic!("call {number}, {failed}: {other}"),
        }
    }
}

/// Every element type, on the GPU and streaming.
pub fn elements(control: Option<&Control>) -> usize {
    element::<f32>(|x| x as f32);
    element::<f64>(|x| x);
    element::<Complex32>(|x| Complex32::new(x as f32, 1.0 - x as f32));
    element::<Complex64>(|x| Complex64::new(x, 1.0 - x));
    assert_clean(control, "elements");
    4
}

fn element<T: Element + std::ops::AddAssign + std::ops::Mul<Output = T>>(number: fn(f64) -> T) {
    let (rows, cols, k) = (70, 50, 30);
    let matrix = |count, seed| {
        integers(count, seed)
            .into_iter()
            .map(number)
            .collect::<Vec<T>>()
    };
    let (a, b) = (matrix(rows * k, 4), matrix(k * cols, 5));
    let alpha = number(2.0);
    let mut expected = matrix(rows * cols, 6);
    for j in 0..cols {
        for p in 0..k {
            for i in 0..rows {
                expected[j * rows + i] += alpha * (a[p * rows + i] * b[j * k + p]);
            }
        }
    }
    for limit in [None, Some(9_000 * size_of::<T>() as u64 / 4)] {
        let info = first().expect("a GPU");
        let mut engine = Engine::<T>::new("cuda0", &info, &config(limit)).expect("an engine");
        let streams = engine
            .plan(rows, cols, Depth::of(k, 1))
            .is_some_and(|plan| plan.placement != Placement::Resident);
        assert_eq!(streams, limit.is_some());
        let mut c = matrix(rows * cols, 6);
        engine
            .begin(View::new(&c, rows, cols, rows), Depth::of(k, 1))
            .expect("begin");
        let (a, b) = (View::new(&a, rows, k, rows), View::new(&b, k, cols, k));
        let updated = engine.update(alpha, (a, b), None, ViewMut::new(&mut c, rows, cols, rows));
        updated.expect("update");
        engine
            .finish(ViewMut::new(&mut c, rows, cols, rows))
            .expect("finish");
        assert!(
            c == expected,
            "{} with limit {limit:?}",
            std::any::type_name::<T>()
        );
    }
}
