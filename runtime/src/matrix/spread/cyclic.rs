//! ScaLAPACK's two-dimensional block-cyclic distribution.

use super::error::SpreadError;
use super::lines::HeldLines;
use crate::matrix::stored::Order;

/// A matrix in `row_block×col_block` blocks, dealt over a process grid in turn, down its columns and along its rows.
///
/// # References
/// Blackford et al., "ScaLAPACK Users' Guide", SIAM 1997, chapter 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCyclic {
    /// Rows of the whole matrix (`M_A`).
    pub rows: usize,
    /// Columns of the whole matrix (`N_A`).
    pub cols: usize,
    /// Rows of a block (`MB_A`), at least 1.
    pub row_block: usize,
    /// Columns of a block (`NB_A`), at least 1.
    pub col_block: usize,
    /// Row of the process grid that holds the first row of blocks (`RSRC_A`).
    pub row_source: usize,
    /// Column of the process grid that holds the first column of blocks (`CSRC_A`).
    pub col_source: usize,
    /// Rows of the first row of blocks (`IMB_A`), at least 1 and at most `row_block`.
    pub first_row_block: usize,
    /// Columns of the first column of blocks (`INB_A`), at least 1 and at most `col_block`.
    pub first_col_block: usize,
}

/// The fields of a ScaLAPACK descriptor of a dense matrix that are read, from the third on: name, least value, and
/// values that it may have.
const FIELDS: [(&str, i64, &str); 6] = [
    ("M_A", 0, "the number of rows is not negative"),
    ("N_A", 0, "the number of columns is not negative"),
    ("MB_A", 1, "a block has at least one row"),
    ("NB_A", 1, "a block has at least one column"),
    ("RSRC_A", 0, "a row of the process grid (no copy on every row)"),
    ("CSRC_A", 0, "a column of the process grid (no copy on every one)"),
];

/// Largest number of blocks along a dimension. Their list then takes 3 GB.
const MOST_BLOCKS: usize = 1 << 27;

impl BlockCyclic {
    /// Makes a `rows×cols` matrix in blocks of `row_block×col_block`, the first of which is with process (0, 0).
    pub fn new(rows: usize, cols: usize, row_block: usize, col_block: usize) -> Self {
        Self {
            rows,
            cols,
            row_block,
            col_block,
            row_source: 0,
            col_source: 0,
            first_row_block: row_block,
            first_col_block: col_block,
        }
    }

    /// Returns the same matrix with other numbers of rows and columns in the first blocks. Such a matrix is that part of a
    /// larger one which begins within a block, in memory of its own.
    #[must_use]
    pub fn with_first_blocks(self, rows: usize, cols: usize) -> Self {
        Self { first_row_block: rows, first_col_block: cols, ..self }
    }

    /// Returns the same matrix with its first block at this row and column of the process grid.
    #[must_use]
    pub fn with_sources(self, row_source: usize, col_source: usize) -> Self {
        Self { row_source, col_source, ..self }
    }

    /// Reads a descriptor of ScaLAPACK: `DTYPE_A` (1), `CTXT_A`, `M_A`, `N_A`, `MB_A`, `NB_A`, `RSRC_A`, `CSRC_A`,
    /// `LLD_A`, as 32-bit or 64-bit integers.
    ///
    /// The context and the leading dimension, which differ from rank to rank, are not read: the leading dimension goes
    /// with the memory ([`Stored`](crate::matrix::Stored)).
    ///
    /// # Errors
    /// Returns [`SpreadError::Descriptor`] for the first field with an impossible value.
    pub fn from_descriptor<I: Into<i64> + Copy>(descriptor: &[I; 9]) -> Result<Self, SpreadError> {
        let [kind, _, fields @ .., _] = descriptor.map(Into::into);
        if kind != 1 {
            return Err(SpreadError::Descriptor {
                field: "DTYPE_A",
                value: kind,
                reason: "only dense matrices (1) are known",
            });
        }
        let mut values = [0; 6];
        for ((read, value), (field, least, reason)) in values.iter_mut().zip(fields).zip(FIELDS) {
            let fits = usize::try_from(value).ok().filter(|_| value >= least);
            *read = fits.ok_or(SpreadError::Descriptor { field, value, reason })?;
        }
        let [rows, cols, row_block, col_block, row_source, col_source] = values;
        Ok(Self::new(rows, cols, row_block, col_block).with_sources(row_source, col_source))
    }

