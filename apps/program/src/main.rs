//! The `isochron` command: [`isochron_command`] with ranks over MPI, or one rank without a launcher.

use std::process::ExitCode;

use isochron::comm::{abort_on_panic, connect};

fn main() -> ExitCode {
    isochron_command::run(connect, abort_on_panic)
}
