//! The examples of embedding, as programs of their own.

use std::collections::BTreeSet;
use std::path::Path;

use isochron_tests::launch::{HANGS, libraries, run};

use super::docs::read_file;

/// The example plans a product of its own matrices once and runs it ten times in three types, on two of three ranks.
#[test]
fn a_program_multiplies_its_own_matrices_in_its_own_communicator() {
    for mpi in libraries() {
        let program = mpi.isochron.with_file_name("examples").join("block_cyclic");
        let none: [&str; 0] = [];
        run(mpi.command(3, &program, &none), HANGS).success();
    }
}

/// The example solves the same system in the same sweeps on any number of ranks, though its rows move. The last rank, which
/// is slow, ends with the fewest.
#[test]
fn a_solver_has_the_same_result_though_its_rows_move() {
    let mut solved = BTreeSet::new();
    for mpi in libraries() {
        let program = mpi.isochron.with_file_name("examples").join("jacobi");
        for ranks in [1, 3] {
            let output = run(mpi.command(ranks, &program, &["--made-up"]), HANGS).success();
            let mut lines = output.lines();
            solved.insert(lines.next().expect("the sweeps").to_owned());
            let moves: Vec<Vec<u64>> = lines.map(read_rows).collect();
            assert_eq!(moves.is_empty(), ranks == 1, "{}: {output}", mpi.name);
            for rows in moves {
                assert_eq!(rows.iter().sum::<u64>(), 600, "{}: {output}", mpi.name);
                assert!(rows[2] < rows[0].min(rows[1]), "{}: {output}", mpi.name);
            }
        }
    }
    let solved: Vec<String> = solved.into_iter().collect();
    assert_eq!(solved, ["57 sweeps, residual 9.2e-11"]);
}

/// Reads the rows of each rank from the list in a line.
fn read_rows(line: &str) -> Vec<u64> {
    line.split(['[', ']'])
        .nth(1)
        .expect("a list")
        .split(", ")
        .map(str::parse)
        .collect::<Result<_, _>>()
        .expect("numbers")
}

/// The examples divide rows by the times of their ranks, and check every element of their results.
#[test]
fn programs_divide_the_rows_of_their_matrices_by_measured_times() {
    let [dgemv, fft2d] = [("dgemv", "y is right"), ("fft2d", "the transform is right")];
    for mpi in libraries() {
        for ((name, line), ranks) in
            mpi.take_turns([(dgemv, 1), (fft2d, 3), (fft2d, 1), (dgemv, 3)])
        {
            let program = mpi.isochron.with_file_name("examples").join(name);
            let none: [&str; 0] = [];
            let output = run(mpi.command(ranks, &program, &none), HANGS).success();
            assert!(output.contains(line), "{name}, {}: {output}", mpi.name);
        }
    }
}

#[test]
fn embedding_takes_few_lines() {
    let examples = [
        ("examples/stencil/main.rs", 60),
        ("c/examples/stencil.c", 60),
        ("c/examples/stencil.f90", 60),
        ("python/examples/stencil.py", 60),
        ("examples/block_cyclic.rs", 40),
        ("examples/jacobi.rs", 105),
        ("examples/dgemv.rs", 80),
        ("examples/fft2d.rs", 125),
        ("c/examples/block_cyclic.c", 60),
    ];
    for (path, limit) in examples {
        let lines = read_file(Path::new("runtime").join(path)).lines().count();
        assert!(lines <= limit, "{path} has {lines} lines, over {limit}");
    }
}
