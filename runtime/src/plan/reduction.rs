//! The rounds in which the ranks' contributions to C are summed if k is divided, and their messages.

use super::Plan;
use crate::matrix::Spread;
use crate::matrix::redistribute::{Moved, count_under_way};

/// Elements that a rank sends and receives in a round; at least one goes to each rank.
const ROUND_LEN: usize = 4 << 20;

/// Returns the spread of the contributions, that of C, and the number of rounds between the two.
pub(crate) fn plan_sum(plan: &Plan) -> (Spread, Spread, usize) {
    let c = plan.c();
    let computed: Vec<bool> = match plan.division().shares() {
        None => vec![false; plan.n_ranks()],
        Some(shares) => shares.iter().map(|&share| share > 0).collect(),
    };
    let rounds = count_rounds(&c, &computed);
    (Spread::on_each(c.rows(), c.cols(), &computed), c, rounds)
}

/// Counts the rounds of the sum. In a round no rank sends and receives more than [`ROUND_LEN`] elements, apart from rounding
/// up by one element for each other rank.
fn count_rounds(c: &Spread, computed: &[bool]) -> usize {
    let all = c.rows() * c.cols();
    let n_computed = computed.iter().filter(|&&computed| computed).count();
    (0..computed.len())
        .map(|rank| {
            let (own, computes) = (c.part(rank).len(), usize::from(computed[rank]));
            computes * (all - own) + own * (n_computed - computes)
        })
        .max()
        .unwrap_or(0)
        .div_ceil(ROUND_LEN)
}

/// Returns the elements that a rank packs and receives at a time.
pub(super) fn elements_under_way(plan: &Plan, rank: usize) -> usize {
    let (contributions, c, rounds) = plan_sum(plan);
    count_under_way(&contributions, &c, rank, rounds)
}

/// Counts the messages that a rank receives for its rectangle of C, and their bytes.
pub(super) fn count_received(plan: &Plan, rank: usize) -> Moved {
    let (contributions, c, rounds) = plan_sum(plan);
    let senders = (0..plan.n_ranks())
        .filter(|&other| other != rank)
        .filter(|&other| !contributions.part(other).is_empty());
    let (senders, elements) = (senders.count(), c.part(rank).len());
    Moved {
        // No message is empty.
        messages: (senders * elements.min(rounds)) as u64,
        bytes: (senders * elements * plan.problem().element().bytes()) as u64,
        ..Moved::default()
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_round_is_bounded(
            rows in 1usize..5000, cols in 1usize..5000, areas in prop::collection::vec(0.0f64..5.0, 1..12),
            is_idle in prop::collection::vec(any::<bool>(), 12),
        ) {
            let computed: Vec<bool> = is_idle[..areas.len()].iter().map(|idle| !idle).collect();
            let layout = columns::br(&areas, rows as u64, cols as u64).unwrap();
            let c = Spread::on_layout(rows, cols, 1, &layout);
            let rounds = count_rounds(&c, &computed);
            let contributions = Spread::on_each(rows, cols, &computed);
            for rank in 0..areas.len() {
                let under_way = count_under_way(&contributions, &c, rank, rounds);
                prop_assert!(under_way <= 2 * (ROUND_LEN + 2 * areas.len()));
            }
        }
    }
}
