//! The ratio of two medians, and how far it would be off by chance.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};
use statrs::function::factorial::binomial;

use super::CONFIDENCE;
use crate::statistics::find_median;

/// Number of resamples.
const RESAMPLES: usize = 400;

/// Fewest rounds of a side that tell how much its median varies, as in a report: of fewer, all resampled ones may be alike.
const LEAST_ROUNDS: usize = 6;

/// Most rounds that are worth naming: a [`ComparedPoint`](super::ComparedPoint) needs this number or more.
pub const MOST_ROUNDS: u64 = 1000;

/// The values of a contender at a point, in the order of their rounds.
pub(super) struct RoundValues {
    /// Values of each campaign of the baseline; empty for a campaign without the point.
    pub baseline: Vec<Vec<f64>>,
    pub compared: Vec<f64>,
}

impl RoundValues {
    /// Returns the medians of both sides.
    pub fn medians(&self) -> [Option<f64>; 2] {
        let medians = self.present().map(|values| find_median(values.clone())).collect();
        [find_median(medians), find_median(self.compared.clone())]
            .map(|median| Some(median).filter(|it| it.is_finite()))
    }

    fn present(&self) -> impl Iterator<Item = &Vec<f64>> {
        self.baseline.iter().filter(|values| !values.is_empty())
    }

    /// Returns the rounds that the side with the fewest lacks for any verdict.
    pub fn lacking(&self) -> Option<u64> {
        let fewest = self.present().map(Vec::len).chain([self.compared.len()]);
        LEAST_ROUNDS
            .checked_sub(fewest.min()?)
            .map(|rounds| rounds as u64)
            .filter(|&rounds| rounds > 0)
    }
}

/// The logarithm of a ratio of medians.
pub(super) struct LogRatio {
    pub log_ratio: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of that error.
    freedom: f64,
    /// The probability that equal programs differ as much in the ranks of their values, whatever the distribution.
    rank_p: f64,
}

impl LogRatio {
    /// Returns the probability of a ratio as far from 1 if the true one is 1.
    pub fn p_value(&self) -> f64 {
        if self.error == 0.0 {
            return if self.log_ratio == 0.0 { 1.0 } else { self.rank_p };
        }
        let distribution = StudentsT::new(0.0, 1.0, self.freedom);
        let p = distribution
            .map_or(1.0, |student| 2.0 * student.cdf(-(self.log_ratio / self.error).abs()));
        p.max(self.rank_p)
    }

    /// Returns the quantile of the distribution of the error, in its units.
    pub fn quantile(&self, part: f64) -> f64 {
        StudentsT::new(0.0, 1.0, self.freedom)
            .map_or(f64::INFINITY, |student| student.inverse_cdf(part))
    }

    /// Returns the rounds that are needed besides `rounds` if the ratio stays and the error shrinks with their root: until it
    /// is told from 1, or is known to be within `band`. `half` is half the width of the interval.
    pub fn count_more_rounds(&self, band: f64, half: f64, tests: usize, rounds: usize) -> u64 {
        let distance = self.log_ratio.abs();
        let mut least = 1;
        let wanted = if distance > band {
            // Holm's correction is at most that by the number of tests.
            let quantile = self.quantile(1.0 - (1.0 - CONFIDENCE) / 2.0 / tests.max(1) as f64);
            let separates = |&rounds: &usize| {
                separate_by_chance(rounds, rounds) * tests as f64 <= 1.0 - CONFIDENCE
            };
            least = (rounds..).find(separates).unwrap_or(rounds) - rounds;
            distance / (quantile * self.error)
        } else {
            (band - distance) / half
        };
        let factor = wanted.powi(-2) - 1.0;
        let more = (factor * rounds as f64).ceil().max(least as f64).clamp(1.0, MOST_ROUNDS as f64);
        if more.is_nan() { MOST_ROUNDS } else { more as u64 }
    }
}

