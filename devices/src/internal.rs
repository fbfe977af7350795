//! Items for the other crates of this workspace. They may change at any time.

// For everything that a forked child must not use.
pub use crate::fork::HomeProcess;
// For the runtime, whose ranks compare the libraries together and keep their times in the model store.
pub use crate::blas::choose::{FoundBlas, find_blas};
pub use crate::blas::trial::{
    BlasCandidates, TRIAL_UNITS, TRIAL_VERSION, TrialTimes, pick_fastest,
};
// For the runtime, which shares a host among ranks, heeds its state and makes matrices.
pub use crate::conditions::HostConditions;
pub use crate::cpu_quota::cpu_quota_cores;
pub use crate::cuda::nvml::read_gpu_state;
pub use crate::discover::rank_devices;
pub use crate::file_kind::describe_kind;
pub use crate::heat::HeatSensors;
pub use crate::host_cores::{Distances, HostCores, deal_by_distance, reserve_hosts};
pub use crate::huge_pages::{release_elements, try_reserve_matrix, try_zeroed_matrix};
pub use crate::memory::{MemoryBound, MemoryScope, is_unwritten_memory_free, memory_bounds};
pub use crate::share::share_cores;
// For the command and for benchmarks, whose process is theirs alone.
pub use crate::blas::cblas::own_libraries;
pub use crate::heap::{ReportingHeap, prepare_heap};
pub use crate::process::{ExitWatch, end_at_once, take_stdout, watch_exit};
// For tests and benchmarks.
pub use crate::cuda::plan::Placement;
pub use crate::recorded::RecordedWorker;

/// The promises of a worker, for tests of workers in other crates.
pub mod conformance {
    pub use crate::conformance::{run, run_contract};
}
