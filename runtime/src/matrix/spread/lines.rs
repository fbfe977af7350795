//! The rows, or the columns, that a rank holds.

use std::ops::Range;
use std::sync::Arc;

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

/// The indices of one dimension that a rank holds: runs in ascending order, none empty, stored in that order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::matrix) struct HeldLines {
    runs: Runs,
    len: usize,
    /// Number of indices in the rank's memory, of which a submatrix uses a part.
    extent: usize,
}

/// Runs of indices. A rectangle of a layout needs no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Runs {
    /// At most one run; of length 0 for none.
    One(IndexRun),
    /// Two runs or more, which ranks in the same row or column of a grid share.
    Many(Arc<[IndexRun]>),
}

/// Identity of a list that ranks share, as long as it lives.
pub(super) type ListId = usize;

impl HeldLines {
    fn new(runs: Vec<IndexRun>, extent: usize) -> Self {
        let len = runs.iter().map(|run| run.len).sum();
        let runs = match runs[..] {
            [] => Runs::One(IndexRun::default()),
            [one] => Runs::One(one),
            _ => Runs::Many(runs.into()),
        };
        Self { runs, len, extent }
    }

    /// Makes the indices of one range, stored from 0 on.
    pub(super) fn range(range: Range<usize>) -> Self {
        let len = range.len();
        let one = IndexRun {
            start: if len == 0 { 0 } else { range.start },
            len,
            local: 0,
        };
        Self {
            runs: Runs::One(one),
            len,
            extent: len,
        }
    }

    /// Makes the indices of every `every`th block of `n` indices in blocks of `block`, from block `first < every` on.
    pub(super) fn cyclic(n: usize, block: usize, first: usize, every: usize) -> Self {
        if every == 1 {
            return Self::range(0..n);
        }
        let mut runs = Vec::new();
        let mut local = 0;
        let mut start = first.saturating_mul(block);
        while start < n {
            let len = block.min(n - start);
            runs.push(IndexRun { start, len, local });
            local += len;
            start = start.saturating_add(block.saturating_mul(every));
        }
        Self::new(runs, local)
    }

    /// Returns those of the indices in `range`, counted from its start. The memory stays the same.
    pub(super) fn within(&self, range: &Range<usize>) -> Self {
        let runs = self.runs().iter().filter_map(|run| {
            let start = run.start.max(range.start);
            let end = run.end().min(range.end);
            (start < end).then(|| IndexRun {
                start: start - range.start,
                len: end - start,
                local: run.local + (start - run.start),
            })
        });
        Self::new(runs.collect(), self.extent)
    }

    /// Returns the indices increased by `by`.
    pub(super) fn shifted(&self, by: usize) -> Self {
        if by == 0 {
            return self.clone();
        }
        let runs = self.runs().iter().map(|run| IndexRun {
            start: run.start + by,
            ..*run
        });
        Self::new(runs.collect(), self.extent)
    }

    /// Returns the runs, in ascending order.
    fn runs(&self) -> &[IndexRun] {
        match &self.runs {
            Runs::One(run) if run.len == 0 => &[],
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Many(runs) => runs,
        }
    }

    /// Returns the identity of a list of several runs; `None` for a range.
    pub(super) fn list_id(&self) -> Option<ListId> {
        match &self.runs {
            Runs::One(_) => None,
            Runs::Many(runs) => Some(runs.as_ptr().addr()),
        }
    }

    /// Returns the indices as one range that is all of the memory; `None` if they are not.
    pub(super) fn as_range(&self) -> Option<Range<usize>> {
        match &self.runs {
            Runs::One(run) if run.len == self.extent => Some(run.start..run.end()),
            _ => None,
        }
    }

    /// Returns the number of indices.
    pub(in crate::matrix) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of indices in the rank's memory.
    pub(super) fn extent(&self) -> usize {
        self.extent
    }

    /// Returns every index with its index in the rank's memory.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs()
            .iter()
            .flat_map(|run| (run.start..run.end()).zip(run.local..))
    }

    /// Counts the indices that both hold.
    pub(super) fn count_shared(&self, other: &Self) -> usize {
        overlaps(self, other).map(|overlap| overlap.len).sum()
    }

    /// Finds the indices that both hold; `self` is the sender's.
    pub(in crate::matrix) fn find_shared(&self, receiver: &Self) -> SharedLines {
        let mut len = 0;
        let mut parts = Vec::new();
        for overlap in overlaps(self, receiver) {
            parts.push(Overlap {
                first: len,
                ..overlap
            });
            len += overlap.len;
        }
        SharedLines { parts, len }
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

/// Finds the runs that two lists have in common, in ascending order; the caller sets `first`.
fn overlaps<'a>(from: &'a HeldLines, to: &'a HeldLines) -> impl Iterator<Item = Overlap> + 'a {
    let (from, to) = (from.runs(), to.runs());
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        while let (Some(a), Some(b)) = (from.get(i), to.get(j)) {
            let (start, end) = (a.start.max(b.start), a.end().min(b.end()));
            if a.end() <= b.end() {
                i += 1;
            } else {
                j += 1;
            }
            if start < end {
                return Some(Overlap {
                    first: 0,
                    len: end - start,
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
    len: usize,
}

impl SharedLines {
    /// Returns the number of indices.
    pub(in crate::matrix) fn len(&self) -> usize {
        self.len
    }

    /// Returns the runs of those indices that are number `range` among them.
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
        assert_eq!(held(&part.shifted(3)), [(3, 1), (8, 2)]);
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
        let overlap = |first, len, from, to| Overlap {
            first,
            len,
            from,
            to,
        };
        assert_eq!(all, [overlap(0, 1, 2, 0), overlap(1, 2, 3, 2)]);
        let last: Vec<Overlap> = shared.within(2..3).collect();
        assert_eq!(last, [overlap(2, 1, 4, 3)]);
        assert_eq!(shared.within(1..1).count(), 0);
    }
}
