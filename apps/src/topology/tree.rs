//! Hosts as trees in the terminal.

use super::boxes::{Labelled, labelled, merged};
use super::host::{Host, Rank, ranges};
use crate::table::Table;

/// One tree after the other, each under its name and ranks where there are several; a host that is like an earlier one but
/// for these is not drawn again.
pub fn text(hosts: &[Host]) -> String {
    match hosts {
        [host] if host.ranks.len() == 1 || !host.topology.this_system => return one(host),
        _ => {}
    }
    let likenesses: Vec<String> = hosts.iter().map(likeness).collect();
    let shown = hosts.iter().enumerate().map(|(i, host)| {
        let first = likenesses.iter().position(|other| *other == likenesses[i]);
        let caption = host.caption();
        match first.filter(|&first| first < i) {
            Some(first) => format!("{caption}: as {}\n", hosts[first].caption()),
            None => format!("{caption}:\n{}", one(host)),
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The text of a host without what tells it from others of its build.
fn likeness(host: &Host) -> String {
    let mut host = host.clone();
    host.memory_available_bytes = None;
    let numbers: Vec<usize> = host.ranks.iter().map(|rank| rank.rank).collect();
    let place = |rank: usize| numbers.iter().position(|&number| number == rank);
    for rank in &mut host.ranks {
        rank.rank = place(rank.rank).unwrap_or_default();
    }
    for driven in host.gpus.iter_mut().filter_map(|gpu| gpu.driven.as_mut()) {
        driven.rank = place(driven.rank).unwrap_or_default();
    }
    one(&host)
}

/// The tree with the device of each part beside it, the devices, and what else there is to say.
fn one(host: &Host) -> String {
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
    if let Some(finding) = &host.cuda_finding {
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
    for Rank { rank, devices } in &host.ranks {
        for device in devices {
            let pinned = match (host.topology.this_system, device.pinned) {
                (false, _) => "",
                (true, true) => ", pinned",
                (true, false) => ", not pinned",
            };
            table.row(vec![
                host.device_name(*rank, &device.name),
                ranges(&device.cores),
                format!("{}{pinned}", device.cores.len()),
            ]);
        }
        let gpus = host.gpus.iter();
        let driven = gpus.filter_map(|gpu| Some((gpu, gpu.driven.as_ref()?)));
        for (gpu, driven) in driven.filter(|(_, driven)| driven.rank == *rank) {
            table.row(vec![
                host.device_name(*rank, &driven.device),
                driven.host_core.to_string(),
                format!("1, host core of GPU {}", gpu.info.bus_id),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::job::{made_up, planned};
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn shown(xml: &str, ranks: usize) -> String {
        let topology = Topology::from_xml(xml).expect("a topology");
        text(&[planned(&topology, Grouping::Auto, ranks)])
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
   │  ├─ core 8, 2 threads, L2 1.25 MiB                                 host of rank 1 cuda0
   │  └─ cores 9-15, 2 threads, L2 1.25 MiB                             rank 1 cpu0
   └─ GPU 0000:81:00.0, GA100 [A100 PCIe 80GB], 80 GiB, 31.5 GB/s       rank 1 cuda0, host core 8

device        cores  threads
rank 0 cpu0   0-7    8
rank 1 cpu0   9-15   7
rank 1 cuda0  8      1, host core of GPU 0000:81:00.0
note: another machine's topology: nothing of it can be bound to or measured
";
        assert_eq!(shown(xml, 2), expected);
    }

    #[test]
    fn hosts_follow_each_other_and_twins_are_drawn_once() {
        let mut hosts = made_up();
        let text = text(&hosts);
        let expected = "\
a, ranks 0,2:
host 1 GiB, NUMA 0 1 GiB
├─ package 0
│  └─ cores 0-1, 2 threads  rank 0 cpu0
└─ package 1
   └─ cores 2-3, 2 threads  rank 2 cpu0
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\nb, ranks 1,3: as a, ranks 0,2\n"), "{text}");
        for line in ["\nc, ranks 4-5:\nhost", "rank 5 cuda0, host core 3"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        // Another division of the same cores is not the same.
        hosts[1].ranks[0].devices[0].cores = vec![0];
        assert!(!super::text(&hosts).contains("as a"));
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
