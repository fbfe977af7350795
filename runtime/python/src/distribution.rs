//! Where the ranks have a matrix.

use std::ops::Range;

use isochron::matrix::SpreadError;
use isochron::prelude::{BlockCyclic, BlockList, Distribution, Order, ProcessGrid, Region};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::{list_arrays, lock_buffer, name_order};
use crate::errors::{Count, RaisedError, describe, read_count};

/// The rows and the columns that an array has of a matrix.
type RowsAndColumns = (Vec<usize>, Vec<usize>);

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
        rows: Count,
        cols: Count,
        #[pyo3(from_py_with = read_count)] rank: usize,
        #[pyo3(from_py_with = read_count)] ranks: usize,
        order: &str,
    ) -> Result<Self, RaisedError> {
        Self::make(Distribution::on_one(rows.0, cols.0, rank, ranks), order)
    }

    /// Gives each rank some rows, one rank after the other: `counts[rank]` of them.
    #[staticmethod]
    #[pyo3(signature = (counts, cols, *, order="C"))]
    fn by_rows(counts: Vec<Count>, cols: Count, order: &str) -> Result<Self, RaisedError> {
        let mut end = 0_usize;
        let regions = counts.into_iter().map(|count| {
            let start = end;
            end = end.saturating_add(count.0);
            Region::new(start..end, 0..cols.0)
        });
        let regions: Vec<Region> = regions.collect();
        Self::make(Distribution::of_regions(end, cols.0, &regions), order)
    }

    /// Gives each rank a rectangle `(row, col, rows, cols)`, which may be empty.
    #[staticmethod]
    #[pyo3(signature = (rows, cols, regions, *, order="C"))]
    fn of_regions(
        rows: Count,
        cols: Count,
        regions: Vec<[Count; 4]>,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let regions = regions.into_iter().map(|region| {
            let [row, col, rows, cols] = region.map(|number| number.0);
            Region::new(row..row.saturating_add(rows), col..col.saturating_add(cols))
        });
        let regions: Vec<Region> = regions.collect();
        Self::make(Distribution::of_regions(rows.0, cols.0, &regions), order)
    }

    /// Deals blocks out to a grid of ranks in turn, as ScaLAPACK does. The rank in row `sources[0]` and column
    /// `sources[1]` of the grid has the first block. `first_block` has the rows and columns of the first blocks, if these are
    /// shorter than `block`. `grid_order` is "C" for ranks numbered row after row, "F" for column after column.
    #[staticmethod]
    #[pyo3(signature = (rows, cols, block, grid, *, ranks=None, sources=(0, 0), first_block=None, grid_order="C", order="F"))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn block_cyclic(
        rows: Count,
        cols: Count,
        block: [Count; 2],
        grid: [Count; 2],
        ranks: Option<Count>,
        #[pyo3(from_py_with = read_pair)] sources: (usize, usize),
        first_block: Option<[Count; 2]>,
        grid_order: &str,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let [row_block, col_block] = block.map(|size| size.0);
        if row_block == 0 || col_block == 0 {
            let reason = "a block has at least one row and one column";
            let value = format!("({row_block}, {col_block})");
            return Err(RaisedError::refuse("block", value, reason));
        }
        let blocks = BlockCyclic::new(rows.0, cols.0, row_block, col_block);
        let mut blocks = blocks.with_sources(sources.0, sources.1);
        if let Some([rows, cols]) = first_block {
            blocks = blocks.with_first_blocks(rows.0, cols.0);
        }
        let (grid, size) = read_grid(grid, grid_order)?;
        let ranks = ranks.map_or(size, |ranks| ranks.0);
        Self::make(Distribution::block_cyclic(&blocks, grid, ranks), order)
    }

    /// Takes a matrix as its descriptor of ScaLAPACK describes it: 9 integers, of which the context and the leading dimension
    /// are not read. The arguments IA, JA, M and N of ScaLAPACK's routines are `sub((IA - 1, IA - 1 + M), (JA - 1, JA - 1 + N))`.
    #[staticmethod]
    #[pyo3(signature = (descriptor, grid, *, ranks=None, grid_order="C", order="F"))]
    fn of_descriptor(
        descriptor: Vec<Count<i64>>,
        grid: [Count; 2],
        ranks: Option<Count>,
        grid_order: &str,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let numbers: Vec<i64> = descriptor.into_iter().map(|number| number.0).collect();
        let numbers = <[i64; 9]>::try_from(numbers).map_err(|given| {
            let value = format!("{} numbers", given.len());
            RaisedError::refuse("descriptor", value, "a descriptor has 9 numbers")
        })?;
        let blocks = BlockCyclic::from_descriptor(&numbers)?;
        let (grid, size) = read_grid(grid, grid_order)?;
        let ranks = ranks.map_or(size, |ranks| ranks.0);
        Self::make(Distribution::block_cyclic(&blocks, grid, ranks), order)
    }

    /// Gives each of `ranks` ranks its blocks. The cuts are 0, the border after each row or column of blocks, and last the
    /// size of the matrix. `owners` has the rank of each block, down the columns of blocks; a rank has an array for each of
    /// its blocks, in the same order.
    #[staticmethod]
    #[pyo3(signature = (row_cuts, col_cuts, owners, ranks, *, order="C"))]
    fn of_blocks(
        row_cuts: Vec<Count>,
        col_cuts: Vec<Count>,
        owners: Vec<Count>,
        ranks: Count,
        order: &str,
    ) -> Result<Self, RaisedError> {
        let blocks = BlockList {
            row_cuts: list_numbers(row_cuts),
            col_cuts: list_numbers(col_cuts),
            owners: list_numbers(owners),
        };
        Self::make(Distribution::of_blocks(&blocks, ranks.0), order)
    }

    /// Returns the submatrix in these rows and columns, from the first to before the last, with its elements in place.
    fn sub(&self, rows: [Count; 2], cols: [Count; 2]) -> Result<Self, RaisedError> {
        let [rows, cols] = [rows, cols].map(|[start, end]| Range { start: start.0, end: end.0 });
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
    fn local_shapes(&self, rank: Count) -> Result<Vec<(usize, usize)>, RaisedError> {
        let Count(rank) = rank;
        self.check_rank(rank)?;
        Ok(self.0.local_shapes(rank))
    }

    /// Returns the rows and the columns of the matrix that each array of `rank` has, in the order of the array. So
    /// `whole[numpy.ix_(rows, cols)]` is what the array has of a whole matrix.
    fn elements(&self, rank: Count) -> Result<Vec<RowsAndColumns>, RaisedError> {
        self.check_rank(rank.0)?;
        let lines = self.0.lines(rank.0).into_iter();
        let numbers =
            |lines: Vec<(usize, usize)>| lines.into_iter().map(|(line, _)| line).collect();
        Ok(lines.map(|[rows, cols]| (numbers(rows), numbers(cols))).collect())
    }

    /// Sets the elements that `rank` has in `arrays`, one array or a list of blocks, to `element(rows, cols)`: a function of
    /// the rows and the columns of the matrix, as arrays that fit each other, such as `lambda row, col: row + 2 * col`.
    fn fill<'py>(
        &self,
        rank: Count,
        arrays: &Bound<'py, PyAny>,
        element: &Bound<'py, PyAny>,
    ) -> Result<(), RaisedError> {
        let Count(rank) = rank;
        self.check_rank(rank)?;
        if !element.is_callable() {
            let reason = "a function of rows and columns is needed";
            return Err(RaisedError::refuse_type("element", describe(element), reason));
        }
        let arrays = list_arrays(arrays);
        let shapes = self.0.local_shapes(rank);
        if arrays.len() != shapes.len() {
            let value = format!("{} arrays", arrays.len());
            let reason = format!("this rank has {} of this distribution", shapes.len());
            return Err(RaisedError::refuse("arrays", value, reason));
        }
        let lines = self.0.lines(rank);
        for ((array, shape), lines) in arrays.iter().zip(shapes).zip(lines) {
            fill_array(array, shape, lines, element)?;
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        let (rows, cols) = self.shape();
        format!("<Distribution of {rows}×{cols} on {} ranks>", self.ranks())
    }
}

