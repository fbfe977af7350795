//! Items for the other crates of this workspace. They may change at any time.

// For everything that a forked child must not use.
pub use crate::host::fork::HomeProcess;
// For the runtime, whose ranks compare the libraries together and keep their times in the model store.
pub use crate::blas::choose::{FoundBlas, find_blas};
pub use crate::blas::trial::{
    BlasCandidates, TRIAL_UNITS, TRIAL_VERSION, TrialTimes, pick_fastest,
};
// For the runtime, which shares a host among ranks, heeds its state and makes matrices.
pub use crate::cuda::nvml::read_gpu_state;
pub use crate::host::file_kind::describe_kind;
pub use crate::host::huge_pages::{release_elements, try_reserve_matrix, try_zeroed_matrix};
pub use crate::host::memory::{MemoryBound, MemoryScope, is_unwritten_memory_free, memory_bounds};
pub use crate::host::topology::Distances;
pub use crate::node::clock::HostClock;
pub use crate::node::conditions::HostConditions;
pub use crate::node::discover::rank_devices;
pub use crate::node::gpus::{assign_gpus, offer_gpus};
pub use crate::node::host_cores::{HostCores, deal_by_distance, reserve_hosts};
pub use crate::node::host_share::HostScope;
pub use crate::node::load::Load;
pub use crate::node::rank_gpu::RankGpu;
pub use crate::node::setup::{FoundHost, HostFacts, RankHost, RankNode, SharedHost, Told};
pub use crate::node::share::kernel_core;
pub use crate::node::spec::{Cores, DeviceSpec, NodeSpec, SavedModel, check_name};
pub use crate::node::workers::found_devices;
pub use isochron_base::cpu_quota_cores;
// For the runtime, which watches over ranks that stand still.
pub use crate::host::operation::{Operation, OperationsSeen, read_operations};
// For the command and for benchmarks, whose process is theirs alone.
pub use crate::blas::cblas::own_libraries;
pub use crate::host::heap::{ReportingHeap, prepare_heap};
pub use crate::host::process::{
    ExitWatch, end_at_once, failed_status, set_failed_status, take_stdout, watch_exit,
};
// For tests and benchmarks.
pub use crate::cuda::plan::Placement;
pub use crate::paced::RecordedWorker;

/// The promises of a worker, for tests of workers in other crates.
pub mod conformance {
    pub use crate::contract::conformance::{run, run_contract};
}
