//! Hosts as trees in the terminal.

use isochron_hierarchy::printable::escape;

use super::boxes::{Labelled, label_host};
use super::host::{HostReport, RankReport, ranges_text};
use crate::table::TextTable;

/// Draws hosts as trees. Of several, each has its name and ranks above it, and one that is otherwise like an earlier
/// one is only named.
pub fn draw_trees(hosts: &[HostReport]) -> String {
    match hosts {
        [host] if host.ranks.len() == 1 || !host.topology.this_system => return draw_tree(host),
        _ => {}
    }
    let likenesses: Vec<String> = hosts.iter().map(draw_anonymously).collect();
    hosts
        .iter()
        .enumerate()
        .map(|(i, host)| {
            let first = likenesses.iter().position(|other| *other == likenesses[i]);
            let caption = host.caption();
            match first.filter(|&first| first < i) {
                Some(first) => {
                    format!("{}: as {}\n", escape(&caption), escape(&hosts[first].caption()))
                }
                None => format!("{}:\n{}", escape(&caption), draw_tree(host)),
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Draws a host without the figures in which hosts of one build differ.
fn draw_anonymously(host: &HostReport) -> String {
    let mut host = host.clone();
    host.memory_available_bytes = None;
    let numbers: Vec<usize> = host.ranks.iter().map(|rank| rank.rank).collect();
    let driven = host.gpus.iter_mut().filter_map(|gpu| gpu.driven.as_mut());
    let drivers = driven.map(|driven| &mut driven.rank);
    for rank in host.ranks.iter_mut().map(|rank| &mut rank.rank).chain(drivers) {
        let place = numbers.iter().position(|number| number == rank);
        *rank = place.unwrap_or_default();
    }
    draw_tree(&host)
}

/// Draws the tree with the device of each part next to it, then lists the devices and other facts.
fn draw_tree(host: &HostReport) -> String {
    let mut lines = Vec::new();
    add_part(&label_host(host).merge_cores(), "", "", &mut lines);
    let width = lines.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (left, role) in &lines {
        let line = format!("{left:<width$}  {role}");
        text += line.trim_end();
        text.push('\n');
    }
    text += &format!("\n{}", device_table(host));
    if let Some(bytes) = host.memory_available_bytes {
        let available = isochron_devices::topology::size_text(bytes);
        text += &format!("\nmemory available: {available}\n");
    }
    if !host.blas.is_empty() {
        text += &format!("BLAS: {}\n", escape(&host.blas.join(", ")));
    }
    if let Some(finding) = &host.cuda_finding {
        text += &format!("CUDA: {}\n", escape(finding));
    }
    for notice in &host.notices {
        text += &format!("note: {}\n", escape(notice));
    }
    text
}

/// Adds the lines of a part: its own behind `first`, those of its parts behind `rest`.
fn add_part(part: &Labelled, first: &str, rest: &str, lines: &mut Vec<(String, String)>) {
    let facts = part.memory.iter().chain(&part.facts).cloned();
    let words: Vec<String> = std::iter::once(part.title.clone()).chain(facts).collect();
    let words = words.join(", ");
    lines.push((format!("{first}{}", escape(&words)), escape(&part.role).into_owned()));
    for (i, child) in part.parts.iter().enumerate() {
        let [branch, below] =
            if i + 1 == part.parts.len() { ["└─ ", "   "] } else { ["├─ ", "│  "] }
                .map(|end| format!("{rest}{end}"));
        add_part(child, &branch, &below, lines);
    }
}

fn device_table(host: &HostReport) -> TextTable {
    let mut table = TextTable::new(3, "device|cores|threads");
    for RankReport { rank, devices } in &host.ranks {
        for device in devices {
            let pinned = match (host.topology.this_system, device.pinned) {
                (false, _) => "",
                (true, true) => ", pinned",
                (true, false) => ", not pinned",
            };
            table.add_row([
                host.device_name(*rank, &device.name),
                ranges_text(&device.cores),
                format!("{}{pinned}", device.cores.len()),
            ]);
        }
        let driven = host.gpus.iter().filter_map(|gpu| Some((gpu, gpu.driven.as_ref()?)));
        for (gpu, driven) in driven.filter(|(_, driven)| driven.rank == *rank) {
            table.add_row([
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
    use super::super::job::made_up::make_test_hosts;
    use super::super::job::plan_host;
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn draw_saved(xml: &str, ranks: usize) -> String {
        let topology = Topology::from_xml(xml).expect("a topology");
        draw_trees(&[plan_host(&topology, Grouping::Auto, ranks)])
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
        assert_eq!(draw_saved(xml, 2), expected);
    }

    #[test]
    fn hosts_follow_each_other_and_twins_are_drawn_once() {
        let mut hosts = make_test_hosts();
        let text = draw_trees(&hosts);
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
        assert!(!draw_trees(&hosts).contains("as a"));
    }

    #[test]
    fn kinds_of_cores_are_named() {
        let text = draw_saved(include_str!("../../../devices/tests/topologies/hybrid.xml"), 1);
        for line in [
            "cores 0-3, IntelCore, 2 threads, L2 1.25 MiB",
            "cores 4-7, IntelAtom ",
            "cpu1    4-11",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
