//! The rows, or the columns, that a rank holds.

use std::ops::Range;
use std::sync::Arc;

use super::digest;

/// Neighbouring indices of the whole matrix that are neighbours in a rank's memory too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct IndexRun {
    /// First index in the whole matrix.
    start: usize,
    /// Number of indices.
    len: usize,
    /// First index in the rank's memory.
    local: usize,
}

impl IndexRun {
    fn end(&self) -> usize {
        self.start + self.len
    }
}

/// One dimension of a matrix: the indices that each rank holds.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    /// Number of indices.
    pub len: usize,
    /// The indices that ranks hold: all of them, but for a window.
    pub held: Range<usize>,
    /// Lists of indices, which the ranks in one row or column of a grid share.
    lists: Arc<[HeldLines]>,
    /// The list of each rank.
    pub of_rank: Arc<[usize]>,
}

impl Dimension {
    pub(super) fn new(len: usize, lists: Vec<HeldLines>, of_rank: Vec<usize>) -> Self {
        Self { len, held: 0..len, lists: lists.into(), of_rank: of_rank.into() }
    }

    /// Returns the indices that `rank` holds.
    pub(super) fn list_of(&self, rank: usize) -> &HeldLines {
        &self.lists[self.of_rank[rank]]
    }

    /// Returns the indices in `range`, counted from its start. The memory stays the same.
    pub(super) fn within(&self, range: &Range<usize>) -> Self {
        Self {
            len: range.len(),
            held: 0..range.len(),
            lists: self.lists.iter().map(|list| list.within(range)).collect(),
            of_rank: self.of_rank.clone(),
        }
    }

    /// Returns the held indices as those from `first` on, of `len`.
    pub(super) fn placed(&self, first: usize, len: usize) -> Self {
        let lists = self.lists.iter();
        Self {
            len,
            held: first..first + self.held.len(),
            lists: lists.map(|list| list.moved(self.held.start, first)).collect(),
            of_rank: self.of_rank.clone(),
        }
    }

    /// Returns the dimension with other numbers for the same indices. The memory stays the same.
    pub(super) fn renumbered(&self, numbering: &Numbering) -> Self {
        let lists = self.lists.iter();
        Self {
            len: self.len,
            held: self.held.clone(),
            lists: lists.map(|list| numbering.apply(list)).collect(),
            of_rank: self.of_rank.clone(),
        }
    }

    /// Returns the lists that ranks hold, in the order of the first rank of each.
    fn lists_in_use(&self) -> Vec<&HeldLines> {
        let mut seen = vec![false; self.lists.len()];
        let new = |&&list: &&usize| !std::mem::replace(&mut seen[list], true);
        self.of_rank.iter().filter(new).map(|&list| &self.lists[list]).collect()
    }

    /// Digests the list of each rank.
    pub(super) fn digest_lists(&self) -> Vec<u64> {
        let digests: Vec<u64> = self.lists.iter().map(digest).collect();
        self.of_rank.iter().map(|&list| digests[list]).collect()
    }
}

/// The indices of one dimension that a rank holds: runs in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::matrix) struct HeldLines {
    runs: Vec<IndexRun>,
    /// Number of indices in the rank's memory, of which a submatrix uses a part.
    extent: usize,
}

impl HeldLines {
    /// Makes the indices of one range, stored from 0 on.
    pub(super) fn range(range: Range<usize>) -> Self {
        let (start, len) = (range.start, range.len());
        Self { runs: vec![IndexRun { start, len, local: 0 }], extent: len }
    }

    /// Makes the indices of every `every`th block of `n` indices in blocks of `block`, from block `first < every` on.
    pub(super) fn cyclic(n: usize, block: usize, first: usize, every: usize) -> Self {
        if every == 1 {
            return Self::range(0..n);
        }
        let runs = (first.saturating_mul(block)..n)
            .step_by(block.saturating_mul(every))
            .zip((0..).step_by(block))
            .map(|(start, local)| IndexRun { start, len: block.min(n - start), local });
        let runs: Vec<IndexRun> = runs.collect();
        Self { extent: runs.iter().map(|run| run.len).sum(), runs }
    }

