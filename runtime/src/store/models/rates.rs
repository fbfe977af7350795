//! The times of several runs of one device or kernel, combined: medians, contradictions, age, and other devices of the class.

use std::collections::BTreeMap;

use isochron_hierarchy::times::{LogTime, Quality, find_median};

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

/// Returns the runs that count, and the reason why older ones do not.
pub(super) fn drop_outdated<'r>(runs: &[&'r StoredRun]) -> (Vec<&'r StoredRun>, Option<String>) {
    let mut counting: Vec<&StoredRun> = Vec::new();
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
fn find_contradiction(old: &[&StoredRun], last: &[&StoredRun]) -> Option<f64> {
    let known: Vec<LogTime> = old.iter().flat_map(|run| list_times(run)).collect();
    let off: Vec<f64> = last
        .iter()
        .rev()
        // Most runs agree with those before.
        .map(|run| compare(&list_times(run), &known).filter(|log| log.abs() > TOLERANCE))
        .collect::<Option<_>>()?;
    if off.is_empty() {
        return None;
    }
    let squares: Vec<f64> = old
        .iter()
        .filter_map(|run| compare(&list_times(run), &known))
        .map(|log| log * log)
        .collect();
    let variance = match squares.len() {
        0 | 1 => ONE_RUN.powi(2),
        n => squares.iter().sum::<f64>() / (n - 1) as f64,
    };
    let tolerance = TOLERANCE.max(3.0 * variance.sqrt());
    let is_longer = off.iter().all(|&log| log > tolerance);
    let is_shorter = off.iter().all(|&log| log < -tolerance);
    (is_longer || is_shorter).then(|| find_median(&off).exp())
}

/// Returns the logarithm of the times a unit over those of others at nearby sizes; `None` without such sizes.
fn compare(times: &[LogTime], others: &[LogTime]) -> Option<f64> {
    let ratios: Vec<f64> = times
        .iter()
        .filter(|time| !time.is_bound())
        .filter_map(|time| {
            let nearby = others
                .iter()
                .filter(|other| !other.is_bound())
                .map(|other| ((other.d / time.d).ln().abs(), other.unit_log()))
                .filter(|(distance, _)| *distance < NEARBY.ln());
            let least = nearby.clone().map(|(distance, _)| distance).fold(f64::INFINITY, f64::min);
            let nearest: Vec<f64> = nearby
                .filter(|(distance, _)| *distance <= least + SAME.ln())
                .map(|(_, log)| log)
                .collect();
            (!nearest.is_empty()).then(|| time.unit_log() - find_median(&nearest))
        })
        .collect();
    (!ratios.is_empty()).then(|| find_median(&ratios))
}

/// Returns the median time of every size of a run.
fn list_times(run: &StoredRun) -> Vec<LogTime> {
    run.samples
        .iter()
        .map(|series| LogTime {
            d: series.units as f64,
            log_s: find_median(&series.seconds).ln(),
            variance: ONE_RUN.powi(2),
            quality: if series.at_least { Quality::AtLeast } else { Quality::Measured },
        })
        .collect()
}

/// Combines runs: the median of the runs' medians for sizes that count as one, up to the ratio `same`.
pub(super) fn combine(runs: &[&StoredRun], now_s: u64, same: f64) -> Vec<LogTime> {
    let mut all: Vec<(usize, LogTime)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let months = (now_s.saturating_sub(run.at_s) as f64 / MONTH_S).min(MONTHS);
        let age = MONTH.powi(2) * months;
        all.extend(
            list_times(run).into_iter().map(|time| (index, LogTime { variance: age, ..time })),
        );
    }
    all.sort_by(|(_, a), (_, b)| a.d.total_cmp(&b.d));
    let mut combined = Vec::new();
    let mut rest = &all[..];
    while let Some((_, first)) = rest.first() {
        let limit = same * first.d;
        let (group, larger) = rest.split_at(rest.partition_point(|(_, time)| time.d <= limit));
        combined.push(combine_size(group));
        rest = larger;
    }
    combined
}

/// Combines times that count as those of one size. A measured time replaces bounds.
fn combine_size(group: &[(usize, LogTime)]) -> LogTime {
    let is_bound = group.iter().all(|(_, time)| time.is_bound());
    let mut of_runs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let (mut sizes, mut age) = (Vec::new(), f64::INFINITY);
    for (run, time) in group.iter().filter(|(_, time)| time.is_bound() == is_bound) {
        of_runs.entry(*run).or_default().push(time.unit_log());
        sizes.push(time.d);
        age = age.min(time.variance);
    }
    let logs: Vec<f64> = of_runs.values().map(|logs| find_median(logs)).collect();
    let log = find_median(&logs);
    let runs = logs.len() as f64;
    let squares: f64 = logs.iter().map(|other| (other - log).powi(2)).sum();
    let spread = match logs.len() {
        1 => ONE_RUN.powi(2),
        _ => (squares / (runs - 1.0)).max(LEAST.powi(2)),
    };
    let d = find_median(&sizes).round();
    LogTime {
        d,
        log_s: log + d.ln(),
        variance: spread / runs + age,
        quality: if is_bound { Quality::AtLeast } else { Quality::Measured },
    }
}

/// Extends a curve beyond its own sizes with another device's times, scaled at shared sizes.
pub(super) fn overlay(own: &mut Vec<LogTime>, other: &[LogTime]) {
    let Some(ratio) = compare(own, other) else {
        return;
    };
    let [least, most] = [own.first(), own.last()].map(|time| time.map_or(0.0, |time| time.d));
    let beyond = other.iter().filter(|time| time.d * SAME < least || time.d > most * SAME);
    own.extend(beyond.map(|time| LogTime {
        log_s: time.log_s + ratio,
        variance: time.variance + ONE_RUN.powi(2),
        ..*time
    }));
    own.sort_by(|a, b| a.d.total_cmp(&b.d));
}

/// Leaves out sizes in between if there are too many.
pub(super) fn thin(times: &[LogTime]) -> Vec<LogTime> {
    if times.len() <= POINTS {
        return times.to_vec();
    }
    let last = times.len() - 1;
    (0..POINTS).map(|index| times[index * last / (POINTS - 1)]).collect()
}
