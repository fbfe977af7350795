//! Matrices of a C program: where they lie, and the memory of this rank.

use std::ffi::c_void;
use std::ptr;

use isochron::prelude::{BlockCyclic, BlockList, Distribution, Order, ProcessGrid, Region};

use crate::pointers::{self, read_sizes, to_size};
use crate::status::CallFailure;
use crate::structs::{SizedStruct, read_struct};

/// The whole matrix is on one rank.
pub const ISOCHRON_ON_ONE: i64 = 0;
/// The matrix is two-dimensional block-cyclic, as in ScaLAPACK.
pub const ISOCHRON_BLOCK_CYCLIC: i64 = 1;
/// Each rank has a rectangle of the matrix.
pub const ISOCHRON_RECTANGLES: i64 = 2;
/// The matrix is a grid of blocks, each with one owner.
pub const ISOCHRON_BLOCKS: i64 = 3;

/// A matrix distributed over ranks, and this rank's memory for it. Set struct_size to sizeof(isochron_matrix_t), and
/// all unused fields to 0. Later versions may append fields. They accept this struct as it is, and take the missing
/// fields as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct MatrixTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// ISOCHRON_ON_ONE, ISOCHRON_BLOCK_CYCLIC, ISOCHRON_RECTANGLES or ISOCHRON_BLOCKS.
    pub kind: i64,
    /// 1 for row-major memory, as in C; 0 for column-major memory, as in Fortran.
    pub row_major: i64,
    /// Rows of the whole matrix.
    pub rows: i64,
    /// Columns of the whole matrix.
    pub cols: i64,
    /// On one: the rank that has the matrix.
    pub rank: i64,
    /// Block-cyclic: rows of a block.
    pub row_block: i64,
    /// Block-cyclic: columns of a block.
    pub col_block: i64,
    /// Block-cyclic: row of the process grid that has the first block, counted from 0.
    pub row_source: i64,
    /// Block-cyclic: column of the process grid that has the first block, counted from 0.
    pub col_source: i64,
    /// Block-cyclic: rows of the process grid, which consists of the first ranks of the session.
    pub grid_rows: i64,
    /// Block-cyclic: columns of the process grid.
    pub grid_cols: i64,
    /// Block-cyclic: 1 if the grid numbers its ranks down the columns ('C' of BLACS), 0 if along the rows ('R').
    pub grid_by_columns: i64,
    /// Rectangles: first row, first column, rows and columns of each rank's rectangle.
    pub rectangles: *const i64,
    /// Blocks: number of rows of blocks.
    pub block_rows: i64,
    /// Blocks: number of columns of blocks.
    pub block_cols: i64,
    /// Blocks: the block_rows + 1 borders of the rows of blocks, from 0 to rows.
    pub row_cuts: *const i64,
    /// Blocks: the block_cols + 1 borders of the columns of blocks, from 0 to cols.
    pub col_cuts: *const i64,
    /// Blocks: the rank of each block, column of blocks by column of blocks.
    pub owners: *const i64,
    /// All but blocks: first element of this rank's local matrix. It is not used when a product is prepared.
    pub data: *mut c_void,
    /// All but blocks: leading dimension of the local matrix, in elements.
    pub ld: i64,
    /// Blocks: number of this rank's blocks.
    pub n_blocks: i64,
    /// Blocks: first element of each of this rank's blocks, in the order of owners.
    pub blocks: *const *mut c_void,
    /// Blocks: leading dimension of each of this rank's blocks.
    pub block_lds: *const i64,
}

// SAFETY: integers and pointers, with the size first.
unsafe impl SizedStruct for MatrixTable {
    const NAME: &'static str = "isochron_matrix_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// A piece of a rank's memory.
#[derive(Debug)]
pub(crate) struct MemoryPiece<T> {
    pub data: *mut T,
    /// Elements from the first one to the last one.
    pub length: usize,
    pub ld: usize,
}

impl MatrixTable {
    /// Reads a matrix of a program.
    ///
    /// # Safety
    /// `matrix` is null, or points to a struct of as many bytes as its first field says.
    pub(crate) unsafe fn read(matrix: *const Self, name: &str) -> Result<Self, CallFailure> {
        // SAFETY: as the caller says.
        unsafe { read_struct(matrix, name) }
    }

