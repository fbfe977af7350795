//! The multi-rank cases under the MPI libraries, and on the local communicator; the traps are among them.

use std::process::Command;

use isochron_tests::covering::{LIBRARIES, RANKS};
use isochron_tests::launch::{
    HANGS, HANGS_WHOLE, Mpi, is_whole, libraries, native_libraries, open_mpi, run, standard_abi,
};
use isochron_tests::traps::TRAPS;
use serde_json::Value;

use crate::command::{Folder, json};

/// Runs all groups of cases, the traps among them, on ranks started once.
fn run_cases(mpi: &Mpi, library: usize, ranks: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = mpi.command(ranks, &mpi.cases, &[folder.path()]);
    if is_whole() && mpi.name != "abi" {
        command.arg("--all");
    }
    let output = run(command, HANGS_WHOLE).success();
    for name in TRAPS.iter().map(|(name, _)| *name).chain(["failures"]) {
        let line = format!("\n{name}: ");
        assert!(output.contains(&line), "{name}, {}: {output}", mpi.name);
    }
    let named = format!(" on {ranks} ranks, {}", LIBRARIES[library]);
    assert!(output.contains(&named), "{named} in {output}");
}

/// A test for each MPI library and number of ranks of the table.
macro_rules! cases_hold {
    ($($name:ident: $library:literal, $ranks:literal;)*) => {
        $(
            #[test]
            fn $name() {
                run_cases(&native_libraries()[$library], $library, $ranks);
            }
        )*

        #[test]
        fn every_library_and_number_of_ranks_has_its_test() {
            let all = (0..LIBRARIES.len()).flat_map(|library| RANKS.map(|ranks| (library, ranks)));
            assert_eq!(all.collect::<Vec<_>>(), [$(($library, $ranks)),*]);
        }
    };
}

cases_hold! {
    cases_hold_on_1_rank_of_open_mpi: 0, 1;
    cases_hold_on_2_ranks_of_open_mpi: 0, 2;
    cases_hold_on_3_ranks_of_open_mpi: 0, 3;
    cases_hold_on_4_ranks_of_open_mpi: 0, 4;
    cases_hold_on_6_ranks_of_open_mpi: 0, 6;
    cases_hold_on_1_rank_of_mpich: 1, 1;
    cases_hold_on_2_ranks_of_mpich: 1, 2;
    cases_hold_on_3_ranks_of_mpich: 1, 3;
    cases_hold_on_4_ranks_of_mpich: 1, 4;
    cases_hold_on_6_ranks_of_mpich: 1, 6;
}

/// One program for all libraries that have it.
#[test]
fn a_product_of_two_ranks_runs_with_the_standard_abi() {
    let mpi = standard_abi();
    let line = "mxm --size 200 --strategy homogeneous --store none --verify exact --json";
    let report = json(&mpi.run_line(2, line).success());
    assert_eq!(report["verified"], true, "{report}");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(2), "{report}");
    let mut command = Command::new("readelf");
    command.arg("-d").arg(&mpi.isochron);
    let needed = run(command, HANGS).success();
    let needed: Vec<&str> = needed.lines().filter(|line| line.contains("[libmpi")).collect();
    assert!(matches!(needed[..], [one] if one.contains("[libmpi_abi.so.1]")), "{needed:?}");
}

#[test]
fn cases_hold_with_the_standard_abi() {
    if is_whole() {
        for ranks in [1, 2, 4] {
            run_cases(&standard_abi(), 1, ranks);
        }
    }
}

#[test]
fn cases_hold_without_mpirun() {
    let folder = tempfile::tempdir().expect("a folder");
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.cases);
    command.arg(folder.path());
    let output = run(command, HANGS).success();
    assert!(output.contains("on 1 ranks, none (one process)"), "{output}");
}

/// Counts beyond 2³¹ are cut: here beyond five elements, so that every message is.
#[test]
fn messages_longer_than_mpi_may_send_arrive_in_pieces() {
    let numbers: &[usize] = if is_whole() { &RANKS } else { &[3] };
    for mpi in libraries() {
        for &ranks in numbers {
            let folder = tempfile::tempdir().expect("a folder");
            let arguments = [folder.path().as_os_str(), "--longest".as_ref(), "40".as_ref()];
            let command = mpi.command(ranks, &mpi.cases, &arguments);
            let output = run(command, HANGS).success();
            let finished = format!("short pieces: {} cases on {ranks} ranks", 1 + ranks);
            assert!(output.contains(&finished), "{}: {output}", mpi.name);
        }
    }
}

/// Returns the report of a multiplication on three ranks.
fn report_of(mpi: &Mpi, options: &str) -> Value {
    json(&mpi.run_line(3, &format!("mxm --block 8 --json {options}")).success())
}

fn count_elements(node: &Value) -> u64 {
    node["rows"].as_u64().expect("rows") * node["cols"].as_u64().expect("columns")
}

#[test]
fn what_files_cost_has_its_own_line_in_the_report() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let [numpy, market] = ["c.npy", "d.mtx"].map(|name| folder.path(name));
    let generated = report_of(&mpi, "--size 48");
    assert_eq!(generated["redistribution"]["seconds"], 0.0);
    let written = report_of(&mpi, &format!("--size 48 --out {numpy}"));
    assert!(written["redistribution"]["seconds"].as_f64() > Some(0.0));
    assert_eq!(written["redistribution"]["bytes"], 0, "each writes its own part");
    let gathered = report_of(&mpi, &format!("--a {numpy} --b {numpy} --out {market}"));
    let nodes = gathered["nodes"].as_array().expect("nodes");
    let others: u64 = nodes[1..].iter().map(count_elements).sum();
    assert_eq!(gathered["redistribution"]["bytes"], 8 * others);
    let text = mpi.run_line(3, &format!("mxm --size 48 --out {numpy}")).success();
    assert!(text.contains("files read and written in"), "{text}");
}