/// Compares the medians of two sides; `None` if one has too few rounds, or values that are not positive.
///
/// The rounds are resampled in blocks of consecutive ones (a moving-block bootstrap on a circle), because a machine that warms
/// up or drifts makes neighbouring rounds alike. The spread of the resampled medians is the standard error, and Student's
/// distribution with a degree of freedom for each block but one a side makes up for the few rounds.
///
/// # References
/// H. R. Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics 17(3), 1989.
/// D. N. Politis, J. P. Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992.
pub(super) fn compare_rounds(values: &RoundValues) -> Option<LogRatio> {
    let logs = |values: &Vec<f64>| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    let baseline: Vec<Vec<f64>> = values.present().map(logs).collect();
    let compared = logs(&values.compared);
    let fewest = baseline.iter().map(Vec::len).chain([compared.len()]).min()?;
    let is_positive = baseline.iter().chain([&compared]).flatten().all(|log| log.is_finite());
    if baseline.is_empty() || fewest < LEAST_ROUNDS || !is_positive {
        return None;
    }
    let mut rng = Rng::with_seed(0);
    let difference = |baseline: Vec<f64>, compared: f64| compared - find_median(baseline);
    let medians = baseline.iter().map(|logs| find_median(logs.clone())).collect();
    let log_ratio = difference(medians, find_median(compared.clone()));
    let resampled: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let medians = (0..baseline.len()).map(|own| {
                // With three campaigns or more, the differences between them count too.
                let chosen = if baseline.len() < 3 { own } else { rng.usize(0..baseline.len()) };
                resample_median(&baseline[chosen], &mut rng)
            });
            let medians = medians.collect();
            difference(medians, resample_median(&compared, &mut rng))
        })
        .collect();
    let mean = resampled.iter().sum::<f64>() / RESAMPLES as f64;
    let variance =
        resampled.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (RESAMPLES - 1) as f64;
    let freedom: usize = baseline
        .iter()
        .chain([&compared])
        .map(|logs| logs.len() / block_length(logs.len()) - 1)
        .sum();
    Some(LogRatio {
        log_ratio,
        error: variance.sqrt(),
        freedom: freedom.max(1) as f64,
        rank_p: compare_ranks(&baseline.concat(), &compared),
    })
}

/// Returns the probability that the ranks of two samples of one distribution differ as much. Resampled medians of a program with
/// two speeds, or of a coarse clock, may all be alike by chance.
///
/// # References
/// H. B. Mann, D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other", Annals
/// of Mathematical Statistics 18(1), 1947.
fn compare_ranks(first: &[f64], second: &[f64]) -> f64 {
    let pairs = (first.len() * second.len()) as f64;
    let wins =
        |value: &f64| first.iter().map(|it| f64::from(value.total_cmp(it) as i8)).sum::<f64>();
    let ahead = second.iter().map(wins).sum::<f64>().abs();
    if ahead == pairs {
        return separate_by_chance(first.len(), second.len());
    }
    let off = (ahead - 1.0) / 2.0;
    let error = (pairs * (first.len() + second.len() + 1) as f64 / 12.0).sqrt();
    (2.0 * Normal::standard().cdf(-off / error)).min(1.0)
}

/// Returns the probability that all values of one sample exceed all of the other by chance.
fn separate_by_chance(first: usize, second: usize) -> f64 {
    (2.0 / binomial((first + second) as u64, first as u64)).min(1.0)
}

/// Returns the rounds of a block: the root of all, since a short campaign tells little about its drift.
fn block_length(rounds: usize) -> usize {
    ((rounds as f64).sqrt().round() as usize).max(1)
}

fn resample_median(values: &[f64], rng: &mut Rng) -> f64 {
    let length = block_length(values.len());
    let mut sample = Vec::with_capacity(values.len() + length);
    while sample.len() < values.len() {
        let start = rng.usize(0..values.len());
        sample.extend((start..start + length).map(|place| values[place % values.len()]));
    }
    sample.truncate(values.len());
    find_median(sample)
}