impl PyDistribution {
    /// Checks that there is a rank of this number.
    fn check_rank(&self, rank: usize) -> Result<(), RaisedError> {
        let ranks = self.0.n_ranks();
        if rank < ranks {
            return Ok(());
        }
        let reason = format!("there are {ranks} ranks");
        Err(RaisedError::refuse("rank", rank, reason))
    }
}

/// Sets the elements of an array at these lines, each with its number in the matrix and its place in the array.
fn fill_array(
    array: &Bound<'_, PyAny>,
    shape: (usize, usize),
    [rows, cols]: [Vec<(usize, usize)>; 2],
    element: &Bound<'_, PyAny>,
) -> Result<(), RaisedError> {
    let py = array.py();
    let buffer = lock_buffer("arrays", array)?;
    if *buffer.shape() != [shape.0, shape.1] {
        let value = format!("an array of shape {:?}", buffer.shape());
        let reason = format!("this rank's part has {}×{}", shape.0, shape.1);
        return Err(RaisedError::refuse("arrays", value, reason));
    }
    drop(buffer);
    let numpy = py.import("numpy")?;
    let split =
        |lines: Vec<(usize, usize)>| -> (Vec<usize>, Vec<usize>) { lines.into_iter().unzip() };
    let ((rows, local_rows), (cols, local_cols)) = (split(rows), split(cols));
    let mesh = |rows: Vec<usize>, cols: Vec<usize>| {
        let arrays = [rows, cols].map(|lines| numpy.call_method1("array", (lines, "int64")));
        let [rows, cols] = arrays;
        numpy.call_method1("ix_", (rows?, cols?))
    };
    let asked = mesh(rows, cols)?;
    let values = element.call1(asked.cast::<PyTuple>().map_err(PyErr::from)?)?;
    array.set_item(mesh(local_rows, local_cols)?, values)?;
    Ok(())
}

fn list_numbers(counts: Vec<Count>) -> Vec<usize> {
    counts.into_iter().map(|count| count.0).collect()
}

/// Reads a row and a column.
fn read_pair(value: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let [row, col] = value.extract::<[Count; 2]>()?;
    Ok((row.0, col.0))
}

/// Returns the grid of ranks, and their number.
fn read_grid(grid: [Count; 2], order: &str) -> Result<(ProcessGrid, usize), RaisedError> {
    let [rows, cols] = grid.map(|size| size.0);
    let made = match read_order(order)? {
        Order::Rows => ProcessGrid::by_rows(rows, cols),
        Order::Columns => ProcessGrid::by_columns(rows, cols),
    };
    Ok((made, rows.saturating_mul(cols)))
}

/// Reads NumPy's letter of an order.
fn read_order(order: &str) -> Result<Order, RaisedError> {
    match order {
        "C" => Ok(Order::Rows),
        "F" => Ok(Order::Columns),
        other => Err(RaisedError::refuse("order", other, "use C or F")),
    }
}
