//! Files that only the head rank sees. It reads or writes one piece after the other. A movement takes the elements of each
//! piece to the ranks that hold them, or from there.

use std::path::Path;

use isochron_devices::{Scalar, View, ViewMut};

use super::losses::Losses;
use super::pieces::{cut_pieces, orient};
use super::{HEAD, MatrixOutput, ReadElements};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::fault::flip_bit;
use crate::matrix::redistribute::{Moved, Movement, replace};
use crate::matrix::{Matrix, Order, Region, Spread};

/// Largest number of elements of a piece: some MiB.
const PIECE_LEN: usize = 1 << 20;

/// Reads a file that only the head sees, which has it open. On the head it returns what is lost of it.
pub(super) fn read_pieces<T: Scalar>(
    comm: &dyn Comm,
    path: &Path,
    order: Order,
    mut read: Option<&mut ReadElements<T>>,
    matrix: &mut Matrix<T>,
) -> Result<(Moved, Losses), Error> {
    let mut moved = Moved::default();
    let mut losses = Losses::default();
    let mut buffer = Vec::new();
    for piece in cut_matrix(matrix.spread(), order) {
        let (on_head, on_all) = spread_piece(comm, matrix.spread(), &piece)?;
        buffer.resize(on_head.held(comm.rank()), T::ZERO);
        let done = read.as_mut().map_or(Ok(Losses::default()), |read| read(&mut buffer));
        let (rows, cols) = on_head.local_shape(comm.rank());
        let source = match order {
            Order::Columns => View::new(&buffer, rows, cols, rows.max(1)),
            Order::Rows => View::by_rows(&buffer, rows, cols, cols.max(1)),
        };
        let movement = done.map_err(|reason| Error::file(path, reason)).and_then(|lost| {
            losses += lost;
            Movement::new(comm, &on_head, &on_all, Order::Columns, usize::MAX)
        });
        let mut movement = agree(comm, movement)?;
        moved = moved.and(movement.run(comm, source, matrix.local_mut(), &replace)?);
    }
    // The end of the file, also after no pieces.
    let finished = read.map_or(Ok(Losses::default()), |read| read(&mut []));
    losses += agree(comm, finished.map_err(|reason| Error::file(path, reason)))?;
    Ok((moved, losses))
}

/// Writes a file that only the head sees; the head has it open.
pub(super) fn write_pieces<T: Scalar>(
    comm: &dyn Comm,
    mut output: Option<&mut MatrixOutput<T>>,
    matrix: &Matrix<T>,
) -> Result<Moved, Error> {
    let mut moved = Moved::default();
    let mut buffer = Vec::new();
    for piece in cut_matrix(matrix.spread(), Order::Columns) {
        let (on_head, on_all) = spread_piece(comm, matrix.spread(), &piece)?;
        let movement = Movement::new(comm, &on_all, &on_head, Order::Columns, usize::MAX);
        let mut movement = agree(comm, movement)?;
        buffer.resize(on_head.held(comm.rank()), T::ZERO);
        let (rows, cols) = on_head.local_shape(comm.rank());
        let target = ViewMut::new(&mut buffer, rows, cols, rows.max(1));
        moved = moved.and(movement.run(comm, matrix.local(), target, &replace)?);
        flip_bit("copied", bytemuck::cast_slice_mut(&mut buffer));
        let written = output.as_mut().map_or(Ok(()), |o| o.write_elements(&buffer));
        agree(comm, written)?;
    }
    Ok(moved)
}

/// Cuts a matrix into pieces that are contiguous in a file with this order, in file order.
fn cut_matrix(spread: &Spread, order: Order) -> impl Iterator<Item = Region> + use<> {
    let whole = orient(&Region::new(0..spread.rows(), 0..spread.cols()), order);
    cut_pieces(&whole, whole.rows, PIECE_LEN, 0).map(move |piece| orient(&piece, order))
}

/// Returns the spreads of a piece on the head alone, and in the memory of the ranks that hold its elements.
fn spread_piece(
    comm: &dyn Comm,
    spread: &Spread,
    piece: &Region,
) -> Result<(Spread, Spread), Error> {
    let on_head = Spread::on_one(piece.rows, piece.cols, HEAD, comm.size())?;
    let on_all = spread.sub(piece.row_range(), piece.col_range())?;
    Ok((on_head, on_all))
}
