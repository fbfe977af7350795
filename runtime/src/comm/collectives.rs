//! Collectives over values of any type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contract::Comm;
use crate::error::Error;

impl dyn Comm + '_ {
    /// Gathers every rank's value, by rank, on every rank.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank, for the lowest rank whose value is not one of `V`; the errors of
    /// [`Comm`].
    ///
    /// # Collective
    /// All ranks, with values of the same type.
    pub fn gather<V: Serialize + DeserializeOwned>(&self, mine: &V) -> Result<Vec<V>, Error> {
        self.all_gather(&encode(mine))?
            .iter()
            .enumerate()
            .map(|(rank, bytes)| decode(rank, bytes))
            .collect()
    }

    /// Returns the value of `root` on every rank; the other ranks give `None`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank when `root` gives no value of `V`; the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same `root` and values of the same type.
    pub fn share<V: Serialize + DeserializeOwned>(
        &self,
        root: usize,
        value: Option<V>,
    ) -> Result<V, Error> {
        let mut bytes = value.as_ref().map_or_else(Vec::new, encode);
        self.broadcast(root, &mut bytes)?;
        decode(root, &bytes)
    }

    /// Returns the largest of all ranks' values, none of which is negative; NaN counts as 0.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn largest(&self, value: f64) -> Result<f64, Error> {
        let mut all = vec![0.0; self.size()];
        all[self.rank()] = value;
        self.sum_f64(&mut all)?;
        Ok(all.into_iter().fold(0.0, f64::max))
    }
}

/// Encodes a value. One that cannot be encoded becomes empty, and [`decode`] refuses that.
pub fn encode<V: Serialize>(value: &V) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Decodes the value of a rank.
///
/// # Errors
/// Returns [`Error::Unreadable`].
pub fn decode<V: DeserializeOwned>(rank: usize, bytes: &[u8]) -> Result<V, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Unreadable { rank, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::LocalComm;
    use super::*;

    #[test]
    fn a_contribution_that_cannot_be_read_is_told_by_its_rank() {
        let local = LocalComm::new();
        let comm: &dyn Comm = &local;
        assert_eq!(comm.gather(&7u32).unwrap(), [7]);
        // JSON has no such keys.
        let nameless = BTreeMap::from([((1, 2), 3)]);
        let text = comm.gather(&nameless).unwrap_err().to_string();
        assert!(text.contains("rank 0"), "{text}");
        let text = comm.share::<u32>(0, None).unwrap_err().to_string();
        assert!(text.contains("rank 0"), "{text}");
        assert_eq!(comm.largest(2.5).unwrap(), 2.5);
    }
}
