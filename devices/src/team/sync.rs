//! What [`Gate`](super::gate::Gate) and [`RunningDrivers`](super::running::RunningDrivers) are made of.
//!
//! Those two files are compiled a second time by `tests/interleavings.rs`, which has in the place of this module one of
//! the same items whose threads take every turn that the memory model allows.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex};

use std::sync::{MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How often a driver looks whether the others have come before it sleeps: some microseconds, which is how far apart
/// threads wake up, and less than waking up again takes.
pub(super) const LOOKS: u32 = 256;

/// A lock that a panic elsewhere does not spoil: panics are caught inside, and reported.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that pauses, and that others wake.
pub(super) struct Waiter(Thread);

impl Waiter {
    /// The calling thread, which alone may pause.
    pub fn this_thread() -> Self {
        Self(std::thread::current())
    }

    /// Returns after a [`wake`](Self::wake) since the last pause, or when the time is over, where there is one; now and then
    /// for no reason.
    pub fn pause(&self, at_most: Option<Duration>) {
        match at_most {
            Some(time) => std::thread::park_timeout(time),
            None => std::thread::park(),
        }
    }

    /// Ends the pause, or the next one when there is none now.
    pub fn wake(&self) {
        self.0.unpark();
    }
}
