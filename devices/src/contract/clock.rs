//! The clock that a device's time follows.

use crate::contract::UpdateTime;
use serde::{Deserialize, Serialize};

/// The clock that the [busy time](UpdateTime::busy_s) of a device follows.
///
/// Every worker states its own in [`DeviceInfo::clock`](crate::DeviceInfo::clock). Code that shares cores or reads
/// times depends on the clock, and never on the kind of worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClock {
    /// Wall time of threads that compute on their cores all the time. Other programs on these cores stretch it, and so
    /// does a CPU quota.
    Cores,
    /// Wall time of hardware next to the cores, such as a GPU. Its host core mostly waits.
    Accelerator,
    /// A multiple of the time that cores or an accelerator really took. The device waits for most of it, and other
    /// programs on its cores change nothing.
    Slowed,
    /// Time that recorded points prescribe. The device waits for most of it, and other programs on its cores change
    /// nothing.
    Prescribed,
}

impl DeviceClock {
    /// Returns `true` if the device's threads compute on their cores for all of its time.
    #[must_use]
    pub fn keeps_cores_busy(self) -> bool {
        self == Self::Cores
    }

    /// Returns `true` if the device is as fast as its host makes it. Its speed falls at no size that fits into the
    /// host's memory.
    #[must_use]
    pub fn is_of_host(self) -> bool {
        matches!(self, Self::Cores | Self::Slowed)
    }

    /// Returns `true` if other devices may compute on the same cores without changing the device's time.
    #[must_use]
    pub fn tolerates_sharing(self) -> bool {
        matches!(self, Self::Slowed | Self::Prescribed)
    }
}

impl UpdateTime {
    /// Returns the seconds of a call in a long run in which each thread runs for `share_of_time` of the time, above 0
    /// and at most 1.
    ///
    /// A quota lets a short call run through and stops a later one for both, so the wall time of one call says little.
    /// On a device that computes on its cores it is the CPU time over the share.
    #[must_use]
    pub fn sustained_s(&self, clock: DeviceClock, share_of_time: f64) -> f64 {
        if share_of_time < 1.0 && clock.keeps_cores_busy() {
            self.cpu_s / share_of_time
        } else {
            self.busy_s
        }
    }

    /// Returns the seconds that a call really used. The CPU time of cores stands still while other programs have them;
    /// other devices have no such clock.
    pub(crate) fn used_s(&self, clock: DeviceClock) -> f64 {
        if clock.keeps_cores_busy() { self.cpu_s } else { self.busy_s }
    }
}
