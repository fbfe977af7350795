//! Cases of what jobs take of a GPU and its host: time, memory, and what unknown errors say. On the emulated GPU.

use isochron_devices::{Depth, DeviceError, JobShape, Updates, ViewMut, Worker};

use crate::emulator::Control;
use crate::gpu::case::{Case, integers};
use crate::gpu::{assert_clean, worker};

/// GPU memory that no C of these cases fits.
const LIMIT: u64 = 1 << 20;

fn view(c: &mut [f64]) -> ViewMut<'_, f64> {
    ViewMut::new(c, 900, 700, 900)
}

/// A streamed job whose depth is known is done with its last update: `finish` calls no BLAS, and copies nothing.
pub fn ends_with_last_update(control: &Control) -> usize {
    let mut runs = 0;
    for updates in [1, 3, 8, 13] {
        control.reset();
        let case = Case::new((900, 700, 24), updates);
        let mut worker = worker(Some(LIMIT)).expect("a GPU");
        let plan = worker.plan(&case.shape()).expect("a plan");
        assert!(plan.updates_per_visit <= updates, "{plan:?}");
        // Without the job's depth, more is gathered than it has.
        let endless = JobShape::of::<f64>(900, 700, Depth::endless(24));
        let endless = worker.plan(&endless).expect("a plan");
        assert!(endless.updates_per_visit >= plan.updates_per_visit);
        let mut c = integers(900 * 700, 3);
        worker.begin(view(&mut c), case.depth()).expect("begin");
        for update in 0..updates {
            let (a, b) = case.panels(update);
            worker.update(1.0, a, b, view(&mut c)).expect("an update");
        }
        case.assert_exact(&c, &format!("{updates} updates, before the end"));
        let calls = control.calls();
        worker.finish(view(&mut c)).expect("finish");
        // The context is bound and released again; nothing else is done.
        assert!(control.calls() - calls <= 2, "{updates} updates");
        case.assert_exact(&c, &format!("{updates} updates"));
        drop(worker);
        assert_clean(Some(control), "the last update");
        runs += 1;
    }
    runs
}

/// A lower limit of pinned memory means that less is gathered, down to the least, and below it an error.
pub fn less_host_memory(control: &Control) -> usize {
    let case = Case::new((900, 700, 24), 13);
    let job = case.shape();
    let mut worker = worker(Some(LIMIT)).expect("a GPU");
    assert_eq!(worker.memory_held(), 0);
    let wanted = worker.job_needs(&job).host_bytes;
    worker.limit_memory(0);
    // Limited to nothing it says what it would take.
    let least = worker.job_needs(&job).host_bytes;
    assert!(0 < least && least < wanted / 2, "{least} of {wanted}");
    let limits = [u64::MAX, wanted, wanted - 1, (least + wanted) / 2, least];
    let mut together = usize::MAX;
    for limit in limits {
        control.reset();
        worker.limit_memory(limit);
        let plan = worker.plan(&job).expect("a plan");
        assert!(plan.host_bytes <= limit && plan.updates_per_visit <= together);
        together = plan.updates_per_visit;
        worker.reserve(&job).expect("memory");
        assert!(worker.memory_held() >= plan.host_bytes);
        case.run_exactly(&mut worker, &format!("{limit} bytes of pinned memory"));
        assert!(worker.memory_held() <= limit);
    }
    assert_eq!(together, 1);
    worker.limit_memory(least - 1);
    assert_eq!(worker.job_needs(&job).host_bytes, least);
    let error = case.run(&mut worker).expect_err("too little");
    assert!(matches!(error, DeviceError::CudaMemory { .. }), "{error}");
    drop(worker);
    assert_clean(Some(control), "less host memory");
    limits.len() + 1
}

/// A code of a driver or a cuBLAS that is newer than the bindings, from every call in turn.
pub fn unknown_codes(control: &Control) -> usize {
    const CODE: u32 = 5000;
    let case = Case::new((60, 56, 12), 3);
    let mut number = 0;
    let mut blas = 0;
    loop {
        number += 1;
        control.reset();
        control.fail(number, CODE, false);
        let outcome = worker(Some(20_000)).and_then(|mut worker| case.run(&mut worker));
        let failed = control.failed();
        if failed.is_empty() {
            assert!(number > 50 && blas > 2, "{number} calls, {blas} of cuBLAS");
            return number as usize;
        }
        let place = format!("call {number}, {failed}");
        assert_clean(Some(control), &place);
        let library = if failed.starts_with("cublas") { "cuBLAS" } else { "CUDA" };
        blas += usize::from(library == "cuBLAS");
        match outcome {
            Ok(found) => case.assert_exact(&found, &place),
            Err(error) => {
                let text = error.to_string();
                let says = format!("{library} error {CODE} (unknown to this version)");
                assert!(text.contains(&failed) && text.contains(&says), "{text}");
            }
        }
    }
}
