//! Values that stay on the thread and in the process that made them, and work without the interpreter's lock.

use std::cell::{RefCell, RefMut};
use std::mem::ManuallyDrop;
use std::thread::{self, ThreadId};

use isochron::devices::internal::HomeProcess;
use isochron::prelude::Error;
use pyo3::Python;

use crate::errors::RaisedError;

/// A value that only the thread which made it may use, since MPI and the devices are bound to that thread. A forked child may
/// not use its copy.
///
/// If another thread or process drops it, it is leaked.
pub(crate) struct ThreadBound<T> {
    what: &'static str,
    home: HomeProcess,
    thread: ThreadId,
    value: ManuallyDrop<RefCell<Option<T>>>,
}

// SAFETY: the value is touched by `borrow`, `close` and `drop` alone, which check the process and the thread first.
unsafe impl<T> Send for ThreadBound<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ThreadBound<T> {}

impl<T> ThreadBound<T> {
    /// Keeps a value, which errors call by the name `what`.
    pub fn new(what: &'static str, value: T) -> Self {
        Self {
            what,
            home: HomeProcess::current(),
            thread: thread::current().id(),
            value: ManuallyDrop::new(RefCell::new(Some(value))),
        }
    }

    /// Returns the value for the length of a call.
    pub fn borrow(&self) -> Result<RefMut<'_, T>, RaisedError> {
        let value = self.borrow_slot()?;
        RefMut::filter_map(value, Option::as_mut)
            .map_err(|_| RaisedError::refuse(self.what, "closed", "make another one"))
    }

    /// Drops the value. To close twice is no error.
    pub fn close(&self) -> Result<(), RaisedError> {
        self.borrow_slot()?.take();
        Ok(())
    }

    fn borrow_slot(&self) -> Result<RefMut<'_, Option<T>>, RaisedError> {
        self.home.check(self.what).map_err(Error::from)?;
        if thread::current().id() != self.thread {
            let reason = "only the thread that made it may use it";
            return Err(RaisedError::refuse(self.what, "used by another thread", reason));
        }
        let reason = "one call at a time";
        (self.value.try_borrow_mut()).map_err(|_| RaisedError::refuse(self.what, "in use", reason))
    }
}

impl<T> Drop for ThreadBound<T> {
    fn drop(&mut self) {
        if self.home.is_current() && thread::current().id() == self.thread {
            // SAFETY: it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// What a piece of work needs or returns on the thread that it stays on.
struct SameThread<T>(T);

// SAFETY: `run_detached` hands it to no other thread.
unsafe impl<T> Send for SameThread<T> {}

/// Runs `work` on this thread without the interpreter's lock, so that other threads of Python go on meanwhile. A signal,
/// such as that of Ctrl-C, raises its exception after the work is done.
pub(crate) fn run_detached<R>(py: Python<'_>, work: impl FnOnce() -> R) -> R {
    let work = SameThread(work);
    py.detach(move || run_here(work)).0
}

fn run_here<R>(work: SameThread<impl FnOnce() -> R>) -> SameThread<R> {
    SameThread(work.0())
}
