//! Ranks of one host on slices of one GPU (MIG), on the emulated CUDA, which shows a process what NVIDIA documents.

use std::path::Path;

use isochron_tests::emulator::{emulate, slice_uuid};
use isochron_tests::launch::{HANGS, Mpi, Outcome, cluster_configs, libraries, open_mpi, run};
use serde_json::Value;

use crate::command::{Folder, check_told, json};
use crate::docs::write_program;

/// A driver that shows a process one slice, and one that shows it a slice of each GPU instance.
const ONE_SLICE: &str = "12040";
const EACH_INSTANCE: &str = "13000";

const MULTIPLY: &str = "mxm --size 300 --block 64 --verify exact --json";

/// Runs `program` on ranks of a host whose one GPU is split in two.
fn launch(mpi: &Mpi, ranks: usize, version: &str, program: &Path, line: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = mpi.command(ranks, program, &words);
    emulate(&mut command, folder.path());
    list_slices(folder.path());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
    command
        .env("PATH", std::env::join_paths(folders).expect("a path"))
        .env("ISOCHRON_CUDA_EMULATOR_MIG", "1+1")
        .env("ISOCHRON_CUDA_EMULATOR_VERSION", version)
        .env("ISOCHRON_CUDA_EMULATOR_MEMORY", "2M");
    run(command, HANGS)
}

/// Puts a program in the folder that lists the emulated slices as `nvidia-smi -L` lists real ones.
fn list_slices(folder: &Path) {
    let [first, second] = [slice_uuid(0, 0, 0), slice_uuid(0, 1, 0)];
    let script = format!(
        "#!/bin/sh\ncat <<'END'\nGPU 0: Emulated CUDA device 0 (UUID: GPU-e0e0e0e0-e0e0-e0e0-e0e0-e0e0e0000000)\n  \
         MIG 1g.1gb      Device  0: (UUID: {first})\n  MIG 1g.1gb      Device  1: (UUID: {second})\nEND\n"
    );
    write_program(&folder.join("nvidia-smi"), &script);
}

/// The slice that each rank says it drives, if it does, and all that it says.
fn told(text: &str) -> Vec<(Option<String>, String)> {
    let report = json(text);
    assert_eq!(report["verified"], true, "{report}");
    report["nodes"].as_array().expect("nodes").iter().map(told_by_node).collect()
}

fn told_by_node(node: &Value) -> (Option<String>, String) {
    let gpus =
        node["devices"].as_array().expect("devices").iter().filter(|d| d["kind"] == "cuda").count();
    let notices = node["notices"].to_string();
    let slice = [slice_uuid(0, 0, 0), slice_uuid(0, 1, 0)]
        .into_iter()
        .find(|uuid| notices.contains(&format!("{uuid}): a slice of a GPU")));
    assert_eq!(usize::from(slice.is_some()), gpus, "{node}");
    (slice, notices)
}

#[test]
fn ranks_have_the_slices_that_their_script_gives_them() {
    let script = cluster_configs().join("own-slice.sh");
    for mpi in libraries() {
        let line = format!("{} {MULTIPLY}", mpi.isochron.display());
        let output = launch(&mpi, 3, ONE_SLICE, &script, &line).success();
        let told = told(&output);
        assert_eq!(told[0].0, Some(slice_uuid(0, 0, 0)), "{}", mpi.name);
        assert_eq!(told[1].0, Some(slice_uuid(0, 1, 0)), "{}", mpi.name);
        // There is no third slice.
        let (slice, notices) = &told[2];
        assert_eq!(*slice, None);
        assert!(notices.contains("CUDA_VISIBLE_DEVICES hides it"), "{notices}");
    }
}

#[test]
fn ranks_on_one_slice_are_told() {
    let mpi = open_mpi();
    let output = launch(&mpi, 2, ONE_SLICE, &mpi.isochron, MULTIPLY).success();
    let told = told(&output);
    assert_eq!(told[0].0, Some(slice_uuid(0, 0, 0)));
    let (slice, notices) = &told[1];
    assert_eq!(*slice, None);
    let parts = ["by rank 0", &slice_uuid(0, 0, 0), "CUDA_VISIBLE_DEVICES=MIG-"];
    check_told(notices, &parts, "ranks on one slice");
}

#[test]
fn ranks_that_see_a_slice_of_each_instance_share_them_out() {
    let mpi = open_mpi();
    let output = launch(&mpi, 2, EACH_INSTANCE, &mpi.isochron, MULTIPLY).success();
    let slices: Vec<_> = told(&output).into_iter().map(|(slice, _)| slice).collect();
    assert_eq!(slices, [Some(slice_uuid(0, 0, 0)), Some(slice_uuid(0, 1, 0))]);
}

#[test]
fn two_devices_of_a_platform_file_do_not_get_one_slice_unasked() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let gpu = "[[node]]\n[[node.device]]\nkind = \"cuda\"\n";
    let platform = folder.write("slices.toml", &format!("schema = 1\n{gpu}{gpu}"));
    let line = format!("{MULTIPLY} --platform {platform}");
    let stderr = launch(&mpi, 2, ONE_SLICE, &mpi.isochron, &line).failure(2);
    let parts = ["node 1, device 0", "node 0, device 0", "CUDA_VISIBLE_DEVICES=MIG-"];
    check_told(&stderr, &parts, "two devices");
}
