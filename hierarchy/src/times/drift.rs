//! The running estimate of a part's time at one size, and the detection of drift.

use serde::{Deserialize, Serialize};

use super::Noise;

/// The numbers that tell drift from disturbances and noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DriftRule {
    /// Standard deviations beyond which a time counts as disturbed, and towards drift as this many.
    pub cut: f64,
    /// Standard deviations that each time may be off without counting towards drift.
    pub allowed: f64,
    /// Sum of standard deviations beyond those allowed that is called drift. Three disturbed times in a row reach it, or
    /// two that agree. Noise does in one of ten million times.
    pub alarm: f64,
    /// Standard deviations by which two times agree on a change: disturbances differ in length.
    pub clear: f64,
    /// Least ratio of the logarithms of two factors that agree.
    pub agreement: f64,
}

/// Logarithms of a part's times at one size.
///
/// The estimate is a filter that starts at the time that the model expects. A disturbed time does not
/// enter. The mean of those that entered is the measured point of this size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SizeLevel {
    pub d: u64,
    estimate: f64,
    variance: f64,
    /// Mean of the logarithms, and their number; 0 before the first.
    pub mean: f64,
    pub count: f64,
    pub bursts: f64,
    burst: u64,
    /// Relative variance beside the noise: of other conditions than those of the run.
    pub doubt: f64,
    /// Sum of the logarithms by which large drifts have scaled the time. A part that has recovered has its old times again.
    pub shifted: f64,
}

/// Variance of an unknown time, beside which any other is nothing.
const UNKNOWN: f64 = 1e6;

/// A time, and its distance to the one expected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deviation {
    pub d: u64,
    /// Logarithm of the time.
    pub log_s: f64,
    /// Logarithm of the time over the expected one.
    pub residual: f64,
    /// The same in standard deviations.
    pub off: f64,
}

impl SizeLevel {
    /// Starts at the expected logarithm of the time, with its variance.
    pub fn new(d: u64, expected: f64, variance: f64, burst: u64) -> Self {
        Self {
            d,
            estimate: expected,
            variance,
            mean: 0.0,
            count: 0.0,
            bursts: 1.0,
            burst,
            doubt: 0.0,
            shifted: 0.0,
        }
    }

    /// Starts at a size of which nothing is known: the first time is taken as it is.
    pub fn unknown(d: u64, burst: u64) -> Self {
        Self::new(d, 0.0, UNKNOWN, burst)
    }

    /// Makes the level of an earlier mean of `count` times.
    pub fn of_mean(d: u64, mean: f64, count: f64, doubt: f64) -> Self {
        Self { mean, count, doubt, ..Self::unknown(d, 0) }
    }

    /// Takes the logarithm of a time, and returns its deviation from the times before. More than `cut` standard deviations
    /// are a disturbance.
    pub fn observe(&mut self, log_s: f64, burst: u64, noise: &mut Noise, cut: f64) -> Deviation {
        if burst != self.burst {
            self.burst = burst;
            self.bursts += 1.0;
            self.variance += noise.between();
        } else if self.count > 0.0 {
            noise.learn_within(log_s - self.mean, self.count);
        }
        let expected = self.variance + noise.within();
        let residual = log_s - self.estimate;
        let off = residual / expected.sqrt();
        let is_first = self.count == 0.0 && off.abs() > cut;
        let was_disturbed = self.count == 1.0 && off < -cut;
        if is_first || was_disturbed {
            // Nothing but the model contradicts the first time. Disturbances only lengthen times, so an only
            // time that is much longer than the next was disturbed.
            (self.estimate, self.variance) = (log_s, noise.within());
            (self.mean, self.count) = (log_s, 1.0);
        } else if off.abs() <= cut {
            let gain = self.variance / expected;
            self.estimate += gain * residual;
            self.variance *= 1.0 - gain;
            self.count += 1.0;
            self.mean += (log_s - self.mean) / self.count;
        }
        Deviation { d: self.d, log_s, residual, off }
    }
}

/// Watches the deviations of a part's times for a lasting change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Watch {
    longer: Suspicion,
    shorter: Suspicion,
    #[serde(skip)]
    rule: DriftRule,
}

/// A cumulative sum of deviations to one side, and these deviations.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Suspicion {
    sum: f64,
    deviations: Vec<Deviation>,
}

/// A lasting change of a part's speed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shift {
    /// Logarithm of the times after it over those before.
    pub log_factor: f64,
    /// The deviations after it.
    pub deviations: Vec<Deviation>,
}

