//! Programs with an MPI of their own that embed Isochron: `mpirun -n N isochron-embedded CASE`.
//!
//! Each case is a situation in which such a program was once harmed. Every rank prints `CASE: holds` when all is as it has to
//! be, and ends with status 0.

// A test program says what happens, and stops where it cannot go on.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

fn main() {
    let case = std::env::args().nth(1).expect("a case");
    isochron_tests::embedded::run_case(&case);
    println!("{case}: holds");
}
