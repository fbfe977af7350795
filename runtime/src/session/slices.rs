//! What is said about slices of GPUs (MIG): which one a rank drives, and that one is another rank's already.
//!
//! A process sees a single slice of a GPU instance, and with drivers before R570 (CUDA 12.8) a single slice at all: ranks
//! that are not each given their own see the same one (NVIDIA Multi-Instance GPU User Guide, *CUDA Device Enumeration*).

use isochron_devices::CudaInfo;

use super::rank_gpu::RankGpu;

/// What to do for each rank of a host to see a slice of its own.
pub(super) const REMEDY: &str = "start each rank with CUDA_VISIBLE_DEVICES=MIG-UUID of its own slice, as nvidia-smi -L lists them";

/// One line for each slice that this rank drives, or one that says who drives the slices that it sees.
///
/// `driver_of` is the rank of this host that drives the GPU with a UUID, if any does.
pub(super) fn notices(
    found: &[CudaInfo],
    mine: &[RankGpu],
    driver_of: impl Fn(&str) -> Option<usize>,
) -> Vec<String> {
    let driven = mine.iter().filter(|gpu| gpu.info.is_slice);
    let lines: Vec<String> = driven.map(used_alone).collect();
    if !mine.is_empty() || found.iter().any(|gpu| !gpu.is_slice) {
        return lines;
    }
    let taken: Vec<String> = found
        .iter()
        .filter_map(|gpu| Some(format!("{} by rank {}", text(gpu), driver_of(&gpu.uuid)?)))
        .collect();
    if taken.is_empty() {
        return lines;
    }
    vec![format!(
        "this rank drives no GPU: what it sees of GPUs are slices that other ranks drive, {}; {REMEDY}",
        taken.join(", ")
    )]
}

fn used_alone(gpu: &RankGpu) -> String {
    let shared = match gpu.sharers {
        0 | 1 => String::new(),
        n => format!(", which {n} devices share"),
    };
    format!(
        "{}: a slice of a GPU (MIG){shared}; only this slice is used, and others of the GPU by other ranks alone",
        text(&gpu.info)
    )
}

fn text(gpu: &CudaInfo) -> String {
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
        RankGpu {
            info: gpu(uuid),
            sharers,
            on_host: 1,
        }
    }

    #[test]
    fn a_driven_slice_is_named() {
        let found = [gpu("MIG-1")];
        let lines = notices(&found, &[mine("MIG-1", 1)], |_| Some(0));
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains("MIG-1") && lines[0].contains("only this slice"),
            "{lines:?}"
        );
        let lines = notices(&found, &[mine("MIG-1", 2)], |_| Some(0));
        assert!(lines[0].contains("2 devices share"), "{lines:?}");
        assert!(notices(&[gpu("GPU-1")], &[mine("GPU-1", 1)], |_| Some(0)).is_empty());
    }

    #[test]
    fn a_rank_without_a_slice_of_its_own_is_told_who_has_it() {
        let lines = notices(&[gpu("MIG-1")], &[], |_| Some(3));
        assert_eq!(lines.len(), 1);
        for part in ["MIG-1", "by rank 3", "CUDA_VISIBLE_DEVICES=MIG-"] {
            assert!(lines[0].contains(part), "{part:?} in {lines:?}");
        }
        // Whole GPUs that others drive are no mistake, and a slice that nobody drives is a wish of the platform file.
        assert!(notices(&[gpu("GPU-1")], &[], |_| Some(3)).is_empty());
        assert!(notices(&[gpu("MIG-1")], &[], |_| None).is_empty());
    }
}
