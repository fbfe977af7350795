//! A limited time.

use std::time::{Duration, Instant};

/// The time until which something has to be done.
#[derive(Debug, Clone, Copy)]
pub struct TimeBudget {
    until: Instant,
}

impl TimeBudget {
    /// Ends this many seconds after `begin`.
    pub fn until(begin: Instant, seconds: f64) -> Self {
        Self {
            until: begin + Duration::from_secs_f64(seconds.clamp(0.0, 1e6)),
        }
    }

    /// Returns the rest.
    pub fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Returns a share of the rest, which begins now.
    pub fn take_share(self, share: f64) -> Self {
        Self::until(Instant::now(), share * self.left().as_secs_f64())
    }

    /// Counts rounds from 0: `most`, or fewer if another one as long as the longest so far would end too late. There is
    /// always a first one.
    pub fn rounds(self, most: usize) -> impl Iterator<Item = usize> {
        let (mut began, mut longest) = (None::<Instant>, Duration::ZERO);
        (0..most).take_while(move |_| {
            let before = began.replace(Instant::now());
            longest = longest.max(before.map_or(Duration::ZERO, |began| began.elapsed()));
            before.is_none() || self.left() >= longest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_always_run_and_more_while_there_is_time() {
        let now = Instant::now();
        assert_eq!(TimeBudget::until(now, 0.0).rounds(3).count(), 1);
        let long = TimeBudget::until(now, 1e6);
        assert_eq!(long.rounds(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(long.rounds(0).count(), 0);
        let share = TimeBudget::until(now, 1000.0).take_share(0.25);
        assert!(share.left() <= Duration::from_secs(250));
    }
}
