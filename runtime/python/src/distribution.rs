//! Where the ranks have a matrix.

use std::ops::Range;

use isochron::matrix::SpreadError;
use isochron::prelude::{BlockCyclic, BlockList, Distribution, Order, ProcessGrid, Region};
use pyo3::prelude::*;

use crate::arrays::name_order;
use crate::errors::RaisedError;

/// The ranks that hold the elements of a matrix, and the order of the elements in their memory.
///
/// `order` is "C" for rows that are contiguous, and "F" for columns.
#[pyclass(name = "Distribution", module = "isochron", frozen)]
#[derive(Clone)]
pub struct PyDistribution(pub(crate) Distribution);

impl PyDistribution {
    fn make(made: Result<Distribution, SpreadError>, order: &str) -> Result<Self, RaisedError> {
        let made = made?;
        Ok(Self(match read_order(order)? {
            Order::Rows => made.row_major(),
            Order::Columns => made,
        }))
    }
}

#[pymethods]
impl PyDistribution {
    /// Puts a whole matrix on one of `ranks` ranks.
    #[staticmethod]
    #[pyo3(signature = (rows, cols, rank=0, ranks=1, *, order="C"))]
    fn on_one(
        rows: usize,
        cols: usize,
        rank: usize,
        ranks: usize,
        order: &str,
    ) -> Result<Self, RaisedError> {
        Self::make(Distribution::on_one(rows, cols, rank, ranks), order)
    }

    /// Gives each rank some rows, one rank after the other: `counts[rank]` of them.
    #[staticmethod]
    #[pyo3(signature = (counts, cols, *, order="C"))]
    fn by_rows(counts: Vec<usize>, cols: usize, order: &str) -> Result<Self, RaisedError> {
        let mut end = 0_usize;
        let regions = counts.into_iter().map(|count| {
            let start = end;
            end = end.saturating_add(count);
            Region::new(start..end, 0..cols)
        });
        let regions: Vec<Region> = regions.collect();
        Self::make(Distribution::of_regions(end, cols, &regions), order)
    }

    /// Gives each rank a rectangle `(row, col, rows, cols)`, which may be empty.
    #[staticmethod]
    #[pyo3(signature = (rows, cols, regions, *, order="C"))]
    fn of_regions(
        rows: usize,
        cols: usize,
        regions: Vec<[usize; 4]>,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let regions = regions.into_iter().map(|[row, col, rows, cols]| {
            Region::new(row..row.saturating_add(rows), col..col.saturating_add(cols))
        });
        let regions: Vec<Region> = regions.collect();
        Self::make(Distribution::of_regions(rows, cols, &regions), order)
    }

    /// Deals blocks out to a grid of ranks in turn, as ScaLAPACK does. The rank in row `sources[0]` and column
    /// `sources[1]` of the grid has the first block. `grid_order` is "C" for ranks numbered row after row, "F" for column
    /// after column.
    #[staticmethod]
    #[pyo3(signature = (rows, cols, block, grid, *, ranks=None, sources=(0, 0), grid_order="C", order="F"))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn block_cyclic(
        rows: usize,
        cols: usize,
        block: (usize, usize),
        grid: (usize, usize),
        ranks: Option<usize>,
        sources: (usize, usize),
        grid_order: &str,
        order: &str,
    ) -> Result<Self, RaisedError> {
        if block.0 == 0 || block.1 == 0 {
            let reason = "a block has at least one row and one column";
            return Err(RaisedError::refuse("block", format!("{block:?}"), reason));
        }
        let blocks = BlockCyclic::new(rows, cols, block.0, block.1);
        let blocks = blocks.with_sources(sources.0, sources.1);
        let ranks = ranks.unwrap_or(grid.0.saturating_mul(grid.1));
        let grid = match read_order(grid_order)? {
            Order::Rows => ProcessGrid::by_rows(grid.0, grid.1),
            Order::Columns => ProcessGrid::by_columns(grid.0, grid.1),
        };
        Self::make(Distribution::block_cyclic(&blocks, grid, ranks), order)
    }

    /// Gives each of `ranks` ranks its blocks. The cuts are 0, the border after each row or column of blocks, and last the
    /// size of the matrix. `owners` has the rank of each block, down the columns of blocks; a rank has an array for each of
    /// its blocks, in the same order.
    #[staticmethod]
    #[pyo3(signature = (row_cuts, col_cuts, owners, ranks, *, order="C"))]
    fn of_blocks(
        row_cuts: Vec<usize>,
        col_cuts: Vec<usize>,
        owners: Vec<usize>,
        ranks: usize,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let blocks = BlockList {
            row_cuts,
            col_cuts,
            owners,
        };
        Self::make(Distribution::of_blocks(&blocks, ranks), order)
    }

    /// Returns the submatrix in these rows and columns, from the first to before the last, with its elements in place.
    fn sub(&self, rows: (usize, usize), cols: (usize, usize)) -> Result<Self, RaisedError> {
        let [rows, cols] = [rows, cols].map(|(start, end)| Range { start, end });
        Ok(Self(self.0.sub(rows, cols)?))
    }

    /// Rows and columns of the whole matrix.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.cols())
    }

    /// Number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.0.n_ranks()
    }

    /// "C" or "F".
    #[getter]
    fn order(&self) -> &'static str {
        name_order(self.0.order())
    }

    /// Returns the shapes of the arrays that `rank` has.
    fn local_shapes(&self, rank: usize) -> Result<Vec<(usize, usize)>, RaisedError> {
        let ranks = self.0.n_ranks();
        if rank < ranks {
            Ok(self.0.local_shapes(rank))
        } else {
            Err(RaisedError::refuse(
                "rank",
                rank,
                format!("there are {ranks} ranks"),
            ))
        }
    }

    fn __repr__(&self) -> String {
        let (rows, cols) = self.shape();
        format!("<Distribution of {rows}×{cols} on {} ranks>", self.ranks())
    }
}

/// Reads NumPy's letter of an order.
fn read_order(order: &str) -> Result<Order, RaisedError> {
    match order {
        "C" => Ok(Order::Rows),
        "F" => Ok(Order::Columns),
        other => Err(RaisedError::refuse("order", other, "use C or F")),
    }
}
