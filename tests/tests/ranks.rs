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
