//! Distributed matrices from and to other spreads.

use isochron_devices::Element;

use super::{Moved, RedistributeConfig, Spread, Stored, StoredMut, redistribute};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::{Distribution, Matrix};

impl<T: Element> Matrix<T> {
    /// The same matrix on another distribution.
    ///
    /// # Errors
    /// As [`redistribute`].
    ///
    /// # Collective
    /// All ranks, with the same `to`.
    pub fn redistribute(&self, comm: &dyn Comm, to: Distribution) -> Result<(Self, Moved), Error> {
        let from = Spread::from(self.distribution());
        let source = (&from, self.stored());
        Self::from_spread(comm, source, to, &RedistributeConfig::default())
    }

    /// A matrix on the distribution `to` from the memory that `source` spreads it over; with
    /// [`transposed`](RedistributeConfig::transposed) its transposed.
    ///
    /// # Errors
    /// As [`redistribute`].
    ///
    /// # Collective
    /// All ranks, with the same spread, distribution and configuration.
    pub fn from_spread(
        comm: &dyn Comm,
        source: (&Spread, Stored<'_, T>),
        to: Distribution,
        config: &RedistributeConfig<T>,
    ) -> Result<(Self, Moved), Error> {
        let spread = Spread::from(&to);
        let mut matrix = agree(comm, Self::zeros(to, comm.rank()))?;
        let target = (&spread, matrix.stored_mut());
        let moved = redistribute(comm, source, target, config)?;
        Ok((matrix, moved))
    }

    /// Puts the matrix where `target` spreads it to.
    ///
    /// # Errors
    /// As [`redistribute`].
    ///
    /// # Collective
    /// All ranks, with the same spread.
    pub fn to_spread(
        &self,
        comm: &dyn Comm,
        target: (&Spread, StoredMut<'_, T>),
    ) -> Result<Moved, Error> {
        let from = Spread::from(self.distribution());
        let config = RedistributeConfig::default();
        redistribute(comm, (&from, self.stored()), target, &config)
    }

    fn stored(&self) -> Stored<'_, T> {
        Stored::by_columns(&self.local, self.ld)
    }

    fn stored_mut(&mut self) -> StoredMut<'_, T> {
        let ld = self.ld;
        StoredMut::by_columns(self.written(), ld)
    }
}