    /// Deals the rows over the rows of the grid, and the columns over its columns.
    pub(super) fn deal_lines(
        &self,
        grid: &ProcessGrid,
    ) -> Result<[Vec<HeldLines>; 2], SpreadError> {
        let rows = deal_indices(
            ["MB_A", "RSRC_A", "IMB_A"],
            self.rows,
            self.row_block,
            self.first_row_block,
            self.row_source,
            grid.rows,
        )?;
        let cols = deal_indices(
            ["NB_A", "CSRC_A", "INB_A"],
            self.cols,
            self.col_block,
            self.first_col_block,
            self.col_source,
            grid.cols,
        )?;
        Ok([rows, cols])
    }
}

/// Deals `n` indices in blocks to processes in turn, from `source` on; `fields` are ScaLAPACK's names for block, source and
/// first block.
fn deal_indices(
    fields: [&'static str; 3],
    n: usize,
    block: usize,
    first_block: usize,
    source: usize,
    processes: usize,
) -> Result<Vec<HeldLines>, SpreadError> {
    if block == 0 {
        return Err(SpreadError::Block { field: fields[0] });
    }
    if n / block > MOST_BLOCKS {
        return Err(SpreadError::ManyBlocks { field: fields[0], value: block, most: MOST_BLOCKS });
    }
    if source >= processes {
        return Err(SpreadError::Source { field: fields[1], value: source, processes });
    }
    if first_block == 0 || first_block > block {
        return Err(SpreadError::FirstBlock { field: fields[2], value: first_block, block });
    }
    // The indices are the last ones of a matrix whose first block is whole.
    let missing = block - first_block;
    Ok((0..processes)
        .map(|process| (processes + process - source) % processes)
        .map(|first| {
            HeldLines::cyclic(n.saturating_add(missing), block, first, processes)
                .without_first(missing)
        })
        .collect())
}

/// A grid of processes: the first `rows·cols` ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessGrid {
    /// Rows of the grid.
    pub rows: usize,
    /// Columns of the grid.
    pub cols: usize,
    /// Numbering of the ranks: row after row (`R` of BLACS, its default) or column after column (`C`).
    pub order: Order,
}

impl ProcessGrid {
    /// Makes a grid with ranks numbered row after row, as that of `blacs_gridinit` with `R`.
    pub fn by_rows(rows: usize, cols: usize) -> Self {
        let order = Order::Rows;
        Self { rows, cols, order }
    }

    /// Makes a grid with ranks numbered column after column, as that of `blacs_gridinit` with `C`.
    pub fn by_columns(rows: usize, cols: usize) -> Self {
        let order = Order::Columns;
        Self { rows, cols, order }
    }

