//! Cases that every rank of a real `mpirun` takes part in: `mpirun -n N isochron-cases FOLDER [--all] [--only WORD]
//! [--longest BYTES]`.
//!
//! FOLDER is a folder for files. `--all` runs all combinations instead of covering rows. `--only` runs the groups with
//! that word in their names. `--longest` runs the cases of long messages instead, with messages of at most this length.
//! The program prints a line for each group of cases, and ends with status 0 only when all hold on all ranks.

// A test program says what happens, and stops where it cannot go on.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use isochron::comm::mpi::MpiComm;
use isochron::comm::{Comm, abort_on_panic, connect};
use isochron_tests::covering::Coverage;
use isochron_tests::traps::TRAPS;
use isochron_tests::{
    bad_times, cases, changes, general, golden, learning, learning_sessions, moving, own_loops,
    own_matrices, partitions, parts, predictions, scalapack, table, travel,
};

/// The words of the command line.
struct CaseArguments {
    folder: PathBuf,
    coverage: Coverage,
    only: String,
    longest: Option<usize>,
}

impl CaseArguments {
    fn read() -> Self {
        let mut words = std::env::args().skip(1);
        let mut arguments = Self {
            folder: words.next().expect("a folder for files").into(),
            coverage: Coverage::Pairs,
            only: String::new(),
            longest: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--all" => arguments.coverage = Coverage::Whole,
                "--only" => arguments.only = words.next().expect("a word"),
                "--longest" => {
                    let bytes = words.next().expect("a number of bytes");
                    arguments.longest = Some(bytes.parse().expect("a number of bytes"));
                }
                other => panic!("there is no option {other}"),
            }
        }
        arguments
    }
}

/// Runs groups of cases, and prints a line for each on the head rank.
struct CaseGroups<'c> {
    comm: &'c Arc<dyn Comm>,
    only: &'c str,
}

impl CaseGroups<'_> {
    /// Runs cases that need a session.
    fn run_shared(&self, name: &str, cases: impl FnOnce(&Arc<dyn Comm>) -> usize) {
        self.run(name, |_| cases(self.comm));
    }

    fn run(&self, name: &str, cases: impl FnOnce(&dyn Comm) -> usize) {
        if !name.contains(self.only) {
            return;
        }
        let start = Instant::now();
        let count = cases(self.comm.as_ref());
        if self.comm.rank() == 0 {
            let (n, seconds) = (self.comm.size(), start.elapsed().as_secs_f64());
            let library = self.comm.implementation();
            println!("{name}: {count} cases on {n} ranks, {library}, {seconds:.2} s");
        }
    }
}

fn main() {
    let arguments = CaseArguments::read();
    let Some(longest) = arguments.longest else {
        let comm = connect().expect("a communicator");
        abort_on_panic();
        run_all(&comm, &arguments);
        run_own_loops(&comm, &arguments.only);
        return;
    };
    let comm = MpiComm::initialize().expect("MPI");
    abort_on_panic();
    run_long_messages(&comm.with_longest_message(longest).into());
}

fn run_long_messages(comm: &Arc<dyn Comm>) {
    let groups = CaseGroups { comm, only: "" };
    groups.run("redistribution", moving::redistribution);
    groups.run_shared("volume", cases::volume);
    groups.run_shared("relays", travel::relays);
    groups.run("short pieces", moving::short_pieces);
}

