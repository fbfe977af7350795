//! The example of a loop that balances itself, under both MPI libraries. Its times are made up, with 6 % noise.

use isochron_tests::launch::{HANGS, Mpi, libraries, run};

/// Runs the example. Returns the sweeps after which rows moved, first with even parts and then balanced.
fn run_stencil(mpi: &Mpi, ranks: usize, arguments: &[&str]) -> [Vec<u64>; 2] {
    let arguments = [arguments, &["--made-up"]].concat();
    let output = run(mpi.command(ranks, &mpi.stencil, &arguments), HANGS).success();
    assert!(
        output.contains("\nthe same cells: true\n"),
        "{}: {output}",
        mpi.name
    );
    let moves = output
        .lines()
        .filter_map(|line| line.split_once("after sweeps ["));
    let moves: Vec<Vec<u64>> = moves
        .map(|(_, sweeps)| {
            let sweeps = sweeps
                .trim_end_matches(']')
                .split(", ")
                .filter(|word| !word.is_empty());
            sweeps
                .map(|sweep| sweep.parse().expect("a sweep"))
                .collect()
        })
        .collect();
    moves.try_into().expect("two runs")
}

#[test]
fn rows_of_a_stencil_follow_a_slow_rank_in_a_few_moves() {
    for mpi in libraries() {
        let [even, balanced] = run_stencil(&mpi, 3, &["150"]);
        assert!(even.is_empty(), "{}: {even:?}", mpi.name);
        assert!(
            (1..=5).contains(&balanced.len()),
            "{}: {balanced:?}",
            mpi.name
        );
        assert!(balanced[0] <= 20, "{}: {balanced:?}", mpi.name);
    }
}

#[test]
fn a_rank_that_becomes_slow_is_answered_within_20_sweeps() {
    for mpi in libraries() {
        let [_, balanced] = run_stencil(&mpi, 3, &["120", "--slow-from", "60"]);
        assert!(
            balanced.iter().any(|sweep| (61..=80).contains(sweep)),
            "{}: {balanced:?}",
            mpi.name
        );
        assert!(balanced.len() <= 5, "{}: {balanced:?}", mpi.name);
    }
}

#[test]
fn a_stencil_of_one_rank_moves_nothing() {
    let [mpi, _] = libraries();
    let moves = run_stencil(&mpi, 1, &["20"]);
    assert!(moves.iter().all(Vec::is_empty), "{moves:?}");
}
