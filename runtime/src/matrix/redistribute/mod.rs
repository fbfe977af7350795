//! Redistribution: a matrix from one spread to another.
//!
//! A [`Spread`] says which rank holds which elements: the rectangles of a layout, all on one rank, ScaLAPACK's
//! [`BlockCyclic`] on a [`ProcessGrid`], or a submatrix of any of them. [`redistribute`] moves the elements between any two
//! spreads, in the callers' own memory, row- or column-major, transposed on the way if asked for. Every element that its
//! holder does not need itself travels once, straight to the rank that needs it ([`volume`]). Elements that a rank has and
//! needs itself are copied without a message. No rank holds more than its own parts and a bounded amount of messages. A
//! [`Redistribution`] that is prepared once keeps its plan and the memory of its messages from run to run.
//!
//! A program with block-cyclic matrices multiplies them like this:
//!
//! ```
//! use isochron::matrix::redistribute::RedistributeConfig;
//! use isochron::prelude::*;
//!
//! let comm = connect()?; // or `MpiComm::adopt` of the program's own communicator
//! let (m, n, k) = (60, 50, 40);
//! // DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_, and the grid as of `blacs_gridinit`.
//! let grid = ProcessGrid::by_rows(1, comm.size());
//! let spread = |descriptor: [i32; 9]| {
//!     let matrix = BlockCyclic::from_descriptor(&descriptor)?;
//!     Spread::block_cyclic(&matrix, grid, comm.size())
//! };
//! let a_spread = spread([1, 0, 60, 40, 8, 8, 0, 0, 60])?;
//! let b_spread = spread([1, 0, 40, 50, 8, 8, 0, 0, 40])?;
//! let c_spread = spread([1, 0, 60, 50, 8, 8, 0, 0, 60])?;
//! let a = vec![1.0; a_spread.held(comm.rank())]; // the program's own arrays
//! let b = vec![2.0; b_spread.held(comm.rank())];
//! let mut c = vec![f64::NAN; c_spread.held(comm.rank())];
//!
//! let mut session = Session::builder().build(comm.clone())?;
//! let plan = session.plan(Problem::new(m, n, k, 16)?, &BalanceConfig::default())?;
//! let config = RedistributeConfig::default();
//! let a = Stored::by_columns(&a, a_spread.local_shape(comm.rank()).0);
//! let b = Stored::by_columns(&b, b_spread.local_shape(comm.rank()).0);
//! let (a, _) = Matrix::from_spread(comm.as_ref(), &a_spread, a, plan.a(), &config)?;
//! let (b, _) = Matrix::from_spread(comm.as_ref(), &b_spread, b, plan.b(), &config)?;
//! let mut product = session.prepare(plan, RunConfig::default())?;
//! let mut planned_c = product.zeros(&mut session)?;
//! product.run(&mut session, Scalars::PRODUCT, Factors::of(&a, &b), &mut planned_c)?;
//! let ld = c_spread.local_shape(comm.rank()).0;
//! let moved = planned_c.to_spread(comm.as_ref(), &c_spread, StoredMut::by_columns(&mut c, ld))?;
//! assert!(c.iter().all(|&value| value == 2.0 * k as f64));
//! assert_eq!(moved.bytes, 0, "a single rank sends nothing");
//! # Ok::<(), isochron::Error>(())
//! ```

mod engine;
mod moves;
mod prepared;

use std::time::Instant;

use isochron_devices::{Scalar, View, ViewMut};

pub use engine::Moved;
pub(crate) use engine::{MessageBuffers, Movement, count_under_way, replace};
pub(crate) use moves::MovePlan;
pub use prepared::Redistribution;

use super::{HeldMatrix, Matrix, Order, Spread, Stored, StoredMut};
use crate::comm::{Comm, agree};
use crate::error::Error;
use prepared::describe_call;

#[cfg(doc)]
use super::{BlockCyclic, Frame, ProcessGrid, volume};

/// Settings of a redistribution.
#[derive(Debug, Clone, Copy)]
pub struct RedistributeConfig<T> {
    /// Transposes on the way if `true`: element (i, j) of the target is (j, i) of the source.
    pub transposed: bool,
    /// Function of each element on the way; `None` leaves it unchanged. With [`transposed`](Self::transposed) and complex
    /// conjugation the target is the conjugate transpose.
    pub map: Option<fn(T) -> T>,
    /// Bytes of messages that a rank packs or waits for at a time, plus an element or two for each rank; the same on all
    /// ranks.
    pub limit_bytes: usize,
}

impl<T> Default for RedistributeConfig<T> {
    /// Moves elements unchanged, with 64 MiB of messages at a time.
    fn default() -> Self {
        Self { transposed: false, map: None, limit_bytes: 64 << 20 }
    }
}

/// Moves a matrix from `source`, the memory of its spread `from`, to `target`, the memory of its spread `to`: element
/// (i, j), or (j, i) with [`transposed`](RedistributeConfig::transposed), through [`map`](RedistributeConfig::map). The rest
/// of the target's memory stays unchanged, so that a submatrix can be written in place. One that comes again should be
/// [prepared](Redistribution::prepare).
///
/// Returns the messages that this rank sent. The bytes are those of [`volume`]: `volume(from, to)[rank]` elements, with
/// `from` transposed if the matrix is.
///
/// # Errors
/// On every rank if any rank fails, returns [`Error::Spread`] for spreads of different shapes or of another number of
/// ranks, and for memory that cannot hold its part; [`Error::Settings`] for arguments that differ between ranks; and
/// [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same spreads, orders, element size, limit and transposition. Leading dimensions may differ.
pub fn redistribute<T: bytemuck::Pod>(
    comm: &dyn Comm,
    from: &Spread,
    source: Stored<'_, T>,
    to: &Spread,
    target: StoredMut<'_, T>,
    config: &RedistributeConfig<T>,
) -> Result<Moved, Error> {
    let orders = [source.order, target.order];
    redistribute_views(comm, [from, to], orders, config, || {
        let shapes = [from, to].map(|spread| spread.local_shape(comm.rank()));
        Ok((source.view(shapes[0])?, target.view(shapes[1])?))
    })
}