    /// Returns the same matrix without memory and arrays, which may be others the next time.
    pub(crate) fn without_pointers(self) -> Self {
        Self {
            struct_size: size_of::<Self>() as i64,
            rectangles: ptr::null(),
            row_cuts: ptr::null(),
            col_cuts: ptr::null(),
            owners: ptr::null(),
            data: ptr::null_mut(),
            ld: 0,
            n_blocks: 0,
            blocks: ptr::null(),
            block_lds: ptr::null(),
            ..self
        }
    }

    /// Returns the distribution over `n_ranks` ranks.
    ///
    /// # Safety
    /// The arrays are null, or as long as their descriptions say.
    pub(crate) unsafe fn describe(
        &self,
        name: &str,
        n_ranks: usize,
    ) -> Result<Distribution, CallFailure> {
        let [rows, cols] = to_sizes(name, [("rows", self.rows), ("cols", self.cols)])?;
        let made = match self.kind {
            ISOCHRON_ON_ONE => {
                let [rank] = to_sizes(name, [("rank", self.rank)])?;
                Distribution::on_one(rows, cols, rank, n_ranks)
            }
            ISOCHRON_BLOCK_CYCLIC => {
                let (blocks, grid) = self.read_cyclic(name)?;
                Distribution::block_cyclic(&blocks, grid, n_ranks)
            }
            ISOCHRON_RECTANGLES => {
                // SAFETY: four numbers for each rank, as the caller says.
                let regions = unsafe { self.read_regions(name, n_ranks)? };
                Distribution::of_regions(rows, cols, &regions)
            }
            ISOCHRON_BLOCKS => {
                // SAFETY: as the caller says.
                let blocks = unsafe { self.read_blocks(name)? };
                Distribution::of_blocks(&blocks, n_ranks)
            }
            kind => {
                let reason = format!("{kind} is none of ISOCHRON_ON_ONE to ISOCHRON_BLOCKS");
                return Err(CallFailure::argument(&format!("{name}.kind"), reason));
            }
        };
        let made = made.map_err(isochron::Error::from)?;
        match self.row_major {
            0 => Ok(made),
            1 => Ok(made.row_major()),
            other => {
                let reason = format!("{other} is neither 0 nor 1");
                Err(CallFailure::argument(&format!("{name}.row_major"), reason))
            }
        }
    }

    fn read_cyclic(&self, name: &str) -> Result<(BlockCyclic, ProcessGrid), CallFailure> {
        let [rows, cols, row_block, col_block] = to_sizes(
            name,
            [
                ("rows", self.rows),
                ("cols", self.cols),
                ("row_block", self.row_block),
                ("col_block", self.col_block),
            ],
        )?;
        let [row_source, col_source, grid_rows, grid_cols] = to_sizes(
            name,
            [
                ("row_source", self.row_source),
                ("col_source", self.col_source),
                ("grid_rows", self.grid_rows),
                ("grid_cols", self.grid_cols),
            ],
        )?;
        let grid = match self.grid_by_columns {
            0 => ProcessGrid::by_rows(grid_rows, grid_cols),
            _ => ProcessGrid::by_columns(grid_rows, grid_cols),
        };
        let blocks = BlockCyclic::new(rows, cols, row_block, col_block);
        Ok((blocks.with_sources(row_source, col_source), grid))
    }

    /// # Safety
    /// `rectangles` is null or has four numbers for each rank.
    unsafe fn read_regions(&self, name: &str, n_ranks: usize) -> Result<Vec<Region>, CallFailure> {
        let name = format!("{name}.rectangles");
        // SAFETY: as the caller says.
        let numbers = unsafe { read_sizes(self.rectangles, n_ranks.saturating_mul(4), &name)? };
        let regions = numbers.chunks_exact(4).map(|region| {
            let (row_end, col_end) = (
                region[0].checked_add(region[2]),
                region[1].checked_add(region[3]),
            );
            let (Some(row_end), Some(col_end)) = (row_end, col_end) else {
                return Err(CallFailure::argument(
                    &name,
                    "a rectangle ends beyond all matrices",
                ));
            };
            Ok(Region::new(region[0]..row_end, region[1]..col_end))
        });
        regions.collect()
    }

