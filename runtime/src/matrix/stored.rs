//! A rank's local matrix in the memory of the program.

use serde::{Deserialize, Serialize};

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

    /// Returns the order in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Order::Columns => "column-major",
            Order::Rows => "row-major",
        }
    }

    /// Returns the length and the number of the lines of a `rows × cols` matrix.
    pub fn find_lines(self, (rows, cols): (usize, usize)) -> (usize, usize) {
        match self {
            Order::Columns => (rows, cols),
            Order::Rows => (cols, rows),
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

/// A rank's local matrix. Element (i, j) lies at `data[i + j·ld]` with [`Order::Columns`], at `data[i·ld + j]` with
/// [`Order::Rows`].
#[derive(Debug, Clone, Copy)]
pub struct LocalMemory<D> {
    /// The elements; those between the end of one line and the start of the next are neither read nor written.
    pub data: D,
    /// Distance between the starts of neighbouring columns, or rows, in elements.
    pub ld: usize,
    /// Direction of the lines.
    pub order: Order,
}

/// A rank's local matrix, to be read.
pub type Stored<'a, T> = LocalMemory<&'a [T]>;

/// A rank's local matrix, to be written.
pub type StoredMut<'a, T> = LocalMemory<&'a mut [T]>;

impl<D> LocalMemory<D> {
    /// Takes `data` as column-major, with leading dimension `ld`.
    pub fn by_columns(data: D, ld: usize) -> Self {
        let order = Order::Columns;
        Self { data, ld, order }
    }

    /// Takes `data` as row-major, with leading dimension `ld`.
    pub fn by_rows(data: D, ld: usize) -> Self {
        let order = Order::Rows;
        Self { data, ld, order }
    }
}