impl Watch {
    /// Begins to watch by these numbers.
    pub fn new(rule: DriftRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Takes a deviation. Returns a shift if the times have been off for long enough, and starts afresh.
    pub fn observe(&mut self, deviation: Deviation) -> Option<Shift> {
        let rule = self.rule;
        let longer = self.longer.observe(deviation, deviation.off, &rule);
        let shorter = self.shorter.observe(deviation, -deviation.off, &rule);
        let shift = longer.or(shorter)?;
        *self = Self::new(rule);
        Some(shift)
    }
}

impl Suspicion {
    fn observe(&mut self, deviation: Deviation, off: f64, rule: &DriftRule) -> Option<Shift> {
        let is_repeated = self.is_repeated(deviation, rule);
        let most = if is_repeated { rule.clear } else { rule.cut };
        self.sum = (self.sum + off.min(most) - rule.allowed).max(0.0);
        if self.sum == 0.0 {
            self.deviations.clear();
            return None;
        }
        self.deviations.push(deviation);
        (self.sum > rule.alarm).then(|| self.find_shift(is_repeated))
    }

    /// Returns `true` if the time before was off by about the same factor, and both clearly.
    fn is_repeated(&self, deviation: Deviation, rule: &DriftRule) -> bool {
        self.deviations.last().is_some_and(|last| {
            let [less, more] = [last.residual, deviation.residual].map(f64::abs);
            let is_clear = last.off.abs().min(deviation.off.abs()) >= rule.clear;
            is_clear && less.min(more) >= rule.agreement * less.max(more)
        })
    }

    /// Returns the shift that begins with the first deviation of at least half of their median. If the last deviation
    /// repeats the one before, it stands for the median: noise before both may be more than half of all.
    fn find_shift(&self, is_repeated: bool) -> Shift {
        let last = self.deviations.last().filter(|_| is_repeated);
        let middle = last.map_or_else(|| find_residual(&self.deviations), |last| last.residual);
        let before = self.deviations.iter().take_while(|x| x.residual / middle < 0.5).count();
        let deviations = self.deviations[before..].to_vec();
        Shift { log_factor: find_residual(&deviations), deviations }
    }
}

/// Returns the upper median of the residuals, which is one of them; 0 without any.
fn find_residual(deviations: &[Deviation]) -> f64 {
    let mut sorted: Vec<f64> = deviations.iter().map(|x| x.residual).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::NoiseRule;

    fn observe_all(times: &[f64]) -> (SizeLevel, Option<(usize, Shift)>) {
        let mut level = SizeLevel::new(10, 0.0, 1e-4, 0);
        let mut noise = Noise::new(NoiseRule::default());
        let mut watch = Watch::default();
        for (i, &time) in times.iter().enumerate() {
            if let Some(shift) = watch.observe(level.observe(time, 0, &mut noise, 4.0)) {
                return (level, Some((i, shift)));
            }
        }
        (level, None)
    }

    #[test]
    fn one_disturbed_time_hardly_counts() {
        let mut times = [0.01, -0.01].repeat(10);
        times[7] = 7.0;
        let (level, shift) = observe_all(&times);
        assert!(level.mean.abs() < 0.01 && level.count == 19.0 && shift.is_none(), "{level:?}");
    }

    #[test]
    fn a_lasting_change_is_found_in_three_times_with_its_factor() {
        // Two are enough if noise cannot be that large.
        for (factor, last) in [(4.0_f64, 21), (0.25, 21), (1.1, 22)] {
            let mut times = [0.01, -0.01].repeat(10);
            times.extend([factor.ln(); 5]);
            let (_, shift) = observe_all(&times);
            let (at, shift) = shift.expect("a shift");
            assert_eq!(at, last, "{factor}");
            assert!((shift.log_factor.exp() / factor - 1.0).abs() < 0.1, "{shift:?}");
        }
    }

    #[test]
    fn noise_before_a_large_change_is_no_part_of_it() {
        let mut watch = Watch::default();
        let deviations = [0.03, 0.04, 0.05, 0.06].into_iter().map(|x| (x, 2.0));
        let shifts = deviations.chain([(2.1, 70.0), (2.1, 70.0)]).filter_map(|(residual, off)| {
            watch.observe(Deviation { d: 10, log_s: residual, residual, off })
        });
        let shifts: Vec<Shift> = shifts.collect();
        assert_eq!(shifts.len(), 1);
        assert_eq!((shifts[0].log_factor, shifts[0].deviations.len()), (2.1, 2));
    }

    #[test]
    fn two_disturbances_of_unlike_length_are_not_called_drift() {
        let mut times = [0.01, -0.01].repeat(10);
        times[10..12].copy_from_slice(&[3.0, 1.0]);
        let (_, shift) = observe_all(&times);
        assert_eq!(shift, None);
    }

    #[test]
    fn noise_is_not_called_drift() {
        let mut state = 1_u64;
        let times: Vec<f64> = (0..20_000)
            .map(|_| {
                let draws = (0..12).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 11) as f64 / (1_u64 << 53) as f64
                });
                0.06 * (draws.sum::<f64>() - 6.0)
            })
            .collect();
        assert!(observe_all(&times).1.is_none());
    }
}
