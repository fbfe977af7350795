//! Table rows that compare figures with goals.

use crate::markdown::yes_or_no;
use crate::statistics::MedianRange;

/// Compares a median with the largest value that meets a goal.
pub fn check_most(goal: &str, found: MedianRange, bound: f64) -> [String; 3] {
    let is_met = found.median <= bound;
    [
        format!("{goal} at most {bound}"),
        found.text(2),
        yes_or_no(is_met),
    ]
}
