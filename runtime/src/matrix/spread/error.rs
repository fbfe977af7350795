//! Errors of spreads, and of memory that is to hold one.

use std::ops::Range;

use crate::matrix::Order;

/// Reason why a matrix cannot be spread, or moved, as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpreadError {
    /// A field of a ScaLAPACK descriptor has an impossible value.
    #[error("descriptor: {field} = {value}: {reason}")]
    Descriptor {
        /// The field as ScaLAPACK names it.
        field: &'static str,
        /// Its value.
        value: i64,
        /// Values that it may have.
        reason: &'static str,
    },
    /// A process grid has no process, or more than there are ranks.
    #[error(
        "a process grid of {rows}×{cols} has no process, or more than there are ranks: {ranks}"
    )]
    Grid {
        /// Rows of the grid.
        rows: usize,
        /// Columns of the grid.
        cols: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// The first block belongs to a process that the grid does not have.
    #[error("{field} = {value}: the process grid has {processes} there, counted from 0")]
    Source {
        /// The field as ScaLAPACK names it.
        field: &'static str,
        /// The row or column of the grid.
        value: usize,
        /// Number of rows or columns of the grid.
        processes: usize,
    },
    /// A block has no elements.
    #[error("{field} = 0: a block has at least one row and one column")]
    Block {
        /// The field as ScaLAPACK names it.
        field: &'static str,
    },
    /// There are more ranks than are listed.
    #[error("{ranks} ranks: there may be at most {most}")]
    ManyRanks {
        /// Number of ranks.
        ranks: usize,
        /// Largest number of ranks.
        most: usize,
    },
    /// There are more blocks along a dimension than are listed.
    #[error("{field} = {value}: there would be more than {most} blocks; choose larger ones")]
    ManyBlocks {
        /// The field as ScaLAPACK names it.
        field: &'static str,
        /// Its value.
        value: usize,
        /// Largest number of blocks along a dimension.
        most: usize,
    },
    /// The rank that is to hold a matrix does not exist.
    #[error("rank {rank} is to hold the matrix, and there are {ranks} ranks, counted from 0")]
    Rank {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// A rank that the distribution does not have.
    #[error("there is no rank {rank}: the matrix is spread over {ranks} ranks, counted from 0")]
    NoRank {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// A first block is empty, or longer than the others.
    #[error("{field} = {value}: the first block has 1 to {block} lines")]
    FirstBlock {
        /// The field as ScaLAPACK names it.
        field: &'static str,
        /// Its value.
        value: usize,
        /// Lines of the other blocks.
        block: usize,
    },
    /// The rectangles of the ranks do not tile their matrix.
    #[error("the rectangles of the ranks do not tile the matrix: {0}")]
    Tiling(String),
    /// The borders of blocks do not ascend from 0.
    #[error(
        "{what}: the borders of blocks ascend from 0 to the size of the matrix, each larger than the one before"
    )]
    Cuts {
        /// `row_cuts` or `col_cuts`.
        what: &'static str,
    },
    /// A list of blocks has another number of owners than blocks.
    #[error("{found} owners of {needed} blocks")]
    Owners {
        /// Number of owners.
        found: usize,
        /// Number of blocks.
        needed: usize,
    },
    /// A rank gives memory for another number of pieces than it has.
    #[error("memory of {found} pieces, where this rank has {needed}")]
    Pieces {
        /// Number of pieces of memory.
        found: usize,
        /// Number of pieces of the distribution on this rank, at least 1.
        needed: usize,
    },
    /// A view has another shape than this rank's part.
    #[error("a view of {}×{}, where this rank's part has {}×{}", found.0, found.1, needed.0, needed.1)]
    ViewShape {
        /// Rows and columns of the view.
        found: (usize, usize),
        /// Rows and columns of the part.
        needed: (usize, usize),
    },
    /// The lines of a view are not those of its distribution.
    #[error("a view that is not {}, as its distribution is", needed.words())]
    ViewOrder {
        /// Order of the distribution.
        needed: Order,
    },
    /// A submatrix reaches past its matrix.
    #[error("{what} {}..{} of a matrix that has {len} of them", range.start, range.end)]
    Sub {
        /// Rows or columns.
        what: &'static str,
        /// The range asked for.
        range: Range<usize>,
        /// Number of rows or columns of the matrix.
        len: usize,
    },
    /// A spread is for another number of ranks.
    #[error("a matrix spread over {spread} ranks cannot be moved by {ranks} ranks")]
    Ranks {
        /// Number of ranks of the spread.
        spread: usize,
        /// Number of ranks of the communicator.
        ranks: usize,
    },
    /// Source and target have different shapes.
    #[error("a {}×{} matrix cannot be moved to a spread of {}×{}", from.0, from.1, to.0, to.1)]
    Shape {
        /// Rows and columns of the matrix that is moved, transposed if that was asked for.
        from: (usize, usize),
        /// Rows and columns of the target.
        to: (usize, usize),
    },
    /// The target of a prepared redistribution has its memory in another order.
    #[error("a target that is {}, where {} was prepared", found.words(), planned.words())]
    Order {
        /// The order that was prepared.
        planned: Order,
        /// The order of the memory.
        found: Order,
    },
    /// Lines of the local memory overlap.
    #[error("a leading dimension of {ld} where a {line} has {needed} elements")]
    LeadingDimension {
        /// The leading dimension.
        ld: usize,
        /// `column` or `row`.
        line: &'static str,
        /// Least value.
        needed: usize,
    },
    /// The local memory is too short for what the spread puts there.
    #[error(
        "local memory of {len} elements where {rows}×{cols} with a leading dimension of {ld} need {needed}"
    )]
    Storage {
        /// Number of elements of the memory.
        len: usize,
        /// Local rows.
        rows: usize,
        /// Local columns.
        cols: usize,
        /// The leading dimension.
        ld: usize,
        /// Number of elements that the matrix needs.
        needed: usize,
    },
    /// A rank that a [`Matrix`](crate::matrix::Matrix) is made for holds more than one rectangle, or a part of a larger
    /// local matrix.
    #[error(
        "rank {rank} would hold elements that are not one rectangle: redistribute them to a layout"
    )]
    Scattered {
        /// The rank.
        rank: usize,
    },
}
