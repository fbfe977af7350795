//! Knowledge of the parts before the first step.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Adaptive, AdaptiveError, AdaptivePart, Observed, Tuning};

/// The parts of a run and the times of its measurements, from which learning begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FirstLook {
    /// Settings, as they suit this run. A unit is an element of C.
    pub config: Tuning,
    /// The parts: the devices of all nodes, by rank.
    pub parts: Vec<AdaptivePart>,
    /// Every measurement, in order.
    pub measurements: Vec<Observed>,
    /// Seconds that a byte of a message takes from the arithmetic of each node.
    pub byte_s: Vec<f64>,
}

impl FirstLook {
    /// Begins a run of `steps` steps of `total` units each by some of the parts alone. A step takes `factor`
    /// times as long as a measurement of as many units.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::WrongLength`] if there are no such parts; else the errors of [`Adaptive::new`] and
    /// [`Adaptive::observe`].
    pub fn begin(
        &self,
        parts: Range<usize>,
        total: u64,
        steps: u64,
        factor: f64,
    ) -> Result<Adaptive, AdaptiveError> {
        let mut chosen = select(&self.parts, &parts)?.to_vec();
        for point in chosen.iter_mut().flat_map(|part| &mut part.prior) {
            point.t_s *= factor;
            point.ci_s *= factor;
        }
        let mut learner = Adaptive::new(self.config, total, steps, chosen)?;
        for measured in &self.measurements {
            let samples = select(&measured.samples, &parts)?.iter();
            learner.observe(&Observed {
                samples: samples.map(|sample| sample.scale_to(factor * sample.seconds)).collect(),
                ..*measured
            })?;
        }
        learner.fit_models();
        Ok(learner)
    }
}

fn select<'a, T>(all: &'a [T], parts: &Range<usize>) -> Result<&'a [T], AdaptiveError> {
    all.get(parts.clone()).ok_or(AdaptiveError::WrongLength { wanted: parts.end, got: all.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    #[test]
    fn a_run_of_some_parts_begins_with_what_was_seen_of_them() {
        let look = FirstLook {
            parts: vec![AdaptivePart::default(); 3],
            measurements: vec![Observed::undisturbed(true, 0, &[10; 3], &[1.0, 2.0, 4.0])],
            ..FirstLook::default()
        };
        let learner = look.begin(1..3, 90, 7, 0.5).expect("valid");
        let (units, longest_s) = learner.divide_among(0..2, 90).expect("divisible");
        assert_eq!(units.iter().sum::<u64>(), 90);
        assert!(units[0] > 55 && (longest_s - 6.0).abs() < 0.7, "{units:?} {longest_s}");
        assert!(look.begin(2..4, 90, 7, 1.0).is_err());
        let mut known = look.clone();
        known.measurements.clear();
        for (part, t_s) in known.parts.iter_mut().zip([1.0, 2.0, 4.0]) {
            part.prior = vec![Point { d: 10, t_s, reps: 1, ci_s: 0.1 * t_s }];
        }
        let learner = known.begin(1..3, 90, 7, 0.5).expect("valid");
        let (same, same_s) = learner.divide_among(0..2, 90).expect("divisible");
        assert!(same[0] > 55 && (same_s - 6.0).abs() < 0.7, "{same:?} {same_s}");
        assert!(look.begin(0..2, 90, 7, f64::NAN).is_err());
    }

    /// Returns a run of two parts with earlier points.
    fn begin_known(needs_probe: bool) -> Adaptive {
        let parts = [1.0, 2.0].map(|t_s| AdaptivePart {
            prior: vec![Point { d: 60, t_s, reps: 3, ci_s: 0.1 * t_s }],
            needs_probe,
            ..AdaptivePart::default()
        });
        let look = FirstLook { parts: parts.to_vec(), ..FirstLook::default() };
        look.begin(0..2, 90, 7, 1.0).expect("valid")
    }

    /// Begins a run of two alike parts. The first part also has this earlier point.
    fn begin_alike(d: u64, t_s: f64, reps: u32) -> Adaptive {
        let measured = Point { d: 30, t_s: 1.0, reps: 3, ci_s: 0.05 };
        let other = Point { d, t_s, reps, ci_s: 0.0 };
        let parts = [vec![measured, other], vec![measured]]
            .map(|prior| AdaptivePart { prior, ..AdaptivePart::default() });
        let look = FirstLook { parts: parts.to_vec(), ..FirstLook::default() };
        look.begin(0..2, 90, 7, 1.0).expect("valid")
    }

    #[test]
    fn a_bound_is_no_time() {
        let divide =
            |d, t_s, reps| begin_alike(d, t_s, reps).divide_among(0..2, 90).expect("divisible").0;
        // A bound below the expected time, and bounds that an equal or larger measured size contradicts.
        for (d, t_s) in [(60, 0.5), (20, 30.0), (30, 30.0)] {
            assert_eq!(divide(d, t_s, 0), [45, 45], "{d} {t_s}");
        }
        let kept_below = divide(45, 30.0, 0);
        assert!((30..43).contains(&kept_below[0]), "{kept_below:?}");
        assert!(divide(60, 0.5, 3)[0] > 50);
    }

    #[test]
    fn a_part_with_bounds_alone_is_looked_at() {
        let bound = Point { d: 60, t_s: 9.0, reps: 0, ci_s: 0.0 };
        for needs_probe in [false, true] {
            let part = AdaptivePart { prior: vec![bound], needs_probe, ..AdaptivePart::default() };
            let look = FirstLook { parts: vec![part; 2], ..FirstLook::default() };
            let mut learner = look.begin(0..2, 90, 7, 1.0).expect("valid");
            assert!(matches!(learner.request_measurement(), Ok(Some(_))));
        }
    }

    #[test]
    fn a_part_that_is_known_is_not_measured_again() {
        let mut learner = begin_known(false);
        assert_eq!(learner.request_measurement(), Ok(None));
        let (units, _) = learner.divide_among(0..2, 90).expect("divisible");
        assert!((58..=62).contains(&units[0]), "{units:?}");
    }

    #[test]
    fn one_measurement_scales_what_other_conditions_told() {
        let mut learner = begin_known(true);
        let units = learner.request_measurement().expect("valid").expect("a probe");
        assert!(units.iter().all(|&d| d > 0 && d < 30), "{units:?}");
        // The first part is half as fast as then, the second one as fast.
        let times_s = [units[0] as f64 / 30.0, units[1] as f64 / 30.0];
        let observed = Observed::undisturbed(true, 0, &units, &times_s);
        learner.observe(&observed).expect("valid");
        assert_eq!(learner.request_measurement(), Ok(None));
        let (units, longest_s) = learner.divide_among(0..2, 90).expect("divisible");
        assert!((43..=47).contains(&units[0]), "{units:?}");
        assert!((longest_s - 1.5).abs() < 0.1, "{longest_s}");
    }
}
