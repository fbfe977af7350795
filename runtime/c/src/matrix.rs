//! Matrices of a C program: where they lie, and the memory of this rank.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use isochron::prelude::{BlockCyclic, BlockList, Distribution, Order, ProcessGrid, Region};

use crate::element::read_type;
use crate::handles::{self, SessionHandle};
use crate::pointers::{self, read_sizes, to_size};
use crate::status::{CallFailure, call};
use crate::structs::{SizedStruct, read_struct, write_struct};

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
    /// Block-cyclic: rows of the first row of blocks, if it has fewer than the others; 0 for row_block.
    pub first_row_block: i64,
    /// Block-cyclic: columns of the first column of blocks, if it has fewer than the others; 0 for col_block.
    pub first_col_block: i64,
    /// 1 for a submatrix of the matrix that the other fields describe, whose memory stays the whole one's; 0 for all of it.
    pub is_sub: i64,
    /// Submatrix: its first row, counted from 0.
    pub sub_row: i64,
    /// Submatrix: its first column, counted from 0.
    pub sub_col: i64,
    /// Submatrix: its rows.
    pub sub_rows: i64,
    /// Submatrix: its columns.
    pub sub_cols: i64,
}

// SAFETY: integers and pointers, with the size first.
unsafe impl SizedStruct for MatrixTable {
    const NAME: &'static str = "isochron_matrix_t";
    const SIZES: &'static [usize] = &[offset_of!(Self, first_row_block), size_of::<Self>()];
}

/// A piece of a rank's memory.
#[derive(Debug)]
pub(crate) struct MemoryPiece<T> {
    pub data: *mut T,
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Direction of the lines, which are `ld` elements apart.
    pub order: Order,
    /// Elements from the first one to the last one.
    pub length: usize,
    pub ld: usize,
}

impl Default for MatrixTable {
    /// An empty matrix on the first rank, without memory.
    fn default() -> Self {
        Self {
            struct_size: size_of::<Self>() as i64,
            kind: ISOCHRON_ON_ONE,
            row_major: 0,
            rows: 0,
            cols: 0,
            rank: 0,
            row_block: 0,
            col_block: 0,
            row_source: 0,
            col_source: 0,
            grid_rows: 0,
            grid_cols: 0,
            grid_by_columns: 0,
            rectangles: ptr::null(),
            block_rows: 0,
            block_cols: 0,
            row_cuts: ptr::null(),
            col_cuts: ptr::null(),
            owners: ptr::null(),
            data: ptr::null_mut(),
            ld: 0,
            n_blocks: 0,
            blocks: ptr::null(),
            block_lds: ptr::null(),
            first_row_block: 0,
            first_col_block: 0,
            is_sub: 0,
            sub_row: 0,
            sub_col: 0,
            sub_rows: 0,
            sub_cols: 0,
        }
    }
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
        let made = self.cut_sub(name, made.map_err(isochron::Error::from)?)?;
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
        let [first_row, first_col] = to_sizes(
            name,
            [("first_row_block", self.first_row_block), ("first_col_block", self.first_col_block)],
        )?;
        let or_whole = |first: usize, block: usize| if first == 0 { block } else { first };
        let blocks = BlockCyclic::new(rows, cols, row_block, col_block)
            .with_sources(row_source, col_source)
            .with_first_blocks(or_whole(first_row, row_block), or_whole(first_col, col_block));
        Ok((blocks, grid))
    }

    /// Returns the submatrix that is meant, if it is not all of the matrix.
    fn cut_sub(&self, name: &str, whole: Distribution) -> Result<Distribution, CallFailure> {
        match self.is_sub {
            0 => return Ok(whole),
            1 => {}
            other => {
                let reason = format!("{other} is neither 0 nor 1");
                return Err(CallFailure::argument(&format!("{name}.is_sub"), reason));
            }
        }
        let [row, col, rows, cols] = to_sizes(
            name,
            [
                ("sub_row", self.sub_row),
                ("sub_col", self.sub_col),
                ("sub_rows", self.sub_rows),
                ("sub_cols", self.sub_cols),
            ],
        )?;
        let (rows, cols) = (row..row.saturating_add(rows), col..col.saturating_add(cols));
        Ok(whole.sub(rows, cols).map_err(isochron::Error::from)?)
    }

    /// # Safety
    /// `rectangles` is null or has four numbers for each rank.
    unsafe fn read_regions(&self, name: &str, n_ranks: usize) -> Result<Vec<Region>, CallFailure> {
        let name = format!("{name}.rectangles");
        // SAFETY: as the caller says.
        let numbers = unsafe { read_sizes(self.rectangles, n_ranks.saturating_mul(4), &name)? };
        let regions = numbers.chunks_exact(4).map(|region| {
            let (row_end, col_end) =
                (region[0].checked_add(region[2]), region[1].checked_add(region[3]));
            let (Some(row_end), Some(col_end)) = (row_end, col_end) else {
                return Err(CallFailure::argument(&name, "a rectangle ends beyond all matrices"));
            };
            Ok(Region::new(region[0]..row_end, region[1]..col_end))
        });
        regions.collect()
    }

    /// # Safety
    /// The borders and the owners are null, or as many as `block_rows` and `block_cols` say.
    unsafe fn read_blocks(&self, name: &str) -> Result<BlockList, CallFailure> {
        let counts = [("block_rows", self.block_rows), ("block_cols", self.block_cols)];
        let [block_rows, block_cols] = to_sizes(name, counts)?;
        let field = |field: &str| format!("{name}.{field}");
        if self.block_rows > self.rows || self.block_cols > self.cols {
            let reason = "there are more of them than rows or columns of the matrix";
            return Err(CallFailure::argument(&field("block_rows or block_cols"), reason));
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
            Err(CallFailure::argument(&field("row_cuts and col_cuts"), reason))
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
                let held = shapes.iter().filter(|(rows, cols)| *rows.min(cols) > 0).count();
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
                shape,
                order: on.order(),
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

/// Describes the submatrix of `m` rows and `n` columns from row `ia` and column `ja` on, counted from 1, of a matrix with a
/// descriptor of ScaLAPACK: the arguments by which its routines take a matrix. `descriptor` has the 9 integers of a dense
/// matrix (`DTYPE_A` is 1). The context is not read: the grid has `grid_rows` rows and `grid_cols` columns of the first
/// ranks of the session, and `grid_by_columns` is as in isochron_matrix_t. `data` is this rank's local array, which is
/// column-major.
///
/// The call writes all fields of `matrix` but its `struct_size`, which is set before. If it fails, it writes none.
///
/// Not collective: it needs no session.
///
/// # Safety
/// `descriptor` is null or has 9 integers; `matrix` is null, or points to a struct that may be written, of as many bytes as its
/// first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_from_descriptor(
    descriptor: *const c_int,
    ia: i64,
    ja: i64,
    m: i64,
    n: i64,
    grid_rows: i64,
    grid_cols: i64,
    grid_by_columns: i64,
    data: *mut c_void,
    matrix: *mut MatrixTable,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (numbers, given) = unsafe {
            (
                pointers::read_slice(descriptor, DESCRIPTOR_LENGTH, "descriptor")?,
                read_struct(matrix.cast_const(), "matrix")?,
            )
        };
        if given.struct_size != size_of::<MatrixTable>() as i64 {
            let reason = "it is too short for a submatrix: compile the program with a newer header";
            return Err(CallFailure::argument("matrix.struct_size", reason));
        }
        let mut descriptor = [0; DESCRIPTOR_LENGTH];
        descriptor.copy_from_slice(numbers);
        let blocks = BlockCyclic::from_descriptor(&descriptor).map_err(isochron::Error::from)?;
        for (name, first) in [("ia", ia), ("ja", ja)] {
            if first < 1 {
                let reason = format!("{first}, and rows and columns are counted from 1");
                return Err(CallFailure::argument(name, reason));
            }
        }
        to_size(m, "m")?;
        to_size(n, "n")?;
        let table = MatrixTable {
            kind: ISOCHRON_BLOCK_CYCLIC,
            rows: blocks.rows as i64,
            cols: blocks.cols as i64,
            row_block: blocks.row_block as i64,
            col_block: blocks.col_block as i64,
            row_source: blocks.row_source as i64,
            col_source: blocks.col_source as i64,
            grid_rows,
            grid_cols,
            grid_by_columns,
            data,
            ld: i64::from(descriptor[DESCRIPTOR_LENGTH - 1]),
            is_sub: 1,
            sub_row: ia - 1,
            sub_col: ja - 1,
            sub_rows: m,
            sub_cols: n,
            ..MatrixTable::default()
        };
        let (name, ranks) = ("matrix", grid_rows.saturating_mul(grid_cols));
        // SAFETY: a block-cyclic matrix has no arrays.
        unsafe { table.describe(name, to_size(ranks, "grid_rows and grid_cols")?)? };
        // SAFETY: as the caller says.
        unsafe { write_struct(matrix, name, &table) }
    })
}

