//! Programs that run MPI themselves and embed Isochron, each on all ranks of a job.

#![allow(unsafe_code, reason = "programs that call MPI themselves")]

mod arguments;
mod beside;
mod forked;
mod host;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochron::comm::mpi::MpiComm;
use isochron::comm::{Comm, Message, Transfer, connect};
use isochron::matrix::{Generator, Matrix};
use isochron::mpi::ffi;
use isochron::plan::Problem;
use isochron::product::{Directive, Scalars};
use isochron::product::{Factors, RunConfig};
use isochron::session::Session;
use isochron::{Error, ErrorClass};
use isochron_core::internal::{Director, StepTimes, run_directed};
use isochron_devices::BlasChoice;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};

/// Runs the case of this name on this rank.
///
/// # Panics
/// If the case does not hold.
pub fn run_case(name: &str) {
    match name {
        "thread-level" => refuse_thread_level(),
        "wrong-communicators" => refuse_wrong_communicators(),
        "after-finalize" => outlive_mpi(),
        "mpi-errors" => return_mpi_errors(OwnMpi::funneled()),
        "mpi-errors-threads" => {
            // SAFETY: a constant of the MPI library, which is written once, when the program is loaded.
            let level = unsafe { ffi::RSMPI_THREAD_MULTIPLE };
            return_mpi_errors(OwnMpi::initialize(level))
        }
        "caught-panic" => survive_caught_panics(),
        "connected-panic" => survive_panics_when_connected(),
        "panic" => leave_by_panic(),
        "arguments" => arguments::compare_arguments(),
        "forked" => forked::refuse_forked_children(),
        "own-mask" => host::stay_within_mask(),
        "reserved" => host::keep_off_reserved_cores(),
        "host-shared" => host::share_host(),
        "host-blas" => host::leave_host_blas(),
        _ => panic!("there is no case {name}"),
    }
}

/// The program's own MPI.
struct OwnMpi {
    world: ffi::MPI_Comm,
    rank: usize,
    size: usize,
}

impl OwnMpi {
    /// Initialises MPI with a level of thread support.
    fn initialize(level: i32) -> Self {
        let (mut rank, mut size, mut provided) = (0, 0, 0);
        // SAFETY: the first calls of MPI in this process, with places for their results.
        unsafe {
            let none = ptr::null_mut();
            ffi::MPI_Init_thread(ptr::null_mut(), none, level, &mut provided);
            let world = ffi::RSMPI_COMM_WORLD;
            ffi::MPI_Comm_rank(world, &mut rank);
            ffi::MPI_Comm_size(world, &mut size);
            assert!(provided >= level);
            Self { world, rank: rank as usize, size: size as usize }
        }
    }

    fn funneled() -> Self {
        // SAFETY: a constant.
        Self::initialize(unsafe { ffi::RSMPI_THREAD_FUNNELED })
    }

    fn adopt(&self) -> Result<Arc<dyn Comm>, Error> {
        // SAFETY: a communicator of this MPI.
        unsafe { MpiComm::adopt_raw(self.world) }.map(Arc::from)
    }

    /// Returns the error handlers of the communicators that MPI has made.
    fn list_handlers(&self) -> [ffi::MPI_Errhandler; 2] {
        // SAFETY: MPI runs, with a place for each answer.
        unsafe {
            [self.world, ffi::RSMPI_COMM_SELF].map(|comm| {
                let mut handler = ffi::RSMPI_ERRORS_RETURN;
                ffi::MPI_Comm_get_errhandler(comm, &mut handler);
                handler
            })
        }
    }

    /// Waits for all ranks on the program's own communicator.
    fn meet(&self) {
        // SAFETY: MPI runs.
        unsafe { ffi::MPI_Barrier(self.world) };
    }

    fn finalize(self) {
        // SAFETY: MPI runs, and nothing is called after it.
        unsafe { ffi::MPI_Finalize() };
    }
}

