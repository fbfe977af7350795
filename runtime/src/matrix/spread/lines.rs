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
        Self {
            len,
            held: 0..len,
            lists: lists.into(),
            of_rank: of_rank.into(),
        }
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
            lists: lists
                .map(|list| list.moved(self.held.start, first))
                .collect(),
            of_rank: self.of_rank.clone(),
        }
    }

    /// Digests the list of each rank.
    pub(super) fn digest_lists(&self) -> Vec<u64> {
        let digests: Vec<u64> = self.lists.iter().map(digest).collect();
        self.of_rank.iter().map(|&list| digests[list]).collect()
    }
}

/// The indices of one dimension that a rank holds: runs in ascending order, stored in that order.
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
        Self {
            runs: vec![IndexRun {
                start,
                len,
                local: 0,
            }],
            extent: len,
        }
    }

    /// Makes the indices of every `every`th block of `n` indices in blocks of `block`, from block `first < every` on.
    pub(super) fn cyclic(n: usize, block: usize, first: usize, every: usize) -> Self {
        if every == 1 {
            return Self::range(0..n);
        }
        let starts = (first.saturating_mul(block)..n).step_by(block.saturating_mul(every));
        let runs = starts
            .zip((0..).step_by(block))
            .map(|(start, local)| IndexRun {
                start,
                len: block.min(n - start),
                local,
            });
        let runs: Vec<IndexRun> = runs.collect();
        Self {
            extent: runs.iter().map(|run| run.len).sum(),
            runs,
        }
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
        Self {
            runs: runs.collect(),
            extent: self.extent,
        }
    }

    /// Returns the indices counted so that index `from` becomes `to`.
    fn moved(&self, from: usize, to: usize) -> Self {
        let runs = self.runs.iter().map(|run| IndexRun {
            start: run.start - from + to,
            ..*run
        });
        Self {
            runs: runs.collect(),
            extent: self.extent,
        }
    }

    /// Returns the indices as one range that is all of the memory; `None` if they are not.
    pub(super) fn as_range(&self) -> Option<Range<usize>> {
        match self.runs[..] {
            [] if self.extent == 0 => Some(0..0),
            [run] if run.len == self.extent => Some(run.start..run.end()),
            _ => None,
        }
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
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs
            .iter()
            .flat_map(|run| (run.start..run.end()).zip(run.local..))
    }

    /// Counts the indices that both hold.
    pub(super) fn count_shared(&self, other: &Self) -> usize {
        find_overlaps(self, other).map(|overlap| overlap.len).sum()
    }

    /// Finds the indices that both hold; `self` is the sender's.
    pub(in crate::matrix) fn find_shared(&self, receiver: &Self) -> SharedLines {
        SharedLines {
            parts: find_overlaps(self, receiver).collect(),
        }
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
        let begin = self
            .parts
            .partition_point(|part| part.first + part.len <= start);
        self.parts[begin..]
            .iter()
            .take_while(move |part| part.first < end)
            .map(move |part| {
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
        Overlap {
            first,
            len,
            from,
            to,
        }
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

    #[test]
    fn shared_indices_have_their_place_in_both() {
        let (from, to) = (
            HeldLines::cyclic(12, 3, 0, 2),
            HeldLines::cyclic(12, 2, 1, 2),
        );
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
