//! The memory of hosts, which is counted before it is used.

use std::collections::BTreeMap;

use isochron_devices::{DeviceKind, DeviceTeam, JobShape, memory_available_bytes};
use serde::{Deserialize, Serialize};

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::multiply::Plan;

/// Returns the bytes available on the host; [`u64::MAX`], which refuses nothing, if the system does not tell.
pub(super) fn available_bytes() -> u64 {
    memory_available_bytes().unwrap_or(u64::MAX)
}

/// A rank's need of host memory.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct MemoryNeed {
    /// Bytes that it cannot do without.
    pub bytes: u64,
    /// Bytes that its devices hold already, and use again or give back first.
    pub held: u64,
    /// Number of devices that gather panels in whatever memory they may use.
    pub gathering: usize,
}

#[derive(Serialize, Deserialize)]
struct RankDemand {
    host: String,
    need: MemoryNeed,
    available: u64,
}

/// The demand of all ranks of one host.
#[derive(Debug, Clone, Copy, Default)]
struct HostDemand {
    needed: u64,
    free: u64,
    held: u64,
    gathering: usize,
    /// The largest need of a rank in bytes, and that rank.
    most: (u64, usize),
}

impl HostDemand {
    /// Returns the free memory, and what devices hold of it already, which comes back.
    fn available(&self) -> u64 {
        self.free.saturating_add(self.held)
    }

    fn lacking_bytes(&self) -> u64 {
        self.needed.saturating_sub(self.available())
    }
}

/// Refuses a need that does not fit the host together with the needs of its other ranks. Returns the bytes that each
/// gathering device may use of the memory left.
///
/// # Errors
/// [`Error::Memory`] on every rank, for the host that lacks most.
///
/// # Collective
/// All ranks.
pub(super) fn share_memory(
    comm: &dyn Comm,
    need: MemoryNeed,
    available: u64,
) -> Result<u64, Error> {
    let hosts = sum_by_host(gather_demands(comm, need, available)?);
    refuse_excess(&hosts)?;
    let mine = &hosts[comm.host()];
    Ok((mine.available() - mine.needed) / mine.gathering.max(1) as u64)
}

/// Checks that the host has room for `bytes` of this rank and for its devices' needs on these slices, before any of it is
/// taken. Devices that gather in host memory are limited to the memory left after the matrices, whatever they had before.
///
/// # Errors
/// [`Error::Memory`] on every rank, if not even the devices' least need is left.
///
/// # Collective
/// All ranks.
pub(super) fn make_room(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    bytes: u64,
    (job, slices): (&JobShape, &[usize]),
) -> Result<(), Error> {
    let devices = team.infos().iter();
    let gpus = devices.filter(|device| device.kind == DeviceKind::Cuda);
    let need = MemoryNeed {
        bytes,
        held: team.memory_held(),
        gathering: gpus.count(),
    };
    // Read once: memory granted now must not be refused below because another program took a little in between.
    let available = available_bytes();
    let each = share_memory(comm, need, available)?;
    team.limit_memory(each);
    let of_devices = team.memory_needed(job, slices).map_err(Error::from);
    let bytes = bytes.saturating_add(agree(comm, of_devices)?);
    share_memory(comm, MemoryNeed { bytes, ..need }, available).map(drop)
}

/// Returns the plan, or the first [leaner](Plan::make_leaner) one with the same shares for which [`make_room`] finds
/// memory.
///
/// # Errors
/// [`Error::Memory`] on every rank, for the leanest.
///
/// # Collective
/// All ranks.
pub(super) fn fit_to_memory(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    mut plan: Plan,
) -> Result<Plan, Error> {
    let rank = comm.rank();
    loop {
        let job = plan.job_shape(rank);
        let refused = match make_room(comm, team, plan.memory_bytes(rank), (&job, plan.slices())) {
            Err(error @ Error::Memory { .. }) => error,
            done => return done.map(|()| plan),
        };
        plan = plan.make_leaner().ok_or(refused)?;
        tracing::info!(
            panel = plan.panel(),
            lookahead = plan.lookahead(),
            "memory is short: planning with less"
        );
    }
}

/// Returns every rank's demand, by rank.
fn gather_demands(
    comm: &dyn Comm,
    need: MemoryNeed,
    available: u64,
) -> Result<Vec<RankDemand>, Error> {
    comm.gather(&RankDemand {
        host: comm.host().to_string(),
        need,
        available,
    })
}

