//! The elements that one rank sends, receives and keeps, round by round.
//!
//! The elements that one rank sends another are the product of two lists, rows and columns. Both ranks know the lists and
//! take them in the same order. The elements go in one message per round, all of nearly equal length. In each round a rank
//! sends to all its partners and receives from all of them, so no link waits for its turn. A rank waits only for ranks that
//! are in the same round or an earlier one, so no order of events makes ranks wait for each other for ever.

use std::ops::Range;

use isochron_devices::{View, ViewMut};

use crate::comm::Message;
use crate::matrix::spread::{Holding, SharedLines};
use crate::matrix::{Region, Spread};

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
    /// Its place in the sender's memory.
    from: Region,
    /// Its place in the receiver's memory.
    to: Region,
    /// Index of its first element in the message.
    at: usize,
    /// Distance between the starts of its lines in the message.
    ld: usize,
}

impl CopyBlock {
    /// Returns its place in a message.
    fn view<'m, T>(&self, message: &'m [T]) -> View<'m, T> {
        View::new(&message[self.at..], self.to.rows, self.to.cols, self.ld)
    }

    /// Returns its place in a message, to be written.
    fn view_mut<'m, T>(&self, message: &'m mut [T]) -> ViewMut<'m, T> {
        ViewMut::new(&mut message[self.at..], self.to.rows, self.to.cols, self.ld)
    }
}

impl PairMoves {
    fn new(rank: usize, from: Holding<'_>, to: Holding<'_>) -> Option<Self> {
        let along = from.rows.find_shared(to.rows);
        if along.len() == 0 {
            return None;
        }
        let lines = from.cols.find_shared(to.cols);
        (lines.len() > 0).then_some(Self { rank, along, lines })
    }

    fn len(&self) -> usize {
        self.along.len() * self.lines.len()
    }

