//! What one rank sends, receives and keeps, round by round.
//!
//! The elements that one rank sends another are those of the product of two lists, rows and columns; both ranks know
//! them, and take them in the same order. They go in as many messages as there are rounds, nearly equal ones, and in
//! each round a rank sends and receives the messages of that round to and from everybody. So a rank waits only for ranks
//! that are in the same round or an earlier one, and no order of events makes them wait for each other. All partners are
//! served in every round, so that no link waits for its turn.

use std::ops::Range;

use super::copy::{Strides, copy_lines};
use crate::comm::Message;
use crate::matrix::Spread;
use crate::matrix::spread::{Holding, SharedLines};

/// The elements that one rank has and another one, or itself, needs.
#[derive(Debug)]
struct PairMoves {
    rank: usize,
    /// Indices along the lines, which are the target's.
    along: SharedLines,
    lines: SharedLines,
}

/// A rectangle of elements that lies in one piece in both memories and in the message.
struct CopyBlock {
    /// Indices along the lines and of the lines in the sender's memory.
    from: (usize, usize),
    /// The same in the receiver's.
    to: (usize, usize),
    /// Number of indices along the lines, and of lines.
    size: (usize, usize),
    /// Where it begins in its message.
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

    /// Numbers of the elements that go in one of `rounds` rounds, line after line.
    fn share(&self, round: usize, rounds: usize) -> Range<usize> {
        let until = |round: usize| (self.len() as u128 * round as u128 / rounds as u128) as usize;
        until(round)..until(round + 1)
    }

