//! Waiting without burning a core that others need.

use std::time::Duration;

/// Pauses that grow from nothing to a tenth of a millisecond.
///
/// The first ones give the core up without a sleep: ranks that share a core agree faster by turns than by timers.
#[derive(Debug, Default)]
pub struct Pause {
    polls: u32,
}

impl Pause {
    /// Waits once more, and longer each time.
    pub fn wait(&mut self) {
        self.polls += 1;
        match self.polls {
            0..=64 => std::hint::spin_loop(),
            65..=512 => std::thread::yield_now(),
            513..=1400 => std::thread::sleep(Duration::from_micros(20)),
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
