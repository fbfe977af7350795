//! Devices of other hosts: saved and made-up topologies.
//!
//! The files in `topologies/` are hwloc's exports; kinds of cores, PCI devices and the allowed set of the control group
//! were written into them.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]

use isochron_devices::host_devices;
use isochron_devices::internal::{Distances, rank_devices};
use isochron_devices::topology::{HostPart, HostPlace, PartKind};
use isochron_devices::{BusId, CoreGroup, Grouping, Topology};

const EIGHT_SOCKETS: &str = include_str!("topologies/eight-sockets.xml");
const HYBRID: &str = include_str!("topologies/hybrid.xml");
const GPU_ON_SECOND_SOCKET: &str = include_str!("topologies/gpu-on-second-socket.xml");
const SMT_IN_A_CGROUP: &str = include_str!("topologies/smt-in-a-cgroup.xml");

fn read_host(xml: &str) -> Topology {
    Topology::from_xml(xml).unwrap()
}

fn core_numbers(group: &CoreGroup) -> Vec<u32> {
    group.cores.iter().map(|core| core.core).collect()
}

/// Returns the cores of each device, by rank.
fn device_cores(topology: &Topology, ranks: usize, grouping: Grouping) -> Vec<Vec<Vec<u32>>> {
    host_devices(topology, ranks, grouping, &[])
        .into_iter()
        .map(|rank| rank.groups.iter().map(core_numbers).collect())
        .collect()
}

#[test]
fn eight_sockets_are_eight_devices() {
    let topology = read_host(EIGHT_SOCKETS);
    for grouping in [Grouping::Auto, Grouping::Numa, Grouping::Package] {
        let groups = &device_cores(&topology, 1, grouping)[0];
        assert_eq!(groups.len(), 8, "{grouping}");
        assert_eq!(groups[7], [28, 29, 30, 31]);
    }
    for grouping in [Grouping::Kind, Grouping::Node] {
        assert_eq!(device_cores(&topology, 1, grouping)[0].len(), 1, "{grouping}");
    }
}

#[test]
fn ranks_take_whole_sockets() {
    let topology = read_host(EIGHT_SOCKETS);
    for ranks in [1, 2, 4, 8] {
        for devices in device_cores(&topology, ranks, Grouping::Auto) {
            assert_eq!(devices.len(), 8 / ranks);
            assert!(devices.iter().all(|cores| cores.len() == 4));
        }
    }
    let sizes: Vec<usize> =
        device_cores(&topology, 3, Grouping::Node).iter().map(|devices| devices[0].len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 32);
    assert!(sizes.iter().all(|&cores| cores == 10 || cores == 11));
}

