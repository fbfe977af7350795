//! The GPUs of the emulated machine, and which of them a process sees, as NVIDIA documents it.
//!
//! A GPU may be split (MIG) into GPU instances, each with its own memory, and these into compute instances. A slice is
//! a compute instance with its GPU instance. A process sees whole GPUs and slices, under these rules:
//!
//! * `CUDA_VISIBLE_DEVICES` names the visible GPUs in their order: by index, by UUID (`GPU-…`, or a unique beginning of
//!   it), or by the whole UUID of a slice (`MIG-…`). The first entry that names nothing ends the list. A split GPU
//!   stands for its slices. Without the variable every GPU is named.
//! * Drivers for CUDA before 12.8 (R570) show a process one slice, the first one named, and then no whole GPU.
//! * Later drivers show one compute instance of each GPU instance, the first one named, and whole GPUs as well.
//!
//! # References
//! NVIDIA Multi-Instance GPU User Guide, *CUDA Device Enumeration*; CUDA C++ Programming Guide, *CUDA Environment
//! Variables*.

/// From this version on, a process sees slices of several GPU instances.
const SEVERAL_SLICES: i32 = 12_080;

/// A GPU of the emulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedGpu {
    /// Bytes of memory; each GPU instance has its part of it.
    pub memory: u64,
    /// Address on the bus.
    pub pci: String,
    /// The number of compute instances in each of its GPU instances; empty if it is not split.
    pub instances: Vec<usize>,
}

/// A device as a process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// The model.
    pub name: String,
    /// Unique on the machine, and the same in every process.
    pub uuid: [u8; 16],
    /// Address of the GPU on the bus.
    pub pci: String,
    /// Bytes of memory.
    pub memory: u64,
}

/// A whole GPU, or one of its slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VisiblePart {
    gpu: usize,
    /// The GPU instance and the compute instance of a slice.
    slice: Option<(usize, usize)>,
}

/// Returns the devices that a process sees, with a driver for this version of CUDA and `names` in
/// `CUDA_VISIBLE_DEVICES`.
pub fn list_visible(gpus: &[EmulatedGpu], version: i32, names: Option<&str>) -> Vec<Visible> {
    let mut seen: Vec<VisiblePart> = Vec::new();
    for part in find_named(gpus, names) {
        if !seen.iter().any(|other| other.hides(part)) {
            seen.push(part);
        }
    }
    if version < SEVERAL_SLICES
        && let Some(first) = seen.iter().copied().find(|part| part.slice.is_some())
    {
        seen = vec![first];
    }
    seen.into_iter().map(|part| part.describe(gpus)).collect()
}

/// Returns all parts that are named, in order.
fn find_named(gpus: &[EmulatedGpu], names: Option<&str>) -> Vec<VisiblePart> {
    let Some(names) = names else {
        return (0..gpus.len()).flat_map(|gpu| split_gpu(gpus, gpu)).collect();
    };
    names
        .split(',')
        .map(|name| find_entry(gpus, name.trim()))
        .map_while(|parts| parts)
        .flatten()
        .collect()
}

/// Returns the parts that one entry names.
fn find_entry(gpus: &[EmulatedGpu], name: &str) -> Option<Vec<VisiblePart>> {
    if name.starts_with("MIG-") {
        let mut all = (0..gpus.len()).flat_map(|gpu| split_gpu(gpus, gpu));
        let part = all.find(|part| part.slice.is_some() && part.format_uuid() == name)?;
        return Some(vec![part]);
    }
    let gpu = if name.len() > "GPU-".len() && name.starts_with("GPU-") {
        let mut fitting =
            (0..gpus.len()).filter(|&gpu| VisiblePart::whole(gpu).format_uuid().starts_with(name));
        fitting.next().filter(|_| fitting.next().is_none())?
    } else {
        name.parse().ok().filter(|&index| index < gpus.len())?
    };
    Some(split_gpu(gpus, gpu))
}

/// Returns a whole GPU, or all slices of a split one.
fn split_gpu(gpus: &[EmulatedGpu], gpu: usize) -> Vec<VisiblePart> {
    let instances = &gpus[gpu].instances;
    if instances.is_empty() {
        return vec![VisiblePart::whole(gpu)];
    }
    let slices = instances.iter().enumerate();
    slices
        .flat_map(|(instance, &count)| (0..count).map(move |c| (instance, c)))
        .map(|slice| VisiblePart { gpu, slice: Some(slice) })
        .collect()
}

impl VisiblePart {
    fn whole(gpu: usize) -> Self {
        Self { gpu, slice: None }
    }

    /// Returns `true` if a process that sees this part does not see `other` again.
    fn hides(self, other: Self) -> bool {
        self == other || (other.slice.is_some() && self.instance() == other.instance())
    }

    /// Returns the GPU instance of a slice.
    fn instance(self) -> Option<(usize, usize)> {
        Some((self.gpu, self.slice?.0))
    }

