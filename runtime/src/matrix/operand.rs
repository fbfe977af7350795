//! A factor of a product: a matrix as it is stored, or its transpose.

use isochron_devices::{Scalar, View, ViewMut};
use isochron_hierarchy::problem::Op;

use super::{HeldMatrix, Region};
use crate::watch::note_progress;

/// Columns of a scattered matrix that are copied with all their rows, before the next ones: the lines of their runs lie near
/// each other.
const COLUMNS_AT_ONCE: usize = 16;

/// `op(X)` of a distributed matrix X. Rows and columns are those of `op(X)`.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a, T = f64> {
    matrix: &'a HeldMatrix<'a, T>,
    op: Op,
}

impl<'a, T: Scalar> From<&'a HeldMatrix<'a, T>> for Operand<'a, T> {
    fn from(matrix: &'a HeldMatrix<'a, T>) -> Self {
        Self::new(matrix, Op::N)
    }
}

impl<'a, T: Scalar> Operand<'a, T> {
    /// Makes `op(matrix)`.
    pub fn new(matrix: &'a HeldMatrix<'a, T>, op: Op) -> Self {
        Self { matrix, op }
    }

    /// Returns the matrix X.
    pub(crate) fn matrix(&self) -> &'a HeldMatrix<'a, T> {
        self.matrix
    }

    /// Returns the operation.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Returns the number of rows of `op(X)`.
    pub fn rows(&self) -> usize {
        let stored = self.matrix.spread();
        if self.op.transposes() { stored.cols() } else { stored.rows() }
    }

    /// Returns the number of columns of `op(X)`.
    pub fn cols(&self) -> usize {
        let stored = self.matrix.spread();
        if self.op.transposes() { stored.rows() } else { stored.cols() }
    }

