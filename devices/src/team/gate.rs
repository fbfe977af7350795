//! Where the driver threads wait for each other, so that the devices start together.

use super::sync::{AtomicUsize, Condvar, LOOKS, Mutex, Ordering, lock, spin_loop};
use std::sync::PoisonError;

/// Where threads wait for each other once.
pub(super) struct Gate {
    /// How many have not come yet.
    missing: AtomicUsize,
    /// Held by those who go to sleep, and by the last one before it wakes them.
    sleep: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// A gate that opens when so many threads have come.
    pub fn new(threads: usize) -> Self {
        Self {
            missing: AtomicUsize::new(threads),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Returns when all have called it; what each did before is then visible to all.
    pub fn pass(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Who has looked before and not slept yet holds the lock until it sleeps.
            drop(lock(&self.sleep));
            return self.opened.notify_all();
        }
        let is_open = || self.missing.load(Ordering::Acquire) == 0;
        for _ in 0..LOOKS {
            if is_open() {
                return;
            }
            spin_loop();
        }
        let mut asleep = lock(&self.sleep);
        while !is_open() {
            let woken = self.opened.wait(asleep);
            asleep = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
