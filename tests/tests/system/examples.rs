//! The examples of embedding, as programs of their own.

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

#[test]
fn embedding_takes_few_lines() {
    let examples = [
        ("examples/stencil/main.rs", 60),
        ("c/examples/stencil.c", 60),
        ("c/examples/stencil.f90", 60),
        ("python/examples/stencil.py", 60),
        ("examples/block_cyclic.rs", 40),
        ("c/examples/block_cyclic.c", 60),
    ];
    for (path, limit) in examples {
        let lines = read_file(Path::new("runtime").join(path)).lines().count();
        assert!(lines <= limit, "{path} has {lines} lines, over {limit}");
    }
}
