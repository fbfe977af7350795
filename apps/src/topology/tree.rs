//! A host as a tree in the terminal.

use super::boxes::{Labelled, labelled, merged};
use super::host::{Host, ranges};
use crate::table::Table;

/// The tree with the device of each part beside it, the devices, and what else there is to say.
pub fn text(host: &Host) -> String {
    let mut lines = Vec::new();
    add(&merged(labelled(host)), "", "", &mut lines);
    let width = lines.iter().map(|(left, _)| left.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (left, role) in &lines {
        let line = format!("{left:<width$}  {role}");
        text += line.trim_end();
        text.push('\n');
    }
    text += &format!("\n{}", devices(host));
    if let Some(bytes) = host.memory_available_bytes {
        let available = isochron_devices::topology::size_text(bytes);
        text += &format!("\nmemory available: {available}\n");
    }
    if !host.blas.is_empty() {
        text += &format!("BLAS: {}\n", host.blas.join(", "));
    }
    if let Some(finding) = &host.cuda {
        text += &format!("CUDA: {finding}\n");
    }
    for notice in &host.notices {
        text += &format!("note: {notice}\n");
    }
    text
}

/// Adds the lines of a part: the first after `first`, those of its parts after `rest`.
fn add(part: &Labelled, first: &str, rest: &str, lines: &mut Vec<(String, String)>) {
    let words = part.memory.iter().chain(&part.facts).cloned();
    let words: Vec<String> = std::iter::once(part.title.clone()).chain(words).collect();
    lines.push((format!("{first}{}", words.join(", ")), part.role.clone()));
    for (i, child) in part.parts.iter().enumerate() {
        let (branch, below) = if i + 1 == part.parts.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        add(
            child,
            &format!("{rest}{branch}"),
            &format!("{rest}{below}"),
            lines,
        );
    }
}

fn devices(host: &Host) -> Table {
    let mut table = Table::new(3, &["device", "cores", "threads"]);
    for (rank, devices) in host.ranks.iter().enumerate() {
        for device in &devices.devices {
            let pinned = match (host.topology.this_system, device.pinned) {
                (false, _) => "",
                (true, true) => ", pinned",
                (true, false) => ", not pinned",
            };
            table.row(vec![
                host.device_name(rank, &device.name),
                ranges(&device.cores),
                format!("{}{pinned}", device.cores.len()),
            ]);
        }
        let mine = host.gpus.iter().filter_map(|gpu| Some((gpu, gpu.driven?)));
        for (gpu, driven) in mine.filter(|(_, driven)| driven.rank == rank) {
            let name = format!("GPU {}", gpu.info.bus_id);
            table.row(vec![
                host.device_name(rank, &name),
                driven.host_core.to_string(),
                "1, host core".to_owned(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn shown(xml: &str, ranks: usize) -> String {
        let topology = Topology::from_xml(xml).expect("a topology");
        text(&Host::new(&topology, Grouping::Auto, ranks))
    }

    #[test]
    fn a_gpu_stands_on_its_socket_with_its_host_core() {
        let xml = include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml");
        let expected = "\
host 256 GiB
├─ package 0, NUMA 0 128 GiB, Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz
│  └─ L3 48 MiB
│     └─ cores 0-7, 2 threads, L2 1.25 MiB                              rank 0 cpu0
└─ package 1, NUMA 1 128 GiB, Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz
   ├─ L3 48 MiB
   │  ├─ core 8, 2 threads, L2 1.25 MiB                                 host of GPU 0000:81:00.0
   │  └─ cores 9-15, 2 threads, L2 1.25 MiB                             rank 1 cpu0
   └─ GPU 0000:81:00.0, GA100 [A100 PCIe 80GB], 80 GiB, 31.5 GB/s       rank 1 host core 8

device                   cores  threads
rank 0 cpu0              0-7    8
rank 1 cpu0              9-15   7
rank 1 GPU 0000:81:00.0  8      1, host core
note: another machine's topology: nothing of it can be bound to or measured
";
        assert_eq!(shown(xml, 2), expected);
    }

    #[test]
    fn kinds_of_cores_are_named() {
        let text = shown(
            include_str!("../../../devices/tests/topologies/hybrid.xml"),
            1,
        );
        for line in [
            "cores 0-3, IntelCore, 2 threads, L2 1.25 MiB",
            "cores 4-7, IntelAtom ",
            "cpu1    4-11",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
