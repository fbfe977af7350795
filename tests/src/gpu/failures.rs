//! Calls that fail, each in turn.

use isochron_devices::{CudaConfig, DeviceError, Worker};

use super::case::Case;
use super::{assert_clean, worker_with};
use crate::emulator::Control;

/// The ways in which a call is made to fail.
const FAILURES: [(&str, u32, bool); 4] = [
    ("out of memory", 2, false),
    ("a lost device", 719, false),
    ("an error that leaves the device as it is", 801, false),
    ("work that fails when it runs", 700, true),
];

/// Every call in turn fails, in each of these ways: the result is exact or there is an error, and nothing is left. What
/// fails for lack of memory, for a job or for a product, is done in smaller tiles or products, and exact.
pub fn failures(control: &Control) -> usize {
    let case = Case::new((60, 56, 12), 3);
    let mut runs = 0;
    // C on the GPU, in tiles with gathered panels, and in tiles without memory to gather.
    for (limit, host_limit) in [(None, None), (Some(20_000), None), (Some(20_000), Some(4096))] {
        let config = CudaConfig {
            memory_limit_bytes: limit,
            host_limit_bytes: host_limit,
            ..CudaConfig::default()
        };
        for failure in FAILURES {
            let mut number = 0;
            loop {
                number += 1;
                runs += 1;
                if !fails_cleanly(control, &case, &config, failure, number) {
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
    config: &CudaConfig,
    (what, code, later): (&str, u32, bool),
    number: u64,
) -> bool {
    control.reset();
    control.fail(number, code, later);
    let outcome = worker_with(config).and_then(|mut worker| {
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
    let multiplies = failed.ends_with("gemm_v2");
    if (allocates || multiplies) && code == 2 {
        assert!(outcome.is_ok(), "{place}: {}", outcome.unwrap_err());
    }
    assert_clean(Some(control), &place);
    !failed.is_empty()
}

/// A worker that has failed is as good as new, unless its device is lost.
fn control_second_run(control: &Control, case: &Case, worker: &mut dyn Worker) {
    // What waits for work fails only because the work did, which loses the device.
    if !control.failed().ends_with("Synchronize") {
        case.run_exactly(worker, "after a failure");
    }
}