    /// # Safety
    /// The borders and the owners are null, or as many as `block_rows` and `block_cols` say.
    unsafe fn read_blocks(&self, name: &str) -> Result<BlockList, CallFailure> {
        let counts = [
            ("block_rows", self.block_rows),
            ("block_cols", self.block_cols),
        ];
        let [block_rows, block_cols] = to_sizes(name, counts)?;
        let field = |field: &str| format!("{name}.{field}");
        if self.block_rows > self.rows || self.block_cols > self.cols {
            let reason = "there are more of them than rows or columns of the matrix";
            return Err(CallFailure::argument(
                &field("block_rows or block_cols"),
                reason,
            ));
        }
        // SAFETY: as the caller says.
        let list = unsafe {
            BlockList {
                row_cuts: read_sizes(self.row_cuts, block_rows + 1, &field("row_cuts"))?,
                col_cuts: read_sizes(self.col_cuts, block_cols + 1, &field("col_cuts"))?,
                owners: read_sizes(
                    self.owners,
                    block_rows.saturating_mul(block_cols),
                    &field("owners"),
                )?,
            }
        };
        let ends = [&list.row_cuts, &list.col_cuts].map(|cuts| cuts[cuts.len() - 1] as i64);
        if ends == [self.rows, self.cols] {
            Ok(list)
        } else {
            let reason = format!("they end at {ends:?}, not at rows and cols");
            Err(CallFailure::argument(
                &field("row_cuts and col_cuts"),
                reason,
            ))
        }
    }

    /// Returns the memory of `rank` for the pieces that it has of `on`.
    ///
    /// # Safety
    /// `blocks` and `block_lds` are null or have `n_blocks` entries.
    pub(crate) unsafe fn list_pieces<T>(
        &self,
        name: &str,
        on: &Distribution,
        rank: usize,
    ) -> Result<Vec<MemoryPiece<T>>, CallFailure> {
        let mut shapes = on.local_shapes(rank);
        let memory = match self.kind {
            ISOCHRON_BLOCKS => {
                let held = shapes
                    .iter()
                    .filter(|(rows, cols)| *rows.min(cols) > 0)
                    .count();
                // SAFETY: as the caller says.
                let mut memory = unsafe { self.read_block_memory(name, held)? };
                // A rank without blocks has one without elements.
                memory.resize(shapes.len(), (ptr::null_mut(), 0));
                memory
            }
            _ => {
                shapes.truncate(1);
                let [ld] = to_sizes(name, [("ld", self.ld)])?;
                vec![(self.data, ld)]
            }
        };
        Ok(memory
            .into_iter()
            .zip(shapes)
            .map(|((data, ld), shape)| MemoryPiece {
                data: data.cast(),
                length: count_elements(shape, ld, on.order()),
                ld,
            })
            .collect())
    }

    /// # Safety
    /// `blocks` and `block_lds` are null or have `n_blocks` entries.
    unsafe fn read_block_memory(
        &self,
        name: &str,
        held: usize,
    ) -> Result<Vec<(*mut c_void, usize)>, CallFailure> {
        if self.n_blocks != held as i64 {
            let reason = format!("{}, and this rank has {held} blocks", self.n_blocks);
            return Err(CallFailure::argument(&format!("{name}.n_blocks"), reason));
        }
        // SAFETY: as the caller says.
        let (blocks, lds) = unsafe {
            (
                pointers::read_slice(self.blocks, held, &format!("{name}.blocks"))?,
                read_sizes(self.block_lds, held, &format!("{name}.block_lds"))?,
            )
        };
        Ok(blocks.iter().copied().zip(lds).collect())
    }
}

/// Returns the number of elements from the first one to the last one of a piece of memory, whose lines are `ld` apart.
fn count_elements((rows, cols): (usize, usize), ld: usize, order: Order) -> usize {
    let (length, lines) = match order {
        Order::Columns => (rows, cols),
        Order::Rows => (cols, rows),
    };
    match length.min(lines) {
        0 => 0,
        _ => ld.saturating_mul(lines - 1).saturating_add(length),
    }
}

/// Returns fields of a matrix as sizes.
fn to_sizes<const N: usize>(
    name: &str,
    fields: [(&str, i64); N],
) -> Result<[usize; N], CallFailure> {
    let mut sizes = [0; N];
    for (size, (field, value)) in sizes.iter_mut().zip(fields) {
        *size = to_size(value, &format!("{name}.{field}"))?;
    }
    Ok(sizes)
}
