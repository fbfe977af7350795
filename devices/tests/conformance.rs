//! Every worker of this crate passes the suite of its contract.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]

use isochron_devices::blas::choose_blas;
use isochron_devices::internal::{RecordedWorker, conformance};
use isochron_devices::{
    Blas, BlasChoice, CpuWorker, DeviceKind, EmbeddedBlas, Pace, PacedWorker, Topology, Worker,
};
use isochron_hierarchy::model::{PiecewiseFpm, Point};
use std::sync::{Arc, LazyLock};

/// Returns this machine's topology, which takes longer to find than most cases to run: hwloc loads its plugins each time.
fn share_topology() -> Arc<Topology> {
    static TOPOLOGY: LazyLock<Arc<Topology>> =
        LazyLock::new(|| Arc::new(Topology::discover().unwrap()));
    Arc::clone(&TOPOLOGY)
}

/// Makes a worker of `threads` cores; a machine with fewer cores uses some twice.
fn cpu_worker(threads: usize, pin: bool, blas: Arc<dyn Blas>) -> Box<dyn Worker> {
    let topology = share_topology();
    let pin = pin && topology.is_this_system();
    let cores = topology.cores().into_iter().cycle().take(threads).collect();
    CpuWorker::new(topology, "cpu0", cores, pin, blas).unwrap().into()
}

/// Makes a model that is fast enough for the suite, with a cliff between 100 and 1000 units.
fn cliff_model() -> PiecewiseFpm {
    let points = [(10, 1e-7), (100, 1e-6), (1000, 1e-4)];
    let points = points.map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
    PiecewiseFpm::from_points(points.into()).unwrap()
}

#[test]
fn cpu_with_the_embedded_blas() {
    for threads in [1, 2, 3] {
        conformance::run(&mut || cpu_worker(threads, false, Arc::new(EmbeddedBlas)));
    }
}

#[test]
fn cpu_with_the_fastest_blas() {
    let blas = choose_blas(&BlasChoice::Auto).unwrap();
    for threads in [1, 2] {
        conformance::run(&mut || cpu_worker(threads, false, Arc::clone(&blas)));
    }
}

#[test]
fn pinned_cpu() {
    for threads in [1, 2] {
        conformance::run(&mut || cpu_worker(threads, true, Arc::new(EmbeddedBlas)));
    }
}

#[test]
fn paced_by_a_slowdown() {
    conformance::run(&mut || {
        let inner = cpu_worker(1, false, Arc::new(EmbeddedBlas));
        PacedWorker::new(inner, Pace::Slowdown(3.0)).unwrap().into()
    });
}

#[test]
fn paced_by_points() {
    conformance::run(&mut || {
        let pace = Pace::Points { name: "cliff.points".to_owned(), model: cliff_model(), block: 8 };
        let inner = cpu_worker(2, false, Arc::new(EmbeddedBlas));
        PacedWorker::new(inner, pace).unwrap().into()
    });
}

#[test]
fn recorded_keeps_the_contract_except_arithmetic() {
    conformance::run_contract(&mut || {
        RecordedWorker::new("phi0", DeviceKind::Cpu, cliff_model(), 8).unwrap().into()
    });
}
