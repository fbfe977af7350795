//! Time that runs out.

use std::time::{Duration, Instant};

/// When something has to be done.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    until: Instant,
}

impl Clock {
    /// So many seconds after `begin`.
    pub fn until(begin: Instant, seconds: f64) -> Self {
        Self {
            until: begin + Duration::from_secs_f64(seconds.clamp(0.0, 1e6)),
        }
    }

    /// What is left.
    pub fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// A share of what is left, from now on.
    pub fn part(self, share: f64) -> Self {
        Self::until(Instant::now(), share * self.left().as_secs_f64())
    }

    /// Rounds, from 0 on: `most`, or fewer where another one as long as the longest so far would end too late. The first one
    /// always is.
    pub fn rounds(self, most: usize) -> Rounds {
        Rounds {
            clock: self,
            most,
            next: 0,
            longest: Duration::ZERO,
            began: Instant::now(),
        }
    }
}

/// The iterator of [`Clock::rounds`].
#[derive(Debug)]
pub struct Rounds {
    clock: Clock,
    most: usize,
    next: usize,
    longest: Duration,
    began: Instant,
}

impl Iterator for Rounds {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.next > 0 {
            self.longest = self.longest.max(self.began.elapsed());
        }
        if self.next >= self.most || (self.next > 0 && self.clock.left() < self.longest) {
            return None;
        }
        self.began = Instant::now();
        self.next += 1;
        Some(self.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_always_run_and_more_while_there_is_time() {
        let now = Instant::now();
        assert_eq!(Clock::until(now, 0.0).rounds(3).count(), 1);
        assert_eq!(
            Clock::until(now, 1e6).rounds(3).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(Clock::until(now, 1e6).rounds(0).count(), 0);
        assert!(Clock::until(now, 1000.0).part(0.25).left() <= Duration::from_secs(250));
    }
}
