//! This rank's part of a session: its devices, and its share of the host.

use isochron_devices::DeviceTeam;
use isochron_devices::internal::{HeatSensors, HostShare, Load, list_busy_cores};

use crate::plan::KnownFrom;

/// A rank's devices, and its share of the host.
pub(crate) struct SessionNode {
    pub team: DeviceTeam,
    /// Name of the node in the platform file; empty without one.
    pub name: String,
    /// The origin of the choice of this rank's BLAS; `None` if it was named.
    pub blas_known: Option<KnownFrom>,
    pub load: Load,
    /// Number of threads with which each rank of this host computes.
    pub threads: Vec<usize>,
    /// The sensors of the devices.
    pub heat: HeatSensors,
    /// The cores and GPUs of the devices; `None` if they were made outside of a session. It is dropped last: devices have them
    /// until they are dropped.
    pub _share: Option<HostShare>,
}

impl SessionNode {
    /// Takes devices that are made already, with cores of their own. Nothing else is known of the host.
    pub(super) fn of_team(team: DeviceTeam) -> Self {
        let threads = list_busy_cores(team.infos()).len();
        Self {
            team,
            name: String::new(),
            blas_known: None,
            load: Load {
                share: 1.0,
                message_cost: 0.0,
            },
            threads: vec![threads],
            heat: HeatSensors::default(),
            _share: None,
        }
    }
}
