//! Redistributions that are planned once and run again and again.

use std::time::Instant;

use isochron_devices::{View, ViewMut};

use super::super::spread::error::SpreadError;
use super::super::{Order, Spread, Stored, StoredMut};
use super::RedistributeConfig;
use super::engine::{Moved, Movement, replace};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;

#[cfg(doc)]
use super::super::volume;
#[cfg(doc)]
use super::redistribute;

/// A redistribution that is planned once and run again and again, between any memory of the same two spreads. It keeps the
/// memory of its messages, so that later runs allocate none.
///
/// Redistributions between the same spreads share one value and its memory. Here a matrix is transposed, and transposed
/// back:
///
/// ```
/// use isochron::hierarchy::layout::slice_rows;
/// use isochron::matrix::redistribute::{RedistributeConfig, Redistribution};
/// use isochron::prelude::*;
///
/// let comm = connect()?;
/// let comm = comm.as_ref();
/// // Four rows on each rank.
/// let (ranks, n) = (comm.size(), 4 * comm.size());
/// let layout = slice_rows(n as u64, &vec![4; ranks])?;
/// let spread = Spread::on_layout(n, n, 1, &layout);
/// let first = 4 * n * comm.rank();
/// let mut here: Vec<f64> = (first..first + 4 * n).map(|at| at as f64).collect();
/// let before = here.clone();
/// let mut there = vec![0.0; 4 * n];
///
/// let config = RedistributeConfig { transposed: true, ..RedistributeConfig::default() };
/// let mut transposition =
///     Redistribution::prepare(comm, &spread, &spread, Order::Rows, &config)?;
/// let (source, target) = (Stored::by_rows(&here[..], n), StoredMut::by_rows(&mut there[..], n));
/// transposition.run(comm, source, target)?;
/// assert_eq!(there[1], n as f64);
/// let (source, target) = (Stored::by_rows(&there[..], n), StoredMut::by_rows(&mut here[..], n));
/// transposition.run(comm, source, target)?;
/// assert_eq!(here, before);
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Debug)]
pub struct Redistribution<T> {
    from: Spread,
    to: Spread,
    /// Order of the target's memory.
    order: Order,
    config: RedistributeConfig<T>,
    movement: Movement<T>,
}

impl<T: bytemuck::Pod> Redistribution<T> {
    /// Plans a redistribution from the spread `from` to memory of this order on the spread `to`, and allocates the memory of
    /// its messages.
    ///
    /// # Errors
    /// On every rank if any rank fails, returns [`Error::Spread`] for spreads of different shapes or of another number
    /// of ranks, [`Error::Settings`] for arguments that differ between ranks, and [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same spreads, order, element size, limit and transposition.
    pub fn prepare(
        comm: &dyn Comm,
        from: &Spread,
        to: &Spread,
        order: Order,
        config: &RedistributeConfig<T>,
    ) -> Result<Self, Error> {
        let _call = describe_call(comm, "preparing a redistribution", from, to, config)
            .with_text("order of the target", order.words())
            .enter()?;
        agree(comm, Self::plan(comm, from, to, order, config))
    }

    /// Plans on this rank alone.
    pub(super) fn plan(
        comm: &dyn Comm,
        from: &Spread,
        to: &Spread,
        order: Order,
        config: &RedistributeConfig<T>,
    ) -> Result<Self, Error> {
        check_ranks(comm, [from, to])?;
        let moved = if config.transposed { from.transposed() } else { from.clone() };
        let shapes = [&moved, to].map(|spread| (spread.rows(), spread.cols()));
        if shapes[0] != shapes[1] {
            let [from, to] = shapes;
            return Err(SpreadError::Shape { from, to }.into());
        }
        let limit = config.limit_bytes / size_of::<T>().max(1);
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            order,
            config: *config,
            movement: Movement::new(comm, &moved, to, order, limit)?,
        })
    }

    /// Moves a matrix from the memory of `source` to that of `target`, as [`redistribute`] does. `comm` is the one that it was
    /// prepared with. The order of `source` is free, and leading dimensions may differ from run to run.
    ///
    /// Returns the messages that this rank sent: `volume(from, to)[rank]` elements, as [`volume`] counts them, with `from`
    /// transposed if the matrix is.
    ///
    /// # Errors
    /// On every rank if any rank fails, returns [`Error::Spread`] for memory that cannot hold its part, for a target of
    /// another order, and for another number of ranks.
    ///
    /// # Collective
    /// All ranks.
    pub fn run(
        &mut self,
        comm: &dyn Comm,
        source: Stored<'_, T>,
        target: StoredMut<'_, T>,
    ) -> Result<Moved, Error> {
        let start = Instant::now();
        let views = agree(comm, self.view_memory(comm, source, target));
        let (source, target) = views?;
        let moved = self.move_elements(comm, source, target)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Moved { seconds, ..moved })
    }

    /// Views the local matrices, on this rank alone.
    fn view_memory<'m>(
        &self,
        comm: &dyn Comm,
        source: Stored<'m, T>,
        target: StoredMut<'m, T>,
    ) -> Result<(View<'m, T>, ViewMut<'m, T>), Error> {
        check_ranks(comm, [&self.from, &self.to])?;
        let (planned, found) = (self.order, target.order);
        let shapes = [&self.from, &self.to].map(|spread| spread.local_shape(comm.rank()));
        let views = (source.view(shapes[0])?, target.view(shapes[1])?);
        if planned == found { Ok(views) } else { Err(SpreadError::Order { planned, found }.into()) }
    }

    /// Moves the elements, after all ranks have checked their memory.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn move_elements(
        &mut self,
        comm: &dyn Comm,
        source: View<'_, T>,
        target: ViewMut<'_, T>,
    ) -> Result<Moved, Error> {
        let source = if self.config.transposed { source.transposed() } else { source };
        match self.config.map {
            Some(map) => self.movement.run(comm, source, target, &|to, value| *to = map(value)),
            None => self.movement.run(comm, source, target, &replace),
        }
    }

    /// Returns the bytes of memory that it keeps for messages.
    pub fn message_bytes(&self) -> u64 {
        self.movement.message_bytes()
    }
}

/// Describes a call with the arguments that have to be the same on all ranks. With others, the ranks would wait for messages
/// that none sends.
pub(super) fn describe_call<'c, T>(
    comm: &'c dyn Comm,
    name: &'static str,
    from: &Spread,
    to: &Spread,
    config: &RedistributeConfig<T>,
) -> CollectiveCall<'c> {
    CollectiveCall::new(comm, name)
        .with_text("source", from.describe())
        .with_text("target", to.describe())
        .with("transposed", &config.transposed)
        .with("element size", &size_of::<T>())
        .with("limit_bytes", &config.limit_bytes)
}

/// Checks that spreads are over the ranks of the communicator.
fn check_ranks(comm: &dyn Comm, spreads: [&Spread; 2]) -> Result<(), SpreadError> {
    let ranks = comm.size();
    let mut counts = spreads.into_iter().map(Spread::n_ranks);
    match counts.find(|&spread| spread != ranks) {
        Some(spread) => Err(SpreadError::Ranks { spread, ranks }),
        None => Ok(()),
    }
}
