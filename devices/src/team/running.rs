//! How many drivers are still at work, and the thread that waits for them.

use super::sync::{AtomicUsize, Ordering, Waiter};
use std::time::{Duration, Instant};

/// How long the calling thread sleeps between two looks at its messages while the devices compute, at least and at most: it
/// shares a core with them, and each look costs them some microseconds and what was in the caches.
const SHORTEST_PAUSE: Duration = Duration::from_micros(75);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// In between it sleeps for this part of the time that has passed: what a look comes late is small against the update.
const PART: u32 = 8;

/// How many drivers are still at work, and who waits for them.
pub(super) struct RunningDrivers {
    count: AtomicUsize,
    caller: Waiter,
}

impl RunningDrivers {
    /// So many drivers, for which this thread will wait.
    pub fn new(count: usize) -> Self {
        Self {
            count: AtomicUsize::new(count),
            caller: Waiter::this_thread(),
        }
    }

    /// Called once by each driver, when it has written all that the caller will read.
    pub fn end_driver(&self) {
        // Release: what the device wrote is visible to the caller that sees the count at 0.
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.wake();
        }
    }

    /// Calls `meanwhile`, at least once, until it says that nothing is left to do or all are done, and waits for them. Called
    /// by the thread that made this.
    pub fn wait_for_drivers(&self, meanwhile: &mut dyn FnMut() -> bool) {
        let start = Instant::now();
        let mut more = true;
        loop {
            more = more && meanwhile();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            let part = start.elapsed() / PART;
            let pause = part.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            // A wake-up that came before is not lost, so the last device ends this pause at once.
            self.caller.pause(more.then_some(pause));
        }
    }
}