    /// Returns the indices from `n` on, counted from there, in memory that begins with the first of them. `n` is less than the
    /// length of a run.
    pub(super) fn without_first(mut self, n: usize) -> Self {
        // Only the list with index 0 loses some, at its beginning.
        let lost = match self.runs.first() {
            Some(run) if run.start == 0 => n.min(run.len),
            _ => 0,
        };
        for run in &mut self.runs {
            if run.start == 0 {
                run.len -= lost;
            } else {
                run.local -= lost;
                run.start -= n;
            }
        }
        self.runs.retain(|run| run.len > 0);
        self.extent -= lost;
        self
    }

    /// Returns the indices in `range`, counted from its start. The memory stays the same.
    fn within(&self, range: &Range<usize>) -> Self {
        let runs = self.runs.iter().filter_map(|run| {
            let start = run.start.max(range.start);
            let end = run.end().min(range.end);
            (start < end).then(|| IndexRun {
                start: start - range.start,
                len: end - start,
                local: run.local + (start - run.start),
            })
        });
        Self { runs: runs.collect(), extent: self.extent }
    }

    /// Returns the indices counted so that index `from` becomes `to`.
    fn moved(&self, from: usize, to: usize) -> Self {
        let runs = self.runs.iter().map(|run| IndexRun { start: run.start - from + to, ..*run });
        Self { runs: runs.collect(), extent: self.extent }
    }

    /// Returns the indices as one range that is all of the memory; `None` if they are not.
    pub(super) fn as_range(&self) -> Option<Range<usize>> {
        match self.runs[..] {
            [] if self.extent == 0 => Some(0..0),
            [run] if run.len == self.extent => Some(run.start..run.end()),
            _ => None,
        }
    }

    /// Returns the indices as one range that is all of the memory, in any order there; `None` if they are not.
    pub(super) fn as_covered_range(&self) -> Option<Range<usize>> {
        let is_joined = self.runs.windows(2).all(|two| two[0].end() == two[1].start);
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else {
            return self.as_range();
        };
        (is_joined && self.len() == self.extent).then(|| first.start..last.end())
    }

    /// Returns the runs of a range of indices that are all held: the place of each in the range, its length, and its first
    /// index in the rank's memory.
    pub(in crate::matrix) fn find_places(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize, usize)> + Clone {
        let Range { start, end } = range;
        let begin = self.runs.partition_point(|run| run.end() <= start);
        self.runs[begin..].iter().take_while(move |run| run.start < end).map(move |run| {
            let skipped = start.saturating_sub(run.start);
            let first = run.start + skipped;
            (first - start, run.end().min(end) - first, run.local + skipped)
        })
    }

    /// Returns the number of indices.
    pub(in crate::matrix) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Returns the number of indices in the rank's memory.
    pub(super) fn extent(&self) -> usize {
        self.extent
    }

    /// Returns every index with its index in the rank's memory.
    pub(in crate::matrix) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs.iter().flat_map(|run| (run.start..run.end()).zip(run.local..))
    }

    /// Counts the indices that both hold.
    pub(super) fn count_shared(&self, other: &Self) -> usize {
        find_overlaps(self, other).map(|overlap| overlap.len).sum()
    }

    /// Finds the indices that both hold; `self` is the sender's.
    pub(in crate::matrix) fn find_shared(&self, receiver: &Self) -> SharedLines {
        SharedLines { parts: find_overlaps(self, receiver).collect() }
    }
}

/// Other numbers for the indices of a dimension, by which the indices of each list of a distribution are one range.
///
/// A product is the same with its rows, its columns or its inner indices in another order. With the indices of
/// a block-cyclic matrix numbered process by process, what a process holds is one rectangle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// All indices. Their places in memory are the new numbers.
    all: HeldLines,
}

impl Numbering {
    /// Numbers the indices of a dimension list by list, in the order of the ranks. The list with the last index comes last,
    /// so that its last block may be shorter. Returns `None` if lists share indices or leave some out, or if each is one range
    /// already.
    pub(super) fn of(dimension: &Dimension) -> Option<Self> {
        let mut lists = dimension.lists_in_use();
        lists.sort_by_key(|list| list.runs.last().map_or(0, IndexRun::end) == dimension.len);
        let mut runs = Vec::new();
        let mut next = 0;
        for run in lists.iter().flat_map(|list| &list.runs) {
            runs.push(IndexRun { local: next, ..*run });
            next += run.len;
        }
        runs.sort_by_key(|run| run.start);
        let is_dealt_out = std::iter::once(0)
            .chain(runs.iter().map(IndexRun::end))
            .eq(runs.iter().map(|run| run.start).chain([dimension.len]));
        let is_new = lists.iter().any(|list| list.runs.len() > 1);
        let all = HeldLines { runs, extent: next };
        (is_dealt_out && is_new).then_some(Self { all })
    }

