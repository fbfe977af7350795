//! This rank's share of its host.

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_devices::memory_available_bytes;

/// The ranks of this rank's host, and the memory that is left for each of them.
pub struct MemoryShare {
    /// Number of ranks on the host.
    pub ranks: usize,
    /// Free memory of the host over its ranks, in bytes; the most possible if the system does not tell it.
    pub free_bytes: u64,
}

impl MemoryShare {
    /// Finds the share of this rank.
    ///
    /// # Errors
    /// Returns the errors of messages.
    ///
    /// # Collective
    /// All ranks.
    pub fn find(comm: &dyn Comm) -> Result<Self, Error> {
        let hosts = comm.gather(&comm.host().to_owned())?;
        let ranks = hosts.iter().filter(|host| *host == comm.host()).count();
        let free_bytes = memory_available_bytes().unwrap_or(u64::MAX) / ranks as u64;
        Ok(Self { ranks, free_bytes })
    }
}
