//! The devices of a node: their discovery, their arithmetic and their measured speeds.
//!
//! * [`Topology`] describes the host's hardware and binds threads to it; [`host_devices`] finds its devices, by a
//!   [`Grouping`] of cores.
//! * A [`Worker`] is a device: it updates `C += alpha·A·B`. [`CpuWorker`] is a pinned group of cores with a [`Blas`]
//!   that is chosen at run time. [`CudaWorker`] is a GPU with its host core. [`PacedWorker`] slows another worker down,
//!   to emulate an unlike cluster. [`RecordedWorker`] replays a model on a virtual clock. All pass the suite
//!   [`conformance`].
//! * A [`DeviceTeam`] drives all devices of a node at the same time.
//! * [`measure_team`] repeats an update until its time is known with confidence.
//! * [`kernel`] runs and measures any other computational kernel, also from a shared library and in a process of its own.
//!
//! Everything that touches hardware or foreign libraries is in this crate, each library in one module: hwloc in
//! [`topology`], BLAS in [`blas`], CUDA in [`cuda`], kernels of users in
//! [`kernel`]. Absent hardware is an empty list, never an error.

// Tests unwrap values that their own inputs make certain; the message of a failed unwrap is the report.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod blas;
pub mod conformance;
pub mod cuda;
pub mod kernel;
pub mod measure;
pub mod topology;
mod turns;

mod cgroup;
mod clock;
mod conditions;
mod cpu;
mod cpu_quota;
mod discover;
mod element;
mod error;
mod grouping;
mod heat;
mod host_cores;
mod huge_pages;
mod memory;
mod model_time;
mod node;
mod paced;
mod recorded;
mod share;
mod team;
mod threads;
mod view;
mod visit;
mod worker;

pub use blas::{Blas, BlasChoice, CblasLibrary, EmbeddedBlas, Gemm};
pub use clock::DeviceClock;
pub use conditions::HostConditions;
pub use cpu::{CpuWorker, ThreadPlace, thread_cpu_time_s};
pub use cpu_quota::cpu_quota_cores;
pub use cuda::{CudaConfig, CudaInfo, CudaWorker};
pub use discover::{CoreGroup, GpuHost, RankDevices, host_devices, rank_devices};
pub use element::{Element, ElementType};
pub use error::DeviceError;
pub use grouping::Grouping;
pub use heat::{HeatCounts, HeatSensors};
pub use host_cores::{Distances, HostCores, deal_by_distance, reserve_hosts};
pub use huge_pages::{try_reserve_matrix, try_zeroed_matrix};
pub use measure::{MeasureConfig, MeasureOutcome, MeasureTally, Measurement, measure_team};
pub use memory::{
    MemoryBound, MemoryScope, is_unwritten_memory_free, memory_available_bytes, memory_bounds,
};
pub use node::Node;
pub use paced::{Pace, PacedWorker};
pub use recorded::RecordedWorker;
pub use share::share_cores;
pub use team::DeviceTeam;
pub use topology::{BusId, CoreInfo, DriverGpu, GpuInfo, PciGpu, Topology, TopologySummary};
pub use view::{MatrixView, View, ViewMut, leading_dimension};
pub use worker::{
    Depth, DeviceInfo, DeviceKind, JobCheck, JobNeeds, JobShape, PanelPair, ResidentPeak,
    UpdateTime, Updates, Worker,
};
