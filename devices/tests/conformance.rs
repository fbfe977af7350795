//! Every worker of this crate passes the suite of its contract.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is the report of a test"
)]

use isochron_devices::blas::choose_blas;
use isochron_devices::{
    Blas, BlasChoice, CpuWorker, DeviceKind, EmbeddedBlas, Pace, PacedWorker, RecordedWorker,
    Topology, Worker, conformance,
};
use isochron_hierarchy::model::{PiecewiseFpm, Point};
use std::sync::Arc;

/// A worker of `threads` cores; cores are used twice where the machine has fewer.
fn cpu(threads: usize, pin: bool, blas: Arc<dyn Blas>) -> Box<dyn Worker> {
    let topology = Arc::new(Topology::discover().unwrap());
    let pin = pin && topology.is_this_system();
    let cores = topology.cores().into_iter().cycle().take(threads).collect();
    Box::new(CpuWorker::new(topology, "cpu0", cores, pin, blas).unwrap())
}

fn model() -> PiecewiseFpm {
    let point = |d, t_s| Point {
        d,
        t_s,
        reps: 3,
        ci_s: 0.0,
    };
    // Fast enough that the suite does not wait, with a cliff between 100 and 1000 units.
    PiecewiseFpm::from_points(vec![point(10, 1e-7), point(100, 1e-6), point(1000, 1e-4)]).unwrap()
}

#[test]
fn cpu_with_the_embedded_blas() {
    for threads in [1, 2, 3] {
        conformance::run(&mut || cpu(threads, false, Arc::new(EmbeddedBlas)));
    }
}

#[test]
fn cpu_with_the_fastest_blas() {
    let blas = choose_blas(&BlasChoice::Auto).unwrap();
    for threads in [1, 2] {
        conformance::run(&mut || cpu(threads, false, Arc::clone(&blas)));
    }
}

#[test]
fn pinned_cpu() {
    for threads in [1, 2] {
        conformance::run(&mut || cpu(threads, true, Arc::new(EmbeddedBlas)));
    }
}

#[test]
fn paced_by_a_slowdown() {
    conformance::run(&mut || {
        let inner = cpu(1, false, Arc::new(EmbeddedBlas));
        Box::new(PacedWorker::new(inner, Pace::Slowdown(3.0)).unwrap())
    });
}

#[test]
fn paced_by_points() {
    conformance::run(&mut || {
        let pace = Pace::Points {
            name: "cliff.points".to_owned(),
            model: model(),
            block: 8,
        };
        let inner = cpu(2, false, Arc::new(EmbeddedBlas));
        Box::new(PacedWorker::new(inner, pace).unwrap())
    });
}

#[test]
fn recorded_keeps_what_of_the_contract_applies() {
    conformance::run_contract(&mut || {
        Box::new(RecordedWorker::new("phi0", DeviceKind::Cpu, model(), 8).unwrap())
    });
}
