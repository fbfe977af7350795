//! Load imbalancing by the published tree search.

use std::collections::HashMap;

use super::choices::{Choices, SizeProblem, SizeTime};
use super::exact::not_a_sum;
use super::limits::one_each;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchOutcome {
    /// A division of minimal largest time.
    Optimal(Partition),
    /// The best division found before the work limit was reached, if any.
    Unfinished(Option<Partition>),
}

/// Divides `total` units so that the largest time is minimal, by searching the tree of all divisions:
/// the published HPOPTA, for comparison. [`hpopta`](super::hpopta()) finds the same time sooner.
///
/// 1. *Threshold.* `τ` is the time of an even division. Its remainder is given out granule by granule. The
///    slowest device gets one if it becomes faster by it, else the device of least time with one more. If
///    a size on the way is impossible, `τ` is infinite.
/// 2. *Size thresholds.* `σ_i` is the largest sum of units that devices `i ..` can complete in less than
///    `τ`.
/// 3. *Search.* Level `i` tries the sizes of device `i` in order of time, idleness first. A size must take
///    less than `τ`, and leave at most `σ_{i+1}` for the devices after it.
/// 4. *Improvement.* A division faster than `τ` is the new best; `τ` and the thresholds follow it.
///    A division as fast with fewer active devices replaces it.
/// 5. *Backtracking past the bottleneck.* No level below the first one that takes `τ` can improve on
///    it, nor can a later size on that level.
/// 6. *Memory.* For each level and amount left, the memory holds the best division found. It also holds
///    the size at which to continue when the same amount comes again.
///
/// Sizes of time `τ` and more are never tried. Only divisions of optimal time found on the way are
/// compared by their active devices, so that the number of these need not be the least.
///
/// After `work_limit` steps, each a size tried, the search ends with [`SearchOutcome::Unfinished`].
/// Memory grows with the steps.
///
/// # Deviations
/// * **published HPOPTA, memory**: the paper keeps a matrix of levels and amounts (supplement, section
///   6.4). Here a hash table, because such a matrix may not fit into memory.
/// * **published HPOPTA, bottleneck**: the paper passes it from level to level (supplement, section
///   6.8). Here a level knows the largest time above it, because that needs less state. The level ends
///   when that time is no longer below `τ`, which has the same effect.
/// * **published HPOPTA, recursion**: the paper expands the tree by recursive calls (supplement,
///   section 8). Here the search keeps its own stack, because there may be any number of devices.
///
/// # Errors
/// Returns [`PartitionError::LimitsMismatch`]; [`PartitionError::NoDevices`]; [`PartitionError::BeyondModels`] and
/// [`PartitionError::BeyondLimits`] if the largest sizes sum to less than `total`; [`PartitionError::NotASum`] if no
/// sizes sum to `total`; [`PartitionError::TooLarge`] if the different sums do not fit into memory.
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, supplement, sections 6 to 8.
pub fn hpopta_search(
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
    work_limit: u64,
) -> Result<SearchOutcome, PartitionError> {
    let problem = SizeProblem::new(functions, &one_each(functions.len(), limits)?, 1, total)?;
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    if total == 0 {
        return Ok(SearchOutcome::Optimal(Partition::idle(devices.len())));
    }
    if !problem.exact {
        return Err(not_a_sum(&problem, &devices, total)?);
    }
    let mut tree = DivisionTree::new(&devices, problem.target);
    let finished = tree.search(work_limit);
    let best = (tree.best.as_ref()).map(|best| tree.to_partition(best, problem.unit));
    match (finished, best) {
        (false, best) => Ok(SearchOutcome::Unfinished(best)),
        (true, Some(best)) => Ok(SearchOutcome::Optimal(best)),
        (true, None) => Err(not_a_sum(&problem, &devices, total)?),
    }
}

/// The tree of all divisions, one device on each level.
struct DivisionTree<'a> {
    devices: &'a [&'a Choices],
    /// Each device's choices, ascending in size.
    by_size: Vec<Vec<SizeTime>>,
    target: u64,
    /// `τ`: the time to be improved on.
    threshold_s: f64,
    /// `σ_0 ..= σ_p` for that time.
    thresholds: Vec<u128>,
    best: Option<Vec<u64>>,
    /// Sizes on the levels down to the current one.
    current: Vec<u64>,
    memory: HashMap<(usize, u64), KnownTime>,
}

/// The knowledge of an amount left on a level.
#[derive(Clone, Copy)]
struct KnownTime {
    /// Time of the best known division between this device and those after it; infinite without one.
    time_s: f64,
    /// Size of this device in that division.
    size: u64,
    /// Number of the choice to continue at: 0 is idleness.
    next: usize,
}

