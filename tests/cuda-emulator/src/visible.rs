//! The GPUs of the emulated machine, and which of them a process sees, as NVIDIA documents it.
//!
//! A GPU may be split (MIG) into GPU instances, each with memory of its own, and these into compute instances; a slice is
//! a compute instance with the GPU instance around it. A process sees whole GPUs and slices, under these rules:
//!
//! * `CUDA_VISIBLE_DEVICES` names what is seen and in which order, by index, by UUID (`GPU-…`, of which a beginning will
//!   do where it is unique) or by the UUID of a slice (`MIG-…`, whole). The first entry that names nothing ends the list.
//!   A split GPU that is named stands for its slices. Without the variable everything is named.
//! * Drivers for CUDA before 12.8 (R570) show a process one slice, the first that is named, and no whole GPU beside it.
//! * Later ones show one compute instance of each GPU instance, the first that is named, and whole GPUs as well.
//!
//! # References
//! NVIDIA Multi-Instance GPU User Guide, *CUDA Device Enumeration*; CUDA C++ Programming Guide, *CUDA Environment
//! Variables*.

/// From this version on, a process sees slices of several GPU instances.
const SEVERAL_SLICES: i32 = 12_080;

/// A GPU of the emulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Bytes of memory, of which each GPU instance has its part.
    pub memory: u64,
    /// Its address on the bus.
    pub pci: String,
    /// The number of compute instances in each of its GPU instances; empty when it is not split.
    pub instances: Vec<usize>,
}

/// What a process sees as one device.
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
enum Part {
    Whole(usize),
    Slice {
        gpu: usize,
        instance: usize,
        compute: usize,
    },
}

/// What a process sees of these GPUs, with a driver for this version of CUDA and `names` in `CUDA_VISIBLE_DEVICES`.
pub fn visible(gpus: &[Gpu], version: i32, names: Option<&str>) -> Vec<Visible> {
    let mut seen: Vec<Part> = Vec::new();
    for part in named(gpus, names) {
        let hidden = |other: &Part| {
            *other == part || (part.is_slice() && other.instance() == part.instance())
        };
        if !seen.iter().any(hidden) {
            seen.push(part);
        }
    }
    if version < SEVERAL_SLICES
        && let Some(first) = seen.iter().copied().find(|part| part.is_slice())
    {
        seen = vec![first];
    }
    seen.into_iter().map(|part| part.describe(gpus)).collect()
}

/// Everything that is named, in order.
fn named(gpus: &[Gpu], names: Option<&str>) -> Vec<Part> {
    let Some(names) = names else {
        return (0..gpus.len()).flat_map(|gpu| parts(gpus, gpu)).collect();
    };
    let found = names.split(',').map(|name| find(gpus, name.trim()));
    found.map_while(|parts| parts).flatten().collect()
}

/// What one entry names.
fn find(gpus: &[Gpu], name: &str) -> Option<Vec<Part>> {
    let all = || (0..gpus.len()).flat_map(|gpu| parts(gpus, gpu));
    if name.starts_with("MIG-") {
        let part = all().find(|part| part.is_slice() && part.uuid_text() == name)?;
        return Some(vec![part]);
    }
    let gpu = if name.len() > "GPU-".len() && name.starts_with("GPU-") {
        let mut fitting =
            (0..gpus.len()).filter(|&gpu| Part::Whole(gpu).uuid_text().starts_with(name));
        fitting.next().filter(|_| fitting.next().is_none())?
    } else {
        name.parse().ok().filter(|&index| index < gpus.len())?
    };
    Some(parts(gpus, gpu))
}

/// A GPU, or all slices of one that is split.
fn parts(gpus: &[Gpu], gpu: usize) -> Vec<Part> {
    let instances = &gpus[gpu].instances;
    if instances.is_empty() {
        return vec![Part::Whole(gpu)];
    }
    let slices = instances.iter().enumerate().flat_map(|(instance, &count)| {
        (0..count).map(move |compute| Part::Slice {
            gpu,
            instance,
            compute,
        })
    });
    slices.collect()
}

impl Part {
    fn is_slice(self) -> bool {
        matches!(self, Self::Slice { .. })
    }

    /// The GPU instance of a slice.
    fn instance(self) -> Option<(usize, usize)> {
        match self {
            Self::Whole(_) => None,
            Self::Slice { gpu, instance, .. } => Some((gpu, instance)),
        }
    }

