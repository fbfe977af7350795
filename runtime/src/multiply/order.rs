//! In which order a rank goes through k.
//!
//! Neighbouring pieces of k have one holder: in order of k, it would send to all others while nobody sends anything to it,
//! and half of what the links carry both ways would lie idle. So every rank strides through the pieces of k, by about the
//! golden section of them: however few steps follow each other, they are spread over all of k (Knuth, "The Art of Computer
//! Programming", volume 3, section 6.4, on Fibonacci hashing), and so over all holders. Where nobody passes anything on,
//! each rank also begins with what it holds, so that nobody waits for the first panels.

use std::ops::Range;

/// The order of all ranks' steps through the pieces of k.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepOrder {
    pieces: Vec<usize>,
    /// Where in it each rank begins; it goes on at the beginning when it is at the end.
    starts: Vec<usize>,
}

impl StepOrder {
    /// Through so many pieces, where each rank begins with the one that `first` names.
    pub(super) fn new(pieces: usize, first: impl Iterator<Item = usize>) -> Self {
        let (mut stride, mut numbers) = (1, 1);
        while numbers < pieces {
            (stride, numbers) = (numbers, stride + numbers);
        }
        // Neighbours in Fibonacci's sequence have no common divisor, so that each number comes once.
        let all = (0..numbers).map(|step| step * stride % numbers);
        let pieces: Vec<usize> = all.filter(|&piece| piece < pieces).collect();
        let mut places = vec![0; pieces.len()];
        for (place, &piece) in pieces.iter().enumerate() {
            places[piece] = place;
        }
        let starts = first.map(|piece| places.get(piece).copied().unwrap_or(0));
        Self {
            starts: starts.collect(),
            pieces,
        }
    }

    /// The piece of a rank's step.
    pub(super) fn piece(&self, rank: usize, step: usize) -> usize {
        self.pieces[(self.starts[rank] + step) % self.pieces.len()]
    }
}

/// How many of these ranges share a number, at most.
pub(super) fn most_at_once(ranges: impl Iterator<Item = Range<usize>>) -> usize {
    let full = ranges.filter(|range| !range.is_empty());
    // At one number, the ranges that end are left before others begin.
    let mut borders: Vec<(usize, bool)> = full
        .flat_map(|range| [(range.end, false), (range.start, true)])
        .collect();
    borders.sort_unstable();
    let mut open = 0;
    let counts = borders.into_iter().map(|(_, begins)| {
        open = if begins { open + 1 } else { open - 1 };
        open
    });
    counts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_piece_comes_once_whichever_is_the_first(pieces in 1usize..400, first in 0usize..400) {
            let order = StepOrder::new(pieces, [0, first % pieces].into_iter());
            prop_assert_eq!((order.piece(0, 0), order.piece(1, 0)), (0, first % pieces));
            for rank in 0..2 {
                let mut seen: Vec<usize> = (0..pieces).map(|step| order.piece(rank, step)).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..pieces).collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_few_steps_are_spread_over_all_holders(pieces in 2usize..400, holders in 2usize..5) {
            prop_assume!(pieces >= 3 * holders);
            let order = StepOrder::new(pieces, [0].into_iter());
            let holder = |step: usize| order.piece(0, step) * holders / pieces;
            // Any so many steps in a row have something of every holder.
            let window = 3 * holders;
            for start in 0..=pieces - window {
                let mut seen: Vec<_> = (start..start + window).map(holder).collect();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), holders, "from step {}", start);
            }
        }

        #[test]
        fn the_most_at_once_are_those_at_some_place(
            starts in prop::collection::vec((0usize..30, 0usize..10), 0..12),
        ) {
            let ranges: Vec<_> = starts.iter().map(|&(start, len)| start..start + len).collect();
            let at = |place: usize| ranges.iter().filter(|range| range.contains(&place)).count();
            let most = (0..40).map(at).max().unwrap_or(0);
            prop_assert_eq!(most_at_once(ranges.into_iter()), most);
        }
    }

    #[test]
    fn two_halves_take_turns() {
        for pieces in [4, 6, 8] {
            let order = StepOrder::new(pieces, [0, pieces / 2].into_iter());
            for rank in 0..2 {
                let held = |step: usize| order.piece(rank, step) / (pieces / 2) == rank;
                assert!(held(0) && !held(1), "{order:?}");
            }
        }
    }
}
