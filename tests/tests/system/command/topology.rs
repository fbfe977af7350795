//! `isochron topology`, and where the ranks of a host run.

use std::collections::BTreeSet;

use isochron_tests::launch::libraries;
use serde_json::Value;

use super::{Folder, json, refused, run_line};

/// Returns the only node of the printed JSON.
fn only_node(text: &str) -> Value {
    let shown = json(text);
    assert_eq!(shown["schema"], 2);
    let nodes = shown["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 1, "{shown}");
    nodes[0].clone()
}

/// The only node that a line shows.
fn show(line: &str) -> Value {
    only_node(&run_line(&format!("{line} --json")).success())
}

/// A saved host of the device layer's tests.
fn saved(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../devices/tests/topologies");
    format!("{folder}/{name}.xml")
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect()
}

#[test]
fn this_host_is_shown() {
    let host = show("topology");
    let cores = host["cores"].as_array().expect("a list");
    assert!(!cores.is_empty(), "{host}");
    assert_eq!(host["group"], "auto");
    assert!(host["blas"].as_array().is_some_and(|blas| !blas.is_empty()));
    let devices = host["ranks"][0]["devices"].as_array().expect("a list");
    assert!(!devices.is_empty(), "{host}");
    assert_eq!(host["tree"]["part"], "host");
    let text = run_line("topology").success();
    assert!(text.starts_with("host ") && text.contains("cpu0"), "{text}");
}

#[test]
fn ranks_of_a_job_show_their_hosts_once() {
    let alone = show("topology");
    let n_cores = alone["cores"].as_array().expect("a list").len();
    for mpi in libraries() {
        for n_ranks in [1, 3] {
            let host = only_node(&mpi.run_line(n_ranks, "topology --json --group node").success());
            assert_eq!(host["cores"], alone["cores"], "{}", mpi.name);
            let ranks = host["ranks"].as_array().expect("a list");
            assert_eq!(ranks.len(), n_ranks);
            let mut used = BTreeSet::new();
            for (number, rank) in ranks.iter().enumerate() {
                assert_eq!(rank["rank"], number);
                used.extend(numbers(&rank["devices"][0]["cores"]));
            }
            let n_driven = host["gpus"].as_array().expect("a list").len();
            assert!(used.len() + n_driven >= n_cores, "{host}");
        }
        let text = mpi.run_line(3, "topology").success();
        assert!(text.contains(", ranks 0-2:\nhost "), "{text}");
        assert_eq!(text.matches("\nhost ").count(), 1, "{text}");
        assert!(text.contains("rank 2 cpu0"), "{text}");
        // A host that is planned with is one, however many are at it.
        let words = ["topology", "--synthetic", "core:4 pu:1", "--json"];
        only_node(&mpi.isochron(3, &words).success());
    }
}

#[test]
fn a_saved_host_is_shown_with_its_gpu() {
    let file = saved("gpu-on-second-socket");
    let host = show(&format!("topology --file {file} --ranks-per-host 2"));
    let gpu = &host["gpus"][0];
    assert_eq!(gpu["bus_id"], "0000:81:00.0");
    assert_eq!(gpu["driven"]["rank"], 1);
    assert_eq!(gpu["driven"]["host_core"], 8);
    assert_eq!(gpu["driven"]["device"], "cuda0");
    assert_eq!((&host["host"], &host["cuda_finding"]), (&Value::Null, &Value::Null));
    assert_eq!(gpu["pci"]["numa"], 1);
    assert!((gpu["pci"]["link_gb_per_s"].as_f64().expect("a number") - 31.5).abs() < 0.1);
    let cores = numbers(&host["ranks"][1]["devices"][0]["cores"]);
    assert_eq!(cores, (9..16).collect::<Vec<u64>>());
    assert_eq!(host["tree"]["parts"][1]["gpus"][0], "0000:81:00.0");
    assert_eq!(host["this_system"], false);
}

#[test]
fn groups_are_as_asked() {
    let file = saved("hybrid");
    for (group, devices) in [("auto", 2), ("kind", 2), ("numa", 1), ("package", 1), ("node", 1)] {
        let host = show(&format!("topology --file {file} --group {group}"));
        let found = host["ranks"][0]["devices"].as_array().expect("a list");
        assert_eq!((found.len(), &host["group"]), (devices, &Value::from(group)));
    }
}

#[test]
fn a_host_that_cannot_be_read_is_bad_input() {
    refused("topology --file", &["no-such.xml"], &["no-such.xml"]);
    let folder = Folder::new();
    let file = folder.write("host.xml", "<topology");
    refused("topology --file", &[&file], &["host.xml"]);
    refused("topology --synthetic socks:2", &[], &["socks:2"]);
    refused("topology --group socket", &[], &["socket", "numa"]);
    refused("topology --ranks-per-host 0", &[], &["0"]);
}

#[test]
fn threads_of_ranks_run_on_cores_of_their_own() {
    let here = show("topology");
    let n_cores = here["cores"].as_array().expect("a list").len();
    for mpi in libraries() {
        for ranks in [1, 2] {
            let line = "mxm --size 200 --block 32 --group node --json";
            let report = json(&mpi.run_line(ranks, line).success());
            let mut used = BTreeSet::new();
            for node in report["nodes"].as_array().expect("a list") {
                for device in node["devices"].as_array().expect("a list") {
                    let cores = numbers(&device["cores"]);
                    let threads = device["threads"].as_array().expect("a list");
                    assert_eq!(threads.len(), cores.len(), "{device}");
                    if device["pinned"] != true {
                        continue;
                    }
                    for core in cores {
                        assert!(used.insert(core), "core {core} is two devices' of {report}");
                    }
                    for thread in threads {
                        let bound = numbers(&thread["bound_to"]);
                        let ran = numbers(&thread["ran_on"]);
                        assert!(ran.iter().all(|unit| bound.contains(unit)), "{thread}");
                    }
                }
            }
            let pinned = here["ranks"][0]["devices"][0]["pinned"] == true && ranks <= n_cores;
            assert!(!pinned || used.len() == n_cores, "{used:?} of {n_cores} cores");
        }
    }
}
