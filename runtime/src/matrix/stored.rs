//! A rank's local matrix in the memory of the program.

use serde::{Deserialize, Serialize};

use super::spread::error::SpreadError;

/// Direction in which memory, a file or a process grid runs through its matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Column after column (Fortran's order, column-major).
    Columns,
    /// Row after row (C's order, row-major).
    Rows,
}

impl Order {
    /// Returns the order of the transposed matrix in the same memory.
    #[must_use]
    pub fn transposed(self) -> Self {
        match self {
            Order::Columns => Order::Rows,
            Order::Rows => Order::Columns,
        }
    }

    /// Returns the index of element (`row`, `col`) in memory with leading dimension `ld`.
    pub fn index(self, row: usize, col: usize, ld: usize) -> usize {
        match self {
            Order::Columns => row + col * ld,
            Order::Rows => row * ld + col,
        }
    }
}

/// A rank's local matrix, to be read. Element (i, j) lies at `data[i + j·ld]` with [`Order::Columns`], at
/// `data[i·ld + j]` with [`Order::Rows`].
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a, T> {
    /// The elements; those between the end of one line and the start of the next are not read.
    pub data: &'a [T],
    /// Distance between the starts of neighbouring columns, or rows, in elements.
    pub ld: usize,
    /// Direction of the lines.
    pub order: Order,
}

/// A rank's local matrix, to be written; see [`Stored`].
#[derive(Debug)]
pub struct StoredMut<'a, T> {
    /// The elements; those between the end of one line and the start of the next are not touched.
    pub data: &'a mut [T],
    /// Distance between the starts of neighbouring columns, or rows, in elements.
    pub ld: usize,
    /// Direction of the lines.
    pub order: Order,
}

impl<'a, T> Stored<'a, T> {
    /// Takes `data` as column-major, with leading dimension `ld`.
    pub fn by_columns(data: &'a [T], ld: usize) -> Self {
        let order = Order::Columns;
        Self { data, ld, order }
    }

    /// Takes `data` as row-major, with leading dimension `ld`.
    pub fn by_rows(data: &'a [T], ld: usize) -> Self {
        let order = Order::Rows;
        Self { data, ld, order }
    }

    /// Checks that a local matrix of `rows×cols` lies in the memory.
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<(), SpreadError> {
        check_memory(self.data.len(), self.ld, self.order, (rows, cols))
    }
}

impl<'a, T> StoredMut<'a, T> {
    /// Takes `data` as column-major, with leading dimension `ld`.
    pub fn by_columns(data: &'a mut [T], ld: usize) -> Self {
        let order = Order::Columns;
        Self { data, ld, order }
    }

    /// Takes `data` as row-major, with leading dimension `ld`.
    pub fn by_rows(data: &'a mut [T], ld: usize) -> Self {
        let order = Order::Rows;
        Self { data, ld, order }
    }

    /// Checks that a local matrix of `rows×cols` lies in the memory.
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<(), SpreadError> {
        check_memory(self.data.len(), self.ld, self.order, (rows, cols))
    }
}

fn check_memory(
    len: usize,
    ld: usize,
    order: Order,
    (rows, cols): (usize, usize),
) -> Result<(), SpreadError> {
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let (line, along, lines) = match order {
        Order::Columns => ("column", rows, cols),
        Order::Rows => ("row", cols, rows),
    };
    if ld < along {
        return Err(SpreadError::LeadingDimension {
            ld,
            line,
            needed: along,
        });
    }
    let needed = (lines - 1).saturating_mul(ld).saturating_add(along);
    if len < needed {
        return Err(SpreadError::Storage {
            len,
            rows,
            cols,
            ld,
            needed,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_too_short_is_refused() {
        let data = [0.0; 11];
        assert_eq!(Stored::by_columns(&data, 4).check(3, 3), Ok(()));
        assert_eq!(Stored::by_rows(&data, 4).check(3, 3), Ok(()));
        let short = Stored::by_columns(&data, 5).check(3, 3).unwrap_err();
        let text = short.to_string();
        assert!(text.contains("of 11") && text.contains("need 13"), "{text}");
        let narrow = Stored::by_rows(&data, 4).check(2, 5).unwrap_err();
        let text = narrow.to_string();
        assert!(text.contains("where a row has 5"), "{text}");
        assert_eq!(Stored::<f64>::by_rows(&[], 0).check(0, 5), Ok(()));
    }
}
