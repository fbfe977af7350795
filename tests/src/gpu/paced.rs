//! GPUs that are slowed down.

use isochron_devices::internal::conformance;
use isochron_devices::{CudaConfig, Depth, JobShape, Pace, PacedWorker, Worker};
use isochron_hierarchy::model::{PiecewiseFpm, Point};

use super::case::Case;
use super::{assert_clean, worker, worker_with};
use crate::emulator::Control;

/// A model by which each unit takes `unit_s` seconds.
fn model(unit_s: f64) -> PiecewiseFpm {
    let points = [10, 1000].map(|d| Point { d, t_s: d as f64 * unit_s, reps: 3, ci_s: 0.0 });
    PiecewiseFpm::from_points(points.into()).expect("a model")
}

fn points(unit_s: f64) -> Pace {
    Pace::Points { name: "linear.points".to_owned(), model: model(unit_s), block: 8 }
}

/// The contract, of slowed GPUs.
pub fn paced_conform(control: Option<&Control>) -> usize {
    let paces = [Pace::Slowdown(1.5), points(1e-8)];
    // On a real GPU, where workers take time to make, the way C is held is left to the cases of devices that are not
    // paced.
    let limits: &[Option<u64>] = match control {
        Some(_) => &[None, Some(40_000), Some(12_000)],
        None => &[Some(40_000)],
    };
    for pace in &paces {
        for &limit in limits {
            conformance::run(&mut || {
                let inner = worker(limit).expect("a GPU");
                PacedWorker::new(inner.into(), pace.clone()).expect("a pace").into()
            });
            assert_clean(control, "conformance of a paced GPU");
        }
    }
    paces.len() * limits.len()
}

/// Updates count as what a model says on a GPU that gathers them, as they do on one that does not: the sum over each
/// visit.
pub fn paced_visits(control: Option<&Control>) -> usize {
    // 16 × 16 blocks of 8: 256 units, which take 8 ms for k = 8, longer than the arithmetic.
    let (unit_s, side, k) = (8e-3 / 256.0, 128, 8);
    let mut runs = 0;
    for limit in [None, Some(60_000)] {
        let config = CudaConfig {
            memory_limit_bytes: limit,
            link_bytes_per_s: Some(1e6),
            ..CudaConfig::default()
        };
        let inner = worker_with(&config).expect("a GPU");
        let job = JobShape::of::<f64>(side, side, Depth::endless(k));
        let together = inner.job_needs(&job).updates_per_visit;
        assert_eq!(together > 1, limit.is_some(), "{together} together");
        let mut paced = PacedWorker::new(inner.into(), points(unit_s)).expect("a pace");
        let case = Case::new((side, side, k), 3 * together);
        let (found, busy_s) = case.run_timed(&mut paced).expect("a result");
        case.assert_exact(&found, "a paced GPU");
        for visit in busy_s.chunks(together) {
            let (busy_s, prescribed_s) = (visit.iter().sum::<f64>(), together as f64 * 8e-3);
            assert!(busy_s > 0.999 * prescribed_s, "{busy_s} s, prescribed {prescribed_s} s");
        }
        runs += 1;
        drop(paced);
        assert_clean(control, "visits of a paced GPU");
    }
    runs
}
