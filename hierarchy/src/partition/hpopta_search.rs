//! Load imbalancing by the published tree search.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::choices::{Choice, Choices, Problem};
use super::exact::not_a_sum;
use super::limits::one_each;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// The largest time of this division is minimal.
    Optimal(Partition),
    /// The work limit was reached before; the best division until then, if any.
    Unfinished(Option<Partition>),
}

/// Divides `total` units so that the largest time is minimal, by searching the tree of all divisions:
/// the published HPOPTA. [`hpopta`](super::hpopta()) finds the same time sooner; this is what to compare
/// it with.
///
/// 1. *Threshold.* The time `τ` of an even division, the remainder given out granule by granule: to the
///    slowest device if one more makes that faster, else to the one whose time with one more is least.
///    Without a bound if a size on the way is impossible.
/// 2. *Size thresholds.* `σ_i`, the most units that devices `i ..` together can do in less than `τ`.
/// 3. *Search.* On level `i` the sizes of device `i` are tried in order of time, idleness first, as long
///    as they take less than `τ` and what is left for the devices after it is at most `σ_{i+1}`.
/// 4. *Improvement.* A division faster than `τ` is the new best; `τ` and the thresholds follow it. One
///    as fast with fewer active devices replaces it.
/// 5. *Backtracking past the bottleneck.* No level below the first one that takes `τ` can improve on
///    it, nor can a later size on that level.
/// 6. *Memory.* For each level and amount left: the best division found, and the size to go on from
///    when the same amount comes again.
///
/// Sizes of time `τ` and more are never tried, so of the divisions of optimal time only those are
/// compared by their active devices that are met on the way; their number need not be the least.
///
/// After `work_limit` steps, each a size tried, the search ends [`Search::Unfinished`]. Memory grows
/// with the steps.
///
/// # Deviations from the paper
/// The memory is a hash table in place of a matrix of all levels and amounts. The bottleneck is not
/// passed on from level to level: each level knows the largest time above it, and ends when that is
/// no longer below `τ`, which is the same. The search keeps its own stack, for any number of devices.
///
/// # Errors
/// As [`hpopta`](super::hpopta()).
///
/// # Example
/// ```
/// use isochron_hierarchy::model::TimeFunction;
/// use isochron_hierarchy::partition::{Search, hpopta_search};
///
/// let first = TimeFunction::new(1, vec![(1, 2.0), (2, 5.0), (3, 6.0), (4, 3.0)])?;
/// let second = TimeFunction::new(1, vec![(1, 1.0), (2, 4.0), (3, 9.0)])?;
/// let Search::Optimal(partition) = hpopta_search(&[first, second], &[], 5, 1000)? else {
///     panic!("a thousand steps are enough");
/// };
/// assert_eq!(partition.units, [4, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, supplement, sections 6 to 8.
pub fn hpopta_search(
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
    work_limit: u64,
) -> Result<Search, PartitionError> {
    let problem = Problem::new(functions, &one_each(functions, limits)?, 1, total)?;
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    if total == 0 {
        let nothing = vec![0; devices.len()];
        return Ok(Search::Optimal(
            Tree::new(&devices, 0).partition(&nothing, 1),
        ));
    }
    if !problem.exact {
        return Err(not_a_sum(&problem, &devices, total)?);
    }
    let mut tree = Tree::new(&devices, problem.target);
    let finished = tree.search(work_limit);
    let best = tree
        .best
        .as_ref()
        .map(|best| tree.partition(best, problem.unit));
    match (finished, best) {
        (false, best) => Ok(Search::Unfinished(best)),
        (true, Some(best)) => Ok(Search::Optimal(best)),
        (true, None) => Err(not_a_sum(&problem, &devices, total)?),
    }
}

struct Tree<'a> {
    devices: &'a [&'a Choices],
    /// Each device's choices, ascending in size.
    by_size: Vec<Vec<Choice>>,
    target: u64,
    /// `τ`: the time to be improved on.
    threshold_s: f64,
    /// `σ_0 ..= σ_p` for that time.
    thresholds: Vec<u128>,
    best: Option<Vec<u64>>,
    /// Sizes on the levels down to the current one.
    current: Vec<u64>,
    memory: HashMap<(usize, u64), Known>,
}

