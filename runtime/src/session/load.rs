//! How much of a host's cores the ranks on it take.

use isochron_devices::topology::Topology;
use isochron_devices::{DeviceInfo, DeviceKind};

use super::sharers;
use crate::comm::Comm;

/// What is left of a host beside what computes on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// The part of its time that each thread which computes can run in the long run, at most 1: less where the control groups
    /// pay for fewer cores than there are such threads.
    pub share: f64,
    /// Whether this rank's messages are handled on cores that compute at their own pace: then they take the time of that.
    pub messages_cost: bool,
}

impl Load {
    /// That of this rank's host, with `devices` on this rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn new(comm: &dyn Comm, topology: &Topology, devices: &[DeviceInfo]) -> Self {
        let computing = |device: &&DeviceInfo| device.kind == DeviceKind::Cpu;
        let mut computing = devices.iter().filter(computing);
        let threads: usize = devices.iter().map(|device| device.cores.len()).sum();
        let mut all = vec![0; comm.size()];
        all[comm.rank()] = threads as u64;
        comm.sum_u64(&mut all);
        let here: u64 = sharers(comm, topology)
            .into_iter()
            .map(|rank| all[rank])
            .sum();
        let cores = topology.affordable_cores().len();
        Self {
            share: share(topology.cpu_quota_cores(), here),
            messages_cost: here as usize >= cores && computing.any(|device| device.paced.is_none()),
        }
    }
}

/// The part of its time that each of so many threads can run with this quota.
fn share(quota_cores: Option<f64>, threads: u64) -> f64 {
    quota_cores.map_or(1.0, |quota| (quota / threads.max(1) as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;

    fn device(kind: DeviceKind, paced: Option<&str>, cores: u32) -> DeviceInfo {
        DeviceInfo {
            name: "a".to_owned(),
            kind,
            blas: "none".to_owned(),
            paced: paced.map(str::to_owned),
            cores: (0..cores).collect(),
            pinned: false,
            bus_id: None,
        }
    }

    #[test]
    fn threads_share_what_the_quota_pays_for() {
        assert_eq!(share(None, 8), 1.0);
        assert_eq!(share(Some(0.125), 1), 0.125);
        assert_eq!(share(Some(3.0), 4), 0.75);
        assert_eq!(share(Some(8.0), 4), 1.0);
        assert_eq!(share(Some(8.0), 0), 1.0);
    }

    #[test]
    fn messages_cost_where_every_core_computes_at_its_own_pace() {
        let comm = LocalComm::new();
        let topology = Topology::from_synthetic("core:4 pu:1").unwrap();
        let cost = |devices: &[DeviceInfo]| Load::new(&comm, &topology, devices).messages_cost;
        assert!(cost(&[device(DeviceKind::Cpu, None, 4)]));
        assert!(cost(&[
            device(DeviceKind::Cuda, None, 1),
            device(DeviceKind::Cpu, None, 3)
        ]));
        assert!(!cost(&[device(DeviceKind::Cpu, None, 3)]));
        assert!(!cost(&[device(DeviceKind::Cpu, Some("slowdown 2"), 4)]));
        assert!(!cost(&[device(DeviceKind::Cuda, None, 4)]));
        assert!(!cost(&[]));
    }
}
