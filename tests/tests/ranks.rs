//! The multi-rank cases under both MPI libraries, and on the local communicator.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use isochron_tests::launch::{HANGS, libraries, run};

#[test]
fn cases_hold_on_every_number_of_ranks() {
    for mpi in libraries() {
        for ranks in [1, 2, 3, 4, 6] {
            let folder = tempfile::tempdir().expect("a folder");
            let command = mpi.command(ranks, &mpi.cases, &[folder.path()]);
            let output = run(command, HANGS).success();
            let finished = format!("failures: 2 cases on {ranks} ranks");
            assert!(output.contains(&finished), "{}: {output}", mpi.name);
        }
    }
}

#[test]
fn cases_hold_without_mpirun() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mpi, _] = libraries();
    let mut command = std::process::Command::new(&mpi.cases);
    command.arg(folder.path());
    let output = run(command, HANGS).success();
    assert!(
        output.contains("on 1 ranks, none (one process)"),
        "{output}"
    );
}

#[test]
fn messages_longer_than_mpi_may_send_arrive_in_pieces() {
    for mpi in libraries() {
        for ranks in [1, 3] {
            let folder = tempfile::tempdir().expect("a folder");
            let arguments = [folder.path().as_os_str(), "40".as_ref()];
            let command = mpi.command(ranks, &mpi.cases, &arguments);
            let output = run(command, HANGS).success();
            let finished = format!("short pieces: {} cases on {ranks} ranks", 1 + ranks);
            assert!(output.contains(&finished), "{}: {output}", mpi.name);
        }
    }
}

#[test]
fn what_files_cost_has_its_own_line_in_the_report() {
    let [mpi, _] = libraries();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (numpy, market) = (file("c.npy"), file("d.mtx"));
    let report = |arguments: &[&str]| -> serde_json::Value {
        let common = ["mxm", "--block", "8", "--json"];
        let output = mpi.isochron(3, &[&common, arguments].concat()).success();
        serde_json::from_str(&output).expect("a report")
    };
    let generated = report(&["--size", "48"]);
    assert_eq!(generated["redistribution"]["seconds"], 0.0);
    let written = report(&["--size", "48", "--out", &numpy]);
    assert!(written["redistribution"]["seconds"].as_f64() > Some(0.0));
    assert_eq!(
        written["redistribution"]["bytes"], 0,
        "each writes its own part"
    );
    let gathered = report(&["--a", &numpy, "--b", &numpy, "--out", &market]);
    let nodes = gathered["nodes"].as_array().expect("nodes");
    let elements = |node: &serde_json::Value| {
        node["rows"].as_u64().expect("rows") * node["cols"].as_u64().expect("columns")
    };
    let others: u64 = nodes[1..].iter().map(elements).sum();
    assert_eq!(gathered["redistribution"]["bytes"], 8 * others);
    let text = mpi
        .isochron(3, &["mxm", "--size", "48", "--out", &numpy])
        .success();
    assert!(text.contains("files read and written in"), "{text}");
}