    /// Returns `true` if each list of a dimension becomes one range or holds all indices, so that it is not cut into more
    /// pieces.
    pub(super) fn suits(&self, dimension: &Dimension) -> bool {
        let lists = dimension.lists_in_use();
        dimension.len == self.all.extent
            && lists
                .iter()
                .all(|list| list.len() == dimension.len || self.apply(list).runs.len() <= 1)
    }

    /// Returns a list with the new numbers.
    fn apply(&self, lines: &HeldLines) -> HeldLines {
        let mut runs: Vec<IndexRun> =
            lines
                .runs
                .iter()
                .flat_map(|run| {
                    self.all.find_places(run.start..run.end()).map(|(first, len, number)| {
                        IndexRun { start: number, len, local: run.local + first }
                    })
                })
                .collect();
        runs.sort_by_key(|run| run.start);
        runs.dedup_by(|next, run| {
            let is_neighbour = run.end() == next.start && run.local + run.len == next.local;
            run.len += if is_neighbour { next.len } else { 0 };
            is_neighbour
        });
        HeldLines { runs, extent: lines.extent }
    }
}

/// Neighbouring indices that a sender and a receiver both hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::matrix) struct Overlap {
    /// Number of indices that the two share before these.
    pub first: usize,
    /// Number of indices.
    pub len: usize,
    /// First index in the sender's memory.
    pub from: usize,
    /// First index in the receiver's memory.
    pub to: usize,
}

/// Finds the runs that two lists have in common, in ascending order.
fn find_overlaps(from: &HeldLines, to: &HeldLines) -> impl Iterator<Item = Overlap> {
    let (from, to) = (&from.runs, &to.runs);
    let (mut i, mut j, mut first) = (0, 0, 0);
    std::iter::from_fn(move || {
        while let (Some(a), Some(b)) = (from.get(i), to.get(j)) {
            let (start, end) = (a.start.max(b.start), a.end().min(b.end()));
            if a.end() <= b.end() {
                i += 1;
            } else {
                j += 1;
            }
            if start < end {
                let len = end - start;
                first += len;
                return Some(Overlap {
                    first: first - len,
                    len,
                    from: a.local + (start - a.start),
                    to: b.local + (start - b.start),
                });
            }
        }
        None
    })
}

/// The indices of one dimension that a sender and a receiver both hold, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::matrix) struct SharedLines {
    parts: Vec<Overlap>,
}

impl SharedLines {
    /// Returns the number of indices.
    pub(in crate::matrix) fn len(&self) -> usize {
        self.parts.last().map_or(0, |last| last.first + last.len)
    }

