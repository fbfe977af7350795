//! Programs that run MPI themselves and embed Isochron: what it does to them, and they to it.

use std::path::{Path, PathBuf};

use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};

/// The programs, which lie beside those of the cases.
fn embedded(mpi: &Mpi) -> PathBuf {
    mpi.cases.with_file_name("isochron-embedded")
}

/// Runs a case on 2 and 3 ranks under both libraries in turn. Every rank has to come to its end.
fn assert_holds(case: &str) {
    for mpi in libraries() {
        for ranks in mpi.take_turns([2, 3]) {
            assert_holds_below(&mpi, ranks, &[], case);
        }
    }
}

/// Runs a case below a program such as `taskset`.
fn assert_holds_below(mpi: &Mpi, ranks: usize, prefix: &[&str], case: &str) {
    let program = embedded(mpi);
    let line = [prefix, &[program.to_str().expect("a name"), case]].concat();
    let command = mpi.command(ranks, Path::new(line[0]), &line[1..]);
    let outcome = run(command, HANGS);
    let held = outcome.stdout.matches(&format!("{case}: holds")).count();
    assert_eq!(held, ranks, "{}, {ranks} ranks: {outcome:#?}", mpi.name);
    outcome.success();
}

#[test]
fn programs_and_their_sessions_bear_with_each_other() {
    for case in [
        "thread-level",
        "wrong-communicators",
        "after-finalize",
        "mpi-errors",
        "caught-panic",
        "connected-panic",
        "panic",
        "arguments",
        "forked",
        #[cfg(target_os = "linux")]
        "reserved",
        // The library has this name on Linux alone.
        #[cfg(target_os = "linux")]
        "host-blas",
    ] {
        assert_holds(case);
    }
}

/// MPICH takes errors of requests to the handlers of `MPI_COMM_WORLD` and `MPI_COMM_SELF`, which are the program's, but not those
/// of persistent ones. These are used where other threads may call MPI.
#[test]
fn errors_of_mpi_are_errors_of_all_ranks_beside_other_threads() {
    for mpi in libraries() {
        assert_holds_below(&mpi, 3, &[], "mpi-errors-threads");
    }
}

#[test]
fn sessions_of_one_host_divide_its_cores() {
    for mpi in libraries() {
        for ranks in [1, 2, 3] {
            assert_holds_below(&mpi, ranks, &[], "host-shared");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_thread_leaves_the_affinity_mask_of_its_rank() {
    let mpi = open_mpi();
    for core in ["0", "1"] {
        assert_holds_below(&mpi, 2, &["taskset", "-c", core], "own-mask");
    }
}
