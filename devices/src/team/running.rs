//! How many drivers are still at work, and the thread that waits for them.

use super::sync::{AtomicUsize, Ordering, Waiter};
use std::time::Duration;

/// How long the calling thread sleeps between two looks at its messages while the devices compute: short against an
/// update of milliseconds, long enough to leave the core to the devices.
const MEANWHILE_PAUSE: Duration = Duration::from_micros(75);

/// How many drivers are still at work, and who waits for them.
pub(super) struct Running {
    count: AtomicUsize,
    caller: Waiter,
}

impl Running {
    /// So many drivers, for which this thread will wait.
    pub fn new(count: usize) -> Self {
        Self {
            count: AtomicUsize::new(count),
            caller: Waiter::this_thread(),
        }
    }

    /// Called once by each driver, when it has written all that the caller will read.
    pub fn one_is_done(&self) {
        // Release: what the device wrote is visible to the caller that sees the count at 0.
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.wake();
        }
    }

    /// Calls `meanwhile` until all are done, at least once. Called by the thread that made this.
    pub fn wait(&self, meanwhile: &mut dyn FnMut()) {
        loop {
            meanwhile();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            // A wake-up that came before is not lost, so the last device ends this pause at once.
            self.caller.pause(MEANWHILE_PAUSE);
        }
    }
}
