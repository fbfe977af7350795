//! Whole units from real-valued shares.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::even;

/// Divides `total` whole units in proportion to `weights` so that `max_i units_i / weights_i` is
/// minimal.
///
/// With speeds as weights that ratio is a part's time, and all wait for the slowest part. Each part gets
/// the floor of its exact share `total · w_i / Σw`. Each unit left goes to the part whose ratio
/// `(units_i + 1) / w_i` is least; ties go to the larger weight, then to the lower index. This is
/// Jefferson's method of apportionment. The method of largest remainders keeps each part nearest to its
/// exact share instead. It may give a slow part one unit more, with which that part finishes last by far.
///
/// A weight that is zero, negative or not finite gets nothing. If all weights are, the parts are
/// [`even`]. Without weights the result is empty.
///
/// # Example
/// ```
/// use isochron_hierarchy::partition::apportion;
///
/// // 9.1 and 0.9 units would be exact, but one unit takes the slow part longer than all take the fast one.
/// assert_eq!(apportion(10, &[91.0, 9.0]), [10, 0]);
/// ```
///
/// # References
/// Balinski and Young, *Fair Representation*, 1982 (Jefferson's method). Clarke's thesis, section 4.1,
/// rounds in another way; see [`gpa`](super::gpa()).
pub fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let usable: Vec<f64> =
        (weights.iter()).map(|&w| if w.is_finite() && w > 0.0 { w } else { 0.0 }).collect();
    let largest = usable.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return even(weights.len(), total);
    }
    // Relative to the largest weight, the sum cannot overflow.
    let sum: f64 = usable.iter().map(|w| w / largest).sum();
    let shares: Vec<f64> = (usable.iter()).map(|w| total as f64 * (w / largest / sum)).collect();
    let (units, _) = give_rest(round_down(total, &shares), total, |i, units| {
        if usable[i] > 0.0 { units as f64 / usable[i] } else { f64::NAN }
    });
    units
}

/// Rounds `shares`, which sum to about `total`, down to whole units that sum to at most `total`.
///
/// A guard lowers each share first. Rounding errors may have lifted it just above a whole number, and it
/// would take a unit of another part. A unit that the guard takes comes back from [`give_rest`].
pub(super) fn round_down(total: u64, shares: &[f64]) -> Vec<u64> {
    const GUARD: f64 = 1.0 - 8.0 * f64::EPSILON;
    let mut left = total;
    (shares.iter())
        .map(|share| {
            let units = ((share * GUARD).floor() as u64).min(left);
            left -= units;
            units
        })
        .collect()
}

/// Gives out, one by one, the units that `units` lacks of `total`, each to the part whose
/// `time(part, its units + 1)` is least. Returns the units and their times.
///
/// A part whose time is NaN gets none. Ties go to the part with more units, which is the faster one,
/// then to the lower index. The cost is `O(p + left · log left)` for `left` lacking units.
pub(super) fn give_rest(
    mut units: Vec<u64>,
    total: u64,
    time: impl Fn(usize, u64) -> f64,
) -> (Vec<u64>, Vec<f64>) {
    let mut times = Vec::with_capacity(units.len());
    let mut queue = Vec::with_capacity(units.len());
    let mut left = total;
    for (index, &units) in units.iter().enumerate() {
        left = left.saturating_sub(units);
        times.push(time(index, units));
        let next = QueuedPart {
            time: time(index, units.saturating_add(1)),
            units: units.saturating_add(1),
            index,
        };
        if !next.time.is_nan() {
            queue.push(next);
        }
    }
    // Only the first `left` parts of the queue can get a unit.
    let candidates = usize::try_from(left).unwrap_or(usize::MAX);
    if candidates < queue.len() {
        queue.select_nth_unstable(candidates);
        queue.truncate(candidates);
    }
    let mut queue: BinaryHeap<_> = queue.into_iter().map(Reverse).collect();
    for _ in 0..left {
        let Some(mut first) = queue.peek_mut() else {
            break;
        };
        let entry = &mut first.0;
        (units[entry.index], times[entry.index]) = (entry.units, entry.time);
        entry.units = entry.units.saturating_add(1);
        entry.time = time(entry.index, entry.units);
        if entry.time.is_nan() {
            PeekMut::pop(first);
        }
    }
    (units, times)
}

/// A part in the queue for the next unit; the smallest is served first.
struct QueuedPart {
    /// Its units with the next one.
    units: u64,
    /// Its time with these units.
    time: f64,
    index: usize,
}

impl Ord for QueuedPart {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time
            .total_cmp(&other.time)
            .then(other.units.cmp(&self.units))
            .then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for QueuedPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedPart {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedPart {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_shares_stay_exact() {
        assert_eq!(apportion(60, &[1.0, 2.0, 3.0]), [10, 20, 30]);
        assert_eq!(apportion(10, &[0.1, 0.2, 0.7]), [1, 2, 7]);
    }

    #[test]
    fn a_slow_part_is_not_rounded_up_for_its_remainder() {
        // The exact shares are 9.1 and 0.9. One unit takes the slow part longer than all take the fast one.
        assert_eq!(apportion(10, &[91.0, 9.0]), [10, 0]);
    }

    #[test]
    fn ties_go_to_the_larger_weight_then_to_the_lower_index() {
        assert_eq!(apportion(1, &[1.0, 1.0]), [1, 0]);
        // One unit to either part makes a ratio of 1.
        assert_eq!(apportion(2, &[1.0, 2.0]), [0, 2]);
    }

    #[test]
    fn unusable_weights_get_nothing() {
        assert_eq!(apportion(7, &[0.0, 1.0, -1.0, f64::NAN, f64::INFINITY]), [0, 7, 0, 0, 0]);
        assert_eq!(apportion(3, &[0.0, 0.0]), [2, 1]);
        assert!(apportion(3, &[]).is_empty());
        assert_eq!(apportion(9, &[f64::MAX, f64::MAX, f64::MAX]), [3, 3, 3]);
    }
}
