//! The contention for a host's cores between computation, messages and other ranks.
//!
//! # Deviations
//! * **Time of a node**: the paper takes the slowest device's (Clarke et al. 2012, section 3). Here the cost of the
//!   node's messages is added, because they use cores that compute. It is the measured CPU time of a byte, and 0 if a
//!   core is left for messages. A node with more messages then gets less work, so `imbalance`, which counts the devices
//!   alone, need not be 0.
//! * **Time under a quota**: the paper takes wall time (Clarke et al. 2012). Here it is CPU time over the thread's
//!   share of the quota, because a short update runs through and a later one waits for both. A quota for all
//!   computing cores changes nothing. Threads of several ranks on one core are timed alike, by their share of it.

use isochron_devices::DeviceInfo;
use isochron_devices::topology::Topology;

use super::core_sharers;
use crate::comm::Comm;
use crate::error::Error;

/// CPU time that computation gets on this host, and that messages take from it. Devices with a prescribed pace do not
/// count, since they wait most of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Share of its time that each computing thread can run in the long run, at most 1. It is less if the control group
    /// grants fewer cores than the host has such threads, or if several of them are on one core.
    pub share: f64,
    /// Seconds that this rank's devices lose for each second of CPU time of its messages. It is 0 if a core, or a part
    /// of the quota, is left for messages, or if nothing computes on cores.
    pub message_cost: f64,
}

impl Load {
    /// Finds the load of this rank's host, with `devices` on this rank.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn new(
        comm: &dyn Comm,
        topology: &Topology,
        devices: &[DeviceInfo],
    ) -> Result<Self, Error> {
        let mine = list_busy_cores(devices);
        let all = comm.gather(&mine)?;
        let sharing: Vec<u32> = core_sharers(comm, topology)?
            .into_iter()
            .flat_map(|rank| &all[rank])
            .copied()
            .collect();
        let threads = count_threads(comm, devices)?;
        let load = match topology.cpu_quota_cores() {
            Some(quota) => Self::under_quota(quota, &threads),
            None => Self::on_cores(topology.cores().len(), &mine, &sharing),
        };
        Ok(if mine.is_empty() {
            Self {
                message_cost: 0.0,
                ..load
            }
        } else {
            load
        })
    }

    /// Returns the load of a rank that computes on the cores `mine` of its `cores` cores. `sharing` lists the cores of all
    /// ranks that may use them, once for each thread.
    fn on_cores(cores: usize, mine: &[u32], sharing: &[u32]) -> Self {
        let counts = mine
            .iter()
            .map(|core| sharing.iter().filter(|other| *other == core).count());
        let share = 1.0 / counts.max().unwrap_or(1).max(1) as f64;
        Self {
            share,
            // Messages on a shared core slow all threads on it, and each of its ranks has as many messages.
            message_cost: if sharing.len() < cores {
                0.0
            } else {
                1.0 / share
            },
        }
    }

    /// Returns the load of a host whose ranks compute with these numbers of threads, with a quota in cores for all of them.
    fn under_quota(quota: f64, threads: &[usize]) -> Self {
        let is_left = quota >= threads.iter().sum::<usize>() as f64 + 1.0;
        Self {
            share: share_quota(quota, threads),
            // Messages of any rank make the quota stop all threads sooner.
            message_cost: if is_left {
                0.0
            } else {
                threads.len() as f64 / quota
            },
        }
    }
}

/// Returns the share of its time that each of a host's computing threads can run under a quota in cores.
pub(super) fn share_quota(quota: f64, threads: &[usize]) -> f64 {
    let all = threads.iter().sum::<usize>() as f64;
    (quota / all.max(1.0)).min(1.0)
}

/// Returns the cores on which these devices compute all the time, with a thread for each.
fn list_busy_cores(devices: &[DeviceInfo]) -> Vec<u32> {
    devices
        .iter()
        .filter(|device| device.clock.keeps_cores_busy())
        .flat_map(|device| &device.cores)
        .copied()
        .collect()
}

/// Returns the number of threads with which each rank of this host computes.
///
/// # Errors
/// [`Error::Unreadable`] on every rank.
///
/// # Collective
/// All ranks, each with its devices.
pub(super) fn count_threads(comm: &dyn Comm, devices: &[DeviceInfo]) -> Result<Vec<usize>, Error> {
    let mine = (comm.host().to_owned(), list_busy_cores(devices).len());
    Ok(comm
        .gather(&mine)?
        .into_iter()
        .filter(|(host, _)| host == comm.host())
        .map(|(_, threads)| threads)
        .collect())
}

#[cfg(test)]
mod tests {
    use isochron_devices::{DeviceClock, DeviceKind};

    use super::*;
    use crate::comm::LocalComm;

    fn device(clock: DeviceClock, cores: u32) -> DeviceInfo {
        DeviceInfo {
            cores: (0..cores).collect(),
            ..DeviceInfo::new("a", DeviceKind::Cpu, clock)
        }
    }

    fn load(share: f64, message_cost: f64) -> Load {
        Load {
            share,
            message_cost,
        }
    }

    #[test]
    fn threads_and_messages_share_what_the_quota_pays_for() {
        assert_eq!(Load::under_quota(0.125, &[1]), load(0.125, 8.0));
        assert_eq!(Load::under_quota(1.0, &[1, 1]), load(0.5, 2.0));
        assert_eq!(Load::under_quota(8.0, &[8]), load(1.0, 0.125));
        // Nothing is stopped.
        assert_eq!(Load::under_quota(3.9, &[2]), load(1.0, 0.0));
        assert_eq!(Load::under_quota(0.5, &[0]).share, 0.5);
    }

    #[test]
    fn threads_of_one_core_share_it() {
        assert_eq!(Load::on_cores(2, &[0], &[0, 1, 0, 1]), load(0.5, 2.0));
        assert_eq!(Load::on_cores(2, &[1], &[0, 1, 0]), load(1.0, 1.0));
        assert_eq!(Load::on_cores(2, &[0, 1], &[0, 1, 0]), load(0.5, 2.0));
        assert_eq!(Load::on_cores(2, &[1], &[1]), load(1.0, 0.0));
    }

    #[test]
    fn messages_cost_if_every_core_is_kept_busy() {
        let comm = LocalComm::new();
        let topology = Topology::from_synthetic("core:4 pu:1").unwrap();
        let cost =
            |devices: &[DeviceInfo]| Load::new(&comm, &topology, devices).unwrap().message_cost;
        assert_eq!(cost(&[device(DeviceClock::Cores, 4)]), 1.0);
        assert_eq!(cost(&[device(DeviceClock::Cores, 3)]), 0.0);
        // The core of a GPU is not always at it.
        let gpu = device(DeviceClock::Accelerator, 1);
        assert_eq!(cost(&[gpu.clone(), device(DeviceClock::Cores, 3)]), 0.0);
        assert_eq!(cost(&[device(DeviceClock::Prescribed, 4)]), 0.0);
        assert_eq!(cost(&[gpu]), 0.0);
        assert_eq!(cost(&[]), 0.0);
        let share = Load::new(&comm, &topology, &[device(DeviceClock::Cores, 4)])
            .unwrap()
            .share;
        assert_eq!(share, 1.0);
    }
}