#[test]
fn fast_and_frugal_cores_are_different_devices() {
    let topology = read_host(HYBRID);
    let kinds = topology.kinds();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name.as_deref()).collect();
    assert_eq!(names, [Some("IntelAtom"), Some("IntelCore")]);
    assert_eq!(kinds[1].max_mhz, Some(4700));
    let groups = rank_devices(&topology, HostPlace::ALONE, Grouping::Auto, &[]).groups;
    assert_eq!(groups.len(), 2);
    // The fastest first; each of its cores has two threads, and is used once.
    assert_eq!(groups[0].kind, Some(1));
    assert_eq!(core_numbers(&groups[0]), [0, 1, 2, 3]);
    assert!(groups[0].cores.iter().all(|core| core.pus.len() == 2));
    assert_eq!(groups[1].kind, Some(0));
    assert_eq!(core_numbers(&groups[1]), [4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(rank_devices(&topology, HostPlace::ALONE, Grouping::Numa, &[]).groups[0].kind, None);
    assert!(!groups[0].pin, "another machine's cores cannot be bound to");
}

#[test]
fn two_kinds_that_nobody_ranks_are_two_devices() {
    // Without clock rates or a known maker's names hwloc cannot say which kind is the faster.
    let unranked = HYBRID
        .lines()
        .filter(|line| !line.contains("FrequencyMaxMHz"))
        .map(|line| line.replace("IntelAtom", "X").replace("IntelCore", "Y"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut sizes: Vec<usize> =
        rank_devices(&read_host(&unranked), HostPlace::ALONE, Grouping::Auto, &[])
            .groups
            .iter()
            .map(|group| group.cores.len())
            .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 8]);
}

#[test]
fn a_gpu_is_found_on_its_socket() {
    let topology = read_host(GPU_ON_SECOND_SOCKET);
    let gpus = topology.gpus();
    // The board's own video controller on the first socket is no GPU.
    assert_eq!(gpus.len(), 1);
    let gpu = &gpus[0];
    assert_eq!(gpu.bus_id.to_string(), "0000:81:00.0");
    assert_eq!(gpu.name.as_deref(), Some("GA100 [A100 PCIe 80GB]"));
    assert_eq!(gpu.vendor.as_deref(), Some("NVIDIA Corporation"));
    assert!(gpu.is_nvidia());
    assert_eq!(gpu.numa, Some(1));
    assert_eq!(gpu.near_cores, (8..16).collect::<Vec<u32>>());
    assert!((gpu.link_gb_per_s.unwrap() - 31.5).abs() < 0.1);
    assert_eq!(gpu.link, None);
    assert_eq!(gpu.memory_bytes, Some(80 << 30));
    let distances = topology.pci_distances(&"81:00.0".parse().unwrap());
    let expected = (0..16).map(|core| (core, u32::from(core < 8)));
    assert_eq!(distances, expected.collect::<Distances>());
}

#[test]
fn the_host_core_of_a_gpu_is_taken_from_the_group_beside_it() {
    let topology = read_host(GPU_ON_SECOND_SOCKET);
    let bus: Vec<BusId> = topology.gpus().iter().map(|gpu| gpu.bus_id).collect();
    let alone = &host_devices(&topology, 1, Grouping::Auto, &bus)[0];
    assert_eq!(alone.gpus.len(), 1);
    assert_eq!(alone.gpus[0].core.core, 8);
    assert_eq!(core_numbers(&alone.groups[0]), (0..8).collect::<Vec<u32>>());
    assert_eq!(core_numbers(&alone.groups[1]), (9..16).collect::<Vec<u32>>());
    let ranks = host_devices(&topology, 2, Grouping::Auto, &bus);
    assert!(ranks[0].gpus.is_empty());
    assert_eq!(ranks[1].gpus[0].core.core, 8);
    assert_eq!(core_numbers(&ranks[1].groups[0]).len(), 7);
}

#[test]
fn slices_of_one_gpu_have_a_host_core_each() {
    let topology = read_host(GPU_ON_SECOND_SOCKET);
    let bus = topology.gpus()[0].bus_id;
    let devices = &host_devices(&topology, 1, Grouping::Auto, &[bus, bus])[0];
    let hosts: Vec<u32> = devices.gpus.iter().map(|gpu| gpu.core.core).collect();
    assert_eq!(hosts, [8, 9]);
}

#[test]
fn only_what_the_control_group_allows_is_used() {
    let topology = read_host(SMT_IN_A_CGROUP);
    let cores = topology.cores();
    // The numbers are those of the whole host, in every control group.
    let logical: Vec<u32> = cores.iter().map(|core| core.core).collect();
    assert_eq!(logical, [8, 9, 10, 11, 24, 25, 26, 27, 28]);
    assert_eq!(cores[0].pus, [16, 17]);
    assert_eq!(cores[8].pus, [56], "one of two siblings is allowed");
    assert_eq!(cores[0].numa, 1);
    let groups = rank_devices(&topology, HostPlace::ALONE, Grouping::Auto, &[]).groups;
    assert_eq!(groups.len(), 2);
    let ranks = device_cores(&topology, 2, Grouping::Auto);
    assert_eq!(ranks[0], [[8, 9, 10, 11]]);
    assert_eq!(ranks[1], [[24, 25, 26, 27, 28]]);
    let notices = topology.notices();
    assert!(notices.iter().any(|line| line.starts_with("9 of 32 cores")), "{notices:?}");
}

fn gpus_in(part: &HostPart) -> usize {
    part.gpus.len() + part.parts.iter().map(gpus_in).sum::<usize>()
}

fn cores_in(part: &HostPart) -> Vec<u32> {
    match part.kind {
        PartKind::Core => part.cores.clone(),
        _ => part.parts.iter().flat_map(cores_in).collect(),
    }
}

#[test]
fn trees_hold_all_cores_and_gpus() {
    for (xml, gpus) in
        [(EIGHT_SOCKETS, 0), (HYBRID, 0), (GPU_ON_SECOND_SOCKET, 1), (SMT_IN_A_CGROUP, 0)]
    {
        let topology = read_host(xml);
        let tree = topology.tree();
        let cores: Vec<u32> = topology.cores().iter().map(|core| core.core).collect();
        assert_eq!(cores_in(&tree), cores);
        assert_eq!(tree.cores, cores);
        assert_eq!(gpus_in(&tree), gpus);
    }
    let socket = &read_host(GPU_ON_SECOND_SOCKET).tree().parts[1];
    assert_eq!((socket.kind, socket.gpus.len()), (PartKind::Package, 1));
}
