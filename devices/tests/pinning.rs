//! Threads run on their cores, the threads that use memory write it first, and no BLAS interferes.
//!
//! Threads and bindings belong to the whole process, so every case is a separate process: this program, started again
//! for one of its tests with a variable set.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use isochron_devices::blas::available_blas;
use isochron_devices::internal::{rank_devices, try_zeroed_matrix};
use isochron_devices::topology::HostPlace;
use isochron_devices::{
    CoreInfo, CpuWorker, Depth, DeviceTeam, EmbeddedBlas, Grouping, ThreadPlace, Topology, View,
    ViewMut, Worker,
};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that runs one case.
const CASE: &str = "ISOCHRON_PINNING_CASE";

/// Runs the case `name`, a test of this program, in a separate process, below `prefix` (such as `taskset`).
fn run_case(prefix: &[&str], name: &str) {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let line = [prefix, &[program, "--exact", name, "--test-threads=1", "--nocapture"]].concat();
    let mut child = Command::new(line[0]);
    let output = child.args(&line[1..]).env(CASE, name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{line:?}: {text}");
}

/// Returns `true` if this process runs the case `name`.
fn is_case(name: &str) -> bool {
    std::env::var(CASE).is_ok_and(|case| case == name)
}

/// Reads a file of each thread of this process, by thread number. A thread may end meanwhile.
fn read_tasks(file: &str) -> BTreeMap<u32, String> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| {
            let task = task.unwrap();
            let text = fs::read_to_string(task.path().join(file)).ok()?;
            Some((task.file_name().to_str()?.parse().ok()?, text))
        })
        .collect()
}

/// Returns a field of `/proc/self/task/*/stat` by thread number, counted from 3 as in the manual. The third is the
/// first after the name, which may hold anything.
fn task_field(field: usize) -> BTreeMap<u32, u64> {
    read_tasks("stat")
        .into_iter()
        .filter_map(|(id, stat)| {
            let (_, fields) = stat.rsplit_once(") ")?;
            Some((id, fields.split(' ').nth(field - 3)?.parse().ok()?))
        })
        .collect()
}

/// Returns the names of the threads of this process, by number.
fn task_names() -> BTreeMap<u32, String> {
    read_tasks("comm").into_iter().map(|(id, name)| (id, name.trim().to_owned())).collect()
}

/// Returns the masks of all threads, by number.
fn task_masks() -> BTreeMap<u32, String> {
    read_tasks("status")
        .into_iter()
        .filter_map(|(id, status)| {
            let mut lines = status.lines();
            let mask = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some((id, mask.trim().to_owned()))
        })
        .collect()
}

fn pinned_worker(topology: &Arc<Topology>, cores: Vec<CoreInfo>) -> CpuWorker {
    CpuWorker::new(topology.clone(), "cpu0", cores, true, Arc::new(EmbeddedBlas)).unwrap()
}