/// Integers of a descriptor of a dense matrix.
const DESCRIPTOR_LENGTH: usize = 9;

/// Calls `visit` for each element that this rank has of a matrix, with its row and column in the whole matrix or submatrix,
/// counted from 0, and its place in the memory of the matrix. So a program fills its part of a matrix, or lists its elements,
/// without the rules by which they are dealt out. `type` is one of `ISOCHRON_F32` to `ISOCHRON_C64`. `context` is passed on.
///
/// Not collective.
///
/// # Safety
/// The matrix has the memory that it describes, and `visit` may be called with the places of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_elements(
    session: *const SessionHandle,
    r#type: c_int,
    matrix: *const MatrixTable,
    visit: Option<
        unsafe extern "C" fn(context: *mut c_void, row: i64, col: i64, element: *mut c_void),
    >,
    context: *mut c_void,
) -> c_int {
    call(|| {
        let kept = handles::find(session)?;
        let (rank, ranks) = (kept.comm().rank(), kept.comm().size());
        let bytes = read_type(r#type)?.bytes();
        let visit = visit.ok_or_else(|| CallFailure::argument("visit", "it is a null pointer"))?;
        // SAFETY: as the caller says.
        let (on, pieces) = unsafe {
            let table = MatrixTable::read(matrix, "matrix")?;
            let on = table.describe("matrix", ranks)?;
            let pieces = table.list_pieces::<u8>("matrix", &on, rank)?;
            (on, pieces)
        };
        for piece in &pieces {
            let length = piece.length.saturating_mul(bytes);
            pointers::check_slice(piece.data.cast_const(), length, "matrix.data")?;
        }
        for (number, held) in on.elements(rank) {
            let piece = &pieces[number];
            let index = on.order().index(held.local_row, held.local_col, piece.ld);
            let element = piece.data.wrapping_add(index * bytes).cast();
            // SAFETY: as the caller says; the element lies in the piece, which has been checked.
            unsafe { visit(context, held.row as i64, held.col as i64, element) };
        }
        Ok(())
    })
}

/// Returns the number of elements from the first one to the last one of a piece of memory, whose lines are `ld` apart.
fn count_elements(shape: (usize, usize), ld: usize, order: Order) -> usize {
    let (length, lines) = order.find_lines(shape);
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
