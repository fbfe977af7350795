//! Memory is counted before it is used.

use std::collections::BTreeMap;

use isochron_devices::{DeviceInfo, DeviceKind, DeviceTeam, JobShape, memory_available_bytes};
use serde::{Deserialize, Serialize};

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::multiply::Plan;

/// What the host has to give; where the system does not tell, nothing is refused.
pub(super) fn available() -> u64 {
    memory_available_bytes().unwrap_or(u64::MAX)
}

/// What a rank asks of its host.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct MemoryNeed {
    /// Bytes that it cannot do without.
    pub bytes: u64,
    /// Bytes that its devices hold, and use again or give back first.
    pub held: u64,
    /// Devices that take more, as much as they may.
    pub gathering: usize,
}

#[derive(Serialize, Deserialize)]
struct RankDemand {
    host: String,
    need: MemoryNeed,
    available: u64,
}

/// What the ranks of one host ask of it together.
#[derive(Debug, Clone, Copy)]
struct HostDemand {
    needed: u64,
    available: u64,
    gathering: usize,
    /// The rank that needs most, and how much.
    most: (u64, usize),
}

/// Refuses what does not fit: what this rank needs, together with the other ranks of its host. Returns how much each
/// device that gathers may take of what is left there.
///
/// # Errors
/// [`Error::Memory`] on every rank, for the host that lacks most.
///
/// # Collective
/// All ranks.
pub(super) fn share(comm: &dyn Comm, need: MemoryNeed, available: u64) -> Result<u64, Error> {
    let all = demands(comm, need, available)?;
    let hosts = hosts(all);
    refuse(&hosts)?;
    let mine = hosts.get(comm.host()).map(|host| {
        let left = host.available.saturating_sub(host.needed);
        left / host.gathering.max(1) as u64
    });
    Ok(mine.unwrap_or(u64::MAX))
}

/// Sees to it that `bytes` of this rank's host, and what its devices need for these slices, are there, before any of it is
/// taken. Devices that gather in host memory make do with what the matrices leave, whatever they had before.
///
/// # Errors
/// [`Error::Memory`] on every rank, where not even the least that the devices need is left.
///
/// # Collective
/// All ranks.
pub(super) fn make_room(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    bytes: u64,
    (job, slices): (&JobShape, &[usize]),
) -> Result<(), Error> {
    let is_gpu = |device: &&DeviceInfo| device.kind == DeviceKind::Cuda;
    let need = MemoryNeed {
        bytes,
        held: team.memory_held(),
        gathering: team.infos().iter().filter(is_gpu).count(),
    };
    // Read once: what is granted now must not be refused below, because somebody has taken a little in between.
    let available = available();
    let each = share(comm, need, available)?;
    team.limit_memory(each);
    let devices = team.memory_needed(job, slices);
    let devices = agree(comm, devices.map_err(Error::from))?;
    let need = MemoryNeed {
        bytes: bytes.saturating_add(devices),
        ..need
    };
    share(comm, need, available).map(|_| ())
}

/// Returns the plan, or the first [leaner](Plan::make_leaner) one with the same shares for which [`make_room`] finds memory.
///
/// # Errors
/// [`Error::Memory`] on every rank, for the leanest.
///
/// # Collective
/// All ranks.
pub(super) fn fitted(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    mut plan: Plan,
) -> Result<Plan, Error> {
    loop {
        let refused = match make_room_for(comm, team, &plan) {
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

/// As [`make_room`], for a plan.
fn make_room_for(comm: &dyn Comm, team: &mut DeviceTeam, plan: &Plan) -> Result<(), Error> {
    let rank = comm.rank();
    let bytes = plan.memory_bytes(rank);
    make_room(comm, team, bytes, (&plan.job_shape(rank), plan.slices()))
}

/// What every rank asks of its host, by rank.
fn demands(comm: &dyn Comm, need: MemoryNeed, available: u64) -> Result<Vec<RankDemand>, Error> {
    comm.gather(&RankDemand {
        host: comm.host().to_string(),
        need,
        available,
    })
}

fn hosts(demands: Vec<RankDemand>) -> BTreeMap<String, HostDemand> {
    let mut hosts: BTreeMap<String, HostDemand> = BTreeMap::new();
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for (rank, demand) in demands.into_iter().enumerate() {
        let MemoryNeed {
            bytes, gathering, ..
        } = demand.need;
        let host = hosts.entry(demand.host.clone()).or_insert(HostDemand {
            needed: 0,
            available: demand.available,
            gathering: 0,
            most: (0, rank),
        });
        host.needed = host.needed.saturating_add(bytes);
        host.available = host.available.min(demand.available);
        host.gathering += gathering;
        host.most = host.most.max((bytes, rank));
        *held.entry(demand.host).or_default() += demand.need.held;
    }
    // What is held was taken from what is available, and comes back.
    for (name, host) in &mut hosts {
        let held = held.get(name).copied().unwrap_or(0);
        host.available = host.available.saturating_add(held);
    }
    hosts
}

fn refuse(hosts: &BTreeMap<String, HostDemand>) -> Result<(), Error> {
    let lacks = |host: &HostDemand| host.needed.saturating_sub(host.available);
    let worst = hosts.iter().max_by_key(|(_, host)| lacks(host));
    match worst.filter(|(_, host)| lacks(host) > 0) {
        Some((name, host)) => Err(Error::Memory {
            host: name.clone(),
            rank: Some(host.most.1),
            needed_bytes: host.needed,
            available_bytes: host.available,
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
    let all = demands(comm, MemoryNeed::default(), available())?;
    let hosts: BTreeMap<String, u64> = all
        .into_iter()
        .map(|demand| (demand.host, demand.available))
        .collect();
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
            rank: None,
            needed_bytes: needed,
            available_bytes: available,
        });
    }
    Ok(())
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
        match refuse(&hosts(demands)) {
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
        let holds = |held| MemoryNeed { held, ..bytes(80) };
        let with = |held| vec![demand("a", holds(held), 50), demand("a", bytes(0), 50)];
        assert_eq!(refused(with(30)), None);
        let lacking = Some(("a".to_string(), Some(0), 80, 79));
        assert_eq!(refused(with(29)), lacking);
    }

    #[test]
    fn what_is_left_is_shared_by_the_devices_that_gather() {
        let comm = crate::comm::LocalComm::new();
        let need = MemoryNeed {
            bytes: 1 << 20,
            held: 0,
            gathering: 2,
        };
        let before = available();
        let each = share(&comm, need, available()).unwrap();
        // Other programs take memory and give it back meanwhile.
        if before < u64::MAX {
            assert!(each < before && each > before / 8, "{each} of {before}");
        }
        let too_much = MemoryNeed {
            bytes: u64::MAX / 2,
            ..need
        };
        if before < u64::MAX {
            let text = share(&comm, too_much, available()).unwrap_err().to_string();
            assert!(text.contains("most of it by rank 0"), "{text}");
        }
    }
}