    /// Returns the runs of the indices at the positions `range` among them.
    pub(in crate::matrix) fn within(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = Overlap> + '_ {
        let Range { start, end } = range;
        let begin = self.parts.partition_point(|part| part.first + part.len <= start);
        self.parts[begin..].iter().take_while(move |part| part.first < end).map(move |part| {
            let skipped = start.saturating_sub(part.first);
            let end = (part.first + part.len).min(end);
            Overlap {
                first: part.first + skipped,
                len: end - part.first - skipped,
                from: part.from + skipped,
                to: part.to + skipped,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(lines: &HeldLines) -> Vec<(usize, usize)> {
        lines.iter().collect()
    }

    fn overlap([first, len, from, to]: [usize; 4]) -> Overlap {
        Overlap { first, len, from, to }
    }

    #[test]
    fn blocks_are_dealt_in_turn() {
        // 11 indices in blocks of 2 over 3 processes: 0 1 | 2 3 | 4 5 | 6 7 | 8 9 | 10.
        let second = HeldLines::cyclic(11, 2, 1, 3);
        assert_eq!(held(&second), [(2, 0), (3, 1), (8, 2), (9, 3)]);
        let third = HeldLines::cyclic(11, 2, 2, 3);
        assert_eq!(held(&third), [(4, 0), (5, 1), (10, 2)]);
        assert_eq!((third.len(), third.extent()), (3, 3));
        assert_eq!(HeldLines::cyclic(7, 2, 0, 1), HeldLines::range(0..7));
        assert_eq!(HeldLines::cyclic(5, usize::MAX, 1, 2).len(), 0);
    }

    #[test]
    fn a_part_keeps_the_memory_of_the_whole() {
        let part = HeldLines::cyclic(11, 2, 1, 3).within(&(3..9));
        assert_eq!(held(&part), [(0, 1), (5, 2)]);
        assert_eq!((part.len(), part.extent()), (2, 4));
        assert_eq!(held(&part.moved(0, 3)), [(3, 1), (8, 2)]);
        assert_eq!(HeldLines::range(4..9).within(&(0..4)).len(), 0);
        assert_eq!(HeldLines::range(4..9).as_range(), Some(4..9));
        assert_eq!(HeldLines::range(4..9).within(&(4..6)).as_range(), None);
    }

    /// Returns a dimension of `len` indices in blocks, dealt to this many processes, each a rank.
    fn dealt(len: usize, block: usize, processes: usize) -> Dimension {
        let lists = (0..processes).map(|first| HeldLines::cyclic(len, block, first, processes));
        Dimension::new(len, lists.collect(), (0..processes).collect())
    }

    #[test]
    fn dealt_blocks_become_ranges_and_a_shorter_block_comes_last() {
        // 0 1 | 2 3 | 4 over 2 processes: the first one has the shorter block.
        let dimension = dealt(5, 2, 2);
        let numbering = Numbering::of(&dimension).unwrap();
        assert!(numbering.suits(&dimension));
        let renumbered = dimension.renumbered(&numbering);
        let ranges = [0, 1].map(|rank| renumbered.list_of(rank).as_range());
        assert_eq!(ranges, [Some(2..5), Some(0..2)]);
        assert_eq!(Numbering::of(&renumbered), None, "they are ranges already");
        assert_eq!(Numbering::of(&dealt(5, 3, 2)), None, "so are these");
        let twice = Dimension::new(5, vec![HeldLines::cyclic(5, 2, 0, 2)], vec![0]);
        assert_eq!(Numbering::of(&twice), None, "some indices have no holder");
    }

    #[test]
    fn a_rank_with_all_indices_keeps_its_memory() {
        let numbering = Numbering::of(&dealt(7, 2, 2)).unwrap();
        let whole = Dimension::new(7, vec![HeldLines::range(0..7)], vec![0]);
        assert!(numbering.suits(&whole));
        let renumbered = whole.renumbered(&numbering);
        let lines = renumbered.list_of(0);
        // The first process has 0 1 4 5, the second one 2 3 6.
        let places = [(0, 0), (1, 1), (2, 4), (3, 5), (4, 2), (5, 3), (6, 6)];
        assert_eq!(held(lines), places);
        assert_eq!((lines.as_range(), lines.as_covered_range()), (None, Some(0..7)));
        let some: Vec<_> = lines.find_places(1..6).collect();
        assert_eq!(some, [(0, 1, 1), (1, 2, 4), (3, 2, 2)]);
        assert!(!numbering.suits(&dealt(7, 3, 2)), "blocks of another size");
        assert!(!numbering.suits(&dealt(8, 2, 2)), "another number of indices");
    }

    #[test]
    fn shared_indices_have_their_place_in_both() {
        let (from, to) = (HeldLines::cyclic(12, 3, 0, 2), HeldLines::cyclic(12, 2, 1, 2));
        // 0 1 2 6 7 8 and 2 3 6 7 10 11.
        let shared = from.find_shared(&to);
        assert_eq!((shared.len(), from.count_shared(&to)), (3, 3));
        let all: Vec<Overlap> = shared.within(0..3).collect();
        assert_eq!(all, [[0, 1, 2, 0], [1, 2, 3, 2]].map(overlap));
        let last: Vec<Overlap> = shared.within(2..3).collect();
        assert_eq!(last, [overlap([2, 1, 4, 3])]);
        assert_eq!(shared.within(1..1).count(), 0);
    }
}
