//! Threads run where they were put, memory is written first by those who use it, and no BLAS interferes.
//!
//! Threads and bindings belong to the whole process, so every case is a process of its own: this program, started again
//! for one of its tests with a variable set.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is the report of a test"
)]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use isochron_devices::blas::available_blas;
use isochron_devices::{
    CoreInfo, CpuWorker, Depth, DeviceTeam, EmbeddedBlas, Grouping, ThreadPlace, Topology, View,
    ViewMut, Worker, rank_devices, try_zeroed_matrix,
};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that runs one case.
const CASE: &str = "ISOCHRON_PINNING_CASE";

/// Runs the case `name`, a test of this program, in a process of its own, below `prefix` (such as `taskset`).
fn run_case(prefix: &[&str], name: &str) {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let line = [
        prefix,
        &[program, "--exact", name, "--test-threads=1", "--nocapture"],
    ]
    .concat();
    let mut child = Command::new(line[0]);
    let output = child.args(&line[1..]).env(CASE, name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{line:?}: {text}"
    );
}

/// Whether this process runs the case `name`.
fn is_case(name: &str) -> bool {
    std::env::var(CASE).is_ok_and(|case| case == name)
}

/// A field of `/proc/self/task/*/stat` by thread number, counted from 3 as in the manual; the third is the first after the
/// name, which may hold anything.
fn task_field(field: usize) -> BTreeMap<u32, u64> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let value = |task: fs::DirEntry| {
        // A thread may end meanwhile.
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let value = fields.split(' ').nth(field - 3)?.parse().ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, value))
    };
    tasks.filter_map(|task| value(task.unwrap())).collect()
}

/// The names of the threads of this process, by number.
fn task_names() -> BTreeMap<u32, String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((
            task.file_name().to_str()?.parse().ok()?,
            name.trim().to_owned(),
        ))
    };
    tasks.filter_map(|task| name(task.unwrap())).collect()
}

/// The masks of all threads, by number.
fn masks() -> BTreeMap<u32, String> {
    let read = |id: &u32| {
        let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
        Some((*id, line.trim().to_owned()))
    };
    task_names().keys().filter_map(read).collect()
}

fn pinned_worker(topology: &Arc<Topology>, cores: Vec<CoreInfo>) -> CpuWorker {
    CpuWorker::new(
        topology.clone(),
        "cpu0",
        cores,
        true,
        Arc::new(EmbeddedBlas),
    )
    .unwrap()
}

/// Updates of `n × n` with k = 32.
fn update(team: &mut DeviceTeam, slices: &[usize], times: usize) {
    let (n, k) = (slices.iter().sum::<usize>(), 32);
    let (a, b, mut c) = (vec![1.0; n * k], vec![1.0; k * n], vec![0.0; n * n]);
    team.begin(ViewMut::new(&mut c, n, n, n), slices, Depth::of(k, times))
        .unwrap();
    for _ in 0..times {
        let (a, b) = (View::new(&a, n, k, n), View::new(&b, k, n, k));
        let c = ViewMut::new(&mut c, n, n, n);
        team.update(1.0, (a, b), None, c, slices, &mut || false)
            .unwrap();
    }
    team.finish(ViewMut::new(&mut c, n, n, n), slices).unwrap();
    assert_eq!(c[n], (times * k) as f64);
}

#[test]
fn threads_run_on_their_own_cores() {
    const NAME: &str = "threads_run_on_their_own_cores";
    if !is_case(NAME) {
        return run_case(&[], NAME);
    }
    let topology = Arc::new(Topology::discover().unwrap());
    if !topology.should_pin() {
        return eprintln!("skipped: threads cannot be bound here");
    }
    let cores = topology.cores();
    // A device of all cores, and one for each core, which are the same ones.
    let mut workers: Vec<Box<dyn Worker>> = vec![Box::new(pinned_worker(&topology, cores.clone()))];
    for core in &cores {
        workers.push(Box::new(pinned_worker(&topology, vec![core.clone()])));
    }
    let mut team = DeviceTeam::new(workers).unwrap();
    let slices = vec![64; team.len()];
    update(&mut team, &slices, 50);
    let places: Vec<ThreadPlace> = team.threads().concat();
    assert_eq!(places.len(), 2 * cores.len());
    for (place, core) in places.iter().zip(cores.iter().chain(&cores)) {
        assert_eq!(place.core, core.core);
        assert_eq!(place.bound_to, core.pus, "the binding read back");
        assert!(!place.ran_on.is_empty());
        let own = |unit: &u32| core.pus.contains(unit);
        assert!(
            place.ran_on.iter().all(own),
            "{place:?} ran elsewhere than {core:?}"
        );
    }
}

