//! The rows, or the columns, that a rank holds.

use std::ops::Range;

/// Neighbouring indices of the whole matrix that lie next to each other in a rank's memory too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
    /// First index in the whole matrix.
    pub start: usize,
    /// How many there are.
    pub len: usize,
    /// First index in the rank's memory.
    pub local: usize,
}

impl Stretch {
    fn end(&self) -> usize {
        self.start + self.len
    }
}

/// The indices of one dimension that a rank holds: stretches in ascending order, none empty, stored in that order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lines {
    stretches: Vec<Stretch>,
    len: usize,
    /// Indices that the rank's memory has, of which a submatrix is a part.
    extent: usize,
}

impl Lines {
    fn new(stretches: Vec<Stretch>, extent: usize) -> Self {
        let len = stretches.iter().map(|stretch| stretch.len).sum();
        Self {
            stretches,
            len,
            extent,
        }
    }

    /// The indices of one range, stored from 0 on.
    pub(super) fn range(range: Range<usize>) -> Self {
        let whole = Stretch {
            start: range.start,
            len: range.len(),
            local: 0,
        };
        let full = (whole.len > 0).then_some(whole);
        Self::new(full.into_iter().collect(), range.len())
    }

    /// Of `n` indices in blocks of `block` those of every `every`th block, from block `first` on, `first < every`.
    pub(super) fn cyclic(n: usize, block: usize, first: usize, every: usize) -> Self {
        if every == 1 {
            return Self::range(0..n);
        }
        let mut stretches = Vec::new();
        let mut local = 0;
        let mut start = first.saturating_mul(block);
        while start < n {
            let len = block.min(n - start);
            stretches.push(Stretch { start, len, local });
            local += len;
            start = start.saturating_add(block.saturating_mul(every));
        }
        Self::new(stretches, local)
    }

    /// Those of the indices in `range`, counted from its start. The memory stays the same.
    pub(super) fn within(&self, range: &Range<usize>) -> Self {
        let cut = |stretch: &Stretch| {
            let start = stretch.start.max(range.start);
            let end = stretch.end().min(range.end);
            (start < end).then(|| Stretch {
                start: start - range.start,
                len: end - start,
                local: stretch.local + (start - stretch.start),
            })
        };
        Self::new(self.stretches.iter().filter_map(cut).collect(), self.extent)
    }

    /// Number of indices.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Indices that the rank's memory has.
    pub(super) fn extent(&self) -> usize {
        self.extent
    }

    /// Every index, with its index in the rank's memory.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let indices = |stretch: &Stretch| (stretch.start..stretch.end()).zip(stretch.local..);
        self.stretches.iter().flat_map(indices)
    }

    /// How many indices both hold.
    pub(super) fn shared(&self, other: &Self) -> usize {
        overlaps(self, other).map(|common| common.len).sum()
    }

    /// The indices both hold.
    pub(super) fn common(&self, other: &Self) -> Common {
        let mut len = 0;
        let place = |part: Overlap| {
            len += part.len;
            Overlap {
                first: len - part.len,
                ..part
            }
        };
        let parts = overlaps(self, other).map(place).collect();
        Common { parts, len }
    }
}

/// Neighbouring indices that a sender and a receiver both hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    /// How many indices the two share before these.
    pub first: usize,
    /// How many there are.
    pub len: usize,
    /// First index in the sender's memory.
    pub from: usize,
    /// First index in the receiver's memory.
    pub to: usize,
}

/// The stretches that two lists have in common, in ascending order; `first` is left to the caller.
fn overlaps<'a>(from: &'a Lines, to: &'a Lines) -> impl Iterator<Item = Overlap> + 'a {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        while let (Some(a), Some(b)) = (from.stretches.get(i), to.stretches.get(j)) {
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
pub(super) struct Common {
    parts: Vec<Overlap>,
    len: usize,
}

impl Common {
    /// Number of indices.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The stretches of those indices that are number `range` among them.
    pub(super) fn within(&self, range: Range<usize>) -> impl Iterator<Item = Overlap> + '_ {
        let begin = self
            .parts
            .partition_point(|part| part.first + part.len <= range.start);
        let parts = self.parts[begin..].iter();
        parts
            .take_while({
                let end = range.end;
                move |part| part.first < end
            })
            .map(move |part| {
                let skipped = range.start.saturating_sub(part.first);
                let end = (part.first + part.len).min(range.end);
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

    fn held(lines: &Lines) -> Vec<(usize, usize)> {
        lines.iter().collect()
    }

    #[test]
    fn blocks_are_dealt_in_turn() {
        // 11 indices in blocks of 2 over 3 processes: 0 1 | 2 3 | 4 5 | 6 7 | 8 9 | 10.
        let second = Lines::cyclic(11, 2, 1, 3);
        assert_eq!(held(&second), [(2, 0), (3, 1), (8, 2), (9, 3)]);
        let third = Lines::cyclic(11, 2, 2, 3);
        assert_eq!(held(&third), [(4, 0), (5, 1), (10, 2)]);
        assert_eq!((third.len(), third.extent()), (3, 3));
        assert_eq!(Lines::cyclic(7, 2, 0, 1), Lines::range(0..7));
        assert_eq!(Lines::cyclic(5, usize::MAX, 1, 2).len(), 0);
    }

    #[test]
    fn a_part_keeps_the_memory_of_the_whole() {
        let part = Lines::cyclic(11, 2, 1, 3).within(&(3..9));
        assert_eq!(held(&part), [(0, 1), (5, 2)]);
        assert_eq!((part.len(), part.extent()), (2, 4));
        assert_eq!(Lines::range(4..9).within(&(0..4)).len(), 0);
    }

    #[test]
    fn what_two_share_has_its_place_in_both() {
        let (from, to) = (Lines::cyclic(12, 3, 0, 2), Lines::cyclic(12, 2, 1, 2));
        // 0 1 2 6 7 8 and 2 3 6 7 10 11.
        let common = from.common(&to);
        assert_eq!((common.len(), from.shared(&to)), (3, 3));
        let all: Vec<Overlap> = common.within(0..3).collect();
        let overlap = |first, len, from, to| Overlap {
            first,
            len,
            from,
            to,
        };
        assert_eq!(all, [overlap(0, 1, 2, 0), overlap(1, 2, 3, 2)]);
        let last: Vec<Overlap> = common.within(2..3).collect();
        assert_eq!(last, [overlap(2, 1, 4, 3)]);
        assert_eq!(common.within(1..1).count(), 0);
    }
}
