//! The threads and locks of [`Gate`](super::gate::Gate) and [`RunningDrivers`](super::running::RunningDrivers).
//!
//! `tests/interleavings.rs` compiles these two files a second time. It replaces this module by one with the same items, whose
//! modelled threads run in every order that the memory model allows.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex};

use std::sync::{MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Looks of a driver at the gate before it sleeps. They take some microseconds: about the time between the threads' wake-ups,
/// and less than another wake-up takes.
pub(super) const LOOKS: u32 = 256;

/// Locks `mutex`, also after a panic of another thread: panics are caught inside, and reported.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that pauses until another one wakes it.
pub(super) struct Waiter(Thread);

impl Waiter {
    /// Returns the calling thread, which alone may pause.
    pub fn this_thread() -> Self {
        Self(std::thread::current())
    }

    /// Pauses until a [`wake`](Self::wake) since the last pause, or until the time is over if there is one. It may return early
    /// for no reason.
    pub fn pause(&self, at_most: Option<Duration>) {
        match at_most {
            Some(time) => std::thread::park_timeout(time),
            None => std::thread::park(),
        }
    }

    /// Ends the pause, or the next one if there is none now.
    pub fn wake(&self) {
        self.0.unpark();
    }
}
