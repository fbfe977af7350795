//! The address space that MPI needs to begin.

use isochron_core::internal::{launched_rank, launched_size};
use isochron_devices::internal::{MemoryScope, memory_bounds};

use crate::failure::Failure;
use crate::output::print_failure;

/// Least bytes for MPI to begin: with 76 MiB Open MPI waits for ever for memory that its ranks would share.
const LEAST_BYTES: u64 = 80 << 20;

/// Prints an error if a limit leaves MPI too little address space to begin, and returns the exit status.
///
/// Other ranks are in MPI's start meanwhile. Open MPI's launcher ends them because of the status, and launchers that speak
/// PMI only because of a signal.
pub fn refuse_little_space() -> Option<u8> {
    launched_size()?;
    let bounds = memory_bounds();
    let own = bounds.iter().find(|bound| bound.scope == MemoryScope::Process)?;
    if own.bytes >= LEAST_BYTES {
        return None;
    }
    let status = print_failure(&Failure::input(describe_lack(launched_rank(), own.bytes)));
    if std::env::var_os("PMI_RANK").is_some() {
        std::process::abort();
    }
    Some(status)
}

fn describe_lack(rank: usize, left_bytes: u64) -> String {
    format!(
        "rank {rank}: {} MiB of address space are left, and MPI needs {} MiB to begin: raise the limit (`ulimit -v`, or that \
         of the batch system)",
        left_bytes >> 20,
        LEAST_BYTES >> 20
    )
}