/// Isochron computes with threads, which `MPI_THREAD_SINGLE` forbids.
fn refuse_thread_level() {
    // SAFETY: a constant.
    let mpi = OwnMpi::initialize(unsafe { ffi::RSMPI_THREAD_SINGLE });
    let text = mpi.adopt().err().expect("a refusal").to_string();
    for part in ["MPI_THREAD_SINGLE", "MPI_Init_thread", "MPI_THREAD_FUNNELED"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    mpi.finalize();
}

/// Only a communicator of ranks that work together is taken; the program's error handler stays as it is.
fn refuse_wrong_communicators() {
    // SAFETY: MPI does not run yet, which is what is tested.
    let early = unsafe { MpiComm::adopt_raw(ffi::RSMPI_COMM_NULL) };
    assert!(early.err().unwrap().to_string().contains("initialised"));
    let mpi = OwnMpi::funneled();
    // SAFETY: a constant handle, and handles of communicators made here.
    unsafe {
        let null = MpiComm::adopt_raw(ffi::RSMPI_COMM_NULL);
        assert!(null.err().unwrap().to_string().contains("MPI_COMM_NULL"));
        let (mut half, mut inter) = (ffi::RSMPI_COMM_NULL, ffi::RSMPI_COMM_NULL);
        let color = (mpi.rank % 2) as i32;
        ffi::MPI_Comm_split(mpi.world, color, 0, &mut half);
        ffi::MPI_Intercomm_create(half, 0, mpi.world, 1 - color, 7, &mut inter);
        let text = MpiComm::adopt_raw(inter).err().unwrap().to_string();
        assert!(text.contains("MPI_Intercomm_merge"), "{text}");
        let handlers = mpi.list_handlers();
        let mut freed = ffi::RSMPI_COMM_NULL;
        ffi::MPI_Comm_dup(mpi.world, &mut freed);
        let number = ffi::RSMPI_Comm_c2f(freed);
        ffi::MPI_Comm_free(&mut freed);
        let text = MpiComm::adopt_fortran(number).err().unwrap().to_string();
        assert!(text.contains("freed"), "{text}");
        let world = MpiComm::adopt_fortran(ffi::RSMPI_Comm_c2f(mpi.world)).unwrap();
        assert_eq!((world.rank(), world.size()), (mpi.rank, mpi.size));
        let comm = mpi.adopt().unwrap();
        assert!(mpi.list_handlers() == handlers && handlers[0] == ffi::RSMPI_ERRORS_ARE_FATAL);
        assert_eq!((comm.rank(), comm.size()), (mpi.rank, mpi.size));
    }
    let text = std::thread::scope(|scope| {
        let adopt = || {
            // SAFETY: the communicator of all ranks; no other thread calls MPI meanwhile.
            let comm = unsafe { MpiComm::adopt_raw(ffi::RSMPI_COMM_WORLD) };
            comm.err().map(|error| error.to_string())
        };
        scope.spawn(adopt).join().unwrap()
    })
    .expect("a refusal");
    assert!(text.contains("MPI_THREAD_FUNNELED"), "{text}");
    mpi.finalize();
}

/// Sessions and communicators may be dropped after the end of MPI.
fn outlive_mpi() {
    let mpi = OwnMpi::funneled();
    let comm = mpi.adopt().unwrap();
    let session = open_session(&comm);
    mpi.finalize();
    let text = comm.barrier().unwrap_err().to_string();
    assert!(text.contains("finalised"), "{text}");
    drop(session);
    drop(comm);
}

/// An error of MPI on one rank is one on all, and names the call, the rank and MPI's reason. The program's own MPI goes on,
/// with its error handlers.
fn return_mpi_errors(mpi: OwnMpi) {
    let handlers = mpi.list_handlers();
    let no_rank = ["MPI_Isend", "MPI_Send_init"];
    for (bytes, calls, reason) in [(10, ["MPI_Test"; 2], "trunc"), (100, no_rank, "rank")] {
        let comm = mpi.adopt().unwrap();
        let error = break_message(comm.as_ref(), bytes).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Run);
        let text = error.to_string();
        assert!(text.to_lowercase().contains(reason), "{text}");
        let names_call = calls.iter().any(|call| text.contains(call));
        assert!(text.contains("rank 1") && names_call, "{text}");
        let here = matches!(error, Error::Mpi { rank: 1, .. });
        assert_eq!(here, mpi.rank == 1, "{text}");
        // It lasts.
        assert!(matches!(comm.barrier(), Err(Error::Rank { rank: 1, .. })));
        assert!(Session::builder().build(comm).is_err());
        assert!(mpi.list_handlers() == handlers);
    }
    mpi.meet();
    let comm = mpi.adopt().unwrap();
    multiply_ones(&mut open_session(&comm));
    drop(comm);
    mpi.finalize();
}

/// Sends 100 bytes to rank 1, which expects `bytes`. If it expects all, it sends some to a rank that does not exist.
fn break_message(comm: &dyn Comm, bytes: usize) -> Result<(), Error> {
    let message = |rank, bytes| [Message::plain(rank, 0, 0..bytes)];
    let buffers = vec![vec![0u8; 100]];
    match comm.rank() {
        0 => Transfer::start(comm, buffers, &message(1, 100), &[])?.finish()?,
        1 => Transfer::start(comm, buffers, &[], &message(0, bytes))?.finish()?,
        _ => buffers,
    };
    if comm.rank() == 1 {
        Transfer::start(comm, vec![vec![0u8; 100]], &message(99, 100), &[])?.finish()?;
    }
    comm.barrier()
}

const SCALARS: Scalars<f64> = Scalars { alpha: 1.0, beta: 0.0 };

/// Settings by which no device is measured.
fn unmeasured() -> BalanceConfig {
    BalanceConfig { strategy: Strategy::Homogeneous, ..BalanceConfig::default() }
}

