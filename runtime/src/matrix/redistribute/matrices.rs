//! Distributed matrices from and to other spreads.

use isochron_devices::Element;

use super::{Moved, RedistributeConfig, redistribute};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::{Matrix, Spread, Stored, StoredMut};

impl<T: Element> Matrix<T> {
    /// Copies the matrix to another spread.
    ///
    /// # Errors
    /// As [`redistribute`].
    ///
    /// # Collective
    /// All ranks, with the same `to`.
    pub fn redistribute(&self, comm: &dyn Comm, to: Spread) -> Result<(Self, Moved), Error> {
        let source = (self.spread(), self.stored());
        Self::from_spread(comm, source, to, &RedistributeConfig::default())
    }

    /// Makes a matrix on the spread `to` from the memory of `source`, transposed if
    /// [`transposed`](RedistributeConfig::transposed) says so.
    ///
    /// # Errors
    /// As [`redistribute`]; [`Error::Spread`] if a rank of `to` holds more than one rectangle.
    ///
    /// # Collective
    /// All ranks, with the same spreads and configuration.
    pub fn from_spread(
        comm: &dyn Comm,
        source: (&Spread, Stored<'_, T>),
        to: Spread,
        config: &RedistributeConfig<T>,
    ) -> Result<(Self, Moved), Error> {
        let mut matrix = agree(comm, Self::zeros(to.clone(), comm.rank()))?;
        let target = (&to, matrix.stored_mut());
        let moved = redistribute(comm, source, target, config)?;
        Ok((matrix, moved))
    }

    /// Copies the matrix to the memory of `target`.
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
        let config = RedistributeConfig::default();
        redistribute(comm, (self.spread(), self.stored()), target, &config)
    }
}
