//! The order in which a rank goes through k.
//!
//! Every rank strides through the pieces of k by about the golden section of their number. Any few steps in a row are then
//! spread over all of k, and so over all holders.
//!
//! # Deviations
//! * **Order of the steps**: the paper's steps follow k (van de Geijn and Watts 1997). Here they stride through k,
//!   because neighbouring pieces have one holder. In the order of k that holder would send to all others while no rank
//!   sends to it, and half of each link's capacity would lie idle. If no piece is passed on, each rank begins with its
//!   own pieces, so that no rank waits for the first panels.
//! * **Spread of A and B**: the paper cuts A, B and C into the same rectangles (Clarke et al. 2012, section 4). Here A
//!   takes only its rows from C's rectangles, B only its columns, and k is spread over the owners of those rows or columns
//!   in proportion, because k may differ from n and m, and rectangles of C then fit neither A nor B.
//! * **Messages of panels**: the paper sends panels along rows of nodes, and broadcasts them along columns (Clarke et al.
//!   2012, section 4). Here they go point to point, or over relays where the measured network makes that faster, because
//!   rectangles of different columns do not end at the same rows, so that each piece has receivers of its own.
//!
//! # References
//! Knuth, "The Art of Computer Programming", volume 3, section 6.4, on Fibonacci hashing.

use std::ops::Range;

/// The order of all ranks' steps through the pieces of k.
///
/// It is cut into spans of steps. In a span all ranks go through the same pieces, each rank from a start of its own on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepOrder {
    pieces: Vec<usize>,
    spans: Vec<StepSpan>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StepSpan {
    steps: Range<usize>,
    /// The place among the span's pieces at which each rank begins. At the end it goes on at the beginning.
    starts: Vec<usize>,
}

impl StepOrder {
    /// Orders `pieces` pieces, without any span.
    pub(super) fn new(pieces: usize) -> Self {
        let (mut stride, mut numbers) = (1, 1);
        while numbers < pieces {
            (stride, numbers) = (numbers, stride + numbers);
        }
        // Neighbours in Fibonacci's sequence have no common divisor, so each number comes once.
        let order =
            (0..numbers).map(|step| step * stride % numbers).filter(|&piece| piece < pieces);
        Self { pieces: order.collect(), spans: Vec::new() }
    }

    /// Adds a span of steps after those before it. `find_start` returns the place at which a rank begins among the pieces of
    /// the span.
    pub(super) fn add_span(
        &mut self,
        steps: Range<usize>,
        ranks: usize,
        find_start: impl Fn(usize, &[usize]) -> usize,
    ) {
        let pieces = &self.pieces[steps.clone()];
        let starts = (0..ranks).map(|rank| find_start(rank, pieces)).collect();
        self.spans.push(StepSpan { steps, starts });
    }

    /// Returns the piece of a rank's step.
    ///
    /// # Panics
    /// If the step is in no span.
    pub(super) fn piece_at(&self, rank: usize, step: usize) -> usize {
        let mut latest = self.spans.iter().rev();
        let Some(StepSpan { steps, starts }) = latest.find(|span| span.steps.contains(&step))
        else {
            panic!("step {step} is in no span");
        };
        self.pieces[steps.start + (starts[rank] + step - steps.start) % steps.len()]
    }
}

/// Returns the largest number of these ranges that contain the same index.
pub(super) fn most_at_once(ranges: impl Iterator<Item = Range<usize>>) -> usize {
    // At one index, `false` (an end) sorts before `true` (a beginning).
    let mut borders: Vec<(usize, bool)> = ranges
        .filter(|range| !range.is_empty())
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
            let mut order = StepOrder::new(pieces);
            let first = first % pieces;
            order.add_span(0..pieces, 2, |rank, all| all.iter().position(|&piece| piece == rank * first).unwrap());
            prop_assert_eq!((order.piece_at(0, 0), order.piece_at(1, 0)), (0, first));
            for rank in 0..2 {
                let mut seen: Vec<usize> = (0..pieces).map(|step| order.piece_at(rank, step)).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..pieces).collect::<Vec<_>>());
            }
        }

        #[test]
        fn after_every_span_all_ranks_have_the_same_pieces(
            lengths in prop::collection::vec(1usize..9, 1..9), start in 0usize..99,
        ) {
            let mut order = StepOrder::new(lengths.iter().sum());
            let mut first = 0;
            let mut seen = [Vec::new(), Vec::new()];
            for length in lengths {
                let steps = first..first + length;
                first = steps.end;
                order.add_span(steps.clone(), 2, |rank, pieces| rank * (start % pieces.len()));
                for (rank, seen) in seen.iter_mut().enumerate() {
                    seen.extend(steps.clone().map(|step| order.piece_at(rank, step)));
                    seen.sort_unstable();
                    seen.dedup();
                    prop_assert_eq!(seen.len(), steps.end);
                }
                prop_assert_eq!(&seen[0], &seen[1]);
            }
        }

        #[test]
        fn a_few_steps_are_spread_over_all_holders(pieces in 2usize..400, holders in 2usize..5) {
            prop_assume!(pieces >= 3 * holders);
            let mut order = StepOrder::new(pieces);
            order.add_span(0..pieces, 1, |_, _| 0);
            // Any `window` steps in a row have something of every holder.
            let window = 3 * holders;
            for start in 0..=pieces - window {
                let mut seen: Vec<_> = (start..start + window)
                    .map(|step| order.piece_at(0, step) * holders / pieces)
                    .collect();
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
            let most = (0..40)
                .map(|place: usize| ranges.iter().filter(|range| range.contains(&place)).count())
                .max()
                .unwrap_or(0);
            prop_assert_eq!(most_at_once(ranges.into_iter()), most);
        }
    }

    #[test]
    fn two_halves_take_turns() {
        for pieces in [4, 6, 8] {
            let mut order = StepOrder::new(pieces);
            order.add_span(0..pieces, 2, |rank, all| {
                let first = rank * pieces / 2;
                all.iter().position(|&piece| piece == first).unwrap()
            });
            for rank in 0..2 {
                let [first, second] = [0, 1].map(|step| order.piece_at(rank, step) / (pieces / 2));
                assert!(first == rank && second != rank, "{order:?}");
            }
        }
    }
}
