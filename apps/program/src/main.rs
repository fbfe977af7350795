//! The `isochron` command: [`isochron_command`] with ranks over MPI, or one rank without a launcher.

#[cfg(target_os = "linux")]
use std::ffi::c_int;
use std::process::ExitCode;

use isochron::comm::{abort_on_panic, connect};

/// Says why the process ends if the system refuses it memory.
#[global_allocator]
static HEAP: isochron_command::ReportingHeap = isochron_command::ReportingHeap;

/// Stands for the C library's function, which code that ends the process with success would call: see
/// [`end_at_once`](isochron_command::end_at_once).
#[cfg(target_os = "linux")]
// SAFETY: it has the type of the function that it replaces, and keeps its promise not to return.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    isochron_command::end_at_once(status)
}

/// The same under the name that C's standard gives it.
#[cfg(target_os = "linux")]
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    isochron_command::end_at_once(status)
}

fn main() -> ExitCode {
    #[cfg(feature = "test-hooks")]
    isochron_command::obey_tests();
    isochron_command::run(connect, abort_on_panic)
}
