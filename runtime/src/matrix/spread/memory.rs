//! The local matrices of a spread in the memory of the program.

use std::ops::Deref;
use std::ptr::NonNull;

use isochron_devices::{MatrixView, ViewMut};

use super::super::stored::{LocalMemory, Order, StoredMut};
use super::Spread;
use super::error::SpreadError;

impl Order {
    /// Returns the distances between neighbouring rows, and between neighbouring columns, of a `rows × cols` matrix with leading
    /// dimension `ld`.
    ///
    /// # Errors
    /// Returns [`SpreadError::LeadingDimension`] if its lines would overlap. No error for a matrix without elements.
    pub fn find_strides(self, shape: (usize, usize), ld: usize) -> Result<[usize; 2], SpreadError> {
        let (needed, lines) = self.find_lines(shape);
        let line = match self {
            Order::Columns => "column",
            Order::Rows => "row",
        };
        if needed > 0 && lines > 0 && ld < needed {
            return Err(SpreadError::LeadingDimension { ld, line, needed });
        }
        let ld = ld.max(needed).max(1);
        Ok(match self {
            Order::Columns => [1, ld],
            Order::Rows => [ld, 1],
        })
    }
}

impl<T, D: Deref<Target = [T]> + Into<NonNull<[T]>>> LocalMemory<D> {
    /// Views the memory as a local matrix of this shape.
    ///
    /// # Errors
    /// Returns [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold its elements.
    pub(crate) fn view(self, shape: (usize, usize)) -> Result<MatrixView<T, D>, SpreadError> {
        let Self { data, ld, order } = self;
        let (rows, cols) = shape;
        if rows == 0 || cols == 0 {
            return Ok(MatrixView::empty(rows, cols));
        }
        order.find_strides(shape, ld)?;
        let (along, lines) = order.find_lines(shape);
        let needed = (lines - 1).saturating_mul(ld).saturating_add(along);
        if data.len() < needed {
            return Err(SpreadError::Storage { len: data.len(), rows, cols, ld, needed });
        }
        Ok(match order {
            Order::Columns => MatrixView::new(data, rows, cols, ld),
            Order::Rows => MatrixView::by_rows(data, rows, cols, ld),
        })
    }
}

impl Spread {
    /// Sets every element that `rank` holds to `element(row, col)`, with indices in the whole matrix.
    ///
    /// # Errors
    /// Returns [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold them.
    pub fn fill<T>(
        &self,
        rank: usize,
        local: StoredMut<'_, T>,
        element: impl Fn(usize, usize) -> T,
    ) -> Result<(), SpreadError> {
        let local = local.view(self.local_shape(rank))?;
        self.fill_view(rank, local, element);
        Ok(())
    }

    /// Sets every element that `rank` holds in its local matrix.
    pub(in crate::matrix) fn fill_view<T>(
        &self,
        rank: usize,
        mut local: ViewMut<'_, T>,
        element: impl Fn(usize, usize) -> T,
    ) {
        for held in self.elements(rank) {
            *local.element_mut(held.local_row, held.local_col) = element(held.row, held.col);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::matrix::stored::Stored;

    #[test]
    fn memory_that_is_too_short_is_refused() {
        let data = [0.0; 11];
        assert!(Stored::by_columns(&data[..], 4).view((3, 3)).is_ok());
        let by_rows = Stored::by_rows(&data[..], 4).view((3, 3)).unwrap();
        assert!(!by_rows.is_by_columns());
        let text = Stored::by_columns(&data[..], 5).view((3, 3));
        let text = text.unwrap_err().to_string();
        assert!(text.contains("of 11") && text.contains("need 13"), "{text}");
        let text = Stored::by_rows(&data[..], 4).view((2, 5));
        let text = text.unwrap_err().to_string();
        assert!(text.contains("where a row has 5"), "{text}");
        assert!(Stored::<f64>::by_rows(&[], 0).view((0, 5)).is_ok());
    }
}
