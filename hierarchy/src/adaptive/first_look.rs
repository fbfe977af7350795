//! What is known of the parts before the first step.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Adaptive, AdaptiveConfig, AdaptiveError, AdaptivePart, Observed};

/// The parts of a run and the times of its measurements, from which learning begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FirstLook {
    /// Settings.
    pub config: AdaptiveConfig,
    /// The parts.
    pub parts: Vec<AdaptivePart>,
    /// Every measurement, in order.
    pub measurements: Vec<Observed>,
    /// Seconds that a byte of a message takes from the work of each node.
    pub byte_s: Vec<f64>,
}

impl FirstLook {
    /// Begins a run of `steps` steps of `total` units each by some of the parts alone. A step takes `factor`
    /// times as long as a measurement of as many units.
    ///
    /// # Errors
    /// [`AdaptiveError::WrongLength`] if there are no such parts; else those of [`Adaptive::new`] and
    /// [`Adaptive::observe`].
    pub fn begin(
        &self,
        parts: Range<usize>,
        (total, steps): (u64, u64),
        factor: f64,
    ) -> Result<Adaptive, AdaptiveError> {
        let chosen = select(&self.parts, &parts)?.to_vec();
        let mut learner = Adaptive::new(self.config, total, steps, chosen)?;
        for measured in &self.measurements {
            let times_s = select(&measured.times_s, &parts)?.iter();
            learner.observe(&Observed {
                units: select(&measured.units, &parts)?.to_vec(),
                times_s: times_s.map(|time_s| time_s * factor).collect(),
                ..*measured
            })?;
        }
        learner.fit_models();
        Ok(learner)
    }
}

fn select<'a, T>(all: &'a [T], parts: &Range<usize>) -> Result<&'a [T], AdaptiveError> {
    all.get(parts.clone()).ok_or(AdaptiveError::WrongLength {
        wanted: parts.end,
        got: all.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_some_parts_begins_with_what_was_seen_of_them() {
        let look = FirstLook {
            parts: vec![AdaptivePart::default(); 3],
            measurements: vec![Observed {
                is_measurement: true,
                burst: 0,
                units: vec![10, 10, 10],
                times_s: vec![1.0, 2.0, 4.0],
            }],
            ..FirstLook::default()
        };
        let learner = look.begin(1..3, (90, 7), 0.5).expect("valid");
        let (units, longest_s) = learner.divide_among(0..2, 90).expect("divisible");
        assert_eq!(units.iter().sum::<u64>(), 90);
        assert!(
            units[0] > 55 && (longest_s - 6.0).abs() < 0.7,
            "{units:?} {longest_s}"
        );
        assert!(look.begin(2..4, (90, 7), 1.0).is_err());
        assert!(look.begin(0..2, (90, 7), f64::NAN).is_err());
    }
}
