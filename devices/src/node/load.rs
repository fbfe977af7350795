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

use crate::contract::DeviceInfo;
use crate::host::topology::Topology;

/// CPU time that computation gets on this host, and that messages take from it. Devices with a prescribed pace do not
/// count, since they wait most of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Share of its time that each computing thread can run in the long run, at most 1. It is less if the control group
    /// grants fewer cores than the host has such threads, or if several of them are on one core.
    pub share: f64,
    /// The same without the limit of the control group, which may change while the job runs.
    pub share_of_cores: f64,
    /// Seconds that this rank's devices lose for each second of CPU time of its messages. It is 0 if a core, or a part
    /// of the quota, is left for messages, or if nothing computes on cores.
    pub message_cost: f64,
}

impl Load {
    /// All time for computation, and no messages on its cores.
    pub const NONE: Self = Self { share: 1.0, share_of_cores: 1.0, message_cost: 0.0 };

    /// Finds the load of a rank whose devices compute on the busy cores `mine`. `sharing` lists the busy
    /// cores of all ranks that may use the same ones, itself included; `threads` are those of each rank of this host.
    pub fn find(topology: &Topology, mine: &[u32], sharing: &[u32], threads: &[usize]) -> Self {
        let on_cores = Self::on_cores(topology.cores().len(), mine, sharing);
        let load = match topology.cpu_quota_cores() {
            Some(quota) => on_cores.under_quota(quota, threads),
            None => on_cores,
        };
        if mine.is_empty() { Self { message_cost: 0.0, ..load } } else { load }
    }

    /// Returns the load of a rank that computes on the cores `mine` of its `cores` cores. `sharing` lists the cores of all
    /// ranks that may use them, once for each thread.
    fn on_cores(cores: usize, mine: &[u32], sharing: &[u32]) -> Self {
        let counts = mine.iter().map(|core| sharing.iter().filter(|other| *other == core).count());
        let share = 1.0 / counts.max().unwrap_or(1).max(1) as f64;
        Self {
            share,
            share_of_cores: share,
            // Messages on a shared core slow all threads on it, and each of its ranks has as many messages.
            message_cost: if sharing.len() < cores { 0.0 } else { 1.0 / share },
        }
    }

    /// Returns the load of a host whose ranks compute with these numbers of threads, with a quota in cores for all of them.
    fn under_quota(self, quota: f64, threads: &[usize]) -> Self {
        let is_left = quota >= threads.iter().sum::<usize>() as f64 + 1.0;
        Self {
            share: share_quota(quota, threads),
            share_of_cores: self.share_of_cores,
            // Messages of any rank make the quota stop all threads sooner.
            message_cost: if is_left { 0.0 } else { threads.len() as f64 / quota },
        }
    }
}

/// Returns the share of its time that each of a host's computing threads can run under a quota in cores.
pub(crate) fn share_quota(quota: f64, threads: &[usize]) -> f64 {
    let all = threads.iter().sum::<usize>() as f64;
    (quota / all.max(1.0)).min(1.0)
}

/// Returns the cores on which these devices compute all the time, with a thread for each.
pub fn list_busy_cores(devices: &[DeviceInfo]) -> Vec<u32> {
    devices
        .iter()
        .filter(|device| device.clock.keeps_cores_busy())
        .flat_map(|device| &device.cores)
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{DeviceClock, DeviceKind};

    fn device(clock: DeviceClock, cores: u32) -> DeviceInfo {
        DeviceInfo { cores: (0..cores).collect(), ..DeviceInfo::new("a", DeviceKind::Cpu, clock) }
    }

    fn load(share: f64, message_cost: f64) -> Load {
        Load { share, share_of_cores: share, message_cost }
    }

    #[test]
    fn threads_and_messages_share_what_the_quota_pays_for() {
        let under = |quota, threads: &[usize]| {
            let load = load(0.5, 2.0).under_quota(quota, threads);
            // A quota that is lifted leaves what the cores grant.
            assert_eq!(load.share_of_cores, 0.5);
            [load.share, load.message_cost]
        };
        assert_eq!(under(0.125, &[1]), [0.125, 8.0]);
        assert_eq!(under(1.0, &[1, 1]), [0.5, 2.0]);
        assert_eq!(under(8.0, &[8]), [1.0, 0.125]);
        // Nothing is stopped.
        assert_eq!(under(3.9, &[2]), [1.0, 0.0]);
        assert_eq!(under(0.5, &[0])[0], 0.5);
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
        let topology = Topology::from_synthetic("core:4 pu:1").unwrap();
        let find = |devices: &[DeviceInfo]| {
            let busy = list_busy_cores(devices);
            Load::find(&topology, &busy, &busy, &[busy.len()])
        };
        let cost = |devices: &[DeviceInfo]| find(devices).message_cost;
        assert_eq!(cost(&[device(DeviceClock::Cores, 4)]), 1.0);
        assert_eq!(cost(&[device(DeviceClock::Cores, 3)]), 0.0);
        // The core of a GPU is not always at it.
        let gpu = device(DeviceClock::Accelerator, 1);
        assert_eq!(cost(&[gpu.clone(), device(DeviceClock::Cores, 3)]), 0.0);
        assert_eq!(cost(&[device(DeviceClock::Prescribed, 4)]), 0.0);
        assert_eq!(cost(&[gpu]), 0.0);
        assert_eq!(cost(&[]), 0.0);
        assert_eq!(find(&[device(DeviceClock::Cores, 4)]).share, 1.0);
    }
}
