//! The `isochron` command: its results as JSON, and its report.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::process::Command;

use isochron_tests::launch::{HANGS, cluster_configs, libraries, run};
use serde_json::Value;

fn isochron(arguments: &[&str]) -> isochron_tests::launch::Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(arguments);
    run(command, HANGS)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn partition_prints_units_and_times() {
    let model = |name: &str| {
        cluster_configs()
            .join("models")
            .join(name)
            .to_str()
            .expect("a name")
            .to_string()
    };
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    for algorithm in ["cpm", "gpa"] {
        let arguments = [
            "partition",
            "--units",
            "9000",
            "--models",
            &fast,
            &slow,
            "--algorithm",
            algorithm,
            "--json",
        ];
        let answer = json(&isochron(&arguments).success());
        assert_eq!(answer["algorithm"], algorithm);
        assert_eq!(answer["units"], json("[6000, 3000]"));
        let max_time_s = answer["max_time_s"].as_f64().expect("a number");
        assert!((max_time_s - 0.1).abs() < 1e-6, "{answer}");
        assert_eq!(answer["times_s"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn partition_follows_the_cliff_where_a_constant_cannot() {
    let model = |name: &str| {
        cluster_configs()
            .join("models")
            .join(name)
            .to_str()
            .expect("a name")
            .to_string()
    };
    let (paging, steady) = (model("cliff-paging.points"), model("cliff-60k.points"));
    let time = |algorithm| {
        let arguments = [
            "partition",
            "--units",
            "9000",
            "--models",
            &paging,
            &steady,
            "--algorithm",
            algorithm,
            "--json",
        ];
        json(&isochron(&arguments).success())["max_time_s"]
            .as_f64()
            .expect("a number")
    };
    assert!(time("gpa") < 0.8 * time("cpm"));
}

#[test]
fn broken_models_are_named_with_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("broken.points");
    std::fs::write(
        &path,
        "# format: isochron-points 1\n1 0.5 3 0\n2 minus 3 0\n",
    )
    .expect("a writable folder");
    let name = path.to_str().expect("a name");
    let stderr = isochron(&["partition", "--units", "10", "--models", name]).failure(2);
    assert!(
        stderr.contains("broken.points") && stderr.contains("line 3"),
        "{stderr}"
    );
}

#[test]
fn layout_tiles_the_matrix() {
    let answer = json(
        &isochron(&[
            "layout", "4", "2", "1", "1", "--rows", "40", "--cols", "40", "--json",
        ])
        .success(),
    );
    let rects = answer["rects"].as_array().expect("rectangles");
    let area: u64 = rects
        .iter()
        .map(|rect| rect["rows"].as_u64().expect("rows") * rect["cols"].as_u64().expect("cols"))
        .sum();
    assert_eq!((rects.len(), area), (4, 1600));
    let half_perimeters = answer["half_perimeters"].as_f64().expect("a number");
    assert!(half_perimeters >= answer["lower_bound"].as_f64().expect("a number"));
    let picture = isochron(&["layout", "4", "2", "1", "1"]).success();
    assert!(picture.contains("sum of half-perimeters"), "{picture}");
}

#[test]
fn topology_shows_the_cores() {
    let summary = json(&isochron(&["topology", "--json"]).success());
    assert!(
        summary["cores"]
            .as_array()
            .is_some_and(|cores| !cores.is_empty()),
        "{summary}"
    );
    isochron(&["topology"]).success();
}

/// The keys that scripts depend on.
const KEYS: [&str; 13] = [
    "schema",
    "m",
    "n",
    "k",
    "block",
    "strategy",
    "wall_s",
    "balance_s",
    "ideal_s",
    "gflops",
    "imbalance",
    "verified",
    "nodes",
];

#[test]
fn the_report_has_its_keys_in_order() {
    let platform = cluster_configs().join("emulated-4.toml");
    let platform = platform.to_str().expect("a name");
    for mpi in libraries() {
        let arguments = [
            "mxm",
            "--m",
            "300",
            "--n",
            "200",
            "--k",
            "250",
            "--block",
            "32",
            "--platform",
            platform,
            "--json",
        ];
        let text = mpi.isochron(4, &arguments).success();
        let report = json(&text);
        let places: Vec<_> = KEYS
            .iter()
            .map(|key| text.find(&format!("\n  \"{key}\":")).expect(key))
            .collect();
        assert!(
            places.is_sorted(),
            "the fixed keys come first and in order: {text}"
        );
        assert_eq!(report["schema"], 1);
        assert_eq!(report["verified"], true);
        let nodes = report["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len(), 4);
        assert_eq!(nodes[3]["devices"].as_array().map(Vec::len), Some(2));
        let area: u64 = nodes
            .iter()
            .map(|node| node["rows"].as_u64().expect("rows") * node["cols"].as_u64().expect("cols"))
            .sum();
        assert_eq!(area, 300 * 200);
        assert_eq!(
            nodes[0]["devices"][0]["paced"], "slowdown 2",
            "{}",
            nodes[0]
        );
    }
}

#[test]
fn one_process_is_one_node() {
    let report =
        json(&isochron(&["mxm", "--size", "200", "--verify", "exact", "--json"]).success());
    assert_eq!(
        (
            &report["verified"],
            report["nodes"].as_array().map(Vec::len)
        ),
        (&Value::Bool(true), Some(1))
    );
    let laptop = cluster_configs().join("laptop.toml");
    isochron(&[
        "mxm",
        "--size",
        "100",
        "--platform",
        laptop.to_str().expect("a name"),
    ])
    .success();
}

#[test]
fn a_program_of_another_mpi_library_is_told_so() {
    let [openmpi, mpich] = libraries();
    let stderr = run(
        mpich.command(2, &openmpi.isochron, &["mxm", "--size", "10"]),
        HANGS,
    )
    .failure(2);
    assert!(stderr.contains("linked with"), "{stderr}");
}