/// What is known about an amount left on a level.
#[derive(Clone, Copy)]
struct Known {
    /// The time of the best division between this device and those after it; infinite if none is known.
    time_s: f64,
    /// What this device takes in it.
    size: u64,
    /// Number of the choice to go on from: 0 is idleness.
    next: usize,
}

impl Known {
    const NOTHING: Self = Self {
        time_s: f64::INFINITY,
        size: 0,
        next: 0,
    };

    /// No later choice can improve anything.
    const FINAL: usize = usize::MAX;
}

/// A level of the tree that is being searched.
struct Level {
    rest: u64,
    /// The largest time on the levels above.
    above_s: f64,
    known: Known,
    /// The choice whose subtree is being searched.
    down: Option<Choice>,
}

impl<'a> Tree<'a> {
    fn new(devices: &'a [&'a Choices], target: u64) -> Self {
        let mut tree = Self {
            devices,
            by_size: devices.iter().map(|device| device.by_size()).collect(),
            target,
            threshold_s: f64::INFINITY,
            thresholds: Vec::new(),
            best: None,
            current: Vec::new(),
            memory: HashMap::new(),
        };
        if let Some(even) = tree.even() {
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

    /// The even division, the remainder spread one by one; none if some size on the way is impossible.
    fn even(&self) -> Option<Vec<u64>> {
        let n = self.devices.len();
        let mut sizes = vec![self.target.checked_div(n as u64)?; n];
        let time = |sizes: &[u64], i: usize, more| self.time_s(i, sizes[i] + more);
        for _ in 0..self.target % n as u64 {
            let now: Option<Vec<f64>> = (0..n).map(|i| time(&sizes, i, 0)).collect();
            let now = now?;
            let slowest = (0..n).max_by(|&a, &b| now[a].total_cmp(&now[b]))?;
            let faster = time(&sizes, slowest, 1).is_some_and(|time_s| time_s < now[slowest]);
            let cheapest = || {
                let next = |i| Some((i, time(&sizes, i, 1)?));
                let least = (0..n).filter_map(next).min_by(|a, b| a.1.total_cmp(&b.1));
                least.map(|(i, _)| i)
            };
            let receiver = if faster { slowest } else { cheapest()? };
            sizes[receiver] += 1;
        }
        (0..n)
            .all(|i| time(&sizes, i, 0).is_some())
            .then_some(sizes)
    }

    fn max_time_s(&self, sizes: &[u64]) -> f64 {
        let times = sizes.iter().enumerate();
        times
            .map(|(i, &size)| self.time_s(i, size).unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max)
    }

    fn renew_thresholds(&mut self) {
        self.thresholds = vec![0; self.devices.len() + 1];
        for (i, device) in self.devices.iter().enumerate().rev() {
            let faster = device.all();
            let faster = faster.partition_point(|choice| choice.time_s < self.threshold_s);
            self.thresholds[i] = self.thresholds[i + 1] + u128::from(device.most_of(faster));
        }
    }

    /// Searches the whole tree; false if `work_limit` steps do not suffice.
    fn search(&mut self, work_limit: u64) -> bool {
        let mut levels = Vec::new();
        self.enter(&mut levels, self.target, 0.0);
        let mut work = 0;
        while let Some(mut level) = levels.pop() {
            if work == work_limit {
                return false;
            }
            work += 1;
            let i = levels.len();
            self.climb(i, &mut level);
            match self.choose(i, &level) {
                // Goes on from the same choice if this amount comes again: its subtree may be cut short.
                _ if level.above_s >= self.threshold_s => self.remember(i, &level),
                None => {
                    level.known.next = Known::FINAL;
                    self.remember(i, &level);
                }
                Some(choice) if self.leads_on(i, level.rest, choice) => {
                    let (rest, above_s) =
                        (level.rest - choice.size, level.above_s.max(choice.time_s));
                    level.down = Some(choice);
                    levels.push(level);
                    self.current.truncate(i);
                    self.current.push(choice.size);
                    self.enter(&mut levels, rest, above_s);
                }
                Some(_) => {
                    level.known.next += 1;
                    levels.push(level);
                }
            }
        }
        true
    }

    /// Begins the level below `levels`, unless what is known about the amount is all there is to know.
    fn enter(&mut self, levels: &mut Vec<Level>, rest: u64, above_s: f64) {
        let i = levels.len();
        self.current.truncate(i);
        let known = self.known(i, rest);
        if known.time_s < f64::INFINITY && above_s.max(known.time_s) <= self.threshold_s {
            self.complete(i, rest);
        }
        if known.next != Known::FINAL {
            levels.push(Level {
                rest,
                above_s,
                known,
                down: None,
            });
        }
    }

    /// What is known about `rest` on level `i`. The last device has no choice and needs no memory.
    fn known(&self, i: usize, rest: u64) -> Known {
        if i + 1 == self.devices.len() {
            return Known {
                time_s: self.time_s(i, rest).unwrap_or(f64::INFINITY),
                size: rest,
                next: Known::FINAL,
            };
        }
        let known = self.memory.get(&(i, rest));
        known.copied().unwrap_or(Known::NOTHING)
    }

    fn remember(&mut self, i: usize, level: &Level) {
        self.memory.insert((i, level.rest), level.known);
    }

    /// Takes into account what was found below `level`, and goes on to the next choice unless the
    /// bottleneck lies above.
    fn climb(&self, i: usize, level: &mut Level) {
        let Some(choice) = level.down.take() else {
            return;
        };
        let below = self.known(i + 1, level.rest - choice.size);
        let time_s = below.time_s.max(choice.time_s);
        if time_s < level.known.time_s {
            level.known.time_s = time_s;
            level.known.size = choice.size;
        }
        if level.above_s < self.threshold_s {
            level.known.next += 1;
        }
    }

    /// The choice to try next, none if no other is faster than the threshold.
    fn choose(&self, i: usize, level: &Level) -> Option<Choice> {
        let idle = Choice {
            size: 0,
            time_s: 0.0,
        };
        match level.known.next.checked_sub(1) {
            None => Some(idle),
            Some(at) => self.devices[i].all().get(at).copied(),
        }
        .filter(|choice| choice.time_s < self.threshold_s)
    }

    /// Whether the devices after `i` can take what `choice` leaves, in less than the threshold.
    fn leads_on(&self, i: usize, rest: u64, choice: Choice) -> bool {
        let left = rest.checked_sub(choice.size);
        left.is_some_and(|left| u128::from(left) <= self.thresholds[i + 1])
    }

    /// Completes the current sizes by the best ones known from level `i` on, and keeps the division if
    /// it is the best so far.
    fn complete(&mut self, i: usize, rest: u64) {
        let (mut sizes, mut rest) = (self.current.clone(), rest);
        for level in i..self.devices.len() {
            let size = self.known(level, rest).size;
            sizes.push(size);
            rest -= size;
        }
        let time_s = self.max_time_s(&sizes);
        let active = |sizes: &[u64]| sizes.iter().filter(|&&size| size > 0).count();
        let fewer = || {
            self.best
                .as_ref()
                .is_none_or(|best| active(&sizes) < active(best))
        };
        if time_s < self.threshold_s {
            self.threshold_s = time_s;
            self.best = Some(sizes);
            self.renew_thresholds();
        } else if time_s == self.threshold_s && time_s < f64::INFINITY && fewer() {
            self.best = Some(sizes);
        }
    }

    fn partition(&self, sizes: &[u64], unit: u64) -> Partition {
        let times = sizes.iter().enumerate();
        Partition {
            units: sizes.iter().map(|size| size * unit).collect(),
            times_s: times
                .map(|(i, &size)| self.time_s(i, size).unwrap_or(f64::INFINITY))
                .collect(),
        }
    }
}