    fn uuid(self) -> [u8; 16] {
        let (kind, place) = match self {
            Self::Whole(gpu) => (0xE0, [gpu, 0, 0]),
            Self::Slice {
                gpu,
                instance,
                compute,
            } => (0xE1, [gpu, instance, compute]),
        };
        let mut uuid = [kind; 16];
        uuid[13..].copy_from_slice(&place.map(|number| number as u8));
        uuid
    }

    /// The UUID as `nvidia-smi -L` prints it.
    fn uuid_text(self) -> String {
        let digits: String = self.uuid().iter().map(|b| format!("{b:02x}")).collect();
        let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]);
        let kind = if self.is_slice() { "MIG" } else { "GPU" };
        format!("{kind}-{}", groups.join("-"))
    }

    fn describe(self, gpus: &[Gpu]) -> Visible {
        let (Self::Whole(index) | Self::Slice { gpu: index, .. }) = self;
        let gpu = &gpus[index];
        let name = format!("Emulated CUDA device {index}");
        Visible {
            name: match self {
                Self::Whole(_) => name,
                Self::Slice {
                    instance, compute, ..
                } => format!("{name} MIG 1c.1g instance {instance}.{compute}"),
            },
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

    fn machine(instances: &[&[usize]]) -> Vec<Gpu> {
        let gpu = |(i, instances): (usize, &&[usize])| Gpu {
            memory: 1 << 20,
            pci: format!("0000:{i:02x}:00.0"),
            instances: instances.to_vec(),
        };
        instances.iter().enumerate().map(gpu).collect()
    }

    /// The last bytes of the UUIDs of what is seen, slices with their instances.
    fn seen(gpus: &[Gpu], version: i32, names: Option<&str>) -> Vec<String> {
        let visible = visible(gpus, version, names);
        let short = |v: &Visible| match v.uuid {
            [0xE0, .., gpu, 0, 0] => format!("{gpu}"),
            [.., gpu, instance, compute] => format!("{gpu}/{instance}/{compute}"),
        };
        visible.iter().map(short).collect()
    }

    #[test]
    fn whole_gpus_are_seen_as_they_are_named() {
        let gpus = machine(&[&[], &[], &[]]);
        let seen = |names: Option<&str>| seen(&gpus, AFTER, names);
        assert_eq!(seen(None), ["0", "1", "2"]);
        assert_eq!(seen(Some("2,0")), ["2", "0"]);
        assert_eq!(seen(Some("1,-1,0")), ["1"]);
        assert_eq!(seen(Some("1, 9, 0")), ["1"]);
        let second = "GPU-e0e0e0e0-e0e0-e0e0-e0e0-e0e0e0010000";
        assert_eq!(seen(Some(second)), ["1"]);
        assert_eq!(seen(Some(&second[..second.len() - 4])), ["1"]);
        for nothing in ["", "GPU-", "GPU-e0e0", "GPU-12", "MIG-12", "none"] {
            assert!(seen(Some(nothing)).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn older_drivers_show_one_slice_and_nothing_else() {
        let gpus = machine(&[&[], &[1, 1], &[2]]);
        let seen = |names: Option<&str>| seen(&gpus, BEFORE, names);
        assert_eq!(seen(None), ["1/0/0"]);
        assert_eq!(seen(Some("0")), ["0"]);
        assert_eq!(seen(Some("2,1,0")), ["2/0/0"]);
        let second = "MIG-e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1010100";
        assert_eq!(seen(Some(second)), ["1/1/0"]);
        assert_eq!(seen(Some(&format!("0,{second},2"))), ["1/1/0"]);
        assert!(seen(Some(&second[..20])).is_empty());
    }

    #[test]
    fn newer_drivers_show_a_slice_of_each_instance() {
        let gpus = machine(&[&[], &[1, 1], &[2]]);
        let seen = |names: Option<&str>| seen(&gpus, AFTER, names);
        assert_eq!(seen(None), ["0", "1/0/0", "1/1/0", "2/0/0"]);
        let last = "MIG-e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1020001";
        assert_eq!(seen(Some(last)), ["2/0/1"]);
        assert_eq!(seen(Some(&format!("{last},2,0"))), ["2/0/1", "0"]);
    }

    #[test]
    fn a_slice_has_its_part_of_the_memory() {
        let gpus = machine(&[&[2, 1]]);
        let all = visible(&gpus, AFTER, None);
        assert_eq!(all.iter().map(|v| v.memory).sum::<u64>(), 1 << 20);
        assert!(all.iter().all(|v| v.name.contains(" MIG ")));
        assert_eq!(all[0].pci, all[1].pci);
    }
}
