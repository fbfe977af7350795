//! Repetitions of an update, until the mean of every device is known well enough.

use std::time::Instant;

use isochron_hierarchy::times::{
    MeasureOutcome, Measurement, OutlierRule, RunningMean, Sample, SortedTimes,
};

use super::MeasureConfig;
use crate::contract::DeviceError;

/// Up to this number of repetitions the precision is checked after each. Later it is checked after every sixteenth
/// more, because a check costs more the more there are.
const FEW: usize = 64;

/// Disturbances: far beyond the other times, and rare.
const DISTURBANCES: OutlierRule = OutlierRule {
    floor: 1.0,
    scattered: 4,
    unusual: 3.5,
    rare: 1.0 / 3.0,
    contradiction: 2.0,
    many: 8,
};

/// Decides on another repetition, given whether this node needs one.
pub type InStep<'a> = dyn FnMut(bool) -> bool + 'a;

/// Repeats as long as this node needs to: the [`InStep`] of a node that measures by itself.
pub fn repeat_alone(needed: bool) -> bool {
    needed
}

/// Repeats `run` until the mean of every device has the precision, or the repetitions or the time are used up.
/// `run` returns the time of each device in one common repetition, in which each does its `units`.
///
/// [Disturbances](SortedTimes) are measured again and not averaged in, and few times that contradict each other are not
/// believed. At most half of `max_reps` repetitions more are spent on both. Without devices nothing is repeated.
///
/// `in_step` has the last word on every repetition. So several nodes can repeat in step as long as one of them needs
/// to; with [`repeat_alone`] this node decides. Repetitions for other nodes count as well.
///
/// # Deviations
/// * **Fewest repetitions**: the paper checks the precision from repetition `minReps + 2` on (supplement of the HPOPTA
///   paper, section 1, algorithm 1). Here from `min_reps` on, because each repetition costs time of the run.
/// * **Time limit**: the paper checks it from repetition `minReps + 2` on (supplement of the HPOPTA paper, section 1,
///   algorithm 1). Here it holds from the first one, because an update that exceeds it alone would be repeated
///   otherwise. The [outcome](Measurement::outcome) then is [`OutOfTime`](MeasureOutcome::OutOfTime).
/// * **Measuring again**: the paper never exceeds `maxReps`, and raises it if the precision was not reached (supplement
///   of the HPOPTA paper, section 1). Here up to half as many more replace disturbed repetitions, because a mean over
///   fewer times would be less precise.
/// * **Checks of the precision**: the paper checks after every repetition (supplement of the HPOPTA paper, section 1,
///   algorithm 1). Here after every sixteenth more from 64 on, because a check reads all times.
///
/// # Errors
/// Returns [`DeviceError::Measure`] for a configuration out of range; the errors of `run`, at once.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 1.
pub(super) fn repeat_until_confident(
    units: &[u64],
    config: &MeasureConfig,
    run: &mut dyn FnMut() -> Result<Vec<f64>, DeviceError>,
    in_step: &mut InStep<'_>,
) -> Result<Vec<Measurement>, DeviceError> {
    config.validate()?;
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let mut repetitions = Repetitions::new(units, config);
    while in_step(repetitions.needs_more()) {
        let times = run()?;
        tracing::trace!(times_s = ?times, "repetition");
        assert_eq!(times.len(), units.len(), "one time for each device");
        repetitions.add_times(&times);
    }
    Ok(repetitions.summarize())
}

/// The repetitions so far.
struct Repetitions<'a> {
    config: &'a MeasureConfig,
    /// The units of each device.
    units: &'a [u64],
    start: Instant,
    /// The times of each device.
    times: Vec<Vec<f64>>,
    /// The sum of each device's times.
    busy_s: Vec<f64>,
    /// `true` if the times were good enough at the last check.
    good: bool,
    /// Number of times at which the next check is due.
    next_check: usize,
}

impl<'a> Repetitions<'a> {
    fn new(units: &'a [u64], config: &'a MeasureConfig) -> Self {
        Self {
            config,
            units,
            start: Instant::now(),
            times: vec![Vec::new(); units.len()],
            busy_s: vec![0.0; units.len()],
            good: false,
            next_check: config.min_reps as usize,
        }
    }

    fn add_times(&mut self, times: &[f64]) {
        for ((all, sum_s), &t_s) in self.times.iter_mut().zip(&mut self.busy_s).zip(times) {
            all.push(t_s);
            *sum_s += t_s;
        }
    }

    fn count(&self) -> usize {
        self.times[0].len()
    }

    /// Returns `true` if the time is used up; never before the first repetition.
    fn is_out_of_time(&self) -> bool {
        let busy_s = self.busy_s.iter().copied().fold(0.0, f64::max);
        let spent_s = self.start.elapsed().as_secs_f64().max(busy_s);
        spent_s >= self.config.max_seconds && self.count() > 0
    }

