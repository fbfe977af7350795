//! GPUs of a host among the devices of a platform file, on the emulated CUDA.

use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, Mpi, Outcome, cluster_configs, libraries, run};
use serde_json::Value;

/// Runs `isochron` on ranks of a host with `gpus` emulated GPUs.
fn emulated(mpi: &Mpi, ranks: usize, gpus: usize, arguments: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = mpi.command(ranks, &mpi.isochron, arguments);
    emulate(&mut command, folder.path());
    command
        .env("ISOCHRON_CUDA_EMULATOR_DEVICES", gpus.to_string())
        .env("ISOCHRON_CUDA_EMULATOR_MEMORY", "1M");
    run(command, HANGS)
}

/// Returns the lines of a platform file for a node with these devices.
fn describe_node(devices: &[&str]) -> String {
    let devices = devices.iter();
    let devices: Vec<String> = devices.map(|keys| format!("[[node.device]]\n{keys}\n")).collect();
    format!("[[node]]\n{}", devices.concat())
}

/// A multiplication by a platform whose nodes have these devices.
fn multiplied(mpi: &Mpi, gpus: usize, nodes: &[&[&str]]) -> Outcome {
    let text: Vec<String> = nodes.iter().map(|devices| describe_node(devices)).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let platform = folder.path().join("gpus.toml");
    std::fs::write(&platform, format!("schema = 1\n{}", text.concat())).expect("a writable folder");
    let platform = platform.to_str().expect("a name");
    let words = "mxm --size 300 --block 64 --verify exact --json --platform";
    let words: Vec<&str> = words.split(' ').chain([platform]).collect();
    emulated(mpi, nodes.len(), gpus, &words)
}

/// The GPUs' models in a report, by rank.
fn gpus(text: &str) -> Vec<Vec<String>> {
    let report: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
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
    let [mpi, _] = libraries();
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
    let [mpi, _] = libraries();
    // The largest share that one of two devices of a shared GPU may get: all of C, whose panels take 1.44 MB.
    for host_limit in [1_000_000, 2000] {
        let all = format!("{GPU}\nmemory_limit = 524288\nhost_limit = {host_limit}");
        let report = multiplied(&mpi, 1, &[&[&all]]).success();
        assert_eq!(gpus(&report), [["cuda0"]], "{host_limit} bytes");
    }
}

/// Expects these parts in the refusal of ranks with these devices.
fn refused(n_gpus: usize, nodes: &[&[&str]], parts: &[&str]) {
    let [mpi, _] = libraries();
    let stderr = multiplied(&mpi, n_gpus, nodes).failure(2);
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
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
    let [mpi, _] = libraries();
    let tiny = format!("{GPU}\nhost_limit = 1000\nmemory_limit = 300000");
    let stderr = multiplied(&mpi, 1, &[&[&tiny]]).failure(1);
    let limit = "1000 bytes of pinned host memory";
    assert!(stderr.contains(limit), "{stderr}");
}

/// Returns what two ranks with a GPU each print.
fn run_json(mpi: &Mpi, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let text = emulated(mpi, 2, 2, &words).success();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_topology_of_a_job_names_gpus_as_a_multiplication_does() {
    let [mpi, _] = libraries();
    let shown = run_json(&mpi, "topology --json");
    let mut driven: Vec<(u64, String, String)> = Vec::new();
    for gpu in shown["nodes"][0]["gpus"].as_array().expect("a list") {
        let by = &gpu["driven"];
        let rank = by["rank"].as_u64().expect("a rank");
        driven.push((rank, read_text(&by["device"]), read_text(&gpu["bus_id"])));
    }
    driven.sort();
    let report = run_json(&mpi, "mxm --size 200 --block 64 --json");
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
    // Both are printed, here and there.
    let topology = emulated(&mpi, 2, 2, &["topology"]).success();
    let summary = emulated(&mpi, 2, 2, &["mxm", "--size", "200", "--block", "64"]).success();
    for (_, name, bus_id) in used {
        for text in [&topology, &summary] {
            assert!(text.contains(&name) && text.contains(&bus_id), "{text}");
        }
    }
}

#[test]
fn the_example_of_a_shared_gpu_runs() {
    let platform = cluster_configs().join("shared-gpu.toml");
    let platform = platform.to_str().expect("a name");
    let words = "mxm --size 300 --block 64 --verify exact --json --platform";
    let words: Vec<&str> = words.split(' ').chain([platform]).collect();
    for mpi in libraries() {
        for (n_gpus, second) in [(1, "cuda0"), (2, "cuda1")] {
            let report = emulated(&mpi, 2, n_gpus, &words).success();
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