fn run_own_loops(comm: &Arc<dyn Comm>, only: &str) {
    let groups = CaseGroups { comm, only };
    groups.run_shared("loops that move", own_loops::loops_that_move);
    groups.run_shared("loops of a few sweeps", own_loops::loops_of_a_few_sweeps);
    groups.run_shared("loops from checkpoints", own_loops::loops_from_checkpoints);
    groups.run_shared("loops from other checkpoints", own_loops::loops_from_other_checkpoints);
    groups.run_shared("loops of unlike arguments", own_loops::loops_of_unlike_arguments);
    groups.run_shared("loops with bad times", own_loops::loops_with_bad_times);
    groups.run_shared("rows of own divisions", own_loops::rows_of_own_divisions);
    groups.run_shared("rows that stay in place", own_loops::rows_that_stay_in_place);
    groups.run_shared("rows without memory", own_loops::rows_without_memory);
    groups.run_shared("loops of few units", own_loops::loops_of_few_units);
    groups.run_shared("benchmarks", partitions::benchmarks);
    groups.run_shared("kernels of unlike speed", partitions::kernels_of_unlike_speed);
    groups.run_shared("models of one's own", partitions::models_of_ones_own);
    groups.run_shared("failing partitions", partitions::failing_partitions);
    groups.run_shared("platforms", predictions::platforms);
    groups.run_shared("groups", predictions::groups);
}

fn run_all(comm: &Arc<dyn Comm>, arguments: &CaseArguments) {
    let (coverage, folder) = (arguments.coverage, arguments.folder.as_path());
    let only = &arguments.only;
    let groups = CaseGroups { comm, only };
    groups.run_shared("exact", |comm| cases::exact(comm, coverage));
    groups.run_shared("probe", cases::probe);
    groups.run_shared("wrong results", cases::wrong_results);
    groups.run_shared("flips", cases::flips);
    groups.run_shared("volume", cases::volume);
    groups.run_shared("in parts", |comm| parts::in_parts(comm, coverage));
    groups.run_shared("parts that fail", parts::parts_that_fail);
    groups.run_shared("devices that fail in a part", parts::devices_that_fail_in_a_part);
    groups.run_shared("changed parts", |comm| changes::changed_parts(comm, coverage));
    groups.run_shared("changes within room", |comm| changes::changes_within_room(comm, folder));
    groups.run_shared("no change", changes::no_change_sends_nothing_more);
    groups.run_shared("refused changes", changes::refused_changes);
    groups.run_shared("failing directors", changes::failing_directors);
    groups.run_shared(
        "devices that fail between changes",
        changes::devices_that_fail_between_changes,
    );
    groups.run_shared("parts that fail between changes", changes::parts_that_fail_between_changes);
    groups.run_shared("changes of GPUs", changes::changes_of_gpus);
    groups.run_shared("learning", |comm| learning::learning(comm, coverage));
    groups.run_shared("learning on GPUs", learning::learning_on_gpus);
    groups.run_shared("bad times", bad_times::bad_times);
    groups.run_shared("kept decisions", golden::kept_decisions);
    groups.run_shared("sessions that learn", |comm| {
        learning_sessions::sessions_that_learn(comm, folder)
    });
    groups.run_shared("relays", travel::relays);
    groups.run_shared("steps ahead", |comm| travel::steps_ahead(comm, coverage));
    groups.run_shared("failing devices", travel::failing_devices);
    groups.run_shared("table", |comm| table::multiplications(comm, coverage));
    groups.run_shared("own matrices", own_matrices::own_matrices);
    groups.run_shared("agreeing blocks", own_matrices::agreeing_blocks);
    groups.run_shared("unlike arguments", own_matrices::unlike_arguments);
    groups.run_shared("along k", general::along_k);
    for (name, trap) in TRAPS {
        groups.run_shared(name, trap);
    }
    groups.run("files", |comm| cases::files(comm, folder));
    groups.run("separate files", |comm| moving::separate_files(comm, folder));
    groups.run("redistribution", moving::redistribution);
    groups.run("prepared", moving::prepared);
    groups.run("relaid", moving::relaid);
    groups.run("refused", moving::refused);
    if !only.is_empty() {
        return;
    }
    match scalapack::agrees(comm.as_ref(), moving::grid(comm.size())) {
        Some(count) => groups.run("ScaLAPACK", |_| count),
        None if comm.rank() == 0 => {
            println!("ScaLAPACK: skipped, it is not installed for this MPI");
        }
        None => {}
    }
    groups.run("failures", cases::failures);
}