    /// Returns the row and column of the grid for `rank`; `None` for ranks outside.
    pub fn place(&self, rank: usize) -> Option<(usize, usize)> {
        // Divided and not multiplied: the product of two sizes may not fit.
        let (rows, cols) = (self.rows, self.cols);
        match self.order {
            Order::Rows => (cols > 0 && rank / cols < rows).then(|| (rank / cols, rank % cols)),
            Order::Columns => (rows > 0 && rank / rows < cols).then(|| (rank % rows, rank / rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the rows that each process holds, of `n` in blocks of `block` from `source` on.
    fn count_rows(n: usize, block: usize, source: usize, processes: usize) -> Vec<usize> {
        let matrix = BlockCyclic { row_source: source, ..BlockCyclic::new(n, 1, block, 1) };
        let grid = ProcessGrid::by_rows(processes, 1);
        let [rows, _] = matrix.deal_lines(&grid).unwrap();
        rows.iter().map(HeldLines::len).collect()
    }

    #[test]
    fn processes_hold_as_many_lines_as_the_users_guide_says() {
        // The example of the users' guide, 4.3.1: a 9×9 matrix in 2×2 blocks on a 2×3 grid.
        assert_eq!(count_rows(9, 2, 0, 2), [5, 4]);
        assert_eq!(count_rows(9, 2, 0, 3), [4, 3, 2]);
        assert_eq!(count_rows(9, 2, 1, 2)[0], 4, "process 1 has the first block");
        assert_eq!(count_rows(0, 5, 1, 4)[3], 0);
        assert_eq!(count_rows(1000, 64, 2, 4)[1..], [232, 256, 256]);
    }

    #[test]
    fn ranks_are_numbered_by_rows_or_by_columns() {
        let (by_rows, by_columns) = (ProcessGrid::by_rows(2, 3), ProcessGrid::by_columns(2, 3));
        assert_eq!(by_rows.place(4), Some((1, 1)));
        assert_eq!(by_columns.place(4), Some((0, 2)));
        assert_eq!((by_rows.place(6), by_columns.place(6)), (None, None));
        assert_eq!(ProcessGrid::by_rows(0, 0).place(0), None);
    }

    #[test]
    fn a_matrix_with_short_first_blocks_is_the_end_of_a_whole_one() {
        let grid = ProcessGrid::by_rows(3, 1);
        for (n, first) in [(10, 1), (10, 2), (10, 3), (11, 1), (1, 1), (2, 2), (0, 2)] {
            let matrix =
                BlockCyclic::new(n, 1, 3, 1).with_sources(1, 0).with_first_blocks(first, 1);
            let [rows, _] = matrix.deal_lines(&grid).unwrap();
            let held: Vec<Vec<(usize, usize)>> =
                rows.iter().map(|lines| lines.iter().collect()).collect();
            let mut expected = vec![Vec::new(); 3];
            for row in 0..n {
                let process = ((row + 3 - first) / 3 + 1) % 3;
                let local = expected[process].len();
                expected[process].push((row, local));
            }
            assert_eq!(held, expected, "{n} rows, {first} in the first block");
            let extents: Vec<usize> = rows.iter().map(HeldLines::extent).collect();
            let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
            assert_eq!(extents, lengths);
        }
        for (first, word) in [(0, "IMB_A = 0"), (4, "IMB_A = 4: the first block has 1 to 3")] {
            let text = BlockCyclic::new(9, 1, 3, 1)
                .with_first_blocks(first, 1)
                .deal_lines(&grid)
                .unwrap_err()
                .to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_descriptor_of_either_width_is_read() {
        let descriptor = [1, 7, 90, 80, 16, 8, 1, 2, 100];
        let expected =
            BlockCyclic { row_source: 1, col_source: 2, ..BlockCyclic::new(90, 80, 16, 8) };
        assert_eq!(BlockCyclic::from_descriptor(&descriptor), Ok(expected));
        let wide = descriptor.map(i64::from);
        assert_eq!(BlockCyclic::from_descriptor(&wide), Ok(expected));
        let long: [i64; 9] = [1, 0, 1 << 40, 1 << 33, 64, 64, 0, 0, 1 << 40];
        assert_eq!(BlockCyclic::from_descriptor(&long).unwrap().rows, 1 << 40);
    }

    #[test]
    fn a_wrong_descriptor_is_refused_by_its_field() {
        let good = [1, 0, 90, 80, 16, 8, 0, 0, 90];
        for (idx, value, field) in [
            (0, 501, "DTYPE_A"),
            (2, -1, "M_A"),
            (3, -7, "N_A"),
            (4, 0, "MB_A"),
            (5, -3, "NB_A"),
            (6, -1, "RSRC_A"),
            (7, -1, "CSRC_A"),
        ] {
            let mut wrong = good;
            wrong[idx] = value;
            let message = BlockCyclic::from_descriptor(&wrong).unwrap_err().to_string();
            assert!(message.contains(&format!("{field} = {value}")), "{message}");
        }
    }

    #[test]
    fn sources_and_blocks_must_exist() {
        let grid = ProcessGrid::by_rows(2, 3);
        let matrix = BlockCyclic::new(9, 9, 2, 2);
        let col_source = BlockCyclic { col_source: 3, ..matrix };
        let message = col_source.deal_lines(&grid).unwrap_err().to_string();
        assert!(message.contains("CSRC_A = 3"), "{message}");
        let block = BlockCyclic { row_block: 0, ..matrix };
        let message = block.deal_lines(&grid).unwrap_err().to_string();
        assert!(message.contains("MB_A = 0"), "{message}");
        let message =
            BlockCyclic::new(9, usize::MAX, 2, 2).deal_lines(&grid).unwrap_err().to_string();
        assert!(message.contains("NB_A = 2"), "{message}");
    }
}
