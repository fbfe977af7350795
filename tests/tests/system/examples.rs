//! The examples of embedding, as programs of their own.

use isochron_tests::launch::{HANGS, libraries, run};

/// The example plans a product of its own matrices once and runs it ten times in three types, on two of three ranks.
#[test]
fn a_program_multiplies_its_own_matrices_in_its_own_communicator() {
    for mpi in libraries() {
        let program = mpi.isochron.with_file_name("examples").join("block_cyclic");
        let none: [&str; 0] = [];
        run(mpi.command(3, &program, &none), HANGS).success();
    }
    let text = include_str!("../../../runtime/examples/block_cyclic.rs");
    assert!(text.lines().count() <= 40, "embedding takes few lines");
}
