//! Traps that multiplications are known to fall into without a word, on several ranks under both MPI libraries.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on says so by panicking"
)]

use isochron_tests::launch::{HANGS, libraries, run};

fn is_avoided(trap: &str) {
    for mpi in libraries() {
        for ranks in [1, 2, 3, 4, 6] {
            let folder = tempfile::tempdir().expect("a folder");
            let arguments = [folder.path().as_os_str(), trap.as_ref()];
            let output = run(mpi.command(ranks, &mpi.cases, &arguments), HANGS).success();
            let word = if trap == "40" { "short pieces" } else { trap };
            assert!(output.contains(word), "{}: {output}", mpi.name);
        }
    }
}

#[test]
fn with_beta_0_c_is_not_read() {
    is_avoided("beta-0-reads-c");
}

#[test]
fn with_k_0_c_is_scaled() {
    is_avoided("k-0-leaves-c-unscaled");
}

#[test]
fn the_conjugate_transpose_is_conjugated_and_transposed() {
    is_avoided("conjugate-transpose");
}

#[test]
fn blocks_of_one_element_are_multiplied() {
    is_avoided("small-blocks");
}

#[test]
fn submatrices_begin_where_they_begin() {
    is_avoided("submatrix-offsets");
}

/// Counts beyond 2³¹ are cut: here beyond five elements, so that every message is.
#[test]
fn more_elements_than_an_int_counts_arrive() {
    is_avoided("40");
}
