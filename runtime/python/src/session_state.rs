//! The state of a session.

use std::sync::Arc;

use isochron::prelude::{Comm, Plan, ProductRun, Session};
use pyo3::prelude::*;

use crate::errors::RaisedError;
use crate::thread_bound::ThreadBound;

/// A session, and its last run.
pub(crate) struct SessionState {
    pub session: Session,
    pub last_run: Option<(Plan, ProductRun)>,
    /// The model store is written.
    pub keeps_models: bool,
}

/// The ranks of a communicator, and the devices of each.
///
/// `comm` is a communicator of mpi4py; without one there is one local rank, and MPI is not used. All ranks make the session
/// together. These settings are the same on all ranks: `platform` (a platform file), `element` (the type for which the
/// default of `blas` compares libraries, a dtype or "f32", "f64", "c32" or "c64"), `store` ("none", "read" or "read-write"),
/// `models` (a folder of full models) and `host_scope`. `reserved_cores`, which are left to the program, are the same on the
/// ranks of a host. `grouping` and `blas` may differ between ranks. "world" of `host_scope` divides the
/// host among all ranks that the launcher has started and all sessions. "comm" divides it among the ranks of this session,
/// while others wait.
///
/// As a context manager a session is closed at the end. If a block ends with an exception on one rank, the calls of the other
/// ranks raise `RunError`, and no rank waits for it. With `store="read-write"` a block that ends without an exception calls
/// `save_models` before, so all ranks end it together.
#[pyclass(name = "Session", module = "isochron", frozen)]
pub struct PySession(pub(crate) ThreadBound<SessionState>);

impl PySession {
    pub(crate) fn state(&self) -> &ThreadBound<SessionState> {
        &self.0
    }

    pub(crate) fn comm(&self) -> Result<Arc<dyn Comm>, RaisedError> {
        Ok(Arc::clone(self.0.borrow()?.session.comm()))
    }

    /// Returns `true` if the session is open, and the model store is written.
    pub(crate) fn keeps_models(&self) -> bool {
        self.0.borrow().is_ok_and(|state| state.keeps_models)
    }
}