    fn uuid(self) -> [u8; 16] {
        let mut uuid = [if self.slice.is_some() { 0xE1 } else { 0xE0 }; 16];
        let (instance, compute) = self.slice.unwrap_or_default();
        let place = [self.gpu, instance, compute];
        uuid[13..].copy_from_slice(&place.map(|number| number as u8));
        uuid
    }

    /// Formats the UUID as `nvidia-smi -L` does.
    fn format_uuid(self) -> String {
        let digits: String = self.uuid().iter().map(|b| format!("{b:02x}")).collect();
        let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]);
        let kind = if self.slice.is_some() { "MIG" } else { "GPU" };
        format!("{kind}-{}", groups.join("-"))
    }

    fn describe(self, gpus: &[EmulatedGpu]) -> Visible {
        let gpu = &gpus[self.gpu];
        let mut name = format!("Emulated CUDA device {}", self.gpu);
        if let Some((instance, compute)) = self.slice {
            name += &format!(" MIG 1c.1g instance {instance}.{compute}");
        }
        Visible {
            name,
            uuid: self.uuid(),
            pci: gpu.pci.clone(),
            memory: gpu.memory / gpu.instances.len().max(1) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 12.4, and 13.0.
    const BEFORE: i32 = 12_040;
    const AFTER: i32 = 13_000;

    fn make_machine(instances: &[&[usize]]) -> Vec<EmulatedGpu> {
        instances
            .iter()
            .enumerate()
            .map(|(i, instances)| EmulatedGpu {
                memory: 1 << 20,
                pci: format!("0000:{i:02x}:00.0"),
                instances: instances.to_vec(),
            })
            .collect()
    }

    /// Returns the last bytes of the UUIDs that are seen; slices with their instances.
    fn list_seen(gpus: &[EmulatedGpu], version: i32, names: Option<&str>) -> Vec<String> {
        list_visible(gpus, version, names)
            .iter()
            .map(|device| match device.uuid {
                [0xE0, .., gpu, 0, 0] => format!("{gpu}"),
                [.., gpu, instance, compute] => format!("{gpu}/{instance}/{compute}"),
            })
            .collect()
    }

    #[test]
    fn whole_gpus_are_seen_as_they_are_named() {
        let gpus = make_machine(&[&[], &[], &[]]);
        assert_eq!(list_seen(&gpus, AFTER, None), ["0", "1", "2"]);
        assert_eq!(list_seen(&gpus, AFTER, Some("2,0")), ["2", "0"]);
        let second = "GPU-e0e0e0e0-e0e0-e0e0-e0e0-e0e0e0010000";
        let start = &second[..second.len() - 4];
        for names in ["1,-1,0", "1, 9, 0", second, start] {
            assert_eq!(list_seen(&gpus, AFTER, Some(names)), ["1"], "{names}");
        }
        for nothing in ["", "GPU-", "GPU-e0e0", "GPU-12", "MIG-12", "none"] {
            let seen = list_seen(&gpus, AFTER, Some(nothing));
            assert!(seen.is_empty(), "{nothing}");
        }
    }

    #[test]
    fn older_drivers_show_one_slice_and_nothing_else() {
        let gpus = make_machine(&[&[], &[1, 1], &[2]]);
        assert_eq!(list_seen(&gpus, BEFORE, None), ["1/0/0"]);
        let second = "MIG-e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1010100";
        let in_a_list = format!("0,{second},2");
        for (names, seen) in
            [("0", "0"), ("2,1,0", "2/0/0"), (second, "1/1/0"), (&in_a_list, "1/1/0")]
        {
            assert_eq!(list_seen(&gpus, BEFORE, Some(names)), [seen], "{names}");
        }
        assert!(list_seen(&gpus, BEFORE, Some(&second[..20])).is_empty());
    }

    #[test]
    fn newer_drivers_show_a_slice_of_each_instance() {
        let gpus = make_machine(&[&[], &[1, 1], &[2]]);
        assert_eq!(list_seen(&gpus, AFTER, None), ["0", "1/0/0", "1/1/0", "2/0/0"]);
        let last = "MIG-e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1020001";
        assert_eq!(list_seen(&gpus, AFTER, Some(last)), ["2/0/1"]);
        let names = format!("{last},2,0");
        assert_eq!(list_seen(&gpus, AFTER, Some(&names)), ["2/0/1", "0"]);
    }

    #[test]
    fn a_slice_has_its_part_of_the_memory() {
        let gpus = make_machine(&[&[2, 1]]);
        let all = list_visible(&gpus, AFTER, None);
        assert_eq!(all.iter().map(|v| v.memory).sum::<u64>(), 1 << 20);
        assert!(all.iter().all(|v| v.name.contains(" MIG ")));
        assert_eq!(all[0].pci, all[1].pci);
    }
}
