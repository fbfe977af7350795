//! Errors of layouts.

use super::{Grid, Method, Rect};
use crate::partition::PartitionError;

/// The reason why rectangles are no layout, or why areas cannot be laid out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A layout needs at least one node.
    #[error("a layout of {rows} x {cols} blocks without nodes")]
    NoNodes {
        /// Height of the matrix in blocks.
        rows: u64,
        /// Width of the matrix in blocks.
        cols: u64,
    },
    /// The number of blocks exceeds 63 bits.
    #[error("{rows} x {cols} blocks are too many to count")]
    TooLarge {
        /// Height of the matrix in blocks.
        rows: u64,
        /// Width of the matrix in blocks.
        cols: u64,
    },
    /// A rectangle reaches outside the matrix.
    #[error(
        "node {index}: {} x {} blocks from row {}, column {} do not lie within {rows} x {cols} blocks",
        rect.rows, rect.cols, rect.row, rect.col
    )]
    OutOfBounds {
        /// Index of the node.
        index: usize,
        /// Its rectangle.
        rect: Rect,
        /// Height of the matrix in blocks.
        rows: u64,
        /// Width of the matrix in blocks.
        cols: u64,
    },
    /// Two rectangles share blocks.
    #[error("nodes {first} and {second} share blocks")]
    Overlap {
        /// Index of one node.
        first: usize,
        /// Index of the other.
        second: usize,
    },
    /// Some blocks have no owner.
    #[error("{covered} of {total} blocks have an owner")]
    Gap {
        /// Blocks that some rectangle covers.
        covered: u64,
        /// Blocks of the matrix.
        total: u64,
    },
    /// An area that is negative or not finite.
    #[error("node {index}: area {area} is not a finite number of at least 0")]
    InvalidArea {
        /// Index of the node.
        index: usize,
        /// The area asked for.
        area: f64,
    },
    /// There are blocks, and no node has a positive area.
    #[error("{rows} x {cols} blocks to lay out and every area is 0")]
    NoArea {
        /// Height of the matrix in blocks.
        rows: u64,
        /// Width of the matrix in blocks.
        cols: u64,
    },
    /// An arrangement names a node that does not exist.
    #[error("the arrangement names node {index} of {nodes}")]
    NoSuchNode {
        /// The index it names.
        index: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// An arrangement names a node twice.
    #[error("the arrangement names node {index} twice")]
    Repeated {
        /// Index of the node.
        index: usize,
    },
    /// An arrangement leaves out a node of positive area.
    #[error("node {index}: the arrangement has no place for it")]
    NotArranged {
        /// Index of the node.
        index: usize,
    },
    /// The columns of a grid have unlike numbers of nodes.
    #[error("column {column} of the grid has {nodes} nodes and the first column {expected}")]
    Ragged {
        /// Index of the column.
        column: usize,
        /// Number of its nodes.
        nodes: usize,
        /// Number of nodes of the first column.
        expected: usize,
    },
    /// A node of speed 0 in a grid: it could never finish a rectangle with blocks.
    #[error("node {index} has speed 0 and cannot hold a place in a grid")]
    IdleInGrid {
        /// Index of the node.
        index: usize,
    },
    /// A grid of C, and k is to be divided.
    #[error("a grid of {0} divides C, and k is to be divided")]
    GridAlongK(Grid),
    /// The grid does not have one place for each node.
    #[error("a grid of {grid} has {} places, and there are {nodes} nodes", grid.rows.saturating_mul(grid.cols))]
    OtherGrid {
        /// The grid.
        grid: Grid,
        /// Number of nodes.
        nodes: usize,
    },
    /// Not a grid.
    #[error("\"{0}\" is no grid: expected rows x columns of nodes, such as 2x3")]
    NoGrid(String),
    /// Columns for a method that chooses its own.
    #[error("the layout method {method} takes no columns")]
    OwnColumns {
        /// The method.
        method: Method,
    },
    /// The rectangles do not lie in columns.
    #[error("the rectangles do not lie in columns over the whole height")]
    NotColumns,
    /// A time that is negative or not a number.
    #[error("node {index}: {rows} x {cols} blocks take {time_s} s, which is not a time")]
    InvalidTime {
        /// Index of the node.
        index: usize,
        /// Height of its rectangle in blocks.
        rows: u64,
        /// Width of its rectangle in blocks.
        cols: u64,
        /// The time in seconds.
        time_s: f64,
    },
    /// The nodes' models admit no division. A device in the message is a node.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// An unknown method name.
    #[error(
        "unknown layout method \"{0}\": expected one of kl, br, cartesian, cartesian-sums, recursive, fpm-kl"
    )]
    UnknownMethod(String),
}
