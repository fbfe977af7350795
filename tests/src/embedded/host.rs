//! Cores and threads of the host, which the program, its sessions and other ranks have in common.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use isochron::comm::mpi::MpiComm;
use isochron::comm::{Comm, LocalComm};
use isochron::mpi::ffi;
use isochron::progress::{Observer, Progress};
use isochron::session::{Cores, DeviceSpec, HostScope, NodeSpec, Session};
use isochron_devices::{BlasChoice, Grouping, Topology};

use super::beside::multiply_beside_another_communicator;
use super::{OwnMpi, list_cores, multiply_ones, open_session};

/// No thread of a session runs where the process may not.
pub(super) fn stay_within_mask() {
    let allowed = list_allowed();
    assert_eq!(allowed.len(), 1, "started by taskset");
    let mpi = OwnMpi::funneled();
    let mut session = open_session(&mpi.adopt().unwrap());
    multiply_ones(&mut session);
    assert_eq!(list_allowed(), allowed);
    drop(session);
    mpi.finalize();
}

/// Lists where the threads of this process may run.
fn list_allowed() -> BTreeSet<String> {
    list_threads().into_values().map(|[_, mask]| mask).collect()
}

/// Lists the threads of this process by their numbers: the name of each, and the processing units on which it may run.
fn list_threads() -> BTreeMap<String, [String; 2]> {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|thread| {
            let thread = thread.unwrap();
            // A thread may have ended since.
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let fields = ["Name:", "Cpus_allowed_list:"].map(|field| {
                let mut lines = status.lines();
                lines
                    .find_map(|line| line.strip_prefix(field))
                    .unwrap_or_default()
                    .trim()
                    .to_owned()
            });
            Some((thread.file_name().to_str().unwrap().to_owned(), fields))
        })
        .collect()
}

/// Reads a list of numbers and ranges, such as `0-3,7`.
fn read_units(list: &str) -> BTreeSet<u32> {
    list.split(',')
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().unwrap()..=last.parse().unwrap()
        })
        .collect()
}

/// Every thread that a session starts keeps off the reserved cores: of its devices, those that drive them, and those of BLAS
/// libraries. The program's own threads stay where they were.
pub(super) fn keep_off_reserved_cores() {
    let mpi = OwnMpi::funneled();
    let topology = Topology::discover().unwrap();
    let cores = topology.cores();
    let (reserved, others) = cores.split_first().unwrap();
    if others.is_empty() || !topology.should_pin() {
        return mpi.finalize();
    }
    // MPI may start threads when it is first used.
    let comm = mpi.adopt().unwrap();
    comm.barrier().unwrap();
    let before = list_threads();
    let choices = [BlasChoice::Embedded, BlasChoice::OpenBlas, BlasChoice::Auto];
    for (blas, grouping) in
        choices.into_iter().zip([Grouping::Auto, Grouping::Node, Grouping::Auto])
    {
        let builder = Session::builder().reserved_cores([reserved.core]);
        let mut session =
            builder.blas(blas.clone()).grouping(grouping).build(Arc::clone(&comm)).unwrap();
        multiply_ones(&mut session);
        let now = list_threads();
        let mut n_started = 0;
        for (number, [name, mask]) in &now {
            if let Some(known) = before.get(number) {
                assert_eq!(known[1], *mask, "{name} is the program's");
                continue;
            }
            n_started += 1;
            let units = read_units(mask);
            let is_off = reserved.pus.iter().all(|unit| !units.contains(unit));
            assert!(is_off, "{name} may run on {mask} with {blas:?}: {now:?}");
        }
        assert!(n_started > 1, "{now:?}");
        drop(session);
    }
    drop(comm);
    mpi.finalize();
}