    /// The blocks of the elements with those numbers.
    fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = CopyBlock> + '_ {
        let (start, line_len) = (range.start, self.along.len());
        rectangles(range, line_len).flat_map(move |(lines, along)| {
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

/// The rectangles that elements number `range` of lines of `line_len` make up: the rest of a line, whole lines, and the
/// beginning of one.
fn rectangles(
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

/// One rank's part of a redistribution. Lines are columns: callers transpose both sides where the target's are rows.
#[derive(Debug)]
pub(super) struct MovePlan {
    sends: Vec<PairMoves>,
    recvs: Vec<PairMoves>,
    own: Option<PairMoves>,
    rounds: usize,
}

impl MovePlan {
    /// What `rank` does so that it never packs, or waits for, more than `room` elements a round, but for one element for
    /// each of its partners.
    pub(super) fn new(from: &Spread, to: &Spread, rank: usize, room: usize) -> Self {
        let n = from.n_ranks();
        // Starting beside this rank, so that not all begin with the same one.
        let others = || (1..n).map(|step| (rank + step) % n);
        let (have, need) = (from.holding(rank), to.holding(rank));
        Self {
            sends: others()
                .filter_map(|other| PairMoves::new(other, &have, &to.holding(other)))
                .collect(),
            recvs: others()
                .filter_map(|other| PairMoves::new(other, &from.holding(other), &need))
                .collect(),
            own: PairMoves::new(rank, &have, &need),
            rounds: rounds(from, to, room),
        }
    }

    pub(super) fn rounds(&self) -> usize {
        self.rounds
    }

    /// The most elements that are sent, and received, in a round.
    pub(super) fn most(&self) -> [usize; 2] {
        [&self.sends, &self.recvs].map(|pairs| {
            let each = pairs.iter().map(|pair| pair.len().div_ceil(self.rounds));
            each.sum()
        })
    }

    /// The messages of a round that this rank sends, one after the other in buffer `buffer`.
    pub(super) fn sends(&self, round: usize, buffer: usize) -> Vec<Message> {
        self.messages(&self.sends, round, buffer)
    }

    /// The messages of a round that this rank receives.
    pub(super) fn recvs(&self, round: usize, buffer: usize) -> Vec<Message> {
        self.messages(&self.recvs, round, buffer)
    }

    fn messages(&self, pairs: &[PairMoves], round: usize, buffer: usize) -> Vec<Message> {
        let mut end = 0;
        let message = |pair: &PairMoves| {
            let start = end;
            end += pair.share(round, self.rounds).len();
            Message::plain(pair.rank, buffer, start..end)
        };
        let all = pairs.iter().map(message);
        all.filter(|message| !message.range.is_empty()).collect()
    }

    /// Puts what this rank sends in a round into `buffer`.
    pub(super) fn pack<T: bytemuck::Pod>(
        &self,
        round: usize,
        (source, steps): (&[T], Strides),
        buffer: &mut Vec<T>,
    ) {
        let shares = self.sends.iter().map(|p| p.share(round, self.rounds));
        buffer.resize(shares.map(|share| share.len()).sum(), T::zeroed());
        let mut rest = buffer.as_mut_slice();
        for pair in &self.sends {
            let share = pair.share(round, self.rounds);
            let (message, after) = rest.split_at_mut(share.len());
            for block in pair.blocks(share) {
                let from = &source[steps.index(block.from.0, block.from.1)..];
                let to = &mut message[block.at..];
                let ld = pair.along.len();
                copy_lines((to, ld), (from, steps), block.size, &|value| value);
            }
            rest = after;
        }
    }

    /// Takes what this rank has received in a round out of `buffer`, through `map`.
    pub(super) fn unpack<T: bytemuck::Pod>(
        &self,
        round: usize,
        buffer: &[T],
        (target, ld): (&mut [T], usize),
        map: &impl Fn(T) -> T,
    ) {
        let mut rest = buffer;
        for pair in &self.recvs {
            let share = pair.share(round, self.rounds);
            let (message, after) = rest.split_at(share.len());
            let steps = Strides::lines(pair.along.len());
            for block in pair.blocks(share) {
                let to = &mut target[block.to.0 + block.to.1 * ld..];
                copy_lines((to, ld), (&message[block.at..], steps), block.size, map);
            }
            rest = after;
        }
    }

    /// Copies what this rank has and needs itself, through `map`.
    pub(super) fn keep<T: bytemuck::Pod>(
        &self,
        (source, steps): (&[T], Strides),
        (target, ld): (&mut [T], usize),
        map: &impl Fn(T) -> T,
    ) {
        let Some(pair) = &self.own else { return };
        for block in pair.blocks(0..pair.len()) {
            let from = &source[steps.index(block.from.0, block.from.1)..];
            let to = &mut target[block.to.0 + block.to.1 * ld..];
            copy_lines((to, ld), (from, steps), block.size, map);
        }
    }
}

/// How many rounds keep what any rank sends and receives in one of them below `room` elements. Every rank finds the same
/// number.
fn rounds(from: &Spread, to: &Spread, room: usize) -> usize {
    let travelling = |rank| {
        let (have, need) = (from.holding(rank), to.holding(rank));
        have.len() + need.len() - 2 * have.count_shared(&need)
    };
    let most = (0..from.n_ranks()).map(travelling).max().unwrap_or(0);
    most.div_ceil(room.max(1))
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
        let all = |range| rectangles(range, 5).collect::<Vec<_>>();
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
        routes: &[MovePlan],
        source: &Memory,
        steps: fn(usize) -> Strides,
        target: &mut Memory,
    ) -> Vec<u64> {
        let mut sent = vec![0; routes.len()];
        let negated = |value: i64| -value;
        for round in 0..routes[0].rounds() {
            let mut post = std::collections::HashMap::new();
            for (rank, route) in routes.iter().enumerate() {
                let mut buffer = Vec::new();
                let local = (source.locals[rank].as_slice(), steps(source.lds[rank]));
                route.pack(round, local, &mut buffer);
                assert!(buffer.len() <= route.most()[0]);
                for message in route.sends(round, 0) {
                    sent[rank] += message.range.len() as u64;
                    post.insert((rank, message.rank), buffer[message.range].to_vec());
                }
            }
            for (rank, route) in routes.iter().enumerate() {
                let mut buffer = Vec::new();
                for message in route.recvs(round, 1) {
                    let data = post.remove(&(message.rank, rank)).expect("a message");
                    assert_eq!(
                        (message.range.start, message.range.len()),
                        (buffer.len(), data.len())
                    );
                    buffer.extend(data);
                }
                assert!(buffer.len() <= route.most()[1]);
                let ld = target.lds[rank];
                route.unpack(round, &buffer, (&mut target.locals[rank], ld), &negated);
            }
            assert!(post.is_empty(), "every message has a receiver");
        }
        for (rank, route) in routes.iter().enumerate() {
            let local = (source.locals[rank].as_slice(), steps(source.lds[rank]));
            let ld = target.lds[rank];
            route.keep(local, (&mut target.locals[rank], ld), &negated);
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
            let routes: Vec<MovePlan> = (0..from.n_ranks())
                .map(|rank| MovePlan::new(&from, &to, rank, room))
                .collect();
            let sent = run(&routes, &source, steps, &mut target);
            prop_assert_eq!(sent, volume(&from, &to));
            for (rank, route) in routes.iter().enumerate() {
                let mut expected = vec![UNTOUCHED; target.locals[rank].len()];
                let negated = |row, col| -number(row, col);
                let local = StoredMut::by_columns(&mut expected, target.lds[rank]);
                to.fill(rank, local, negated).unwrap();
                prop_assert_eq!(&target.locals[rank], &expected);
                let partners = route.sends.len() + route.recvs.len();
                let most: usize = route.most().iter().sum();
                prop_assert!(most <= room + partners, "{} of {}", most, room);
            }
        }
    }
}
