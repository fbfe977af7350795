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
}

/// The fields of a ScaLAPACK descriptor of a dense matrix, in their order.
const FIELDS: [&str; 9] = [
    "DTYPE_A", "CTXT_A", "M_A", "N_A", "MB_A", "NB_A", "RSRC_A", "CSRC_A", "LLD_A",
];

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
        }
    }

    /// Reads a descriptor of ScaLAPACK: `DTYPE_A` (1), `CTXT_A`, `M_A`, `N_A`, `MB_A`, `NB_A`, `RSRC_A`, `CSRC_A`, `LLD_A`,
    /// as 32-bit or 64-bit integers.
    ///
    /// The context and the leading dimension, which differ from rank to rank, are not read: the leading dimension goes with
    /// the memory ([`Stored`](crate::matrix::Stored)).
    ///
    /// # Errors
    /// [`SpreadError::Descriptor`] for the first field with an impossible value.
    pub fn from_descriptor<I: Into<i64> + Copy>(descriptor: &[I; 9]) -> Result<Self, SpreadError> {
        let kind: i64 = descriptor[0].into();
        if kind != 1 {
            return Err(SpreadError::Descriptor {
                field: FIELDS[0],
                value: kind,
                reason: "only dense matrices (1) are known",
            });
        }
        let fields: [i64; 9] = descriptor.map(Into::into);
        Ok(Self {
            rows: read_field(&fields, 2, 0, "the number of rows is not negative")?,
            cols: read_field(&fields, 3, 0, "the number of columns is not negative")?,
            row_block: read_field(&fields, 4, 1, "a block has at least one row")?,
            col_block: read_field(&fields, 5, 1, "a block has at least one column")?,
            row_source: read_field(
                &fields,
                6,
                0,
                "a row of the process grid (no copy on every row)",
            )?,
            col_source: read_field(
                &fields,
                7,
                0,
                "a column of the process grid (no copy on every one)",
            )?,
        })
    }

    /// Deals the rows over the rows of the grid, and the columns over its columns.
    pub(super) fn deal_lines(
        &self,
        grid: &ProcessGrid,
    ) -> Result<[Vec<HeldLines>; 2], SpreadError> {
        check_dealing(
            ["MB_A", "RSRC_A"],
            self.row_block,
            self.row_source,
            grid.rows,
        )?;
        check_dealing(
            ["NB_A", "CSRC_A"],
            self.col_block,
            self.col_source,
            grid.cols,
        )?;
        Ok([
            deal_indices(self.rows, self.row_block, self.row_source, grid.rows),
            deal_indices(self.cols, self.col_block, self.col_source, grid.cols),
        ])
    }
}

/// Reads a field of a descriptor, which is at least `least`.
fn read_field(
    fields: &[i64; 9],
    idx: usize,
    least: i64,
    reason: &'static str,
) -> Result<usize, SpreadError> {
    let value = fields[idx];
    let fits = usize::try_from(value).ok();
    fits.filter(|_| value >= least)
        .ok_or(SpreadError::Descriptor {
            field: FIELDS[idx],
            value,
            reason,
        })
}

