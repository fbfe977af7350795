//! Waiting without burning a core that others need.

use std::time::Duration;

use crate::watch::Wait;

/// Pauses that grow from nothing to a tenth of a millisecond.
///
/// The first ones give the core up without a sleep: ranks that share a core agree faster by turns than by timers.
///
/// The rank counts as one that waits for others from the first pause until the value is dropped.
#[derive(Debug, Default)]
pub struct Pause {
    polls: u32,
    wait: Option<Wait>,
}

impl Pause {
    /// Waits once more, and longer each time.
    pub fn wait(&mut self) {
        self.polls = self.polls.saturating_add(1);
        self.wait.get_or_insert_with(Wait::begin);
        match self.polls {
            0..=64 => std::hint::spin_loop(),
            65..=512 => std::thread::yield_now(),
            513..=1400 => std::thread::sleep(Duration::from_micros(20)),
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
