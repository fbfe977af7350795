//! Waiting without burning a core that others need.

use std::time::Duration;

/// Pauses that grow from nothing to a tenth of a millisecond.
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
            65..=128 => std::thread::yield_now(),
            129..=1000 => std::thread::sleep(Duration::from_micros(20)),
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