    /// Returns a rectangle of `op(X)`, which this rank holds, in place; `None` if it has to be copied.
    ///
    /// # Panics
    /// If this rank does not hold it.
    pub(crate) fn in_place(&self, region: &Region) -> Option<View<'a, T>> {
        let is_straight = !self.op.transposes() && self.matrix.scattered.is_none();
        is_straight.then(|| self.view_stored(region))
    }

    /// Copies a rectangle of `op(X)`, which this rank holds, to `target`.
    ///
    /// # Panics
    /// If this rank does not hold it, or `target` is of another size.
    pub(crate) fn copy(&self, region: &Region, mut target: ViewMut<'_, T>) {
        let size = (region.rows, region.cols);
        assert_eq!((target.rows(), target.cols()), size, "the sizes of a copy");
        let Some([rows, cols]) = &self.matrix.scattered else {
            let stored = if self.op.transposes() {
                self.view_stored(&region.transposed())
            } else {
                self.view_stored(region)
            };
            return self.copy_stored(stored, target);
        };
        let stored = if self.op.transposes() { region.transposed() } else { *region };
        let local = self.matrix.local();
        let row_runs = rows.find_places(stored.row_range());
        for (first, width, local_first) in cols.find_places(stored.col_range()) {
            for done in (0..width).step_by(COLUMNS_AT_ONCE) {
                let (col, local_col) = (first + done, local_first + done);
                let cols = COLUMNS_AT_ONCE.min(width - done);
                for (row, rows, local_row) in row_runs.clone() {
                    let run = local.block(local_row..local_row + rows, local_col..local_col + cols);
                    let (row, col, rows, cols) = if self.op.transposes() {
                        (col, row, cols, rows)
                    } else {
                        (row, col, rows, cols)
                    };
                    let place = target.reborrow();
                    let place = place.into_block(row..row + rows, col..col + cols);
                    self.copy_stored(run, place);
                }
            }
        }
    }

    /// Copies a stored rectangle to `target`, by the operation.
    fn copy_stored(&self, stored: View<'_, T>, mut target: ViewMut<'_, T>) {
        match self.op {
            Op::N => target.copy_from(stored),
            Op::T => target.copy_from(stored.transposed()),
            Op::C => target.update_from(stored.transposed(), |to, value| *to = value.conj()),
        }
    }

    /// Calls `take` with the row, the column and the value of every element of `op(X)` that this rank holds.
    pub(crate) fn for_each(&self, mut take: impl FnMut(usize, usize, T)) {
        let mut give = |row, col, element: T| match self.op {
            Op::N => take(row, col, element),
            Op::T => take(col, row, element),
            Op::C => take(col, row, element.conj()),
        };
        if let Some([rows, cols]) = &self.matrix.scattered {
            let local = self.matrix.local();
            for (col, j) in cols.iter() {
                let column = local.col(j);
                rows.iter().for_each(|(row, i)| give(row, col, column[i]));
                note_progress();
            }
            return;
        }
        let Region { row, col, .. } = self.matrix.part();
        for (j, column) in self.matrix.columns().enumerate() {
            for (i, &element) in column.iter().enumerate() {
                give(row + i, col + j, element);
            }
        }
    }

    /// Returns a rectangle of X in this rank's memory.
    fn view_stored(&self, region: &Region) -> View<'a, T> {
        let local = region.relative_to(&self.matrix.part());
        self.matrix.local().block(local.row_range(), local.col_range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{BlockCyclic, Generator, Matrix, ProcessGrid, Spread};
    use num_complex::Complex64;

    fn matrix(rows: usize, cols: usize) -> Matrix<Complex64> {
        Matrix::generate(Spread::whole(rows, cols), 0, Generator::Integers { seed: 3 }).unwrap()
    }

    fn element_of(stored: &Matrix<Complex64>, op: Op, row: usize, col: usize) -> Complex64 {
        match op {
            Op::N => stored.local().col(col)[row],
            Op::T => stored.local().col(row)[col],
            Op::C => stored.local().col(row)[col].conj(),
        }
    }

    #[test]
    fn copies_apply_the_operation() {
        let (rows, cols) = (70, 45);
        let stored = matrix(rows, cols);
        for op in [Op::N, Op::T, Op::C] {
            let operand = Operand::new(&stored, op);
            let some = Region::new(3..operand.rows() - 1, 2..operand.cols());
            let (m, n) = (some.rows, some.cols);
            let mut copied = vec![Complex64::ZERO; m * n];
            operand.copy(&some, ViewMut::new(&mut copied, m, n, m));
            for (at, &element) in copied.iter().enumerate() {
                let expected = element_of(&stored, op, 3 + at % m, 2 + at / m);
                assert_eq!(element, expected, "{op}");
            }
            let mut seen = 0;
            operand.for_each(|row, col, element| {
                assert_eq!(element, element_of(&stored, op, row, col));
                seen += 1;
            });
            assert_eq!(seen, rows * cols);
            let in_place = operand.in_place(&some);
            assert_eq!(in_place.is_some(), op == Op::N);
        }
    }

    #[test]
    fn copies_take_scattered_lines_in_order() {
        let (rows, cols) = (23, 17);
        let blocks = BlockCyclic::new(rows, cols, 3, 2);
        let dealt = Spread::block_cyclic(&blocks, ProcessGrid::by_rows(2, 2), 4).unwrap();
        let numberings = [dealt.number_rows(), dealt.transposed().number_rows()];
        let has = Spread::whole(rows, cols);
        let has = has.renumbered(numberings.each_ref().map(Option::as_ref));
        let own = matrix(rows, cols);
        let straight = Spread::whole(rows, cols);
        let shown = HeldMatrix::show_scattered(straight, &has, 0, own.local()).unwrap();
        // The element with the new numbers is the one at its place in memory.
        let places: Vec<_> = has.elements(0).collect();
        assert_ne!((places[5].row, places[5].col), (places[5].local_row, places[5].local_col));
        for op in [Op::N, Op::T, Op::C] {
            let operand = Operand::new(&shown, op);
            let some = Region::new(2..operand.rows(), 1..operand.cols() - 2);
            let mut copied = vec![Complex64::ZERO; some.len()];
            operand.copy(&some, ViewMut::new(&mut copied, some.rows, some.cols, some.rows));
            let mut seen = Vec::new();
            operand.for_each(|row, col, element| seen.push((row, col, element)));
            assert_eq!(seen.len(), rows * cols);
            for (row, col, element) in seen {
                let stored = if op.transposes() { (col, row) } else { (row, col) };
                let place = places.iter().find(|place| (place.row, place.col) == stored);
                let place = place.unwrap();
                let (i, j) = if op.transposes() {
                    (place.local_col, place.local_row)
                } else {
                    (place.local_row, place.local_col)
                };
                assert_eq!(element, element_of(&own, op, i, j), "{op}");
                if some.row_range().contains(&row) && some.col_range().contains(&col) {
                    let at = row - some.row + (col - some.col) * some.rows;
                    assert_eq!(copied[at], element, "{op}");
                }
            }
            assert!(operand.in_place(&some).is_none());
        }
    }

    #[test]
    fn operations_are_read_by_their_letters() {
        for op in [Op::N, Op::T, Op::C] {
            assert_eq!(op.to_string().parse(), Ok(op));
            assert_eq!(op.to_string().to_uppercase().parse(), Ok(op));
        }
        assert!("x".parse::<Op>().unwrap_err().contains("`x`"));
    }
}
