//! GPUs of a host among the devices of a platform file, on the emulated CUDA.

use isochron_tests::emulator::{emulate, run_emulated};
use isochron_tests::launch::{HANGS, Mpi, Outcome, cluster_configs, libraries, open_mpi, run};
use serde_json::Value;

use crate::command::{Folder, check_told, json};

/// Runs a line of `isochron` on ranks of a host with `gpus` emulated GPUs.
fn emulated(mpi: &Mpi, ranks: usize, gpus: usize, line: &str) -> Outcome {
    run_emulated(mpi, ranks, line, &[("DEVICES", &gpus.to_string()), ("MEMORY", "1M")])
}

const MULTIPLY: &str = "mxm --size 300 --block 64 --verify exact --json --platform";

/// Returns the lines of a platform file for a node with these devices.
fn describe_node(devices: &[&str]) -> String {
    let devices = devices.iter();
    let devices: Vec<String> = devices.map(|keys| format!("[[node.device]]\n{keys}\n")).collect();
    format!("[[node]]\n{}", devices.concat())
}

/// A multiplication by a platform whose nodes have these devices.
fn multiplied(mpi: &Mpi, gpus: usize, nodes: &[&[&str]]) -> Outcome {
    let text: Vec<String> = nodes.iter().map(|devices| describe_node(devices)).collect();
    let folder = Folder::new();
    let platform = folder.write("gpus.toml", &format!("schema = 1\n{}", text.concat()));
    emulated(mpi, nodes.len(), gpus, &format!("{MULTIPLY} {platform}"))
}

/// The GPUs' models in a report, by rank.
fn gpus(text: &str) -> Vec<Vec<String>> {
    let report = json(text);
    assert_eq!(report["verified"], true, "{report}");
    report["nodes"].as_array().expect("nodes").iter().map(name_gpus).collect()
}

fn name_gpus(node: &Value) -> Vec<String> {
    node["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .filter(|device| device["kind"] == "cuda")
        .map(|gpu| read_text(&gpu["name"]))
        .collect()
}

fn read_text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

const GPU: &str = "kind = \"cuda\"";
const FIRST: &str = "kind = \"cuda\"\ngpu = 0";
const SHARED: &str = "kind = \"cuda\"\nshare = true\nhost_limit = 1000000";
const SLOW_CORE: &str = "cores = 1\npace = 50.0";

/// Expects the GPUs with these names on ranks with these devices.
fn expect_gpus(n_gpus: usize, nodes: &[&[&str]], names: &[&str]) {
    let mpi = open_mpi();
    let report = multiplied(&mpi, n_gpus, nodes).success();
    let names: Vec<[&str; 1]> = names.iter().map(|&name| [name]).collect();
    assert_eq!(gpus(&report), names);
}

#[test]
fn ranks_of_a_platform_file_have_gpus_of_their_own() {
    expect_gpus(2, &[&[GPU], &[GPU]], &["cuda0", "cuda1"]);
    // A number is kept for the device that names it, and a node without devices has the rest.
    let kept = [&[GPU, SLOW_CORE][..], &[FIRST], &[]];
    expect_gpus(3, &kept, &["cuda1", "cuda0", "cuda2"]);
    // Whatever share each of them gets: all of it would fit too.
    expect_gpus(1, &[&[SHARED], &[SHARED]], &["cuda0", "cuda0"]);
}

#[test]
fn a_gpu_does_what_it_may_pin_too_little_for() {
    let mpi = open_mpi();
    // The largest share that one of two devices of a shared GPU may get: all of C, whose panels take 1.44 MB.
    for host_limit in [1_000_000, 2000] {
        let all = format!("{GPU}\nmemory_limit = 524288\nhost_limit = {host_limit}");
        let report = multiplied(&mpi, 1, &[&[&all]]).success();
        assert_eq!(gpus(&report), [["cuda0"]], "{host_limit} bytes");
    }
}

/// Expects these parts in the refusal of ranks with these devices.
fn refused(n_gpus: usize, nodes: &[&[&str]], parts: &[&str]) {
    let mpi = open_mpi();
    let stderr = multiplied(&mpi, n_gpus, nodes).failure(2);
    check_told(&stderr, parts, "devices that are refused");
}

#[test]
fn two_devices_do_not_get_one_gpu_unasked() {
    let both = ["node 1, device 0", "node 0, device 0", "share = true"];
    refused(2, &[&[FIRST], &[FIRST]], &both);
    refused(1, &[&[GPU], &[GPU]], &both);
    refused(1, &[&[GPU], &[SHARED]], &both);
    let unknown = "kind = \"cuda\"\ngpu = 7";
    refused(1, &[&[unknown]], &["gpu = 7", "sees 1 GPUs"]);
}

#[test]
fn what_may_be_pinned_for_a_gpu_is_bounded() {
    let mpi = open_mpi();
    let tiny = format!("{GPU}\nhost_limit = 1000\nmemory_limit = 300000");
    let stderr = multiplied(&mpi, 1, &[&[&tiny]]).failure(1);
    let limit = "1000 bytes of pinned host memory";
    assert!(stderr.contains(limit), "{stderr}");
}

#[test]
fn the_topology_of_a_job_names_gpus_as_a_multiplication_does() {
    let mpi = open_mpi();
    let read = |line: &str| json(&emulated(&mpi, 2, 2, line).success());
    let shown = read("topology --json");
    let mut driven: Vec<(u64, String, String)> = Vec::new();
    for gpu in shown["nodes"][0]["gpus"].as_array().expect("a list") {
        let by = &gpu["driven"];
        let rank = by["rank"].as_u64().expect("a rank");
        driven.push((rank, read_text(&by["device"]), read_text(&gpu["bus_id"])));
    }
    driven.sort();
    let report = read("mxm --size 200 --block 64 --json");
    let mut used = Vec::new();
    for node in report["nodes"].as_array().expect("a list") {
        for device in node["devices"].as_array().expect("a list") {
            if let Some(bus_id) = device["bus_id"].as_str() {
                let name = device["name"].as_str().expect("a name").to_owned();
                let rank = node["rank"].as_u64().expect("a rank");
                used.push((rank, name, bus_id.to_owned()));
            }
        }
    }
    used.sort();
    assert_eq!(driven, used);
    assert_eq!(used.len(), 2, "{report}");
}

#[test]
fn the_example_of_a_shared_gpu_runs() {
    let platform = cluster_configs().join("shared-gpu.toml");
    let line = format!("{MULTIPLY} {}", platform.display());
    for mpi in libraries() {
        for (n_gpus, second) in [(1, "cuda0"), (2, "cuda1")] {
            let report = emulated(&mpi, 2, n_gpus, &line).success();
            assert_eq!(gpus(&report), [["cuda0"], [second]]);
        }
    }
}

#[test]
fn gpus_change_their_columns_in_mid_run() {
    for mpi in libraries() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = folder.path().to_str().expect("a name");
        let words = [files, "--only", "GPUs"];
        let mut command = mpi.command(2, &mpi.cases, &words);
        emulate(&mut command, folder.path());
        command.env("ISOCHRON_CUDA_EMULATOR_MEMORY", "1M");
        let output = run(command, HANGS).success();
        for group in ["changes of GPUs", "learning on GPUs"] {
            let line = format!("{group}: 8 cases on 2 ranks");
            assert!(output.contains(&line), "{line} in {output}");
        }
    }
}