/// Sessions of other communicators on the same host, and of the same process, have cores of their own.
pub(super) fn share_host() {
    let mpi = OwnMpi::funneled();
    let cores = Topology::discover().unwrap().cores().len();
    // SAFETY: a communicator of this MPI.
    let alone = unsafe { MpiComm::adopt_raw(ffi::RSMPI_COMM_SELF) };
    let alone: Arc<dyn Comm> = alone.unwrap().into();
    let mut session = open_session(&alone);
    let mine = list_cores(&session);
    let all = mpi.adopt().unwrap().gather(&mine).unwrap().concat();
    let different: BTreeSet<u32> = all.iter().copied().collect();
    assert_eq!(different.len(), cores, "each core is used: {all:?}");
    assert!(mpi.size > cores || all.len() == cores, "and used once: {all:?}");
    multiply_ones(&mut session);
    take_whole_host(&alone, cores);
    drop(session);
    mpi.meet();
    multiply_beside_another_communicator(&mpi, cores);
    divide_process(&mine);
    mpi.meet();
    drop(alone);
    mpi.finalize();
}

/// A session whose scope is its communicator has the whole host, beside other sessions and ranks.
fn take_whole_host(alone: &Arc<dyn Comm>, cores: usize) {
    let builder = Session::builder().blas(BlasChoice::Embedded);
    let builder = builder.host_scope(HostScope::Comm);
    let sessions = [(); 2].map(|()| builder.clone().build(Arc::clone(alone)).unwrap());
    for session in &sessions {
        assert_eq!(list_cores(session).len(), cores);
        assert!(!takes_turns(session));
    }
}

/// Returns `true` if a session has no core for itself alone.
fn takes_turns(session: &Session) -> bool {
    let mut notices = session.notices().iter();
    notices.any(|notice| notice.contains("take turns"))
}

/// Divides `cores`, the share of this process, among its sessions.
fn divide_process(cores: &[u32]) {
    let node = NodeSpec::new("part");
    let node = node.with_device(DeviceSpec::new("one").on_cores(Cores::Count(1)));
    let builder = Session::builder().blas(BlasChoice::Embedded);
    let first = builder.clone().node(node).build(LocalComm::new()).unwrap();
    let mut second = builder.clone().build(LocalComm::new()).unwrap();
    let [of_first, of_second] = [&first, &second].map(list_cores);
    if cores.len() > 1 {
        assert!(of_first.iter().all(|core| !of_second.contains(core)));
        assert_eq!(of_first.len() + of_second.len(), cores.len());
    } else {
        assert!(takes_turns(&second));
    }
    // Nothing is left for a third one, which works all the same while the second one does.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut third = Session::builder().blas(BlasChoice::Embedded);
            third = third.grouping(Grouping::Node);
            let mut third = third.build(LocalComm::new()).unwrap();
            assert!(takes_turns(&third));
            multiply_ones(&mut third);
        });
        multiply_ones(&mut second);
    });
    drop((first, second));
    let whole = builder.build(LocalComm::new()).unwrap();
    assert_eq!(list_cores(&whole), cores);
}

/// Checks at every step that the program's OpenBLAS has two threads.
struct HostThreads {
    count: unsafe extern "C" fn() -> i32,
    looks: Cell<usize>,
}

impl Observer for HostThreads {
    fn observe(&self, _progress: Progress) {
        // SAFETY: a function of OpenBLAS with this signature.
        assert_eq!(unsafe { (self.count)() }, 2);
        self.looks.set(self.looks.get() + 1);
    }
}

/// A program that has set its OpenBLAS to two threads has two, before, while and after a session multiplies by OpenBLAS. The
/// library is one of those that the tests need.
pub(super) fn leave_host_blas() {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let mpi = OwnMpi::funneled();
    // SAFETY: the library that the system has installed, with the names of its functions known to all others.
    let library = unsafe { Library::open(Some("libopenblas.so.0"), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.expect("OpenBLAS, which `cargo xtask test` installs");
    // SAFETY: functions of OpenBLAS with these signatures.
    let count = unsafe {
        library.get::<unsafe extern "C" fn(i32)>(b"openblas_set_num_threads").unwrap()(2);
        *library.get(b"openblas_get_num_threads").unwrap()
    };
    let looks = Cell::new(0);
    let observer = Rc::new(HostThreads { count, looks });
    for blas in [BlasChoice::OpenBlas, BlasChoice::Auto] {
        let mut session = Session::builder()
            .blas(blas)
            .observer(observer.clone())
            .build(mpi.adopt().unwrap())
            .unwrap();
        multiply_ones(&mut session);
        drop(session);
        observer.observe(Progress::Slowest { rank: 0 });
    }
    assert!(observer.looks.get() > 20);
    mpi.finalize();
}