/// Runs updates of `n × n` with k = 32.
fn run_updates(team: &mut DeviceTeam, slices: &[usize], times: usize) {
    let (n, k) = (slices.iter().sum::<usize>(), 32);
    let (a, b, mut c) = (vec![1.0; n * k], vec![1.0; k * n], vec![0.0; n * n]);
    team.begin(ViewMut::new(&mut c, n, n, n), slices, Depth::of(k, times)).unwrap();
    for _ in 0..times {
        let (a, b) = (View::new(&a, n, k, n), View::new(&b, k, n, k));
        let c = ViewMut::new(&mut c, n, n, n);
        team.update(1.0, (a, b), None, c, slices, &mut || false).unwrap();
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
    let mut workers: Vec<Box<dyn Worker>> = vec![pinned_worker(&topology, cores.clone()).into()];
    for core in &cores {
        workers.push(pinned_worker(&topology, vec![core.clone()]).into());
    }
    let mut team = DeviceTeam::new(workers).unwrap();
    // A device's threads are woken for parts of this size, and the calling thread does smaller ones.
    let slices = vec![512; team.len()];
    run_updates(&mut team, &slices, 50);
    let places: Vec<ThreadPlace> = team.threads().concat();
    assert_eq!(places.len(), 2 * cores.len());
    for (place, core) in places.iter().zip(cores.iter().chain(&cores)) {
        assert_eq!(place.core, core.core);
        assert_eq!(place.bound_to, core.pus, "the binding read back");
        assert!(!place.ran_on.is_empty());
        assert!(
            place.ran_on.iter().all(|unit| core.pus.contains(unit)),
            "{place:?} ran elsewhere than {core:?}"
        );
    }
}

/// Threads without a core of their own are bound together to the cores that are left to the process.
#[test]
fn threads_without_a_core_keep_off_cores_that_were_taken_away() {
    let all = Topology::discover().unwrap();
    let cores = all.cores();
    if cores.len() < 2 || !all.should_pin() {
        return eprintln!("skipped: threads cannot be bound here, or no core can be taken away");
    }
    let left: Vec<u32> = cores[1..].iter().flat_map(|core| core.pus.clone()).collect();
    let topology = Arc::new(all.with_allowed_pus(&left));
    for n_threads in [1, 2] {
        let shared = vec![cores[1].clone(); n_threads];
        let blas = Arc::new(EmbeddedBlas);
        let worker = CpuWorker::new(topology.clone(), "cpu0", shared, false, blas).unwrap();
        let mut team = DeviceTeam::new(vec![worker.into()]).unwrap();
        run_updates(&mut team, &[64], 20);
        let places = team.threads().concat();
        assert_eq!(places.len(), n_threads);
        for place in places {
            assert_eq!(place.bound_to, left);
            assert!(place.ran_on.iter().all(|unit| left.contains(unit)));
        }
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
    // Two threads, also on a machine with one core.
    let cores = vec![core.clone(), topology.cores().pop().unwrap()];
    let worker: Box<dyn Worker> = if topology.should_pin() {
        pinned_worker(&topology, cores).into()
    } else {
        let blas = Arc::new(EmbeddedBlas);
        CpuWorker::new(topology.clone(), "cpu0", cores, false, blas).unwrap().into()
    };
    let mut team = DeviceTeam::new(vec![worker]).unwrap();
    // 64 MiB: 32 huge pages or 16384 small ones.
    let (rows, cols) = (4096, 2048);
    let mut c: Vec<f64> = try_zeroed_matrix(rows * cols).unwrap();
    // Field 10: minor faults, one for each page that a thread was the first to write.
    let before = task_field(10);
    team.scale(0.0, ViewMut::new(&mut c, rows, cols, rows), &[cols]).unwrap();
    let after = task_field(10);
    let names = task_names();
    let is_own: BTreeMap<u32, bool> =
        names.iter().map(|(id, name)| (*id, name.starts_with("cpu0-"))).collect();
    assert_eq!(is_own.values().filter(|own| **own).count(), 2, "{names:?}");
    for (id, name) in &names {
        let faults = after[id] - before.get(id).unwrap_or(&0);
        assert_eq!(faults >= 12, is_own[id], "{name} wrote {faults} pages first");
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
    let mask = task_masks();
    let before = task_names();
    let libraries = available_blas();
    assert_eq!(task_names(), before, "loading a BLAS started threads");
    assert_eq!(task_masks(), mask, "loading a BLAS moved a thread");
    for blas in libraries {
        let before = task_names().len();
        let cores = topology.cores();
        let n_threads = cores.len();
        // rayon runs an unpinned device of one core on its driver.
        let pin = topology.should_pin();
        let own = if pin || n_threads > 1 { n_threads } else { 0 };
        let worker = CpuWorker::new(topology.clone(), "cpu0", cores, pin, blas).unwrap();
        let mut team = DeviceTeam::new(vec![worker.into()]).unwrap();
        assert_eq!(task_names().len(), before + own + 1, "its threads and its driver");
        let mask = task_masks();
        run_updates(&mut team, &[768], 3);
        assert_eq!(task_names().len(), before + own + 1, "an update started threads");
        assert_eq!(task_masks(), mask, "an update moved a thread");
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
    let groups = rank_devices(&all, HostPlace::ALONE, Grouping::Auto, &[]).groups;
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].cores, cores);
    // The number of the core is that of the whole host.
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let whole = fs::read_to_string("/proc/self/status").unwrap();
    assert!(whole.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{online} {whole}");
}