    /// Returns `true` if this node needs another repetition.
    fn needs_more(&mut self) -> bool {
        let (count, max) = (self.count(), self.config.max_reps as usize);
        if count >= max + max.div_ceil(2) || self.is_out_of_time() {
            return false;
        }
        if count >= self.next_check || count == max {
            self.good = self.times.iter().all(|times| self.is_enough(times));
            let pause = if count < FEW { 1 } else { count / 16 };
            self.next_check = count + pause;
        }
        !self.good
    }

    /// Returns `true` if one device's times are good enough.
    fn is_enough(&self, times: &[f64]) -> bool {
        let sorted = SortedTimes::from_times(times, &DISTURBANCES);
        self.is_precise(&sorted)
            || sorted.own.len() >= self.config.max_reps as usize && !sorted.contradictory
    }

    fn is_precise(&self, sorted: &SortedTimes) -> bool {
        let mean = RunningMean::of(&sorted.own);
        sorted.own.len() >= self.config.min_reps as usize
            && mean.half_width(self.config.confidence) <= self.config.precision * mean.mean
    }

    /// Returns the measurement of each device.
    fn summarize(&self) -> Vec<Measurement> {
        let out_of_time = self.is_out_of_time();
        self.times
            .iter()
            .zip(self.units)
            .map(|(times, &units)| self.summarize_device(units, times, out_of_time))
            .collect()
    }

    fn summarize_device(&self, units: u64, times: &[f64], out_of_time: bool) -> Measurement {
        if times.is_empty() {
            return Measurement::default();
        }
        let sorted = SortedTimes::from_times(times, &DISTURBANCES);
        let outcome = if self.is_precise(&sorted) {
            MeasureOutcome::Precise
        } else if out_of_time {
            MeasureOutcome::OutOfTime
        } else {
            MeasureOutcome::OutOfRepetitions
        };
        let SortedTimes { own, outliers, .. } = sorted;
        let mean = RunningMean::of(&own);
        let half_width_s = mean.half_width(self.config.confidence);
        let reps = saturate_count(own.len());
        Measurement {
            sample: Sample::measured(units, mean.mean, reps, mean.standard_error())
                .with_cost(own.iter().sum()),
            ci_s: if half_width_s.is_finite() { half_width_s } else { mean.mean },
            outliers: saturate_count(outliers),
            repetitions_s: own,
            outcome,
        }
    }
}

