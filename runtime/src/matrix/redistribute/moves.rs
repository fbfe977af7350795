//! The elements that one rank sends, receives and keeps, round by round.
//!
//! The elements that one rank sends another are the product of two lists, rows and columns. Both ranks know the lists and
//! take them in the same order. The elements go in one message per round, all of nearly equal length. In each round a rank
//! sends to all its partners and receives from all of them, so no link waits for its turn. A rank waits only for ranks that
//! are in the same round or an earlier one, so no order of events makes ranks wait for each other for ever.

use std::ops::Range;

use crate::comm::Message;
use crate::matrix::Spread;
use crate::matrix::copy::{Strides, copy_lines, replace};
use crate::matrix::spread::{Holding, SharedLines};

/// The elements that one rank has and another one, or itself, needs.
#[derive(Debug)]
struct PairMoves {
    rank: usize,
    /// Indices along the lines, which are the target's.
    along: SharedLines,
    lines: SharedLines,
}

/// A rectangle of elements that is contiguous in both memories and in the message.
struct CopyBlock {
    /// Indices along the lines and of the lines in the sender's memory.
    from: (usize, usize),
    /// The same in the receiver's memory.
    to: (usize, usize),
    /// Number of indices along the lines, and of lines.
    size: (usize, usize),
    /// Index of its first element in the message.
    at: usize,
}

impl PairMoves {
    fn new(rank: usize, from: &Holding, to: &Holding) -> Option<Self> {
        let along = from.rows.find_shared(&to.rows);
        if along.len() == 0 {
            return None;
        }
        let lines = from.cols.find_shared(&to.cols);
        (lines.len() > 0).then_some(Self { rank, along, lines })
    }

    fn len(&self) -> usize {
        self.along.len() * self.lines.len()
    }

    /// Returns the numbers of the elements that go in one of `rounds` rounds, counted line after line.
    fn range_of_round(&self, round: usize, rounds: usize) -> Range<usize> {
        let [start, end] = [round, round + 1]
            .map(|round| (self.len() as u128 * round as u128 / rounds as u128) as usize);
        start..end
    }

    /// Returns the blocks of the elements with these numbers.
    fn cut_blocks(&self, range: Range<usize>) -> impl Iterator<Item = CopyBlock> + '_ {
        let (start, line_len) = (range.start, self.along.len());
        cut_rectangles(range, line_len).flat_map(move |(lines, along)| {
            self.lines.within(lines).flat_map(move |line| {
                self.along.within(along.clone()).map(move |part| CopyBlock {
                    from: (part.from, line.from),
                    to: (part.to, line.to),
                    size: (part.len, line.len),
                    at: line.first * line_len + part.first - start,
                })
            })
        })
    }
}

/// Cuts the elements number `range` of lines of `line_len` into rectangles of lines and indices along them: the rest of a
/// line, whole lines, and the beginning of one.
fn cut_rectangles(
    range: Range<usize>,
    line_len: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let Range { start, end } = range;
    let (first, last) = (start / line_len, end / line_len);
    let whole = start.div_ceil(line_len)..last;
    let all = if first == last {
        // Within one line.
        let part = (first..first + 1, start % line_len..end % line_len);
        [part, (0..0, 0..0), (0..0, 0..0)]
    } else {
        [
            (first..whole.start, start % line_len..line_len),
            (whole, 0..line_len),
            (last..last + 1, 0..end % line_len),
        ]
    };
    all.into_iter()
        .filter(|(lines, along)| !lines.is_empty() && !along.is_empty())
}

/// One rank's part of a movement. Lines are columns: callers transpose both sides if the target's lines are rows.
#[derive(Debug)]
pub(super) struct MovePlan {
    rank: usize,
    sends: Vec<PairMoves>,
    /// In ascending order of the ranks.
    recvs: Vec<PairMoves>,
    own: Option<PairMoves>,
    rounds: usize,
}

impl MovePlan {
    /// Plans the moves of `rank` in `rounds` rounds, at least one if anything travels.
    pub(super) fn new(from: &Spread, to: &Spread, rank: usize, rounds: usize) -> Self {
        let n = from.n_ranks();
        let (have, need) = (from.holding(rank), to.holding(rank));
        Self {
            rank,
            // From the next rank on, so that not all ranks begin with the same one.
            sends: (1..n)
                .map(|step| (rank + step) % n)
                .filter_map(|other| PairMoves::new(other, &have, &to.holding(other)))
                .collect(),
            recvs: (0..n)
                .filter(|&other| other != rank)
                .filter_map(|other| PairMoves::new(other, &from.holding(other), &need))
                .collect(),
            own: PairMoves::new(rank, &have, &need),
            rounds,
        }
    }

