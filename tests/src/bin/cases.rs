//! Cases that every rank of a real `mpirun` takes part in: `mpirun -n N isochron-cases FOLDER`.
//!
//! FOLDER is a folder for files; a number after it is the length of the longest message in bytes, with which other cases
//! are run: those of long messages. A word after it is the name of a trap, which alone is tried. The program prints a line for each group of cases and ends with status 0 only
//! when all hold on all ranks.

// A test program says what happens, and stops where it cannot go on.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use isochron::comm::mpi::MpiComm;
use isochron::comm::{Comm, connect};
use isochron_tests::traps::TRAPS;
use isochron_tests::{cases, general, moving, parts, scalapack, table, travel};

fn main() {
    let folder = std::env::args().nth(1).expect("a folder for files");
    let word = std::env::args().nth(2);
    let (longest, trap): (Option<usize>, _) = match word.as_ref().map(|word| word.parse()) {
        Some(Ok(bytes)) => (Some(bytes), None),
        Some(Err(_)) => (None, word),
        None => (None, None),
    };
    let comm: Box<dyn Comm> = match longest {
        Some(bytes) => {
            let comm = MpiComm::initialize().expect("MPI");
            Box::new(comm.with_longest_message(bytes))
        }
        None => connect().expect("a communicator"),
    };
    let report = |group: &str, count: usize| {
        if comm.rank() == 0 {
            println!(
                "{group}: {count} cases on {} ranks, {}",
                comm.size(),
                comm.implementation()
            );
        }
    };
    if longest.is_some() {
        report("redistribution", moving::redistribution(comm.as_ref()));
        report("volume", cases::volume(comm.as_ref()));
        report("relays", travel::relays(comm.as_ref()));
        report("short pieces", moving::short_pieces(comm.as_ref()));
        return;
    }
    if let Some(name) = trap {
        let found = TRAPS.iter().find(|(known, _)| *known == name);
        let (name, trap) = found.expect("the name of a trap");
        report(name, trap(comm.as_ref()));
        return;
    }
    report("exact", cases::exact(comm.as_ref()));
    report("scalars", cases::scalars(comm.as_ref()));
    report("probe", cases::probe(comm.as_ref()));
    report("measured", cases::measured(comm.as_ref()));
    report("wrong results", cases::wrong_results(comm.as_ref()));
    report("volume", cases::volume(comm.as_ref()));
    report("in parts", parts::in_parts(comm.as_ref()));
    report("parts that fail", parts::parts_that_fail(comm.as_ref()));
    let failing = parts::devices_that_fail_in_a_part(comm.as_ref());
    report("devices that fail in a part", failing);
    report("relays", travel::relays(comm.as_ref()));
    report("steps ahead", travel::steps_ahead(comm.as_ref()));
    report("failing devices", travel::failing_devices(comm.as_ref()));
    report("operations", general::operations(comm.as_ref()));
    report("table", table::layouts_of_every_type(comm.as_ref()));
    report("strategies", table::strategies_of_every_type(comm.as_ref()));
    report("along k", general::along_k(comm.as_ref()));
    report("wrong spread", general::wrong_spread(comm.as_ref()));
    report("files", cases::files(comm.as_ref(), folder.as_ref()));
    let folder = Path::new(&folder);
    report(
        "separate files",
        moving::separate_files(comm.as_ref(), folder),
    );
    report("redistribution", moving::redistribution(comm.as_ref()));
    report("conjugated", moving::conjugated(comm.as_ref()));
    report("embedded", moving::embedded(comm.as_ref()));
    report("relaid", moving::relaid(comm.as_ref()));
    report("refused", moving::refused(comm.as_ref()));
    match scalapack::agrees(comm.as_ref(), moving::grid(comm.size())) {
        Some(count) => report("ScaLAPACK", count),
        None if comm.rank() == 0 => {
            println!("ScaLAPACK: skipped, it is not installed for this MPI")
        }
        None => {}
    }
    report("failures", cases::failures(comm.as_ref()));
}