impl KnownTime {
    const NOTHING: Self = Self { time_s: f64::INFINITY, size: 0, next: 0 };

    /// The `next` of an amount that no other choice can improve.
    const FINAL: usize = usize::MAX;
}

/// A level of the tree that is being searched.
struct SearchLevel {
    rest: u64,
    /// The largest time on the levels above.
    above_s: f64,
    known: KnownTime,
    /// The choice whose subtree is being searched.
    down: Option<SizeTime>,
}

impl<'a> DivisionTree<'a> {
    fn new(devices: &'a [&'a Choices], target: u64) -> Self {
        let mut tree = Self {
            devices,
            by_size: devices.iter().map(|device| device.sort_by_size()).collect(),
            target,
            threshold_s: f64::INFINITY,
            thresholds: Vec::new(),
            best: None,
            current: Vec::new(),
            memory: HashMap::new(),
        };
        if let Some(even) = tree.divide_evenly() {
            tree.threshold_s = tree.max_time_s(&even);
            tree.best = Some(even);
        }
        tree.renew_thresholds();
        tree
    }

    fn time_s(&self, device: usize, size: u64) -> Option<f64> {
        if size == 0 {
            return Some(0.0);
        }
        let choices = &self.by_size[device];
        let at = choices.binary_search_by_key(&size, |choice| choice.size);
        Some(choices[at.ok()?].time_s)
    }

    /// Returns the even division, with the remainder given out one by one, or `None` if some size on the
    /// way is impossible.
    fn divide_evenly(&self) -> Option<Vec<u64>> {
        let n = self.devices.len();
        let mut sizes = vec![self.target.checked_div(n as u64)?; n];
        for _ in 0..self.target % n as u64 {
            let receiver = self.find_receiver(&sizes)?;
            sizes[receiver] += 1;
        }
        self.times_of(&sizes).map(|_| sizes)
    }

    /// Returns the device that one more granule goes to: the slowest if that becomes faster, else the one
    /// with the least time.
    fn find_receiver(&self, sizes: &[u64]) -> Option<usize> {
        let now = self.times_of(sizes)?;
        let slowest = (0..now.len()).max_by(|&a, &b| now[a].total_cmp(&now[b]))?;
        let slowest_s = self.time_s(slowest, sizes[slowest] + 1);
        if slowest_s.is_some_and(|time_s| time_s < now[slowest]) {
            return Some(slowest);
        }
        (sizes.iter().enumerate())
            .filter_map(|(i, size)| Some((i, self.time_s(i, size + 1)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(i, _)| i)
    }

    /// Returns each device's time, or `None` if a size is impossible.
    fn times_of(&self, sizes: &[u64]) -> Option<Vec<f64>> {
        sizes.iter().enumerate().map(|(i, &size)| self.time_s(i, size)).collect()
    }

    fn max_time_s(&self, sizes: &[u64]) -> f64 {
        let times_s = self.times_of(sizes);
        times_s.map_or(f64::INFINITY, |times_s| times_s.into_iter().fold(0.0, f64::max))
    }

    fn renew_thresholds(&mut self) {
        self.thresholds = vec![0; self.devices.len() + 1];
        for (i, device) in self.devices.iter().enumerate().rev() {
            let faster = device.all().partition_point(|choice| choice.time_s < self.threshold_s);
            self.thresholds[i] =
                self.thresholds[i + 1] + u128::from(device.largest_of_first(faster));
        }
    }

    /// Searches the whole tree. Returns `false` if `work_limit` steps do not suffice.
    fn search(&mut self, work_limit: u64) -> bool {
        let mut levels = Vec::new();
        self.enter_level(&mut levels, self.target, 0.0);
        let mut work = 0;
        while let Some(mut level) = levels.pop() {
            if work == work_limit {
                return false;
            }
            work += 1;
            let i = levels.len();
            self.finish_choice(i, &mut level);
            match self.next_choice(i, &level) {
                // If this amount comes again, the search continues at the same choice: its subtree may
                // be cut short.
                _ if level.above_s >= self.threshold_s => self.remember_level(i, &level),
                None => {
                    level.known.next = KnownTime::FINAL;
                    self.remember_level(i, &level);
                }
                Some(choice) if self.leaves_possible_rest(i, level.rest, choice) => {
                    let (rest, above_s) =
                        (level.rest - choice.size, level.above_s.max(choice.time_s));
                    level.down = Some(choice);
                    levels.push(level);
                    self.current.truncate(i);
                    self.current.push(choice.size);
                    self.enter_level(&mut levels, rest, above_s);
                }
                Some(_) => {
                    level.known.next += 1;
                    levels.push(level);
                }
            }
        }
        true
    }

    /// Begins the level below `levels`, unless the knowledge of the amount is final.
    fn enter_level(&mut self, levels: &mut Vec<SearchLevel>, rest: u64, above_s: f64) {
        let i = levels.len();
        self.current.truncate(i);
        let known = self.recall(i, rest);
        if known.time_s < f64::INFINITY && above_s.max(known.time_s) <= self.threshold_s {
            self.complete_division(i, rest);
        }
        if known.next != KnownTime::FINAL {
            levels.push(SearchLevel { rest, above_s, known, down: None });
        }
    }

    /// Returns the knowledge of `rest` on level `i`. The last device has no choice and needs no memory.
    fn recall(&self, i: usize, rest: u64) -> KnownTime {
        if i + 1 == self.devices.len() {
            return KnownTime {
                time_s: self.time_s(i, rest).unwrap_or(f64::INFINITY),
                size: rest,
                next: KnownTime::FINAL,
            };
        }
        self.memory.get(&(i, rest)).copied().unwrap_or(KnownTime::NOTHING)
    }

    fn remember_level(&mut self, i: usize, level: &SearchLevel) {
        self.memory.insert((i, level.rest), level.known);
    }

    /// Takes over the result below `level`, and advances to the next choice unless the bottleneck lies
    /// above.
    fn finish_choice(&self, i: usize, level: &mut SearchLevel) {
        let Some(choice) = level.down.take() else {
            return;
        };
        let time_s = self.recall(i + 1, level.rest - choice.size).time_s.max(choice.time_s);
        if time_s < level.known.time_s {
            level.known.time_s = time_s;
            level.known.size = choice.size;
        }
        if level.above_s < self.threshold_s {
            level.known.next += 1;
        }
    }

    /// Returns the choice to try next, or `None` if no other is faster than the threshold.
    fn next_choice(&self, i: usize, level: &SearchLevel) -> Option<SizeTime> {
        const IDLE: SizeTime = SizeTime { size: 0, time_s: 0.0 };
        match level.known.next.checked_sub(1) {
            None => Some(IDLE),
            Some(at) => self.devices[i].all().get(at).copied(),
        }
        .filter(|choice| choice.time_s < self.threshold_s)
    }

    /// Returns `true` if the thresholds of the devices after `i` allow the rest that `choice` leaves.
    fn leaves_possible_rest(&self, i: usize, rest: u64, choice: SizeTime) -> bool {
        let left = rest.checked_sub(choice.size);
        left.is_some_and(|left| u128::from(left) <= self.thresholds[i + 1])
    }

    /// Completes the current sizes by the best known sizes from level `i` on, and keeps the division if
    /// it is the best so far.
    fn complete_division(&mut self, i: usize, mut rest: u64) {
        let mut sizes = self.current.clone();
        for level in i..self.devices.len() {
            let size = self.recall(level, rest).size;
            sizes.push(size);
            rest -= size;
        }
        let time_s = self.max_time_s(&sizes);
        if time_s < self.threshold_s {
            self.threshold_s = time_s;
            self.best = Some(sizes);
            self.renew_thresholds();
        } else if time_s == self.threshold_s
            && time_s < f64::INFINITY
            && (self.best.as_ref()).is_none_or(|best| count_active(&sizes) < count_active(best))
        {
            self.best = Some(sizes);
        }
    }

    fn to_partition(&self, sizes: &[u64], unit: u64) -> Partition {
        Partition {
            units: sizes.iter().map(|size| size * unit).collect(),
            times_s: (self.times_of(sizes)).unwrap_or_else(|| vec![f64::INFINITY; sizes.len()]),
        }
    }
}

fn count_active(sizes: &[u64]) -> usize {
    sizes.iter().filter(|&&size| size > 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_steps_are_enough_for_two_small_functions() {
        let first = TimeFunction::new(1, vec![(1, 2.0), (2, 5.0), (3, 6.0), (4, 3.0)]);
        let second = TimeFunction::new(1, vec![(1, 1.0), (2, 4.0), (3, 9.0)]);
        let functions = [first.expect("valid"), second.expect("valid")];
        let outcome = hpopta_search(&functions, &[], 5, 1000).expect("possible");
        let SearchOutcome::Optimal(partition) = outcome else {
            panic!("a thousand steps are enough");
        };
        assert_eq!(partition.units, [4, 1]);
    }
}