    pub(super) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns the largest number of elements that are sent, and received, in a round.
    pub(super) fn most_per_round(&self) -> [usize; 2] {
        let rounds = self.rounds.max(1);
        [&self.sends, &self.recvs]
            .map(|pairs| pairs.iter().map(|pair| pair.len().div_ceil(rounds)).sum())
    }

    /// Returns the messages of a round that this rank sends, one after the other in buffer `buffer`.
    pub(super) fn list_sends(&self, round: usize, buffer: usize) -> Vec<Message> {
        self.list_messages(&self.sends, round, buffer)
    }

    /// Returns the messages of a round that this rank receives.
    pub(super) fn list_recvs(&self, round: usize, buffer: usize) -> Vec<Message> {
        self.list_messages(&self.recvs, round, buffer)
    }

    fn list_messages(&self, pairs: &[PairMoves], round: usize, buffer: usize) -> Vec<Message> {
        let mut messages = Vec::with_capacity(pairs.len());
        let mut start = 0;
        for pair in pairs {
            let end = start + pair.range_of_round(round, self.rounds).len();
            if end > start {
                messages.push(Message::plain(pair.rank, buffer, start..end));
            }
            start = end;
        }
        messages
    }

    /// Packs the elements that this rank sends in a round into `buffer`.
    pub(super) fn pack_round<T: bytemuck::Pod>(
        &self,
        round: usize,
        (source, strides): (&[T], Strides),
        buffer: &mut Vec<T>,
    ) {
        let ranges = self.sends.iter();
        let ranges = ranges.map(|pair| pair.range_of_round(round, self.rounds));
        buffer.resize(ranges.map(|range| range.len()).sum(), T::zeroed());
        let mut rest = buffer.as_mut_slice();
        for pair in &self.sends {
            let range = pair.range_of_round(round, self.rounds);
            let (message, after) = rest.split_at_mut(range.len());
            for block in pair.cut_blocks(range) {
                let from = &source[strides.index(block.from.0, block.from.1)..];
                let to = &mut message[block.at..];
                let ld = pair.along.len();
                copy_lines((to, ld), (from, strides), block.size, &replace);
            }
            rest = after;
        }
    }

    /// Puts the elements that this rank has received in a round into `target`, in the order of their senders. With `own`,
    /// the memory that this rank sends from, its own elements of the round take their place in that order.
    pub(super) fn unpack_round<T: bytemuck::Pod>(
        &self,
        round: usize,
        received: &[T],
        (target, ld): (&mut [T], usize),
        put: &impl Fn(&mut T, T),
        own: Option<(&[T], Strides)>,
    ) {
        let lower = self.recvs.partition_point(|pair| pair.rank < self.rank);
        let (before, after) = self.recvs.split_at(lower);
        let rest = self.unpack_pairs(before, round, received, (&mut *target, ld), put);
        if let (Some(source), Some(pair)) = (own, &self.own) {
            let range = pair.range_of_round(round, self.rounds);
            copy_pair(pair, range, source, (&mut *target, ld), put);
        }
        self.unpack_pairs(after, round, rest, (target, ld), put);
    }

    /// Puts the messages of these senders into `target`; returns the rest of `received`.
    fn unpack_pairs<'r, T: bytemuck::Pod>(
        &self,
        pairs: &[PairMoves],
        round: usize,
        received: &'r [T],
        (target, ld): (&mut [T], usize),
        put: &impl Fn(&mut T, T),
    ) -> &'r [T] {
        let mut rest = received;
        for pair in pairs {
            let range = pair.range_of_round(round, self.rounds);
            let (message, after) = rest.split_at(range.len());
            let strides = Strides::lines(pair.along.len());
            for block in pair.cut_blocks(range) {
                let to = &mut target[block.to.0 + block.to.1 * ld..];
                copy_lines((to, ld), (&message[block.at..], strides), block.size, put);
            }
            rest = after;
        }
        rest
    }

    /// Puts all elements that this rank has and needs itself into `target`.
    pub(super) fn copy_own<T: bytemuck::Pod>(
        &self,
        source: (&[T], Strides),
        target: (&mut [T], usize),
        put: &impl Fn(&mut T, T),
    ) {
        if let Some(pair) = &self.own {
            copy_pair(pair, 0..pair.len(), source, target, put);
        }
    }
}

