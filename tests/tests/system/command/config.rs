//! `isochron config`.

use isochron_tests::launch::libraries;
use serde_json::Value;

use super::{Folder, check_told, json, refused, run_line};

/// Returns the names of the CPU devices in a list.
fn list_names(devices: &Value) -> Vec<&Value> {
    devices
        .as_array()
        .expect("devices")
        .iter()
        .filter(|device| device["kind"] != "cuda")
        .map(|device| &device["name"])
        .collect()
}

#[test]
fn the_platform_file_names_the_devices_that_are_there_without_it() {
    let folder = Folder::new();
    for mpi in libraries() {
        let platform = folder.path(&format!("{}.toml", mpi.name));
        let found = json(&mpi.run_line(2, &format!("config --out {platform} --json")).success());
        let text = std::fs::read_to_string(&platform).expect("a platform file");
        assert_eq!(text.matches("[[node]]").count(), 2, "{text}");
        let shown = json(&mpi.run_line(2, "topology --json").success());
        let ranks = shown["nodes"][0]["ranks"].as_array().expect("ranks");
        let nodes = found["node"].as_array().expect("nodes").iter();
        for (node, rank) in nodes.zip(ranks) {
            let names = [&node["device"], &rank["devices"]].map(list_names);
            assert_eq!(names[0], names[1], "{found}\n{shown}");
        }
        let line = format!("mxm --size 64 --plan --json --platform {platform}");
        let plan = json(&mpi.run_line(2, &line).success());
        assert_eq!(plan["nodes"].as_array().map(Vec::len), Some(2), "{plan}");
        let host = found["node"][0]["host"].as_str().expect("a host");
        let moved = text.replace(&format!("host = \"{host}\""), "host = \"elsewhere\"");
        std::fs::write(&platform, moved).expect("a writable folder");
        let told = mpi.run_line(2, &line).failure(2);
        check_told(&told, &["the hosts elsewhere, elsewhere", host, &platform], &line);
    }
    // Without a file it is printed.
    assert!(run_line("config").success().contains("schema = 1\n"));
    let nowhere = folder.path("nowhere/platform.toml");
    refused("config --out", &[&nowhere], &[&nowhere]);
    refused("config --out .", &[], &[".: is a folder"]);
    refused("config --group all", &[], &["`all` is not a grouping of cores"]);
    refused("config 2", &[], &["unexpected argument '2'"]);
}
