//! Programs that run MPI themselves and embed Isochron: what it does to them, and they to it.

use std::path::{Path, PathBuf};

use isochron_tests::launch::{HANGS, Mpi, libraries, run};

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
fn a_thread_level_that_forbids_threads_is_refused_by_name() {
    assert_holds("thread-level");
}

#[test]
fn communicators_that_cannot_be_adopted_are_refused() {
    assert_holds("wrong-communicators");
}

#[test]
fn sessions_may_be_dropped_after_mpi_is_finalised() {
    assert_holds("after-finalize");
}

/// MPICH takes errors of requests to the handlers of `MPI_COMM_WORLD` and `MPI_COMM_SELF`, which are the program's, but not those
/// of persistent ones. These are used where other threads may call MPI.
#[test]
fn errors_of_mpi_are_errors_of_all_ranks() {
    assert_holds("mpi-errors");
    for mpi in libraries() {
        assert_holds_below(&mpi, 3, &[], "mpi-errors-threads");
    }
}

#[test]
fn a_panic_that_the_program_catches_does_not_end_the_job() {
    assert_holds("caught-panic");
}

#[test]
fn a_panic_that_a_connected_program_catches_does_not_end_the_job() {
    assert_holds("connected-panic");
}

#[test]
fn a_rank_that_panics_leaves_no_other_waiting() {
    assert_holds("panic");
}

#[test]
fn unlike_arguments_are_named_on_every_rank() {
    assert_holds("arguments");
}

#[test]
fn forked_children_are_refused_what_their_parents_have_made() {
    assert_holds("forked");
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
    let [mpi, _] = libraries();
    for core in ["0", "1"] {
        assert_holds_below(&mpi, 2, &["taskset", "-c", core], "own-mask");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_thread_of_a_session_runs_on_a_reserved_core() {
    assert_holds("reserved");
}

/// The library has this name on Linux alone.
#[test]
#[cfg(target_os = "linux")]
fn the_threads_of_the_programs_blas_stay_as_they_were_set() {
    assert_holds("host-blas");
}