#[test]
fn memory_is_first_written_by_the_threads_that_update_it() {
    const NAME: &str = "memory_is_first_written_by_the_threads_that_update_it";
    if !is_case(NAME) {
        return run_case(&[], NAME);
    }
    let topology = Arc::new(Topology::discover().unwrap());
    let core = topology.cores()[0].clone();
    // Two threads wherever there is one core at least.
    let cores = vec![core.clone(), topology.cores().pop().unwrap()];
    let worker: Box<dyn Worker> = if topology.should_pin() {
        Box::new(pinned_worker(&topology, cores))
    } else {
        let blas = Arc::new(EmbeddedBlas);
        Box::new(CpuWorker::new(topology.clone(), "cpu0", cores, false, blas).unwrap())
    };
    let mut team = DeviceTeam::new(vec![worker]).unwrap();
    // 64 MiB: 32 huge pages or 16384 small ones.
    let (rows, cols) = (4096, 2048);
    let mut c: Vec<f64> = try_zeroed_matrix(rows * cols).unwrap();
    // Field 10: minor faults, one for each page that a thread was the first to write.
    let before = task_field(10);
    team.scale(0.0, ViewMut::new(&mut c, rows, cols, rows), &[cols])
        .unwrap();
    let after = task_field(10);
    let names = task_names();
    let faults = |id: &u32| after[id] - before.get(id).unwrap_or(&0);
    let (own, others): (Vec<u32>, Vec<u32>) =
        names.keys().partition(|id| names[id].starts_with("cpu0-"));
    assert_eq!(own.len(), 2, "{names:?}");
    for id in &own {
        assert!(
            faults(id) >= 12,
            "{} wrote {} pages first",
            names[id],
            faults(id)
        );
    }
    for id in &others {
        assert!(
            faults(id) < 12,
            "{} wrote {} pages first",
            names[id],
            faults(id)
        );
    }
    if topology.is_this_system() && !topology.numa_of(&c).is_empty() {
        assert_eq!(topology.numa_of(&c[..rows]), [core.numa]);
    }
}

#[test]
fn no_blas_starts_threads_or_moves_ours() {
    const NAME: &str = "no_blas_starts_threads_or_moves_ours";
    if !is_case(NAME) {
        return run_case(&[], NAME);
    }
    let topology = Arc::new(Topology::discover().unwrap());
    let mask = masks();
    let before = task_names();
    let libraries = available_blas();
    assert_eq!(task_names(), before, "loading a BLAS started threads");
    assert_eq!(masks(), mask, "loading a BLAS moved a thread");
    for blas in libraries {
        let before = task_names().len();
        let cores = topology.cores();
        let n_threads = cores.len();
        // rayon runs an unpinned device of one core on its driver.
        let pin = topology.should_pin();
        let own = if pin || n_threads > 1 { n_threads } else { 0 };
        let worker = CpuWorker::new(topology.clone(), "cpu0", cores, pin, blas).unwrap();
        let mut team = DeviceTeam::new(vec![Box::new(worker)]).unwrap();
        assert_eq!(
            task_names().len(),
            before + own + 1,
            "its threads and its driver"
        );
        let mask = masks();
        update(&mut team, &[768], 3);
        assert_eq!(
            task_names().len(),
            before + own + 1,
            "an update started threads"
        );
        assert_eq!(masks(), mask, "an update moved a thread");
        drop(team);
        // The threads of a pool end on their own after it is dropped.
        while task_names().len() > before {
            std::thread::yield_now();
        }
    }
}

/// Prints the cores that this process finds, for the test that has confined it.
#[test]
fn confined_to_one_unit() {
    const NAME: &str = "confined_to_one_unit";
    let all = Topology::discover().unwrap();
    let Some(last) = all.allowed_pus().pop().filter(|_| all.is_this_system()) else {
        return eprintln!("skipped: another machine's topology");
    };
    if !is_case(NAME) {
        if Command::new("taskset").arg("--version").output().is_err() {
            return eprintln!("skipped: there is no taskset");
        }
        return run_case(&["taskset", "-c", &last.to_string()], NAME);
    }
    assert_eq!(all.allowed_pus(), [last]);
    let cores = all.cores();
    assert_eq!(cores.len(), 1);
    assert_eq!(cores[0].pus, [last]);
    let groups = rank_devices(&all, (0, 1), Grouping::Auto, &[]).groups;
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].cores, cores);
    // The number of the core is that of the whole host.
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let whole = fs::read_to_string("/proc/self/status").unwrap();
    assert!(
        whole.contains(&format!("Cpus_allowed_list:\t{last}\n")),
        "{online} {whole}"
    );
}
