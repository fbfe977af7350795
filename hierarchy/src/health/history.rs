//! What changed since earlier checks: each device or link against itself.

use std::collections::BTreeMap;

use crate::times::{find_median, find_scatter};

/// Earlier checks that a change needs.
const FEWEST: usize = 10;

/// Checks in a row that show a change.
const IN_A_ROW: usize = 3;

/// Least change, as a logarithm, and in deviations of the earlier checks.
const LEAST: f64 = 0.0065;
const DEVIATIONS: f64 = 1.8;

/// Part of the mean change that each check in a row shows at least.
const EACH: f64 = 0.55;

/// Names whose common movement is taken out.
const COMMON: usize = 3;

/// A change of what was as it is for at least ten checks before.
#[derive(Debug, Clone, PartialEq)]
pub struct DatedChange {
    /// The device or link.
    pub name: String,
    /// The first check that shows it.
    pub check: usize,
    /// Its seconds in three checks over those before.
    pub factor: f64,
}

/// Finds the last change of each name in the seconds of checks, the oldest first.
///
/// The movement that is common to all names in a check is taken out: other weather, another library. Three checks in a row show a
/// change if their mean deviates from the median of all checks before by more than 0.65 % and 1.8 deviations, and each of them by 0.55 of
/// that. After a change the next needs ten checks again.
///
/// # References
/// Cornebize, "High performance computing: towards better performance predictions and experiments", 2021, chapter 6: nodes that repeat their
/// speed to 0.6 % show what changed in a cluster.
///
/// ```
/// use isochron_hierarchy::health::find_changes;
///
/// let check = |number: usize| {
///     let times_s = ["a", "b", "c", "d"].map(|name| (name.to_owned(), 2.0));
///     let slower = [("e".to_owned(), if number < 12 { 1.0 } else { 1.01 })];
///     times_s.into_iter().chain(slower).collect()
/// };
/// let changes = find_changes(&(0..15).map(check).collect::<Vec<_>>());
/// assert_eq!((changes.len(), &*changes[0].name, changes[0].check), (1, "e", 12));
/// ```
pub fn find_changes(checks: &[BTreeMap<String, f64>]) -> Vec<DatedChange> {
    let mut logs: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for (check, times_s) in checks.iter().enumerate() {
        for (name, seconds) in times_s.iter().filter(|(_, seconds)| **seconds > 0.0) {
            logs.entry(name).or_default().push((check, seconds.ln()));
        }
    }
    for values in logs.values_mut() {
        let usual = find_median(&values.iter().map(|(_, log)| *log).collect::<Vec<_>>());
        values.iter_mut().for_each(|(_, log)| *log -= usual);
    }
    for check in 0..checks.len() {
        let of_check = |values: &[(usize, f64)]| {
            values.iter().find(|(other, _)| *other == check).map(|(_, log)| *log)
        };
        let moved: Vec<f64> = logs.values().filter_map(|values| of_check(values)).collect();
        if moved.len() >= COMMON {
            let common = find_median(&moved);
            let all = logs.values_mut().flatten();
            all.filter(|(other, _)| *other == check).for_each(|(_, log)| *log -= common);
        }
    }
    let last = logs.into_iter().filter_map(|(name, values)| {
        let (check, log) = find_last_change(&values)?;
        Some(DatedChange { name: name.to_owned(), check, factor: log.exp() })
    });
    last.collect()
}

/// Finds the last change in a series of checks and their logarithms.
fn find_last_change(values: &[(usize, f64)]) -> Option<(usize, f64)> {
    let (mut found, mut first) = (None, 0);
    let mut next = FEWEST;
    while next + IN_A_ROW <= values.len() {
        let before: Vec<f64> = values[first..next].iter().map(|(_, log)| *log).collect();
        let level = find_median(&before);
        let deviation = find_scatter(&before);
        let steps: Vec<f64> =
            values[next..next + IN_A_ROW].iter().map(|(_, log)| log - level).collect();
        let mean = steps.iter().sum::<f64>() / IN_A_ROW as f64;
        let is_change = mean.abs() > LEAST.max(DEVIATIONS * deviation)
            && steps.iter().all(|step| step / mean > EACH);
        if is_change {
            found = Some((values[next].0, mean));
            first = next;
            next += FEWEST;
        } else {
            next += 1;
        }
    }
    found
}
