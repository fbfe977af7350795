//! The times of several runs of one device or kernel, combined: medians, contradictions, age, and other devices of the class.

use std::collections::BTreeMap;

use isochron_hierarchy::model::Point;

use super::super::segment::StoredRun;

/// Runs that count, the latest ones.
const RUNS: usize = 8;

/// Runs of equal conditions that are looked at, the latest ones: earlier jobs have judged the others.
const LATEST: usize = 32;

/// Runs in a row that have to contradict the ones before.
pub(super) const CONTRADICTING: usize = 3;

/// Logarithm of a ratio of times up to which runs never contradict each other.
const TOLERANCE: f64 = 0.1;

/// Ratio of sizes up to which they count as one, and up to which their speeds are compared.
pub(super) const SAME: f64 = 1.05;
const NEARBY: f64 = 2.0;

/// Relative standard deviation of a time from one run, the least of one from several, and that of one from another
/// device of the class or other conditions.
const ONE_RUN: f64 = 0.05;
const LEAST: f64 = 0.02;
pub(super) const OTHER_CONDITIONS: f64 = 0.2;

/// Relative standard deviation that a month adds, and the most months.
const MONTH: f64 = 0.03;
const MONTHS: f64 = 12.0;
pub(super) const MONTH_S: f64 = 30.0 * 86_400.0;

/// Largest number of points returned for a device.
pub(super) const POINTS: usize = 24;

/// Quantile 0.975 of the normal distribution.
const QUANTILE: f64 = 1.96;

/// A run, and the median seconds a unit of every size, which follow from it once: a plan asks for them many times.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RatedRun {
    pub run: StoredRun,
    pub rates: Vec<UnitTime>,
}

/// Seconds a unit of one size, with their relative variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UnitTime {
    d: f64,
    log: f64,
    pub variance: f64,
    is_bound: bool,
}

impl UnitTime {
    pub(super) fn to_point(self) -> Point {
        let t_s = self.d * self.log.exp();
        Point {
            d: self.d as u64,
            t_s,
            reps: u32::from(!self.is_bound),
            ci_s: QUANTILE * t_s * self.variance.sqrt(),
        }
    }
}

/// Returns the runs that count, and the reason why older ones do not.
pub(super) fn drop_contradicted<'r>(runs: &[&'r RatedRun]) -> (Vec<&'r RatedRun>, Option<String>) {
    let mut counting: Vec<&RatedRun> = Vec::new();
    let mut reason = None;
    for &run in &runs[runs.len().saturating_sub(LATEST)..] {
        counting.push(run);
        let before = counting.len().saturating_sub(CONTRADICTING);
        let (old, last) = counting.split_at(before);
        if let Some(factor) = find_contradiction(old, last) {
            reason = Some(format!(
                "{CONTRADICTING} runs in a row took {factor:.2} times as long as the {} before",
                old.len()
            ));
            counting.drain(..before);
        }
        if counting.len() > RUNS {
            counting.remove(0);
        }
    }
    (counting, reason)
}

/// Returns the factor by which all of the last runs contradict the ones before them.
fn find_contradiction(old: &[&RatedRun], last: &[&RatedRun]) -> Option<f64> {
    let known: Vec<UnitTime> = old.iter().flat_map(|run| run.rates.clone()).collect();
    let off = last.iter().rev();
    // Most runs agree with those before.
    let off = off.map(|run| compare(&run.rates, &known).filter(|log| log.abs() > TOLERANCE));
    let off: Vec<f64> = off.collect::<Option<_>>()?;
    if off.is_empty() {
        return None;
    }
    let squares: Vec<f64> = old
        .iter()
        .filter_map(|run| compare(&run.rates, &known))
        .map(|log| log * log)
        .collect();
    let variance = match squares.len() {
        0 | 1 => ONE_RUN.powi(2),
        n => squares.iter().sum::<f64>() / (n - 1) as f64,
    };
    let tolerance = TOLERANCE.max(3.0 * variance.sqrt());
    let is_longer = off.iter().all(|&log| log > tolerance);
    let is_shorter = off.iter().all(|&log| log < -tolerance);
    (is_longer || is_shorter).then(|| find_median(off).exp())
}

