//! A matrix cut into runs of elements in file order.

use std::ops::Range;

use isochron_devices::Element;

pub(super) use crate::matrix::Order;
use crate::matrix::{Matrix, Region, Spread};

/// Elements of one piece: some MiB.
const PIECE_LEN: usize = 1 << 20;

/// A stretch of elements in file order, `range` counted from the first element of the file.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    range: Range<usize>,
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }
}

/// Neighbouring elements of one line (a column or a row) that one rank holds.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Index of the line in the whole matrix.
    line: usize,
    /// Indices along the line.
    along: Range<usize>,
    /// Where the run starts in its piece.
    offset: usize,
}

impl Run {
    pub(super) fn len(&self) -> usize {
        self.along.len()
    }

    pub(super) fn in_piece(&self) -> Range<usize> {
        self.offset..self.offset + self.along.len()
    }
}

/// All pieces of a distributed matrix.
#[derive(Debug)]
pub(super) struct Pieces {
    spread: Spread,
    order: Order,
    piece_len: usize,
}

impl Pieces {
    pub(super) fn new(spread: &Spread, order: Order) -> Self {
        Self {
            spread: spread.clone(),
            order,
            piece_len: PIECE_LEN,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Piece> + use<> {
        let total = self.spread.rows() * self.spread.cols();
        let len = self.piece_len;
        (0..total).step_by(len).map(move |start| Piece {
            range: start..(start + len).min(total),
        })
    }

    /// The runs of `piece` that `rank` holds, in file order: the same list on every rank that asks.
    pub(super) fn runs(&self, piece: &Piece, rank: usize) -> impl Iterator<Item = Run> + use<> {
        let (lines, along) = self.oriented(self.spread.part(rank));
        let line_len = match self.order {
            Order::Columns => self.spread.rows(),
            Order::Rows => self.spread.cols(),
        };
        let piece = piece.range.clone();
        let first = lines.start.max(piece.start / line_len);
        let last = lines.end.min(piece.end.div_ceil(line_len));
        (first..last).filter_map(move |line| {
            let start = (line * line_len + along.start).max(piece.start);
            let end = (line * line_len + along.end).min(piece.end);
            (start < end).then(|| Run {
                line,
                along: start - line * line_len..end - line * line_len,
                offset: start - piece.start,
            })
        })
    }

    /// The lines of a part and the indices along them.
    fn oriented(&self, part: Region) -> (Range<usize>, Range<usize>) {
        match self.order {
            Order::Columns => (part.col_range(), part.row_range()),
            Order::Rows => (part.row_range(), part.col_range()),
        }
    }

    /// Puts the values of a run into the local part.
    pub(super) fn store<T: Element>(&self, run: &Run, values: &[T], matrix: &mut Matrix<T>) {
        let part = matrix.part();
        for (along, &value) in run.along.clone().zip(values) {
            let (row, col) = self.local_index(part, run.line, along);
            matrix.set(row, col, value);
        }
    }

    /// The values of a run from the local part.
    pub(super) fn load<'a, T: Element>(
        &'a self,
        run: &Run,
        matrix: &'a Matrix<T>,
    ) -> impl Iterator<Item = T> + use<'a, T> {
        let (part, line) = (matrix.part(), run.line);
        run.along.clone().map(move |along| {
            let (row, col) = self.local_index(part, line, along);
            matrix.at(row, col)
        })
    }

    fn local_index(&self, part: Region, line: usize, along: usize) -> (usize, usize) {
        match self.order {
            Order::Columns => (along - part.row, line - part.col),
            Order::Rows => (line - part.row, along - part.col),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_of_all_ranks_cover_every_piece_once(
            rows in 1usize..20, cols in 1usize..20, block in 1usize..6, piece_len in 1usize..40, by_rows: bool,
            areas in prop::collection::vec(0.0f64..5.0, 1..5),
        ) {
            let blocks = (rows.div_ceil(block) as u64, cols.div_ceil(block) as u64);
            let layout = columns::br(&areas, blocks.0, blocks.1).unwrap();
            let spread = Spread::on_layout(rows, cols, block, Arc::new(layout));
            let order = if by_rows { Order::Rows } else { Order::Columns };
            let mut pieces = Pieces::new(&spread, order);
            pieces.piece_len = piece_len;
            let mut total = 0;
            for piece in pieces.iter() {
                let mut covered = vec![0; piece.len()];
                for rank in 0..areas.len() {
                    for run in pieces.runs(&piece, rank) {
                        covered[run.in_piece()].iter_mut().for_each(|times| *times += 1);
                    }
                }
                prop_assert!(covered.iter().all(|&times| times == 1));
                total += piece.len();
            }
            prop_assert_eq!(total, rows * cols);
        }
    }
}
