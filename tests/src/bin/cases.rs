//! Cases that every rank of a real `mpirun` takes part in: `mpirun -n N isochron-cases FOLDER`.
//!
//! FOLDER is a folder for files. The program prints a line for each group of cases and ends with status 0 only
//! when all hold on all ranks.

// A test program says what happens, and stops where it cannot go on.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use isochron::comm::connect;
use isochron_tests::{cases, general};

fn main() {
    let comm = connect().expect("a communicator");
    let folder = std::env::args().nth(1).expect("a folder for files");
    let report = |group: &str, count: usize| {
        if comm.rank() == 0 {
            println!(
                "{group}: {count} cases on {} ranks, {}",
                comm.size(),
                comm.implementation()
            );
        }
    };
    report("exact", cases::exact(comm.as_ref()));
    report("scalars", cases::scalars(comm.as_ref()));
    report("probe", cases::probe(comm.as_ref()));
    report("measured", cases::measured(comm.as_ref()));
    report("wrong results", cases::wrong_results(comm.as_ref()));
    report("volume", cases::volume(comm.as_ref()));
    report("operations", general::operations(comm.as_ref()));
    report("along k", general::along_k(comm.as_ref()));
    report("wrong spread", general::wrong_spread(comm.as_ref()));
    report("files", cases::files(comm.as_ref(), folder.as_ref()));
    report("failures", cases::failures(comm.as_ref()));
}
