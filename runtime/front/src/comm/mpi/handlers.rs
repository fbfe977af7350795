//! Error handlers of communicators that are not our own.
//!
//! A few errors belong to no communicator of ours: MPI takes them to the handler of `MPI_COMM_WORLD` or `MPI_COMM_SELF`,
//! which end the job by default. For the time of such a call these handlers are set to return errors, and set back
//! afterwards. No other thread calls MPI meanwhile, unless the program has asked for `MPI_THREAD_MULTIPLE`. Then messages
//! are persistent requests: MPICH takes their errors to the handler of their own communicator.

use std::os::raw::c_int;

use mpi::environment;
use mpi::{Threading, ffi};

/// Has errors that belong to no communicator returned until it is dropped.
pub(super) struct ReturnedErrors {
    /// The communicators that are asked, and their handlers of before.
    kept: [(ffi::MPI_Comm, ffi::MPI_Errhandler); 2],
}

impl ReturnedErrors {
    /// Replaces the handlers.
    ///
    /// # Safety
    /// MPI runs until this value is dropped.
    pub(super) unsafe fn new() -> Self {
        // SAFETY: constants of a library that runs, and places for its answers.
        unsafe {
            let kept = [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF].map(|comm| {
                let mut handler = ffi::RSMPI_ERRORS_RETURN;
                ffi::MPI_Comm_get_errhandler(comm, &mut handler);
                ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
                (comm, handler)
            });
            Self { kept }
        }
    }
}

impl Drop for ReturnedErrors {
    fn drop(&mut self) {
        for (comm, handler) in &mut self.kept {
            // SAFETY: MPI still runs, as the maker of this value says; the handler is one that MPI has given.
            unsafe {
                ffi::MPI_Comm_set_errhandler(*comm, *handler);
                ffi::MPI_Errhandler_free(handler);
            }
        }
    }
}

/// Returns `true` if this library takes errors of requests to handlers that are not our own, as MPICH does since 4.0, and
/// these may be replaced for a while: with `MPI_THREAD_MULTIPLE` other threads may call MPI meanwhile.
pub(super) fn asks_others(implementation: &str) -> bool {
    let is_shared = environment::threading_support() == Threading::Multiple;
    !is_shared && !implementation.starts_with("Open MPI")
}

/// Returns `true` if messages are to be persistent requests, so that their errors come to the handler of their own
/// communicator. MPICH's device ch4 keeps the communicator of these and of collective operations, and not of other messages.
///
/// It is so only where handlers may not be replaced, since an error of `MPI_Start` belongs to no communicator: it comes
/// from a lack of memory or of connections, before anything is under way.
pub(super) fn needs_persistent(version: &str) -> bool {
    environment::threading_support() == Threading::Multiple && version.contains("ch4:")
}

/// Asks MPI whether it knows a communicator. An error about an unknown one belongs to no communicator.
///
/// # Safety
/// MPI runs, and the handle is one that it may be asked about.
pub(super) unsafe fn is_known(comm: ffi::MPI_Comm) -> bool {
    // SAFETY: MPI runs, with a place for its answer.
    unsafe {
        let _returned = ReturnedErrors::new();
        let mut inter = 0;
        ffi::MPI_Comm_test_inter(comm, &mut inter) == ffi::MPI_SUCCESS as c_int
    }
}
