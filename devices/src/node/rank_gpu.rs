//! A GPU that this rank drives, and the memory that its device may use.

use crate::cuda::CudaInfo;
use crate::host::memory::memory_available_bytes;

/// A GPU that a rank drives.
#[derive(Debug, Clone, PartialEq)]
pub struct RankGpu {
    /// The GPU.
    pub info: CudaInfo,
    /// Number of devices of the host that drive it, including this one.
    pub sharers: usize,
    /// Number of devices of the host that drive GPUs, over all its ranks.
    pub on_host: usize,
}

impl RankGpu {
    /// Returns the default limit of its memory for each of several devices: equal parts, since the first one would take it
    /// all. `None` for a device that has it alone, which uses all free memory.
    pub(super) fn memory_part_bytes(&self) -> Option<u64> {
        let sharers = self.sharers as u64;
        (sharers > 1).then(|| self.info.memory_bytes / sharers)
    }

    /// Returns the default limit of host memory that it may pin: a quarter of the available memory, in equal parts for all
    /// GPUs of the host. `None` if the system does not tell the available memory.
    pub(super) fn host_part_bytes(&self) -> Option<u64> {
        let available = memory_available_bytes()?;
        Some(available / 4 / self.on_host.max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpus_of_a_host_pin_a_quarter_of_its_memory_together() {
        let [one, eight] = [1, 8].map(|on_host| {
            let gpu = RankGpu { info: gpu_info(), sharers: 1, on_host };
            gpu.host_part_bytes()
        });
        let (Some(one), Some(eight)) = (one, eight) else {
            return;
        };
        // Other programs take memory and give it back meanwhile.
        let ratio = one as f64 / eight as f64;
        assert!((4.0..16.0).contains(&ratio), "{one} and {eight}");
    }

    fn gpu_info() -> CudaInfo {
        CudaInfo {
            ordinal: 0,
            name: "made up".to_owned(),
            uuid: "a".to_owned(),
            pci_bus_id: "0000:17:00.0".to_owned(),
            compute_capability: (9, 0),
            memory_bytes: 1 << 30,
            multiprocessors: 1,
            clock_hz: None,
            peak_f64_flops_per_s: None,
            peak_f32_flops_per_s: None,
            is_slice: false,
        }
    }
}
