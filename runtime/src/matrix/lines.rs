//! Matrices that may share elements.

/// The lines of a matrix in a program's memory, by their addresses.
///
/// Parts of one array may lie between each other without an element in common. An interface to a language in which a program
/// may pass such parts checks with [`OperandLines`] that they share none.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLines {
    start: usize,
    /// Bytes of a line.
    length: usize,
    count: usize,
    /// Bytes from the beginning of a line to that of the next.
    distance: usize,
}

impl MemoryLines {
    /// Describes `count` lines of `length` bytes. The first begins at the address `start`, and each `distance` bytes after the
    /// one before. Returns `None` if there are no bytes, or lines that overlap.
    pub fn new(start: usize, count: usize, length: usize, distance: usize) -> Option<Self> {
        let is_line = length > 0 && (count == 1 || distance >= length);
        (count > 0 && is_line).then_some(Self {
            start,
            length,
            count,
            distance: distance.max(length),
        })
    }

    fn find_line(&self, index: usize) -> usize {
        self.start.saturating_add(index.saturating_mul(self.distance))
    }

    fn find_end(&self) -> usize {
        self.find_line(self.count - 1).saturating_add(self.length)
    }

    /// Returns `true` if the memory from the first element to the last has bytes in common.
    fn spans_overlap(&self, other: &Self) -> bool {
        self.start < other.find_end() && other.start < self.find_end()
    }

    /// Returns `true` if an element belongs to both. Lines of one may lie between those of the other.
    fn shares_elements(&self, other: &Self) -> bool {
        if !self.spans_overlap(other) {
            return false;
        }
        let (few, many) = if self.count <= other.count { (self, other) } else { (other, self) };
        (0..few.count).any(|index| many.reaches_into(few.find_line(index), few.length))
    }

    /// Returns `true` if an element lies in these bytes.
    fn reaches_into(&self, start: usize, length: usize) -> bool {
        // The first line that ends behind the start.
        let line = match start.checked_sub(self.start) {
            Some(bytes) => bytes.saturating_add(self.distance - self.length) / self.distance,
            None => 0,
        };
        line < self.count && self.find_line(line) < start.saturating_add(length)
    }
}

/// The lines of all pieces of A, B and C on a rank; `None` for a piece without elements.
#[derive(Debug, Clone, Default)]
pub struct OperandLines {
    /// The pieces of A and of B, which are read.
    pub factors: [Vec<Option<MemoryLines>>; 2],
    /// The pieces of C, which are written.
    pub result: Vec<Option<MemoryLines>>,
}

impl OperandLines {
    /// Returns the matrix that shares an element with a piece of C: 0 for A, 1 for B, 2 for another piece of C. Such a product
    /// has no meaning.
    pub fn find_shared(&self) -> Option<usize> {
        let mut taken: Vec<(usize, MemoryLines)> = Vec::new();
        for (side, pieces) in self.factors.iter().enumerate() {
            taken.extend(pieces.iter().flatten().map(|lines| (side, *lines)));
        }
        for lines in self.result.iter().flatten() {
            let mut others = taken.iter();
            if let Some((side, _)) = others.find(|(_, other)| lines.shares_elements(other)) {
                return Some(*side);
            }
            taken.push((2, *lines));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Returns these rows and columns of a column-major array with columns of 10 bytes.
    fn cut(rows: Range<usize>, cols: Range<usize>) -> MemoryLines {
        let start = 1000 + rows.start + 10 * cols.start;
        MemoryLines::new(start, cols.len(), rows.len(), 10).unwrap()
    }

    #[test]
    fn parts_of_an_array_share_what_their_rows_and_columns_have_in_common() {
        let ranges = || (0..5).flat_map(|start| (start + 1..6).map(move |end| start..end));
        let parts = || ranges().flat_map(|rows| ranges().map(move |cols| (rows.clone(), cols)));
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start) < a.end.min(b.end);
        for (rows, cols) in parts() {
            let one = cut(rows.clone(), cols.clone());
            for (other_rows, other_cols) in parts() {
                let wanted = meet(&rows, &other_rows) && meet(&cols, &other_cols);
                let other = cut(other_rows, other_cols);
                assert_eq!(one.shares_elements(&other), wanted, "{one:?} {other:?}");
                assert!(one.spans_overlap(&other) || !wanted);
            }
        }
    }

    #[test]
    fn lines_of_unlike_distance_are_compared() {
        let column = cut(4..5, 2..5);
        // Bytes 24, 34, 44; pairs from 10, 17, 24, 31, 38, or from 11, 18, 25, 32, 39.
        let [hits, misses] = [10, 11].map(|at| MemoryLines::new(1000 + at, 5, 2, 7).unwrap());
        assert!(column.shares_elements(&hits) && hits.shares_elements(&column));
        assert!(!column.shares_elements(&misses) && !misses.shares_elements(&column));
        assert!(column.spans_overlap(&misses));
    }

    #[test]
    fn a_result_shares_no_element_with_a_factor_or_itself() {
        // The update of a factorization: the factors and the result are parts of one array.
        let (below, beside, rest) = (cut(3..10, 0..3), cut(0..3, 3..10), cut(3..10, 3..10));
        let share = |factors: [Option<MemoryLines>; 2], result: &[MemoryLines]| {
            let factors = factors.map(|lines| vec![lines]);
            let result = result.iter().copied().map(Some).collect();
            OperandLines { factors, result }.find_shared()
        };
        let factors = [Some(below), Some(beside)];
        assert_eq!(share(factors, &[rest]), None);
        for result in [cut(9..10, 2..4), cut(3..10, 0..3), cut(0..4, 0..1), cut(5..6, 1..2)] {
            assert_eq!(share(factors, &[rest, result]), Some(0), "{result:?}");
        }
        assert_eq!(share(factors, &[cut(2..3, 9..10)]), Some(1));
        assert_eq!(share([None; 2], &[rest, cut(0..4, 0..4)]), Some(2));
        assert_eq!(share([None; 2], &[cut(0..3, 0..4), rest]), None);
    }

    #[test]
    fn what_has_no_bytes_has_no_lines() {
        for (count, length, distance) in [(0, 1, 1), (1, 0, 1), (2, 3, 2)] {
            assert!(MemoryLines::new(0, count, length, distance).is_none());
        }
        assert!(MemoryLines::new(0, 1, 3, 0).is_some());
        let endless = MemoryLines::new(8, usize::MAX, 8, 8).unwrap();
        assert!(endless.spans_overlap(&endless));
    }
}