fn sum_by_host(demands: Vec<RankDemand>) -> BTreeMap<String, HostDemand> {
    let mut hosts: BTreeMap<String, HostDemand> = BTreeMap::new();
    for (rank, demand) in demands.into_iter().enumerate() {
        let host = hosts.entry(demand.host).or_insert(HostDemand {
            free: u64::MAX,
            ..HostDemand::default()
        });
        host.needed = host.needed.saturating_add(demand.need.bytes);
        host.free = host.free.min(demand.available);
        host.held += demand.need.held;
        host.gathering += demand.need.gathering;
        host.most = host.most.max((demand.need.bytes, rank));
    }
    hosts
}

fn refuse_excess(hosts: &BTreeMap<String, HostDemand>) -> Result<(), Error> {
    let worst = hosts.iter().max_by_key(|(_, host)| host.lacking_bytes());
    match worst.filter(|(_, host)| host.lacking_bytes() > 0) {
        Some((name, host)) => Err(Error::Memory {
            host: name.clone(),
            rank: Some(host.most.1),
            needed_bytes: host.needed,
            available_bytes: host.available(),
        }),
        None => Ok(()),
    }
}

/// Refuses a problem whose matrices are larger than the memory of all hosts together.
///
/// # Errors
/// [`Error::Memory`] on every rank.
///
/// # Collective
/// All ranks.
pub(super) fn check_total(comm: &dyn Comm, needed: u64) -> Result<(), Error> {
    let all = gather_demands(comm, MemoryNeed::default(), available_bytes())?;
    let hosts = all.into_iter().map(|rank| (rank.host, rank.available));
    let hosts: BTreeMap<String, u64> = hosts.collect();
    let available = hosts.values().copied().fold(0, u64::saturating_add);
    if needed <= available {
        return Ok(());
    }
    Err(Error::Memory {
        host: match hosts.len() {
            1 => hosts.into_keys().collect(),
            n => format!("group ({n} hosts together)"),
        },
        rank: None,
        needed_bytes: needed,
        available_bytes: available,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(host: &str, need: MemoryNeed, available: u64) -> RankDemand {
        RankDemand {
            host: host.to_string(),
            need,
            available,
        }
    }

    fn bytes(bytes: u64) -> MemoryNeed {
        MemoryNeed {
            bytes,
            ..MemoryNeed::default()
        }
    }

    fn refused(demands: Vec<RankDemand>) -> Option<(String, Option<usize>, u64, u64)> {
        match refuse_excess(&sum_by_host(demands)) {
            Ok(()) => None,
            Err(Error::Memory {
                host,
                rank,
                needed_bytes,
                available_bytes,
            }) => Some((host, rank, needed_bytes, available_bytes)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn ranks_of_one_host_share_its_memory() {
        let apart = vec![demand("a", bytes(60), 100), demand("b", bytes(60), 100)];
        assert_eq!(refused(apart), None);
        let together = vec![
            demand("b", bytes(60), 100),
            demand("a", bytes(50), 100),
            demand("a", bytes(70), 99),
        ];
        assert_eq!(refused(together), Some(("a".to_string(), Some(2), 120, 99)));
    }

    #[test]
    fn what_devices_hold_is_not_needed_again() {
        let lacking = Some(("a".to_string(), Some(0), 80, 79));
        for (held, refusal) in [(30, None), (29, lacking)] {
            let need = MemoryNeed { held, ..bytes(80) };
            let demands = vec![demand("a", need, 50), demand("a", bytes(0), 50)];
            assert_eq!(refused(demands), refusal);
        }
    }

    #[test]
    fn what_is_left_is_shared_by_the_devices_that_gather() {
        let comm = crate::comm::LocalComm::new();
        let need = MemoryNeed {
            bytes: 1 << 20,
            held: 0,
            gathering: 2,
        };
        let before = available_bytes();
        let each = share_memory(&comm, need, available_bytes()).unwrap();
        // Other programs take memory and give it back meanwhile.
        if before < u64::MAX {
            assert!(each < before && each > before / 8, "{each} of {before}");
        }
        let too_much = MemoryNeed {
            bytes: u64::MAX / 2,
            ..need
        };
        if before < u64::MAX {
            let refusal = share_memory(&comm, too_much, available_bytes()).unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains("most of it by rank 0"), "{text}");
        }
    }
}