/// Copies the elements number `range` of a rank to itself.
fn copy_pair<T: bytemuck::Pod>(
    pair: &PairMoves,
    range: Range<usize>,
    (source, strides): (&[T], Strides),
    (target, ld): (&mut [T], usize),
    put: &impl Fn(&mut T, T),
) {
    for block in pair.cut_blocks(range) {
        let from = &source[strides.index(block.from.0, block.from.1)..];
        let to = &mut target[block.to.0 + block.to.1 * ld..];
        copy_lines((to, ld), (from, strides), block.size, put);
    }
}

/// Counts the rounds in which no rank sends and receives more than `room` elements together, but for one element for each of
/// its partners. Every element has one holder. The number follows from the spreads alone, so every rank finds the same.
pub(super) fn count_rounds(from: &Spread, to: &Spread, room: usize) -> usize {
    let most = (0..from.n_ranks())
        .map(|rank| {
            let (have, need) = (from.holding(rank), to.holding(rank));
            have.len() + need.len() - 2 * have.count_shared(&need)
        })
        .max();
    most.unwrap_or(0).div_ceil(room.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::{BlockCyclic, ProcessGrid, StoredMut, volume};

    #[test]
    fn a_range_of_elements_is_up_to_three_rectangles() {
        let all = |range| cut_rectangles(range, 5).collect::<Vec<_>>();
        assert_eq!(all(3..18), [(0..1, 3..5), (1..3, 0..5), (3..4, 0..3)]);
        assert_eq!(all(5..10), [(1..2, 0..5)]);
        assert_eq!(all(6..9), [(1..2, 1..4)]);
        assert_eq!(all(3..5), [(0..1, 3..5)]);
        assert_eq!(all(7..7), []);
        assert_eq!(all(10..10), []);
    }

    /// Some spread of a `rows×cols` matrix over `n` ranks.
    fn spread(rows: usize, cols: usize, n: usize) -> BoxedStrategy<Spread> {
        let one = (0..n).prop_map(move |rank| Spread::on_one(rows, cols, rank, n).unwrap());
        let areas = (prop::collection::vec(0.0f64..5.0, n), 1usize..5);
        let layout = areas.prop_map(move |(areas, block)| {
            let blocks = [rows, cols].map(|size| size.div_ceil(block) as u64);
            let layout = columns::br(&areas, blocks[0], blocks[1]).unwrap();
            Spread::on_layout(rows, cols, block, Arc::new(layout))
        });
        let (row_block, col_block, processes) = (1usize..7, 1usize..7, 1..=n);
        let cyclic = (
            row_block,
            col_block,
            processes,
            0usize..9,
            0usize..9,
            any::<bool>(),
        );
        let cyclic = cyclic.prop_map(move |(mb, nb, p, rsrc, csrc, by_rows)| {
            let q = n / p;
            let matrix = BlockCyclic {
                row_source: rsrc % p,
                col_source: csrc % q,
                ..BlockCyclic::new(rows, cols, mb, nb)
            };
            let grid = if by_rows {
                ProcessGrid::by_rows(p, q)
            } else {
                ProcessGrid::by_columns(p, q)
            };
            Spread::block_cyclic(&matrix, grid, n).unwrap()
        });
        prop_oneof![one, layout, cyclic].boxed()
    }

    /// A spread of a `rows×cols` matrix that may be part of a larger one, or the transposed of another.
    fn part(rows: usize, cols: usize, n: usize) -> BoxedStrategy<Spread> {
        let margins = (0usize..4, 0usize..4, 0usize..4, 0usize..4);
        let sub = margins.prop_flat_map(move |(top, bottom, left, right)| {
            let whole = spread(top + rows + bottom, left + cols + right, n);
            whole.prop_map(move |w| w.sub(top..top + rows, left..left + cols).unwrap())
        });
        let transposed = spread(cols, rows, n).prop_map(|s| s.transposed());
        prop_oneof![spread(rows, cols, n), sub, transposed].boxed()
    }

    fn cases() -> impl Strategy<Value = (Spread, Spread, usize, usize)> {
        let sizes = (0usize..24, 0usize..24, 1usize..7);
        sizes.prop_flat_map(|(rows, cols, n)| {
            (
                part(rows, cols, n),
                part(rows, cols, n),
                0usize..3,
                1usize..200,
            )
        })
    }

    fn number(row: usize, col: usize) -> i64 {
        (1 + row + 1000 * col) as i64
    }

    const UNTOUCHED: i64 = -5;

    /// All ranks' memory.
    struct Memory {
        locals: Vec<Vec<i64>>,
        lds: Vec<usize>,
    }

    impl Memory {
        fn new(spread: &Spread, gap: usize, by_columns: bool) -> Self {
            let shape = |rank| {
                let (rows, cols) = spread.local_shape(rank);
                if by_columns {
                    (rows, cols)
                } else {
                    (cols, rows)
                }
            };
            let (locals, lds) = (0..spread.n_ranks())
                .map(shape)
                .map(|(along, lines)| (vec![UNTOUCHED; (along + gap) * lines], along + gap))
                .unzip();
            Self { locals, lds }
        }
    }

    /// Runs the rounds of all ranks, one after the other, and hands messages over.
    fn run(
        plans: &[MovePlan],
        source: &Memory,
        steps: fn(usize) -> Strides,
        target: &mut Memory,
    ) -> Vec<u64> {
        let mut sent = vec![0; plans.len()];
        let negated = |to: &mut i64, value: i64| *to = -value;
        for round in 0..plans[0].rounds() {
            let mut post = std::collections::HashMap::new();
            for (rank, plan) in plans.iter().enumerate() {
                let mut buffer = Vec::new();
                let local = (source.locals[rank].as_slice(), steps(source.lds[rank]));
                plan.pack_round(round, local, &mut buffer);
                assert!(buffer.len() <= plan.most_per_round()[0]);
                for message in plan.list_sends(round, 0) {
                    sent[rank] += message.range.len() as u64;
                    post.insert((rank, message.rank), buffer[message.range].to_vec());
                }
            }
            for (rank, plan) in plans.iter().enumerate() {
                let mut buffer = Vec::new();
                for message in plan.list_recvs(round, 1) {
                    let data = post.remove(&(message.rank, rank)).expect("a message");
                    assert_eq!(
                        (message.range.start, message.range.len()),
                        (buffer.len(), data.len())
                    );
                    buffer.extend(data);
                }
                assert!(buffer.len() <= plan.most_per_round()[1]);
                let ld = target.lds[rank];
                plan.unpack_round(
                    round,
                    &buffer,
                    (&mut target.locals[rank], ld),
                    &negated,
                    None,
                );
            }
            assert!(post.is_empty(), "every message has a receiver");
        }
        for (rank, plan) in plans.iter().enumerate() {
            let local = (source.locals[rank].as_slice(), steps(source.lds[rank]));
            let ld = target.lds[rank];
            plan.copy_own(local, (&mut target.locals[rank], ld), &negated);
        }
        sent
    }

    proptest! {
        #[test]
        fn every_element_arrives_once_and_travels_only_if_it_must(
            (from, to, gap, room) in cases(), by_columns: bool,
        ) {
            let mut source = Memory::new(&from, gap, by_columns);
            for rank in 0..from.n_ranks() {
                let (data, ld) = (&mut source.locals[rank], source.lds[rank]);
                let local = if by_columns {
                    StoredMut::by_columns(data, ld)
                } else {
                    StoredMut::by_rows(data, ld)
                };
                from.fill(rank, local, number).unwrap();
            }
            let steps = if by_columns { Strides::lines } else { Strides::across };
            let mut target = Memory::new(&to, gap, true);
            let rounds = count_rounds(&from, &to, room);
            let plans: Vec<MovePlan> = (0..from.n_ranks())
                .map(|rank| MovePlan::new(&from, &to, rank, rounds))
                .collect();
            let sent = run(&plans, &source, steps, &mut target);
            prop_assert_eq!(sent, volume(&from, &to));
            for (rank, plan) in plans.iter().enumerate() {
                let mut expected = vec![UNTOUCHED; target.locals[rank].len()];
                let negated = |row, col| -number(row, col);
                let local = StoredMut::by_columns(&mut expected, target.lds[rank]);
                to.fill(rank, local, negated).unwrap();
                prop_assert_eq!(&target.locals[rank], &expected);
                let partners = plan.sends.len() + plan.recvs.len();
                let most: usize = plan.most_per_round().iter().sum();
                prop_assert!(most <= room + partners, "{} of {}", most, room);
            }
        }
    }
}
