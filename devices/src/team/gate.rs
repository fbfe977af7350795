//! The gate at which driver threads wait for each other, so that the devices start together.

use super::sync::{AtomicUsize, Condvar, LOOKS, Mutex, Ordering, lock, spin_loop};
use std::sync::PoisonError;

/// A gate at which threads wait for each other once.
pub(super) struct Gate {
    /// Number of threads that have not come yet.
    missing: AtomicUsize,
    /// Held by threads that go to sleep, and by the last thread before it wakes them.
    sleep: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// Makes a gate that opens when `threads` threads have come.
    pub fn new(threads: usize) -> Self {
        Self { missing: AtomicUsize::new(threads), sleep: Mutex::new(()), opened: Condvar::new() }
    }

    /// Returns when all threads have called it. The writes of each before the call are then visible to all.
    pub fn pass(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A thread that has looked before and does not sleep yet holds the lock until it sleeps.
            drop(lock(&self.sleep));
            return self.opened.notify_all();
        }
        for _ in 0..LOOKS {
            if self.is_open() {
                return;
            }
            spin_loop();
        }
        let mut asleep = lock(&self.sleep);
        while !self.is_open() {
            let woken = self.opened.wait(asleep);
            asleep = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_open(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }
}
