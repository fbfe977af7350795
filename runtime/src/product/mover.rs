//! The moves of matrices between the program's memory and the plan's layout.

use std::time::Instant;

use isochron_devices::{Scalar, View, ViewMut};

use super::factors::{MatrixPlace, PlacedFactor};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::redistribute::{MessageBuffers, Moved, Movement, RedistributeConfig};
use crate::matrix::{Distribution, HeldMatrix, Matrix, Order, Spread};

/// The moves of the pieces of a matrix, planned for all runs.
pub(super) type PieceMoves<T> = Vec<Movement<T>>;

/// Moves matrices between the program's memory and the plan's layout.
pub(super) struct MatrixMover<'r, T> {
    pub comm: &'r dyn Comm,
    pub buffers: &'r mut MessageBuffers<T>,
    pub moved: Moved,
}

impl<T: Scalar> MatrixMover<'_, T> {
    /// Returns a factor in the plan's layout, `spread`: where it lies, or in `room`, to which its pieces are moved if the
    /// factor `is_read`.
    pub(super) fn bring<'m>(
        &mut self,
        placed: PlacedFactor<'m, T>,
        on: &Distribution,
        spread: &Spread,
        room: &'m mut Option<Matrix<T>>,
        moves: &mut Option<PieceMoves<T>>,
        is_read: bool,
    ) -> Result<HeldMatrix<'m, T>, Error> {
        let (comm, rank) = (self.comm, self.comm.rank());
        let pieces = match placed {
            MatrixPlace::Here(factor) => return Ok(factor),
            MatrixPlace::Elsewhere(pieces) => pieces,
        };
        let room = take_kept(room, || Matrix::zeros(spread.clone(), rank), comm)?;
        if is_read {
            self.gather(on, pieces, spread, room, moves)?;
        }
        Ok(room.show_again())
    }

    /// Moves the pieces of a matrix to the plan's layout.
    pub(super) fn gather(
        &mut self,
        on: &Distribution,
        pieces: Vec<View<'_, T>>,
        spread: &Spread,
        room: &mut Matrix<T>,
        moves: &mut Option<PieceMoves<T>>,
    ) -> Result<(), Error> {
        let moved = on.pieces().iter().map(|from| (from, spread, Order::Columns));
        for (movement, piece) in self.take_moves(moves, moved)?.iter_mut().zip(pieces) {
            self.run(movement, piece, room.local_mut())?;
        }
        Ok(())
    }

    /// Moves a matrix from the plan's layout to its pieces.
    pub(super) fn scatter(
        &mut self,
        spread: &Spread,
        room: &Matrix<T>,
        on: &Distribution,
        pieces: Vec<ViewMut<'_, T>>,
        moves: &mut Option<PieceMoves<T>>,
    ) -> Result<(), Error> {
        let moved = on.pieces().iter().map(|to| (spread, to, on.order()));
        for (movement, piece) in self.take_moves(moves, moved)?.iter_mut().zip(pieces) {
            self.run(movement, room.local(), piece)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        movement: &mut Movement<T>,
        source: View<'_, T>,
        target: ViewMut<'_, T>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        let moved = movement.run_with(self.buffers, self.comm, source, target)?;
        let seconds = start.elapsed().as_secs_f64();
        self.moved = self.moved.and(Moved { seconds, ..moved });
        Ok(())
    }

    /// Takes the moves of an earlier run, or plans them: from each spread to the other one, in memory of that order.
    fn take_moves<'k, 's>(
        &mut self,
        kept: &'k mut Option<PieceMoves<T>>,
        mut between: impl Iterator<Item = (&'s Spread, &'s Spread, Order)>,
    ) -> Result<&'k mut PieceMoves<T>, Error> {
        let comm = self.comm;
        let limit = RedistributeConfig::<T>::default().limit_bytes / size_of::<T>();
        let make = || {
            between
                .by_ref()
                .map(|(from, to, order)| {
                    Movement::plan_with(comm, from, to, order, limit, self.buffers)
                })
                .collect()
        };
        take_kept(kept, make, comm)
    }
}

/// Returns the value that an earlier run has kept, or makes it.
pub(super) fn take_kept<'m, V>(
    kept: &'m mut Option<V>,
    make: impl FnOnce() -> Result<V, Error>,
    comm: &dyn Comm,
) -> Result<&'m mut V, Error> {
    // All ranks have it, or none has.
    let made = match kept.take() {
        Some(kept) => kept,
        None => agree(comm, make())?,
    };
    Ok(kept.insert(made))
}