/// Returns the logarithm of the times over others at nearby sizes; `None` without such sizes.
fn compare(rates: &[UnitTime], others: &[UnitTime]) -> Option<f64> {
    let measured = rates.iter().filter(|rate| !rate.is_bound);
    let ratios = measured.filter_map(|rate| {
        let nearby = others
            .iter()
            .filter(|other| !other.is_bound)
            .map(|other| ((other.d / rate.d).ln().abs(), other.log));
        let nearby = nearby.filter(|(distance, _)| *distance < NEARBY.ln());
        let least = nearby
            .clone()
            .map(|(distance, _)| distance)
            .fold(f64::INFINITY, f64::min);
        let nearest = nearby.filter(|(distance, _)| *distance <= least + SAME.ln());
        let nearest: Vec<f64> = nearest.map(|(_, log)| log).collect();
        (!nearest.is_empty()).then(|| rate.log - find_median(nearest))
    });
    let ratios: Vec<f64> = ratios.collect();
    (!ratios.is_empty()).then(|| find_median(ratios))
}

/// Returns the median seconds a unit of every size of a run.
pub(super) fn list_rates(run: &StoredRun) -> Vec<UnitTime> {
    run.samples
        .iter()
        .map(|sample| UnitTime {
            d: sample.units as f64,
            log: (find_median(sample.seconds.clone()) / sample.units as f64).ln(),
            variance: ONE_RUN.powi(2),
            is_bound: sample.at_least,
        })
        .collect()
}

/// Combines runs: the median of the runs' medians for sizes that count as one, up to the ratio `same`.
pub(super) fn combine(runs: &[&RatedRun], now_s: u64, same: f64) -> Vec<UnitTime> {
    let mut all = Vec::new();
    for (index, RatedRun { run, rates }) in runs.iter().enumerate() {
        let months = (now_s.saturating_sub(run.at_s) as f64 / MONTH_S).min(MONTHS);
        let age = MONTH.powi(2) * months;
        all.extend(rates.iter().map(|&rate| (rate, index, age)));
    }
    all.sort_by(|a, b| a.0.d.total_cmp(&b.0.d));
    let mut combined = Vec::new();
    while let Some((first, ..)) = all.first() {
        let limit = same * first.d;
        let end = all.partition_point(|(rate, ..)| rate.d <= limit);
        let group: Vec<(UnitTime, usize, f64)> = all.drain(..end).collect();
        combined.push(combine_size(&group));
    }
    combined
}

/// Combines times that count as those of one size, each with its run and the variance of its age. A measured time
/// replaces bounds.
pub(super) fn combine_size(group: &[(UnitTime, usize, f64)]) -> UnitTime {
    let is_bound = group.iter().all(|(rate, ..)| rate.is_bound);
    let counting = group.iter().filter(|(rate, ..)| rate.is_bound == is_bound);
    let mut of_runs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let (mut sizes, mut age) = (Vec::new(), f64::INFINITY);
    for (rate, run, of_run) in counting {
        of_runs.entry(*run).or_default().push(rate.log);
        sizes.push(rate.d);
        age = age.min(*of_run);
    }
    let logs: Vec<f64> = of_runs.into_values().map(find_median).collect();
    let log = find_median(logs.clone());
    let runs = logs.len() as f64;
    let squares: f64 = logs.iter().map(|other| (other - log).powi(2)).sum();
    let spread = match logs.len() {
        1 => ONE_RUN.powi(2),
        _ => (squares / (runs - 1.0)).max(LEAST.powi(2)),
    };
    UnitTime {
        d: find_median(sizes).round(),
        log,
        variance: spread / runs + age,
        is_bound,
    }
}

/// Extends a curve beyond its own sizes with another device's times, scaled at shared sizes.
pub(super) fn overlay(own: &mut Vec<UnitTime>, other: &[UnitTime]) {
    let Some(ratio) = compare(own, other) else {
        return;
    };
    let [least, most] = [own.first(), own.last()].map(|rate| rate.map_or(0.0, |rate| rate.d));
    let beyond = other
        .iter()
        .filter(|rate| rate.d * SAME < least || rate.d > most * SAME);
    own.extend(beyond.map(|rate| UnitTime {
        log: rate.log + ratio,
        variance: rate.variance + ONE_RUN.powi(2),
        ..*rate
    }));
    own.sort_by(|a, b| a.d.total_cmp(&b.d));
}

/// Leaves out sizes in between if there are too many.
pub(super) fn thin(rates: &[UnitTime]) -> Vec<UnitTime> {
    if rates.len() <= POINTS {
        return rates.to_vec();
    }
    let last = rates.len() - 1;
    (0..POINTS)
        .map(|index| rates[index * last / (POINTS - 1)])
        .collect()
}

/// Returns the median; there must be a value.
fn find_median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => 0.5 * (values[middle - 1] + values[middle]),
        _ => values[middle],
    }
}
