//! What moves when the division changes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::adaptive::LaidOut;

/// Halvings in the search for a change that moves little enough.
const HALVINGS: u32 = 24;

/// Seconds to move a unit over those to compute it, before anything is known.
const LIKELY_COST: f64 = 10.0;

/// Returns the units that each part has, in the order of the parts.
pub fn list_ranges(units: &[u64]) -> Vec<Range<u64>> {
    let ends = units.iter().scan(0, |end, &count| {
        let start = *end;
        *end += count;
        Some(start..*end)
    });
    ends.collect()
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
        let kept = to
            .end
            .min(from.end)
            .saturating_sub(to.start.max(from.start));
        let (sent, received) = (from.end - from.start - kept, to.end - to.start - kept);
        moved += received;
        busiest = busiest.max(sent + received);
    }
    (moved, busiest)
}

/// The cost of moving units, learnt from the moves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct MovingCost {
    /// Units of the busiest part in all moves that were timed.
    pub units: u64,
    /// Seconds of these moves.
    pub seconds: f64,
    /// Units of the busiest part in the last move, until it is timed.
    pub last: u64,
}

impl MovingCost {
    /// Takes the seconds of the last move; without one since the last time nothing changes.
    pub fn note_seconds(&mut self, seconds: f64) {
        let units = std::mem::take(&mut self.last);
        if units > 0 {
            self.units += units;
            self.seconds += seconds;
        }
    }

    /// Returns the seconds to move a unit, given those to compute one.
    pub fn estimate_unit_s(&self, compute_unit_s: f64) -> f64 {
        match self.units {
            0 => LIKELY_COST * compute_unit_s,
            units => self.seconds / units as f64,
        }
    }
}

/// Limits and rates changes from the current division.
pub(super) struct Mover<'a> {
    pub now: &'a [u64],
    pub granule: u64,
    /// Most units that may move at once.
    pub most: f64,
    pub unit_s: f64,
}

impl Mover<'_> {
    /// Returns the division, or one on the way there that moves as many units as may move, and its cost.
    pub fn place(&self, asked: &[u64]) -> LaidOut {
        let units = self.limit_move(asked);
        let (_, busiest) = count_moved(self.now, &units);
        LaidOut {
            units,
            cost_s: self.unit_s * busiest as f64,
        }
    }

    fn limit_move(&self, asked: &[u64]) -> Vec<u64> {
        if self.is_within(asked) {
            return asked.to_vec();
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.is_within(&self.go_part(asked, middle)) {
                low = middle
            } else {
                high = middle
            }
        }
        let units = self.go_part(asked, low);
        if self.is_within(&units) {
            units
        } else {
            self.now.to_vec()
        }
    }

    fn is_within(&self, units: &[u64]) -> bool {
        count_moved(self.now, units).0 as f64 <= self.most
    }

    /// Returns the division that is a part of the way from the current one, in whole granules. No part goes further
    /// than asked.
    fn go_part(&self, asked: &[u64], part: f64) -> Vec<u64> {
        let mut steps: Vec<u64> = (self.now.iter().zip(asked))
            .map(|(&now, &asked)| {
                (part * now.abs_diff(asked) as f64) as u64 / self.granule * self.granule
            })
            .collect();
        let gives: Vec<bool> = self
            .now
            .iter()
            .zip(asked)
            .map(|(now, asked)| now > asked)
            .collect();
        let [given, taken] = [true, false].map(|is_giver| sum_of(&steps, &gives, is_giver));
        let excess = given.abs_diff(taken);
        shorten_steps(&mut steps, &gives, given > taken, excess);
        (self.now.iter().zip(steps).zip(gives))
            .map(|((&now, step), gives)| if gives { now - step } else { now + step })
            .collect()
    }
}

fn sum_of(steps: &[u64], gives: &[bool], is_giver: bool) -> u64 {
    let chosen = steps
        .iter()
        .zip(gives)
        .filter(|&(_, &gives)| gives == is_giver);
    chosen.map(|(step, _)| step).sum()
}

/// Shortens the steps of one side by `excess` units in sum.
fn shorten_steps(steps: &mut [u64], gives: &[bool], is_giver: bool, mut excess: u64) {
    for (step, _) in steps
        .iter_mut()
        .zip(gives)
        .filter(|&(_, &gives)| gives == is_giver)
    {
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
            now: &[30, 30, 30],
            granule: 5,
            most: 10.0,
            unit_s: 2.0,
        };
        let LaidOut { units, cost_s } = mover.place(&[40, 45, 5]);
        assert_eq!(units.iter().sum::<u64>(), 90);
        let (moved, busiest) = count_moved(mover.now, &units);
        assert!((1..=10).contains(&moved), "{units:?}");
        assert_eq!(cost_s, 2.0 * busiest as f64);
        assert!(units.iter().all(|d| d % 5 == 0), "{units:?}");
    }

    #[test]
    fn the_cost_is_learnt_from_moves() {
        let mut cost = MovingCost {
            last: 50,
            ..MovingCost::default()
        };
        assert_eq!(cost.estimate_unit_s(0.1), 1.0);
        cost.note_seconds(5.0);
        assert_eq!(cost.estimate_unit_s(100.0), 0.1);
    }
}
