//! What moves when the division changes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::learn::LaidOut;

/// Halvings in the search for a change that moves little enough.
const HALVINGS: u32 = 24;

/// Seconds to move a unit over those to compute it, before anything is known. Holder: `the_cost_is_learnt_from_moves`.
const LIKELY_COST: f64 = 10.0;

/// Returns the units that each part has, in the order of the parts.
pub fn list_ranges(units: &[u64]) -> Vec<Range<u64>> {
    units
        .iter()
        .scan(0, |end, &count| {
            let start = *end;
            *end += count;
            Some(start..*end)
        })
        .collect()
}

/// Returns the units that change their part in all, and those that the busiest part sends and receives.
///
/// # Example
/// ```
/// use isochron_hierarchy::rebalance::count_moved;
///
/// // Units 4 and 8 to 9 change their parts; the middle one gives the first, and takes none.
/// assert_eq!(count_moved(&[4, 6, 2], &[5, 3, 4]), (3, 3));
/// ```
pub fn count_moved(from: &[u64], to: &[u64]) -> (u64, u64) {
    let (mut moved, mut busiest) = (0, 0);
    for (from, to) in list_ranges(from).into_iter().zip(list_ranges(to)) {
        let kept = to.end.min(from.end).saturating_sub(to.start.max(from.start));
        let (sent, received) = (from.end - from.start - kept, to.end - to.start - kept);
        moved += received;
        busiest = busiest.max(sent + received);
    }
    (moved, busiest)
}

/// Relative deviation of the seconds of a move from those that its units suggest.
const MOVE_NOISE: f64 = 0.2;

/// The cost of moving units, learnt from the moves: `t = a + b · units`, with the units that the busiest part sends and receives.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct MovingCost {
    /// Units of the busiest part in all moves that were timed.
    pub units: u64,
    /// Seconds of these moves.
    pub seconds: f64,
    /// Units of the busiest part in the last move, until it is timed.
    pub last: u64,
    /// Weighted sums over the moves of 1, the units, their squares, the seconds, and the product of both.
    #[serde(default)]
    sums: [f64; 5],
}

/// The expected seconds of a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MovePrice {
    pub fixed_s: f64,
    pub unit_s: f64,
}

impl MovePrice {
    pub fn of_units(self, units: u64) -> f64 {
        match units {
            0 => 0.0,
            _ => self.fixed_s + self.unit_s * units as f64,
        }
    }
}

impl MovingCost {
    /// Takes the seconds of the last move; without one since the last time nothing changes.
    pub fn note_seconds(&mut self, seconds: f64) {
        let count = std::mem::take(&mut self.last);
        if count == 0 {
            return;
        }
        self.units += count;
        self.seconds += seconds;
        // Times beyond these limits are none, and their squares would overflow.
        let (units, seconds) = (count as f64, seconds.clamp(1e-30, 1e30));
        let weight = (MOVE_NOISE * seconds).powi(-2);
        let terms = [1.0, units, units * units, seconds, units * seconds];
        for (sum, term) in self.sums.iter_mut().zip(terms) {
            *sum += weight * term;
        }
    }

    /// Fits the seconds of a move to those of earlier ones by least squares on relative errors. The seconds a unit that are
    /// expected before any move may be off by as much again; without any given, they are ten times those of computing one.
    pub fn estimate(&self, given_unit_s: Option<f64>, compute_unit_s: f64) -> MovePrice {
        let likely_s = given_unit_s.unwrap_or(LIKELY_COST * compute_unit_s);
        let [n, u, uu, t, ut] = self.sums;
        let price = |fixed_s, unit_s| MovePrice { fixed_s, unit_s };
        if n == 0.0 {
            return price(0.0, likely_s);
        }
        let doubt = likely_s.max(1e-15).powi(-2);
        let (uu, ut) = (uu + doubt, ut + doubt * likely_s);
        let fixed_s = (t * uu - u * ut) / (n * uu - u * u);
        if !(fixed_s.is_finite() && fixed_s > 0.0) {
            return price(0.0, ut / uu);
        }
        let unit_s = (ut - u * fixed_s) / uu;
        if unit_s > 0.0 { price(fixed_s, unit_s) } else { price(t / n, 0.0) }
    }
}

/// Limits and rates changes from the current division.
pub(super) struct Mover {
    pub now: Vec<u64>,
    pub granule: u64,
    /// Most units that may move at once.
    pub most: f64,
    pub price: MovePrice,
}

impl Mover {
    /// Returns the division, or one on the way there that moves as many units as may move, and its cost.
    pub fn place(&self, asked: &[u64]) -> LaidOut {
        let units = self.limit_move(asked);
        let (_, busiest) = count_moved(&self.now, &units);
        LaidOut { units, cost_s: self.price.of_units(busiest) }
    }

