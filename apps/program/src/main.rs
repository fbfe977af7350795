//! The `isochron` command: [`isochron_command`] with ranks over MPI, or one rank without a launcher.

use std::process::ExitCode;

use isochron::comm::{abort_on_panic, connect};

/// Says why the process ends if the system refuses it memory.
#[global_allocator]
static HEAP: isochron_command::ReportingHeap = isochron_command::ReportingHeap;

fn main() -> ExitCode {
    isochron_command::run(connect, abort_on_panic)
}