/// Checks block and first process of one dimension; `fields` are ScaLAPACK's names for them.
fn check_dealing(
    fields: [&'static str; 2],
    block: usize,
    source: usize,
    processes: usize,
) -> Result<(), SpreadError> {
    if block == 0 {
        return Err(SpreadError::Block { field: fields[0] });
    }
    if source >= processes {
        return Err(SpreadError::Source {
            field: fields[1],
            value: source,
            processes,
        });
    }
    Ok(())
}

/// Deals `n` indices in blocks to processes in turn, from `source` on.
fn deal_indices(n: usize, block: usize, source: usize, processes: usize) -> Vec<HeldLines> {
    (0..processes)
        .map(|process| {
            let first = (processes + process - source) % processes;
            HeldLines::cyclic(n, block, first, processes)
        })
        .collect()
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

/// Counts the rows or columns of a block-cyclic matrix that `process` holds, as ScaLAPACK's `NUMROC` does. The matrix has `n`
/// of them in blocks of `block`, dealt over `n_processes` processes from `source` on.
///
/// ```
/// use isochron::matrix::numroc;
/// // Nine rows in blocks of two over two processes: 0 1, 4 5, 8 and 2 3, 6 7.
/// assert_eq!([numroc(9, 2, 0, 0, 2), numroc(9, 2, 1, 0, 2)], [5, 4]);
/// ```
///
/// # Panics
/// If `block` or `n_processes` is 0.
pub fn numroc(n: usize, block: usize, process: usize, source: usize, n_processes: usize) -> usize {
    assert!(
        block > 0 && n_processes > 0,
        "blocks and grids are not empty"
    );
    let place = (n_processes + process - source % n_processes) % n_processes;
    let blocks = n / block;
    let whole = blocks / n_processes * block;
    let rest = blocks % n_processes;
    match place.cmp(&rest) {
        std::cmp::Ordering::Less => whole + block,
        std::cmp::Ordering::Equal => whole + n % block,
        std::cmp::Ordering::Greater => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numroc_has_the_values_of_the_users_guide() {
        // The example of the users' guide, 4.3.1: a 9×9 matrix in 2×2 blocks on a 2×3 grid.
        let rows: Vec<usize> = (0..2).map(|p| numroc(9, 2, p, 0, 2)).collect();
        let cols: Vec<usize> = (0..3).map(|q| numroc(9, 2, q, 0, 3)).collect();
        assert_eq!((rows, cols), (vec![5, 4], vec![4, 3, 2]));
        assert_eq!(numroc(9, 2, 0, 1, 2), 4, "process 1 has the first block");
        assert_eq!(numroc(0, 5, 3, 1, 4), 0);
        assert_eq!(numroc(1000, 64, 3, 2, 4), 256);
        assert_eq!(numroc(1000, 64, 2, 2, 4), 256);
        assert_eq!(numroc(1000, 64, 1, 2, 4), 232);
    }

    #[test]
    fn lines_are_as_many_as_numroc_says() {
        for (n, block, processes) in [(9, 2, 3), (100, 7, 4), (5, 8, 3), (64, 16, 4), (0, 3, 2)] {
            for source in 0..processes {
                let matrix = BlockCyclic {
                    row_source: source,
                    ..BlockCyclic::new(n, 1, block, 1)
                };
                let [lines, _] = matrix
                    .deal_lines(&ProcessGrid::by_rows(processes, 1))
                    .unwrap();
                for (process, lines) in lines.iter().enumerate() {
                    let expected = numroc(n, block, process, source, processes);
                    assert_eq!(lines.len(), expected, "{n} by {block} on {processes}");
                }
            }
        }
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
    fn a_descriptor_of_either_width_is_read() {
        let descriptor = [1, 7, 90, 80, 16, 8, 1, 2, 100];
        let expected = BlockCyclic {
            row_source: 1,
            col_source: 2,
            ..BlockCyclic::new(90, 80, 16, 8)
        };
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
            let message = BlockCyclic::from_descriptor(&wrong)
                .unwrap_err()
                .to_string();
            assert!(message.contains(&format!("{field} = {value}")), "{message}");
        }
    }

    #[test]
    fn sources_and_blocks_must_exist() {
        let grid = ProcessGrid::by_rows(2, 3);
        let matrix = BlockCyclic::new(9, 9, 2, 2);
        let col_source = BlockCyclic {
            col_source: 3,
            ..matrix
        };
        let message = col_source.deal_lines(&grid).unwrap_err().to_string();
        assert!(message.contains("CSRC_A = 3"), "{message}");
        let block = BlockCyclic {
            row_block: 0,
            ..matrix
        };
        let message = block.deal_lines(&grid).unwrap_err().to_string();
        assert!(message.contains("MB_A = 0"), "{message}");
    }
}
