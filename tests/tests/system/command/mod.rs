//! The `isochron` command: its results as JSON, and its report.

mod alone;
mod balance;
mod campaign;
mod config;
mod layout;
mod measure;
mod model;
mod mxm;
mod names;
mod output;
mod page;
mod partition;
mod plan;
mod process;
mod progress;
mod simulate;
mod topology;
mod trace_model;

pub use isochron_tests::command::{Folder, check_told, isochron, json, path_text, refused};

pub use balance::UNLIKE;
pub use measure::compile;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{
    HANGS, Mpi, Outcome, cluster_configs, libraries, native_libraries, open_mpi, run,
};
use serde_json::Value;

/// Runs the command with the words of a line.
fn run_line(line: &str) -> Outcome {
    isochron(&line.split_whitespace().collect::<Vec<_>>())
}

/// Runs the command with the words of a line in an address space of this size.
pub fn run_limited(mib: u64, line: &str) -> Outcome {
    let mpi = open_mpi();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -v {}; exec \"$0\" {line}", mib << 10)]);
    command.arg(&mpi.isochron);
    run(command, HANGS)
}

/// The JSON that the command prints for a line.
fn read_json(line: &str) -> Value {
    json(&run_line(&format!("{line} --json")).success())
}

/// The start of a command in namespaces of its own; `None` if the system allows none.
pub fn unshare(options: &[&str]) -> Option<Command> {
    let start = || {
        let mut command = Command::new("unshare");
        command.args(options);
        command
    };
    if start().arg("true").status().is_ok_and(|status| status.success()) {
        return Some(start());
    }
    eprintln!("skipped: no namespaces here");
    None
}

/// A points file that comes with the platform files.
fn points(name: &str) -> String {
    path_text(&cluster_configs().join("models").join(name))
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

#[test]
fn the_report_has_a_node_for_each_rank_with_its_part() {
    let platform = path_text(&cluster_configs().join("emulated-4.toml"));
    let line = format!("mxm --m 300 --n 200 --k 250 --block 32 --platform {platform} --json");
    for mpi in libraries() {
        let report = json(&mpi.run_line(4, &line).success());
        assert_eq!(report["verified"], true);
        let nodes = report["nodes"].as_array().expect("nodes");
        assert_eq!((nodes.len(), nodes[3]["devices"].as_array().map(Vec::len)), (4, Some(2)));
        let area: u64 = nodes
            .iter()
            .map(|node| node["rows"].as_u64().expect("rows") * node["cols"].as_u64().expect("cols"))
            .sum();
        assert_eq!(area, 300 * 200);
        assert_eq!(nodes[0]["devices"][0]["paced"], "slowdown 2", "{}", nodes[0]);
    }
    let report = read_json("mxm --size 200 --verify exact");
    assert_eq!(report["verified"], true, "{report}");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(1), "{report}");
    let laptop = path_text(&cluster_configs().join("laptop.toml"));
    run_line(&format!("mxm --size 100 --platform {laptop}")).success();
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
    let [openmpi, mpich] = native_libraries();
    let command = single_ranks(&mpich, &openmpi.isochron, &["mxm", "--size", "10"]);
    let stderr = run(command, HANGS).failure(2);
    assert!(stderr.contains("linked with"), "{stderr}");
}
