//! Notices about slices of GPUs (MIG): which one a rank drives, and which one another rank drives already.
//!
//! A process sees a single slice of a GPU instance, and with drivers before R570 (CUDA 12.8) a single slice overall. Ranks
//! without a slice of their own therefore see the same one (NVIDIA Multi-Instance GPU User Guide, *CUDA Device
//! Enumeration*).

use super::rank_gpu::RankGpu;
use crate::cuda::CudaInfo;

/// The advice that gives each rank of a host its own slice.
pub(super) const REMEDY: &str = "start each rank with CUDA_VISIBLE_DEVICES=MIG-UUID of its own slice, as nvidia-smi -L lists them";

/// Returns one line for each slice that this rank drives, or one that names the ranks that drive the slices it sees.
///
/// `driver_of` returns the rank of this host that drives the GPU with a UUID, if any does.
pub(super) fn slice_notices(
    found: &[CudaInfo],
    mine: &[RankGpu],
    driver_of: impl Fn(&str) -> Option<usize>,
) -> Vec<String> {
    let lines: Vec<String> =
        mine.iter().filter(|gpu| gpu.info.is_slice).map(describe_driven).collect();
    if !mine.is_empty() || found.iter().any(|gpu| !gpu.is_slice) {
        return lines;
    }
    let mut taken = Vec::new();
    for gpu in found {
        if let Some(rank) = driver_of(&gpu.uuid) {
            taken.push(format!("{} by rank {rank}", describe_gpu(gpu)));
        }
    }
    if taken.is_empty() {
        return lines;
    }
    vec![format!(
        "this rank drives no GPU: it sees only slices that other ranks drive, {}; {REMEDY}",
        taken.join(", ")
    )]
}

fn describe_driven(gpu: &RankGpu) -> String {
    let shared = match gpu.sharers {
        0 | 1 => String::new(),
        n => format!(", which {n} devices share"),
    };
    format!(
        "{}: a slice of a GPU (MIG){shared}; only this slice is used, other ranks may use the GPU's other slices",
        describe_gpu(&gpu.info)
    )
}

fn describe_gpu(gpu: &CudaInfo) -> String {
    format!("{} at {} ({})", gpu.name, gpu.pci_bus_id, gpu.uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str) -> CudaInfo {
        CudaInfo {
            ordinal: 0,
            name: "G".to_owned(),
            uuid: uuid.to_owned(),
            pci_bus_id: "0000:17:00.0".to_owned(),
            compute_capability: (9, 0),
            memory_bytes: 1,
            multiprocessors: 1,
            clock_hz: None,
            peak_f64_flops_per_s: None,
            peak_f32_flops_per_s: None,
            is_slice: uuid.starts_with("MIG-"),
        }
    }

    fn mine(uuid: &str, sharers: usize) -> RankGpu {
        RankGpu { info: gpu(uuid), sharers, on_host: 1 }
    }

    #[test]
    fn a_driven_slice_is_named() {
        let found = [gpu("MIG-1")];
        let lines = slice_notices(&found, &[mine("MIG-1", 1)], |_| Some(0));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("MIG-1") && lines[0].contains("only this slice"), "{lines:?}");
        let lines = slice_notices(&found, &[mine("MIG-1", 2)], |_| Some(0));
        assert!(lines[0].contains("2 devices share"), "{lines:?}");
        assert!(slice_notices(&[gpu("GPU-1")], &[mine("GPU-1", 1)], |_| Some(0)).is_empty());
    }

    #[test]
    fn a_rank_without_a_slice_of_its_own_is_told_which_rank_has_it() {
        let lines = slice_notices(&[gpu("MIG-1")], &[], |_| Some(3));
        assert_eq!(lines.len(), 1);
        for part in ["MIG-1", "by rank 3", "CUDA_VISIBLE_DEVICES=MIG-"] {
            assert!(lines[0].contains(part), "{part:?} in {lines:?}");
        }
        // Whole GPUs of other ranks are no mistake. The platform file may leave a slice without a driver.
        assert!(slice_notices(&[gpu("GPU-1")], &[], |_| Some(3)).is_empty());
        assert!(slice_notices(&[gpu("MIG-1")], &[], |_| None).is_empty());
    }
}