/// Redistributes between local matrices in these orders, which `view` returns unless they do not hold their parts.
fn redistribute_views<'m, T: bytemuck::Pod>(
    comm: &dyn Comm,
    [from, to]: [&Spread; 2],
    orders: [Order; 2],
    config: &RedistributeConfig<T>,
    view: impl FnOnce() -> Result<(View<'m, T>, ViewMut<'m, T>), Error>,
) -> Result<Moved, Error> {
    let span = tracing::info_span!("redistribute", rank = comm.rank());
    let _entered = span.enter();
    let start = Instant::now();
    let _call = describe_call(comm, "redistributing", from, to, config)
        .with_text("order of the source", orders[0].words())
        .with_text("order of the target", orders[1].words())
        .enter()?;
    let planned = Redistribution::plan(comm, from, to, orders[1], config)
        .and_then(|planned| Ok((planned, view()?)));
    let (mut planned, (source, target)) = agree(comm, planned)?;
    let mut moved = planned.move_elements(comm, source, target)?;
    moved.seconds = start.elapsed().as_secs_f64();
    tracing::debug!(seconds = moved.seconds, messages = moved.messages, bytes = moved.bytes);
    Ok(moved)
}

impl<T: Scalar> Matrix<T> {
    /// Makes a matrix on the spread `to` from `source`, the memory of its spread `from`, transposed if
    /// [`transposed`](RedistributeConfig::transposed) says so.
    ///
    /// # Errors
    /// On every rank if any rank fails, returns [`Error::Spread`] for spreads of different shapes or of another number
    /// of ranks, and for memory that cannot hold its part; [`Error::Settings`] for arguments that differ between ranks;
    /// [`Error::Allocation`]. Also [`Error::Spread`] if a rank of `to` holds more than one rectangle.
    ///
    /// # Collective
    /// All ranks, with the same spreads and configuration.
    pub fn from_spread(
        comm: &dyn Comm,
        from: &Spread,
        source: Stored<'_, T>,
        to: Spread,
        config: &RedistributeConfig<T>,
    ) -> Result<(Self, Moved), Error> {
        let mut matrix = agree(comm, Self::zeros(to.clone(), comm.rank()))?;
        let orders = [source.order, Order::Columns];
        let moved = redistribute_views(comm, [from, &to], orders, config, || {
            Ok((source.view(from.local_shape(comm.rank()))?, matrix.local_mut()))
        })?;
        Ok((matrix, moved))
    }
}

impl<T: Scalar> HeldMatrix<'_, T> {
    /// Copies the matrix to another spread.
    ///
    /// # Errors
    /// On every rank if any rank fails, returns [`Error::Spread`] for spreads of different shapes or of another number
    /// of ranks, and for memory that cannot hold its part; [`Error::Settings`] for arguments that differ between ranks;
    /// [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same `to`.
    pub fn redistribute(&self, comm: &dyn Comm, to: Spread) -> Result<(Matrix<T>, Moved), Error> {
        let mut matrix = agree(comm, Matrix::zeros(to.clone(), comm.rank()))?;
        let moved = redistribute_views(
            comm,
            [self.spread(), &to],
            [Order::Columns; 2],
            &RedistributeConfig::default(),
            || Ok((self.local(), matrix.local_mut())),
        )?;
        Ok((matrix, moved))
    }

    /// Moves the matrix to the spread `to`, for which its memory has [room](Frame::move_to). What this rank keeps stays where
    /// it is.
    ///
    /// # Panics
    /// If there is no room.
    ///
    /// # Collective
    /// All ranks with the same movement; others may run it between two memories.
    pub(crate) fn move_within(
        &mut self,
        comm: &dyn Comm,
        to: Spread,
        movement: Movement<T>,
    ) -> Result<Moved, Error> {
        let frame = self.frame.move_to(to.part(comm.rank()));
        let frame = frame.unwrap_or_else(|| panic!("the memory has no room for the part"));
        let places = [self.frame, frame].map(|frame| frame.place());
        (self.frame, self.spread, self.is_zero) = (frame, to, false);
        movement.run_within(comm, self.memory.view_mut(&frame), places)
    }

    /// Copies the matrix to `target`, the memory of its spread `to`.
    ///
    /// # Errors
    /// On every rank if any rank fails, returns [`Error::Spread`] for spreads of different shapes or of another number
    /// of ranks, and for memory that cannot hold its part; [`Error::Settings`] for arguments that differ between ranks;
    /// [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same spread.
    pub fn to_spread(
        &self,
        comm: &dyn Comm,
        to: &Spread,
        target: StoredMut<'_, T>,
    ) -> Result<Moved, Error> {
        let orders = [Order::Columns, target.order];
        let config = RedistributeConfig::default();
        redistribute_views(comm, [self.spread(), to], orders, &config, || {
            Ok((self.local(), target.view(to.local_shape(comm.rank()))?))
        })
    }
}
