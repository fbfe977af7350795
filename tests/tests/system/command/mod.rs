//! The `isochron` command: its results as JSON, and its report.

mod alone;
mod balance;
mod campaign;
mod config;
mod health;
mod layout;
mod measure;
mod model;
mod mxm;
mod names;
mod output;
mod page;
mod partition;
mod process;
mod progress;
mod topology;
mod trace_model;

pub use balance::UNLIKE;
pub use measure::compile;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, cluster_configs, libraries, run};
use serde_json::Value;

fn isochron(arguments: &[&str]) -> isochron_tests::launch::Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(arguments);
    run(command, HANGS)
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A points file that comes with the platform files.
fn points(name: &str) -> String {
    cluster_configs().join("models").join(name).to_str().expect("a name").to_string()
}

/// Files of one test.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a name").to_string()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable folder");
        path
    }
}

/// Writes a platform file with three devices on two nodes: by decree, `b` and `c` are three times as slow as `a`.
pub fn write_platform(folder: &Folder) -> String {
    folder.write("fast.points", "# block: 8\n1 0.001\n64 0.064\n");
    folder.write("slow.points", "# block: 8\n1 0.003\n64 0.192\n");
    let devices = [("a", "fast"), ("b", "slow"), ("c", "slow")];
    let [a, b, c] = devices.map(|(name, points)| {
        format!("[[node.device]]\nname = \"{name}\"\ncores = 1\npoints = \"{points}.points\"\n")
    });
    let text = format!("schema = 1\n[[node]]\n{a}{b}[[node]]\n{c}");
    folder.write("slow.toml", &text)
}

/// Runs the command with the words of `line` and then `files`, and expects one message that holds `parts`.
fn refused(line: &str, files: &[&str], parts: &[&str]) {
    let words: Vec<&str> = line.split_whitespace().chain(files.iter().copied()).collect();
    let stderr = isochron(&words).failure(2);
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr:?} of {words:?}");
    }
}

/// The command's JSON; the words of `line` follow `files`.
fn answer(command: &[&str], files: &[&str], line: &str) -> Value {
    let rest = line.split_whitespace().chain(["--json"]);
    let words: Vec<&str> = command.iter().chain(files).copied().chain(rest).collect();
    json(&isochron(&words).success())
}

pub fn total(numbers: &Value) -> u64 {
    numbers
        .as_array()
        .expect("a list")
        .iter()
        .map(|number| number.as_u64().expect("a number"))
        .sum()
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
        let places: Vec<_> =
            KEYS.iter().map(|key| text.find(&format!("\n  \"{key}\":")).expect(key)).collect();
        assert!(places.is_sorted(), "the fixed keys come first and in order: {text}");
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
        assert_eq!(nodes[0]["devices"][0]["paced"], "slowdown 2", "{}", nodes[0]);
    }
}

#[test]
fn one_process_is_one_node() {
    let report =
        json(&isochron(&["mxm", "--size", "200", "--verify", "exact", "--json"]).success());
    assert_eq!(
        (&report["verified"], report["nodes"].as_array().map(Vec::len)),
        (&Value::Bool(true), Some(1))
    );
    let laptop = cluster_configs().join("laptop.toml");
    isochron(&["mxm", "--size", "100", "--platform", laptop.to_str().expect("a name")]).success();
}

/// Returns the command for two processes of a program with Open MPI below the launcher of MPICH. Each process takes itself for a job
/// of its own.
///
/// Each process has a folder of Open MPI's files to itself. A common one could be removed by the first process while the second was
/// about to use it.
fn single_ranks(mpich: &Mpi, program: &Path, words: &[&str]) -> Command {
    let script = "base=$OMPI_MCA_orte_tmpdir_base/$PMI_RANK; mkdir \"$base\"; \
                  OMPI_MCA_orte_tmpdir_base=$base exec \"$0\" \"$@\"";
    let mut all = vec![OsStr::new("-c"), script.as_ref(), program.as_os_str()];
    all.extend(words.iter().map(OsStr::new));
    mpich.command(2, Path::new("sh"), &all)
}

#[test]
fn a_program_of_another_mpi_library_is_told_so() {
    let [openmpi, mpich] = libraries();
    let command = single_ranks(&mpich, &openmpi.isochron, &["mxm", "--size", "10"]);
    let stderr = run(command, HANGS).failure(2);
    assert!(stderr.contains("linked with"), "{stderr}");
}