fn open_session(comm: &Arc<dyn Comm>) -> Session {
    Session::builder().blas(BlasChoice::Embedded).build(Arc::clone(comm)).unwrap()
}

/// Panics on the head rank, where the others wait for its decision.
struct Panicking;

impl Director for Panicking {
    fn count_first_steps(&mut self) -> usize {
        2
    }

    fn decide(&mut self, _at: &StepTimes<'_>) -> Result<Directive, Error> {
        panic!("a panic that the test wants");
    }
}

/// Multiplies with a director that panics.
fn multiply_and_panic(comm: &Arc<dyn Comm>) -> Result<(), Error> {
    let mut session = open_session(comm);
    let problem = Problem::new(64, 64, 256, 8)?.with_panel(8)?;
    let plan = session.plan(problem, &unmeasured())?;
    let a = Matrix::generate(plan.a(), comm.rank(), Generator::Uniform { seed: 1 })?;
    let b = Matrix::generate(plan.b(), comm.rank(), Generator::Uniform { seed: 2 })?;
    let mut product = session.prepare(plan, RunConfig::default())?;
    let mut c = product.zeros(&mut session)?;
    let factors = Factors::of(&a, &b);
    let director = &mut Panicking;
    run_directed(&mut product, &mut session, SCALARS, factors, &mut c, director).map(drop)
}

/// A panic that the program catches ends neither the job nor the waiting of the others: they get its rank.
fn survive_caught_panics() {
    let mpi = OwnMpi::funneled();
    let comm = mpi.adopt().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| multiply_and_panic(&comm)));
    match outcome {
        Err(_) => assert_eq!(mpi.rank, 0),
        Ok(outcome) => assert_tells_of_panic(outcome.unwrap_err(), [mpi.rank, 0]),
    }
    mpi.meet();
    drop(comm);
    // With another communicator all goes on.
    let comm = mpi.adopt().unwrap();
    open_session(&comm);
    mpi.finalize();
}

/// `connect` leaves the panic hook as it is: a panic that has nothing to do with Isochron, and that the program catches, ends
/// nothing, on this thread or on another one.
fn survive_panics_when_connected() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counter, default) = (Arc::clone(&calls), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        counter.fetch_add(1, Ordering::Relaxed);
        default(info);
    }));
    let comm = connect().unwrap();
    if comm.rank() == 0 {
        assert!(catch_unwind(panic_on_purpose).is_err());
        assert!(std::thread::spawn(panic_on_purpose).join().is_err());
        assert_eq!(calls.load(Ordering::Relaxed), 2, "the hook is the program's");
    }
    multiply_ones(&mut open_session(&comm));
    comm.barrier().unwrap();
}

fn panic_on_purpose() {
    panic!("a panic that the test wants");
}

/// Expects on this rank the error of a panic on the other.
fn assert_tells_of_panic(error: Error, [here, there]: [usize; 2]) {
    assert_ne!(here, there);
    let text = error.to_string();
    assert!(text.starts_with(&format!("rank {there} on ")), "{text}");
    assert!(text.contains("panicked"), "{text}");
}

/// A panic outside of all calls drops the communicator, and the other ranks wait no longer.
fn leave_by_panic() {
    let mpi = OwnMpi::funneled();
    let (rank, comm) = (mpi.rank, mpi.adopt().unwrap());
    let meeting = &mpi;
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let mut session = open_session(&comm);
        // The others have theirs too.
        meeting.meet();
        assert_ne!(rank, 1, "a panic that the test wants");
        let problem = Problem::new(64, 64, 64, 8).unwrap();
        session.plan(problem, &unmeasured()).map(|_| ())
    }));
    match outcome {
        Err(_) => assert_eq!(rank, 1),
        Ok(outcome) => assert_tells_of_panic(outcome.unwrap_err(), [rank, 1]),
    }
    mpi.meet();
    mpi.finalize();
}

/// Multiplies matrices of ones, and checks the product.
fn multiply_ones(session: &mut Session) {
    let comm = Arc::clone(session.comm());
    let problem = Problem::new(96, 96, 512, 16).unwrap().with_panel(16).unwrap();
    let plan = session.plan(problem, &unmeasured()).unwrap();
    let ones =
        |spread| Matrix::<f64>::generate(spread, comm.rank(), Generator::Constant(1.0)).unwrap();
    let (a, b) = (ones(plan.a()), ones(plan.b()));
    let mut product = session.prepare(plan, RunConfig::default()).unwrap();
    let mut c = product.zeros(session).unwrap();
    let factors = Factors::of(&a, &b);
    product.run(session, SCALARS, factors, &mut c).unwrap();
    let local = c.local();
    assert!((0..local.cols()).all(|j| local.col(j).iter().all(|&value| value == 512.0)));
}

/// Returns the cores of a session's devices.
fn list_cores(session: &Session) -> Vec<u32> {
    session.devices().iter().flat_map(|device| device.cores.clone()).collect()
}