    fn limit_move(&self, asked: &[u64]) -> Vec<u64> {
        if self.is_within(asked) {
            return asked.to_vec();
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.is_within(&self.go_part(asked, middle)) { low = middle } else { high = middle }
        }
        let units = self.go_part(asked, low);
        if self.is_within(&units) { units } else { self.now.clone() }
    }

    fn is_within(&self, units: &[u64]) -> bool {
        count_moved(&self.now, units).0 as f64 <= self.most
    }

    /// Returns the division that is a part of the way from the current one, in whole granules. No part goes further
    /// than asked.
    fn go_part(&self, asked: &[u64], part: f64) -> Vec<u64> {
        let mut steps: Vec<u64> = (self.now.iter().zip(asked))
            .map(|(&now, &asked)| {
                (part * now.abs_diff(asked) as f64) as u64 / self.granule * self.granule
            })
            .collect();
        let gives: Vec<bool> = self.now.iter().zip(asked).map(|(now, asked)| now > asked).collect();
        let [given, taken] = [true, false].map(|is_giver| sum_of(&steps, &gives, is_giver));
        let excess = given.abs_diff(taken);
        shorten_steps(&mut steps, &gives, given > taken, excess);
        (self.now.iter().zip(steps).zip(gives))
            .map(|((&now, step), gives)| if gives { now - step } else { now + step })
            .collect()
    }
}

fn sum_of(steps: &[u64], gives: &[bool], is_giver: bool) -> u64 {
    steps.iter().zip(gives).filter(|&(_, &gives)| gives == is_giver).map(|(step, _)| step).sum()
}

/// Shortens the steps of one side by `excess` units in sum.
fn shorten_steps(steps: &mut [u64], gives: &[bool], is_giver: bool, mut excess: u64) {
    for (step, _) in steps.iter_mut().zip(gives).filter(|&(_, &gives)| gives == is_giver) {
        let less = excess.min(*step);
        *step -= less;
        excess -= less;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_what_changes_its_part() {
        assert_eq!(count_moved(&[3, 3, 3], &[3, 3, 3]), (0, 0));
        assert_eq!(count_moved(&[3, 3, 3], &[4, 4, 1]), (3, 3));
        assert_eq!(count_moved(&[0, 9], &[9, 0]), (9, 9));
    }

    #[test]
    fn a_limited_change_goes_a_part_of_the_way() {
        let mover = Mover {
            now: vec![30, 30, 30],
            granule: 5,
            most: 10.0,
            price: MovePrice { fixed_s: 0.0, unit_s: 2.0 },
        };
        let LaidOut { units, cost_s } = mover.place(&[40, 45, 5]);
        assert_eq!(units.iter().sum::<u64>(), 90);
        let (moved, busiest) = count_moved(&mover.now, &units);
        assert!((1..=10).contains(&moved), "{units:?}");
        assert_eq!(cost_s, 2.0 * busiest as f64);
        assert!(units.iter().all(|d| d % 5 == 0), "{units:?}");
    }

    /// Returns the cost after moves of these units and seconds.
    fn learn_cost(moves: &[(u64, f64)]) -> MovingCost {
        let mut cost = MovingCost::default();
        for &(units, seconds) in moves {
            cost.last = units;
            cost.note_seconds(seconds);
        }
        cost
    }

    #[test]
    fn the_cost_is_learnt_from_moves() {
        assert_eq!(learn_cost(&[]).estimate(None, 0.1).of_units(3), 3.0);
        assert_eq!(learn_cost(&[]).estimate(Some(0.1), 9.0).of_units(3), 0.1 * 3.0);
        assert_eq!(learn_cost(&[(5, 1.0)]).estimate(None, 1.0).of_units(0), 0.0);
        let cost = learn_cost(&[(50, 5.0)]);
        assert!((cost.estimate(None, 100.0).of_units(50) - 5.0).abs() < 0.1);
        let cost = learn_cost(&[(10, 1.2), (100, 3.0), (1000, 21.0)]);
        let MovePrice { fixed_s, unit_s } = cost.estimate(None, 1.0);
        assert!((fixed_s - 1.0).abs() < 0.02 && (unit_s - 0.02).abs() < 4e-4);
        assert!(learn_cost(&[(10, 0.0)]).estimate(None, 1.0).of_units(10).is_finite());
    }

    /// A small move took 20 times as long as expected, and a large one was then expected to take 20 times as long too.
    #[test]
    fn a_small_move_that_took_long_does_not_make_large_ones_dear() {
        let large_s = learn_cost(&[(57, 0.4)]).estimate(Some(3.5e-4), 1.0).of_units(1000);
        assert!((0.7..0.8).contains(&large_s), "{large_s}");
        // A price that the program gives is corrected by the moves.
        let dear = learn_cost(&[(57, 0.02), (800, 0.25)]).estimate(Some(1.0), 1.0);
        assert!((dear.of_units(400) - 0.127).abs() < 0.01, "{dear:?}");
    }
}