    /// Returns the blocks of the elements with these numbers.
    fn cut_blocks(&self, range: Range<usize>) -> impl Iterator<Item = CopyBlock> + '_ {
        let (start, line_len) = (range.start, self.along.len());
        cut_rectangles(range, line_len).flat_map(move |(lines, along)| {
            self.lines.within(lines).flat_map(move |line| {
                self.along.within(along.clone()).map(move |part| {
                    let place = |row, col| Region { row, col, rows: part.len, cols: line.len };
                    CopyBlock {
                        from: place(part.from, line.from),
                        to: place(part.to, line.to),
                        at: line.first * line_len + part.first - start,
                        ld: line_len,
                    }
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
    all.into_iter().filter(|(lines, along)| !lines.is_empty() && !along.is_empty())
}

/// One rank's part of a movement. Lines are columns: callers transpose both sides if the target's lines are rows.
#[derive(Debug)]
pub(crate) struct MovePlan {
    rank: usize,
    sends: Vec<PairMoves>,
    /// In ascending order of the ranks, this one among them.
    recvs: Vec<PairMoves>,
    pub rounds: usize,
}

impl MovePlan {
    /// Plans the moves of `rank` in `rounds` rounds, at least one.
    pub(crate) fn new(from: &Spread, to: &Spread, rank: usize, rounds: usize) -> Self {
        let n = from.n_ranks();
        let (have, need) = (from.holding(rank), to.holding(rank));
        Self {
            rank,
            // From the next rank on, so that not all ranks begin with the same one.
            sends: (1..n)
                .map(|step| (rank + step) % n)
                .filter_map(|other| PairMoves::new(other, have, to.holding(other)))
                .collect(),
            recvs: (0..n)
                .filter_map(|other| PairMoves::new(other, from.holding(other), need))
                .collect(),
            rounds: rounds.max(1),
        }
    }

    /// Leaves out the elements that the rank keeps.
    pub(super) fn leave_own(&mut self) {
        self.recvs.retain(|pair| pair.rank != self.rank);
    }

    /// Returns the largest number of elements that are sent, and received, in a round.
    pub(super) fn most_per_round(&self) -> [usize; 2] {
        [&self.sends, &self.recvs].map(|pairs| {
            pairs
                .iter()
                .filter(|pair| pair.rank != self.rank)
                .map(|pair| pair.len().div_ceil(self.rounds))
                .sum()
        })
    }

    /// Returns the numbers of the elements that each of `pairs` moves in a round, and their place in a buffer in which all
    /// messages follow each other. The rank's own elements take no place there.
    fn place_in_buffer<'p>(
        &self,
        pairs: &'p [PairMoves],
        round: usize,
    ) -> impl Iterator<Item = (&'p PairMoves, Range<usize>, Range<usize>)> {
        let (rank, rounds) = (self.rank, self.rounds);
        let mut end = 0;
        pairs.iter().map(move |pair| {
            let cut = [round, round + 1]
                .map(|round| (pair.len() as u128 * round as u128 / rounds as u128) as usize);
            let start = end;
            end += if pair.rank == rank { 0 } else { cut[1] - cut[0] };
            (pair, cut[0]..cut[1], start..end)
        })
    }

    /// Returns the messages of a round that this rank sends, in buffer 0, and those that it receives, in buffer 1.
    pub(crate) fn list_messages(&self, round: usize) -> [Vec<Message>; 2] {
        [(&self.sends, 0), (&self.recvs, 1)].map(|(pairs, buffer)| {
            self.place_in_buffer(pairs, round)
                .filter(|(pair, ..)| pair.rank != self.rank)
                .map(|(pair, _, place)| Message::plain(pair.rank, buffer, place))
                .collect()
        })
    }

    /// Packs the elements that this rank sends in a round into `buffer`, which is as long as they are.
    pub(super) fn pack_round<T: bytemuck::Pod>(
        &self,
        round: usize,
        source: View<'_, T>,
        buffer: &mut [T],
    ) {
        for (pair, range, place) in self.place_in_buffer(&self.sends, round) {
            let message = &mut buffer[place];
            for block in pair.cut_blocks(range) {
                let from = source.block(block.from.row_range(), block.from.col_range());
                block.view_mut(message).copy_from(from);
            }
        }
    }

    /// Puts the elements that this rank has `received` in a round into `target`, in the order of their senders. The rank's
    /// own elements of the round, from `source`, take their place in that order.
    pub(super) fn unpack_round<T: bytemuck::Pod>(
        &self,
        round: usize,
        received: &[T],
        source: View<'_, T>,
        target: &mut ViewMut<'_, T>,
        put: &impl Fn(&mut T, T),
    ) {
        for (pair, range, place) in self.place_in_buffer(&self.recvs, round) {
            let message = &received[place];
            for block in pair.cut_blocks(range) {
                let from = if pair.rank == self.rank {
                    source.block(block.from.row_range(), block.from.col_range())
                } else {
                    block.view(message)
                };
                target
                    .reborrow()
                    .into_block(block.to.row_range(), block.to.col_range())
                    .update_from(from, put);
            }
        }
    }
}

/// Counts the rounds in which no rank sends and receives more than `room` elements together, but for one element for each of
/// its partners. Every element has one holder. The number follows from the spreads alone, so every rank finds the same.
pub(super) fn count_rounds(from: &Spread, to: &Spread, room: usize) -> usize {
    (0..from.n_ranks())
        .map(|rank| {
            let (have, need) = (from.holding(rank), to.holding(rank));
            have.len() + need.len() - 2 * have.count_shared(&need)
        })
        .max()
        .unwrap_or(0)
        .div_ceil(room.max(1))
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::{BlockCyclic, ProcessGrid, Stored, StoredMut, volume};

    #[test]
    fn a_range_of_elements_is_up_to_three_rectangles() {
        for (range, rectangles) in [
            (3..18, vec![(0..1, 3..5), (1..3, 0..5), (3..4, 0..3)]),
            (5..10, vec![(1..2, 0..5)]),
            (6..9, vec![(1..2, 1..4)]),
            (3..5, vec![(0..1, 3..5)]),
            (7..7, vec![]),
            (10..10, vec![]),
        ] {
            assert_eq!(cut_rectangles(range, 5).collect::<Vec<_>>(), rectangles);
        }
    }

    /// Some spread of a `rows×cols` matrix over `n` ranks.
    fn spread(rows: usize, cols: usize, n: usize) -> BoxedStrategy<Spread> {
        let one = (0..n).prop_map(move |rank| Spread::on_one(rows, cols, rank, n).unwrap());
        let areas = (prop::collection::vec(0.0f64..5.0, n), 1usize..5);
        let layout = areas
            .prop_filter("an area", |(areas, _)| areas.iter().any(|&area| area > 0.0))
            .prop_map(move |(areas, block)| {
                let blocks = [rows, cols].map(|size| size.div_ceil(block) as u64);
                let layout = columns::br(&areas, blocks[0], blocks[1]).unwrap();
                Spread::on_layout(rows, cols, block, &layout)
            });
        let (row_block, col_block, processes) = (1usize..7, 1usize..7, 1..=n);
        let cyclic = (row_block, col_block, processes, 0usize..9, 0usize..9, any::<bool>());
        let cyclic = cyclic.prop_map(move |(mb, nb, p, rsrc, csrc, by_rows)| {
            let q = n / p;
            let matrix = BlockCyclic {
                row_source: rsrc % p,
                col_source: csrc % q,
                ..BlockCyclic::new(rows, cols, mb, nb)
            };
            let grid =
                if by_rows { ProcessGrid::by_rows(p, q) } else { ProcessGrid::by_columns(p, q) };
            Spread::block_cyclic(&matrix, grid, n).unwrap()
        });
        prop_oneof![one, layout, cyclic].boxed()
    }

    /// A spread of a `rows×cols` matrix that may be part of a larger one, or the transposed of another.
    fn part(rows: usize, cols: usize, n: usize) -> BoxedStrategy<Spread> {
        let sub = (0usize..4, 0usize..4, 0usize..4, 0usize..4).prop_flat_map(
            move |(top, bottom, left, right)| {
                spread(top + rows + bottom, left + cols + right, n)
                    .prop_map(move |w| w.sub(top..top + rows, left..left + cols).unwrap())
            },
        );
        let transposed = spread(cols, rows, n).prop_map(|s| s.transposed());
        prop_oneof![spread(rows, cols, n), sub, transposed].boxed()
    }

    fn cases() -> impl Strategy<Value = (Spread, Spread, usize, usize)> {
        (0usize..24, 0usize..24, 1usize..7).prop_flat_map(|(rows, cols, n)| {
            (part(rows, cols, n), part(rows, cols, n), 0usize..3, 1usize..200)
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
        by_columns: bool,
    }

    impl Memory {
        fn new(spread: &Spread, gap: usize, by_columns: bool) -> Self {
            let (locals, lds) = (0..spread.n_ranks())
                .map(|rank| match (spread.local_shape(rank), by_columns) {
                    (shape, true) => shape,
                    ((rows, cols), false) => (cols, rows),
                })
                .map(|(along, lines)| (vec![UNTOUCHED; (along + gap) * lines], along + gap))
                .unzip();
            Self { locals, lds, by_columns }
        }

        fn view(&self, spread: &Spread, rank: usize) -> View<'_, i64> {
            let stored = if self.by_columns {
                Stored::by_columns(&self.locals[rank][..], self.lds[rank])
            } else {
                Stored::by_rows(&self.locals[rank][..], self.lds[rank])
            };
            stored.view(spread.local_shape(rank)).unwrap()
        }

        fn view_mut(&mut self, spread: &Spread, rank: usize) -> ViewMut<'_, i64> {
            let stored = if self.by_columns {
                StoredMut::by_columns(&mut self.locals[rank][..], self.lds[rank])
            } else {
                StoredMut::by_rows(&mut self.locals[rank][..], self.lds[rank])
            };
            stored.view(spread.local_shape(rank)).unwrap()
        }
    }

    /// Runs the rounds of all ranks, one after the other, and hands messages over.
    fn run(
        plans: &[MovePlan],
        (from, source): (&Spread, &Memory),
        (to, target): (&Spread, &mut Memory),
    ) -> Vec<u64> {
        let mut sent = vec![0; plans.len()];
        for round in 0..plans[0].rounds {
            let mut post = std::collections::HashMap::new();
            for (rank, plan) in plans.iter().enumerate() {
                let [sends, _] = plan.list_messages(round);
                let mut buffer = vec![0; sends.last().map_or(0, |last| last.range.end)];
                plan.pack_round(round, source.view(from, rank), &mut buffer);
                assert!(buffer.len() <= plan.most_per_round()[0]);
                for message in sends {
                    sent[rank] += message.range.len() as u64;
                    post.insert((rank, message.rank), buffer[message.range].to_vec());
                }
            }
            for (rank, plan) in plans.iter().enumerate() {
                let mut buffer = Vec::new();
                let [_, recvs] = plan.list_messages(round);
                for message in recvs {
                    let data = post.remove(&(message.rank, rank)).expect("a message");
                    assert_eq!(
                        (message.range.start, message.range.len()),
                        (buffer.len(), data.len())
                    );
                    buffer.extend(data);
                }
                assert!(buffer.len() <= plan.most_per_round()[1]);
                let mut target = target.view_mut(to, rank);
                let local = source.view(from, rank);
                plan.unpack_round(round, &buffer, local, &mut target, &|to, value| *to = -value);
            }
            assert!(post.is_empty(), "every message has a receiver");
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
                from.fill_view(rank, source.view_mut(&from, rank), number);
            }
            let mut target = Memory::new(&to, gap, true);
            let rounds = count_rounds(&from, &to, room);
            let plans: Vec<MovePlan> = (0..from.n_ranks())
                .map(|rank| MovePlan::new(&from, &to, rank, rounds))
                .collect();
            let sent = run(&plans, (&from, &source), (&to, &mut target));
            prop_assert_eq!(sent, volume(&from, &to));
            for (rank, plan) in plans.iter().enumerate() {
                let mut expected = vec![UNTOUCHED; target.locals[rank].len()];
                let local = StoredMut::by_columns(&mut expected, target.lds[rank]);
                to.fill(rank, local, |row, col| -number(row, col)).unwrap();
                prop_assert_eq!(&target.locals[rank], &expected);
                let received = plan.recvs.iter().filter(|pair| pair.rank != rank);
                let partners = plan.sends.len() + received.count();
                let most: usize = plan.most_per_round().iter().sum();
                prop_assert!(most <= room + partners, "{} of {}", most, room);
            }
        }
    }
}
