//! How much of a host's cores is left beside what computes on them.

use isochron_devices::DeviceInfo;
use isochron_devices::topology::Topology;

use super::sharers;
use crate::comm::Comm;
use crate::error::Error;

/// What computing leaves of a host, and the host of computing. Devices whose pace is prescribed count for nothing: they wait
/// for most of their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// The part of its time that each thread which computes can run in the long run, at most 1: less where the control groups
    /// pay for fewer cores than there are such threads on the host, and where several are on one core.
    pub share: f64,
    /// Seconds that this rank's devices lose for each second of CPU time that its messages take: 0 where a core, or a part of
    /// the quota, is left for them, or where nothing computes on cores.
    pub message_cost: f64,
}

impl Load {
    /// That of this rank's host, with `devices` on this rank.
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
        let computing = devices
            .iter()
            .filter(|device| device.clock.keeps_cores_busy());
        // A thread for each core.
        let mine: Vec<u32> = computing
            .flat_map(|device| device.cores.iter().copied())
            .collect();
        let all = comm.gather(&mine)?;
        let hosts = comm.gather_hosts()?;
        let on_host = (0..comm.size()).filter(|&rank| hosts[rank] == comm.host());
        let on_host: Vec<usize> = on_host.map(|rank| all[rank].len()).collect();
        let sharing: Vec<u32> = sharers(comm, topology)?
            .into_iter()
            .flat_map(|rank| all[rank].iter().copied())
            .collect();
        let load = match topology.cpu_quota_cores() {
            Some(quota) => Self::under_quota(quota, &on_host),
            None => Self::on_cores(topology.cores().len(), &mine, &sharing),
        };
        Ok(Self {
            message_cost: if mine.is_empty() {
                0.0
            } else {
                load.message_cost
            },
            ..load
        })
    }

    /// That of a rank which computes on `mine` of so many cores, where all ranks that may use them compute on those in
    /// `sharing`, each as often as there are threads on it.
    fn on_cores(cores: usize, mine: &[u32], sharing: &[u32]) -> Self {
        let on = |core: &u32| sharing.iter().filter(|other| *other == core).count();
        let most = mine.iter().map(on).max().unwrap_or(1).max(1);
        let share = 1.0 / most as f64;
        Self {
            share,
            // What messages take of a core that several compute on is taken from all of them, who have as many.
            message_cost: if sharing.len() < cores {
                0.0
            } else {
                1.0 / share
            },
        }
    }

    /// That of a host whose ranks compute by so many threads each, with a quota in cores for all of them.
    fn under_quota(quota: f64, threads: &[usize]) -> Self {
        let all = threads.iter().sum::<usize>() as f64;
        let is_left = quota >= all + 1.0;
        Self {
            share: (quota / all.max(1.0)).min(1.0),
            // Whoever's messages they are, all threads are stopped the sooner.
            message_cost: if is_left {
                0.0
            } else {
                threads.len() as f64 / quota
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use isochron_devices::{DeviceClock, DeviceKind};

    use super::*;
    use crate::comm::LocalComm;

    fn device(clock: DeviceClock, cores: u32) -> DeviceInfo {
        DeviceInfo {
            name: "a".to_owned(),
            kind: DeviceKind::Cpu,
            blas: "none".to_owned(),
            paced: None,
            clock,
            cores: (0..cores).collect(),
            pinned: false,
            bus_id: None,
        }
    }

    #[test]
    fn threads_and_messages_share_what_the_quota_pays_for() {
        let load = |quota, threads: &[usize]| {
            let load = Load::under_quota(quota, threads);
            (load.share, load.message_cost)
        };
        assert_eq!(load(0.125, &[1]), (0.125, 8.0));
        assert_eq!(load(1.0, &[1, 1]), (0.5, 2.0));
        assert_eq!(load(8.0, &[8]), (1.0, 0.125));
        // Nothing is stopped.
        assert_eq!(load(3.9, &[2]), (1.0, 0.0));
        assert_eq!(load(0.5, &[0]).0, 0.5);
    }

    #[test]
    fn threads_of_one_core_share_it() {
        let load = |mine: &[u32], sharing: &[u32]| {
            let load = Load::on_cores(2, mine, sharing);
            (load.share, load.message_cost)
        };
        assert_eq!(load(&[0], &[0, 1, 0, 1]), (0.5, 2.0));
        assert_eq!(load(&[1], &[0, 1, 0]), (1.0, 1.0));
        assert_eq!(load(&[0, 1], &[0, 1, 0]), (0.5, 2.0));
        assert_eq!(load(&[1], &[1]), (1.0, 0.0));
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
