//! The number of drivers still at work, and the thread that waits for them.

use super::sync::{AtomicUsize, Ordering, Waiter};
use std::time::{Duration, Instant};

/// Shortest sleep of the calling thread between two looks at its messages while the devices compute. It shares a core with
/// them, and each look costs them some microseconds and the content of their caches.
const SHORTEST_PAUSE: Duration = Duration::from_micros(75);
/// Longest sleep between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Divisor of the elapsed time that gives the length of a sleep between these bounds. So a look is late by no more than a
/// small part of the update.
const PART: u32 = 8;

/// The number of drivers still at work, and the thread that waits for them.
pub(super) struct RunningDrivers {
    count: AtomicUsize,
    caller: Waiter,
}

impl RunningDrivers {
    /// Counts `count` drivers, for which this thread will wait.
    pub fn new(count: usize) -> Self {
        Self { count: AtomicUsize::new(count), caller: Waiter::this_thread() }
    }

    /// Notes the end of one driver. Each driver calls it once, after its last write for the caller.
    pub fn end_driver(&self) {
        // Release: the device's writes are visible to the caller that sees the count at 0.
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.wake();
        }
    }

    /// Calls `meanwhile`, at least once, until it returns `false` or all drivers are done, and waits for them. Only the thread
    /// that made this value calls it.
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
            // An earlier wake-up is not lost, so the last device ends this pause at once.
            self.caller.pause(more.then_some(pause));
        }
    }
}
