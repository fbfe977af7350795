//! The start and the end of one message.

use std::os::raw::{c_int, c_void};

use mpi::ffi;

use super::{MpiComm, byte, null_request};

/// A message that was started, or an attempt.
pub(super) struct Started {
    /// The call that ended the start, and its code.
    pub outcome: (&'static str, c_int),
    pub request: ffi::MPI_Request,
}

impl MpiComm {
    /// Starts to receive bytes from a rank, or to send them there.
    ///
    /// # Safety
    /// MPI runs. The memory stays allocated until the request is complete, and for ever after an error. Until then a
    /// received message stays untouched, and one that is sent unchanged.
    pub(super) unsafe fn start_message(
        &self,
        start: *mut c_void,
        bytes: c_int,
        rank: c_int,
        tag: c_int,
        is_received: bool,
    ) -> Started {
        let (comm, byte, mut request) = (self.comm, byte(), null_request());
        let new = &mut request;
        // SAFETY: by this function's contract; the communicator is live.
        let mut outcome = unsafe {
            match (self.starts_persistent, is_received) {
                (false, true) => {
                    ("MPI_Irecv", ffi::MPI_Irecv(start, bytes, byte, rank, tag, comm, new))
                }
                (false, false) => {
                    ("MPI_Isend", ffi::MPI_Isend(start, bytes, byte, rank, tag, comm, new))
                }
                (true, true) => {
                    ("MPI_Recv_init", ffi::MPI_Recv_init(start, bytes, byte, rank, tag, comm, new))
                }
                (true, false) => {
                    ("MPI_Send_init", ffi::MPI_Send_init(start, bytes, byte, rank, tag, comm, new))
                }
            }
        };
        if self.starts_persistent && outcome.1 == ffi::MPI_SUCCESS as c_int {
            // SAFETY: the request was made above, and is persistent and inactive.
            outcome = ("MPI_Start", unsafe { ffi::MPI_Start(new) });
        }
        Started { outcome, request }
    }
}

/// Tests a request. Returns the code of MPI, and `true` if the operation is complete; the request is then null.
///
/// # Safety
/// MPI runs, and the request is null or was made by this module's operations.
pub(super) unsafe fn test_request(request: &mut ffi::MPI_Request) -> (c_int, bool) {
    let mut flag = 0;
    // SAFETY: by this function's contract; the status is not wanted. A complete request that is not null is persistent.
    unsafe {
        let code = ffi::MPI_Test(request, &mut flag, ffi::RSMPI_STATUS_IGNORE);
        if code == ffi::MPI_SUCCESS as c_int && flag != 0 && *request != null_request() {
            ffi::MPI_Request_free(request);
        }
        (code, flag != 0)
    }
}
