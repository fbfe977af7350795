//! `isochron config`.

use isochron_tests::launch::libraries;
use serde_json::Value;

use super::{Folder, isochron, json, refused};

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
        let words = ["config", "--out", &platform, "--json"];
        let found = json(&mpi.isochron(2, &words).success());
        let text = std::fs::read_to_string(&platform).expect("a platform file");
        assert_eq!(text.matches("[[node]]").count(), 2, "{text}");
        let shown = json(&mpi.isochron(2, &["topology", "--json"]).success());
        let ranks = shown["nodes"][0]["ranks"].as_array().expect("ranks");
        let nodes = found["node"].as_array().expect("nodes").iter();
        for (node, rank) in nodes.zip(ranks) {
            let names = [&node["device"], &rank["devices"]].map(list_names);
            assert_eq!(names[0], names[1], "{found}\n{shown}");
        }
        let words = ["mxm", "--size", "64", "--plan", "--json", "--platform", &platform];
        let plan = json(&mpi.isochron(2, &words).success());
        assert_eq!(plan["nodes"].as_array().map(Vec::len), Some(2), "{plan}");
        let host = found["node"][0]["host"].as_str().expect("a host");
        let moved = text.replace(&format!("host = \"{host}\""), "host = \"elsewhere\"");
        std::fs::write(&platform, moved).expect("a writable folder");
        let stderr = mpi.isochron(2, &words).failure(2);
        for part in ["the hosts elsewhere, elsewhere", host, &platform] {
            assert!(stderr.contains(part), "{part} in {stderr}");
        }
    }
    // Without a file it is printed.
    assert!(isochron(&["config"]).success().contains("schema = 1\n"));
}

#[test]
fn a_platform_file_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let path = folder.path("nowhere/platform.toml");
    let stderr = isochron(&["config", "--out", &path]).failure(2);
    assert!(stderr.contains(&path), "{stderr}");
    refused("config --out .", &[], &[".: is a folder"]);
    refused("config --group all", &[], &["`all` is not a grouping of cores"]);
    refused("config 2", &[], &["unexpected argument '2'"]);
}
