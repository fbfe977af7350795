//! Memory is counted before it is used.

use std::collections::BTreeMap;

use isochron_devices::memory_available_bytes;
use serde::{Deserialize, Serialize};

use crate::comm::Comm;
use crate::error::Error;

/// What the host has to give; where the system does not tell, nothing is refused.
fn available() -> u64 {
    memory_available_bytes().unwrap_or(u64::MAX)
}

#[derive(Serialize, Deserialize)]
struct Demand {
    host: String,
    needed: u64,
    available: u64,
}

/// Refuses what does not fit: `needed` bytes on this rank, together with the other ranks of its host.
///
/// # Errors
/// [`Error::Memory`] on every rank, for the host that lacks most.
///
/// # Collective
/// All ranks.
pub(super) fn check(comm: &dyn Comm, needed: u64) -> Result<(), Error> {
    let demand = Demand {
        host: comm.host().to_string(),
        needed,
        available: available(),
    };
    let bytes = serde_json::to_vec(&demand).unwrap_or_default();
    let all = comm.all_gather(&bytes);
    worst(
        all.iter()
            .filter_map(|bytes| serde_json::from_slice(bytes).ok()),
    )
}

/// Refuses a problem whose matrices are larger than the memory of all hosts together.
///
/// # Errors
/// [`Error::Memory`] on every rank.
///
/// # Collective
/// All ranks.
pub(super) fn check_total(comm: &dyn Comm, needed: u64) -> Result<(), Error> {
    let demand = Demand {
        host: comm.host().to_string(),
        needed: 0,
        available: available(),
    };
    let bytes = serde_json::to_vec(&demand).unwrap_or_default();
    let mut hosts = BTreeMap::new();
    for bytes in comm.all_gather(&bytes) {
        if let Ok(Demand {
            host, available, ..
        }) = serde_json::from_slice(&bytes)
        {
            hosts.insert(host, available);
        }
    }
    let available = hosts
        .values()
        .fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
    let host = match hosts.len() {
        1 => hosts.into_keys().collect(),
        n => format!("group ({n} hosts together)"),
    };
    if needed > available {
        return Err(Error::Memory {
            host,
            needed_bytes: needed,
            available_bytes: available,
        });
    }
    Ok(())
}

fn worst(demands: impl Iterator<Item = Demand>) -> Result<(), Error> {
    let mut hosts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for Demand {
        host,
        needed,
        available,
    } in demands
    {
        let entry = hosts.entry(host).or_insert((0, available));
        *entry = (entry.0.saturating_add(needed), entry.1.min(available));
    }
    let lacking = hosts
        .into_iter()
        .filter(|(_, (needed, available))| needed > available);
    match lacking.max_by_key(|(_, (needed, available))| needed - available) {
        Some((host, (needed_bytes, available_bytes))) => Err(Error::Memory {
            host,
            needed_bytes,
            available_bytes,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(host: &str, needed: u64, available: u64) -> Demand {
        Demand {
            host: host.to_string(),
            needed,
            available,
        }
    }

    #[test]
    fn ranks_of_one_host_share_its_memory() {
        assert!(worst([demand("a", 60, 100), demand("b", 60, 100)].into_iter()).is_ok());
        let error = worst([demand("a", 60, 100), demand("a", 60, 99)].into_iter()).unwrap_err();
        let Error::Memory {
            host,
            needed_bytes,
            available_bytes,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (host.as_str(), needed_bytes, available_bytes),
            ("a", 120, 99)
        );
    }
}