fn saturate_count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays repetitions, then repeats the last one. Returns the measurements and the number of repetitions.
    fn replay(config: &MeasureConfig, reps: &[&[f64]]) -> (Vec<Measurement>, usize) {
        let mut asked = 0;
        let found = repeat_until_confident(
            &vec![7; reps[0].len()],
            config,
            &mut || {
                asked += 1;
                Ok(reps[(asked - 1).min(reps.len() - 1)].to_vec())
            },
            &mut repeat_alone,
        );
        (found.unwrap(), asked)
    }

    /// Repeats times that are made up from the number of the repetition, from 1. Returns the measurement and the number
    /// of repetitions.
    fn repeat_made_up(
        config: &MeasureConfig,
        time_s: impl Fn(usize) -> f64,
        in_step: &mut InStep<'_>,
    ) -> (Measurement, usize) {
        let mut asked = 0;
        let found = repeat_until_confident(
            &[7],
            config,
            &mut || {
                asked += 1;
                Ok(vec![time_s(asked)])
            },
            in_step,
        );
        let found = found.unwrap().remove(0);
        assert_eq!(found.repetitions_s.len(), found.sample.reps as usize);
        (found, asked)
    }

    #[test]
    fn equal_times_stop_at_the_minimum() {
        let (found, asked) = replay(&MeasureConfig::default(), &[&[0.5, 0.25]]);
        assert_eq!(asked, 3);
        assert_eq!(found[1].sample.seconds, 0.25);
        assert!(found.iter().all(|m| m.is_precise() && m.sample.reps == 3 && m.ci_s == 0.0));
    }

    #[test]
    fn the_least_certain_device_decides() {
        let noisy: &[&[f64]] = &[&[0.2, 0.1], &[0.2, 0.12], &[0.2, 0.11], &[0.2, 0.11]];
        let (found, asked) = replay(&MeasureConfig::default(), noisy);
        assert!(asked > 4 && asked < 20, "{asked}");
        assert!(found.iter().all(Measurement::is_precise));
        assert!(found[1].ci_s <= 0.025 * found[1].sample.seconds);
        // The steady device was averaged over the same repetitions.
        assert_eq!(found[0].sample.reps as usize, asked);
    }

    #[test]
    fn hopeless_noise_ends_at_the_maximum() {
        let (found, asked) = repeat_made_up(
            &MeasureConfig::default(),
            |number| [0.375, 0.125][number % 2],
            &mut repeat_alone,
        );
        assert_eq!(asked, 20);
        assert_eq!(found.outcome, MeasureOutcome::OutOfRepetitions);
        assert_eq!((found.sample.seconds, found.sample.reps, found.outliers), (0.25, 20, 0));
        assert_eq!((found.is_normal(), found.fastest_s()), (Some(false), 0.125));
    }

    #[test]
    fn a_spike_is_measured_again() {
        let (found, asked) =
            replay(&MeasureConfig::default(), &[&[1.0], &[60.0 / 8.0], &[1.0], &[1.0]]);
        assert_eq!(asked, 4);
        assert_eq!((found[0].sample.seconds, found[0].sample.reps, found[0].outliers), (1.0, 3, 1));
        assert!(found[0].is_precise());
    }

    #[test]
    fn two_spikes_of_three_are_not_believed_yet() {
        let config = MeasureConfig { max_reps: 4, ..MeasureConfig::default() };
        let (found, asked) = replay(&config, &[&[1.5], &[0.125], &[1.75], &[0.125]]);
        assert_eq!(asked, 6, "half as many more");
        assert_eq!(
            (found[0].sample.seconds, found[0].sample.reps, found[0].outliers),
            (0.125, 4, 2)
        );
        assert!(found[0].is_precise());
    }

    #[test]
    fn a_device_with_two_speeds_is_believed_in_the_end() {
        let config = MeasureConfig { max_reps: 4, ..MeasureConfig::default() };
        let two_speeds: &[&[f64]] = &[&[1.25], &[0.5], &[0.5], &[1.25], &[0.5], &[1.25]];
        let (found, asked) = replay(&config, two_speeds);
        assert_eq!(asked, 6, "it was given the chance to be a disturbance");
        assert_eq!(
            (found[0].sample.seconds, found[0].sample.reps, found[0].outliers),
            (0.875, 6, 0)
        );
        assert_eq!(found[0].outcome, MeasureOutcome::OutOfRepetitions);
    }

    #[test]
    fn many_repetitions_are_checked_now_and_then() {
        let config = MeasureConfig { max_reps: 1000, max_seconds: 1e9, ..MeasureConfig::default() };
        // Too unsteady until about the 100th repetition, and ever better.
        let (found, _) =
            repeat_made_up(&config, |number| 1.0 + [-0.125, 0.125][number % 2], &mut repeat_alone);
        assert!(found.is_precise());
        let enough = f64::from(found.sample.reps);
        // t·s/√n = 0.025 at n = (1.98·0.125/0.025)² = 98.
        assert!((98.0..110.0).contains(&enough), "{enough}");
    }

    #[test]
    fn a_higher_confidence_widens_the_interval_and_not_the_standard_error() {
        let found = [0.95, 0.99].map(|confidence| {
            let config = MeasureConfig { confidence, max_reps: 3, ..MeasureConfig::default() };
            let noisy: &[&[f64]] = &[&[0.9], &[1.0], &[1.1]];
            replay(&config, noisy).0.remove(0)
        });
        assert!(found[1].ci_s > 2.3 * found[0].ci_s, "{found:?}");
        assert_eq!(found[0].sample.error_s, found[1].sample.error_s);
        assert!((found[0].sample.error_s - 0.1 / 3.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_slow_update_is_not_repeated() {
        let (found, asked) = replay(&MeasureConfig::default(), &[&[0.1, 11.0]]);
        assert_eq!(asked, 1);
        let once = [0.1, 11.0].map(|t_s| Measurement {
            sample: Sample::measured(7, t_s, 1, 0.0).with_cost(t_s),
            repetitions_s: vec![t_s],
            ci_s: t_s,
            outliers: 0,
            outcome: MeasureOutcome::OutOfTime,
        });
        assert_eq!(found, once);
    }

    #[test]
    fn an_error_ends_it_at_once() {
        let mut asked = 0;
        let found = repeat_until_confident(
            &[7],
            &MeasureConfig::default(),
            &mut || {
                asked += 1;
                Err(DeviceError::Panic("burnt".to_owned()))
            },
            &mut repeat_alone,
        );
        assert!(found.is_err());
        assert_eq!(asked, 1);
    }

    #[test]
    fn repetitions_for_other_nodes_count() {
        let mut needs = Vec::new();
        let (found, _) = repeat_made_up(
            &MeasureConfig::default(),
            |number| if number <= 3 { 1.0 } else { 1.125 },
            &mut |needed| {
                needs.push(needed);
                needs.len() <= 6
            },
        );
        assert_eq!((found.sample.reps, found.sample.seconds), (6, 1.0625));
        assert_eq!(needs[..4], [true, true, true, false]);
    }

    #[test]
    fn no_node_needs_a_repetition() {
        let (found, asked) = repeat_made_up(&MeasureConfig::default(), |_| 1.0, &mut |_| false);
        assert_eq!((found, asked), (Measurement::default(), 0));
    }
}
