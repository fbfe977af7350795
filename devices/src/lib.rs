//! The devices of a node: their discovery, their arithmetic and their measured speeds.
//!
//! # Example
//! A program divides columns of a product over all devices of its host, by their measured speeds:
//! ```
//! use isochron_devices::{BlasChoice, Grouping, MeasureConfig, Node};
//! use isochron_hierarchy::model::SpeedModel;
//! use isochron_hierarchy::partition::gpa;
//!
//! let mut node = Node::discover(Grouping::Auto, &BlasChoice::Embedded)?;
//! let quick = MeasureConfig { max_seconds: 0.05, ..MeasureConfig::default() };
//! let models = node.measure::<f32>(128, 64, &[32, 128], &quick)?;
//! let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
//! let parts = gpa(&models, 1000)?;
//! for (device, columns) in node.devices().iter().zip(&parts.units) {
//!     println!("{}: {columns} columns", device.name);
//! }
//! assert_eq!(parts.units.iter().sum::<u64>(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When to use which
//! | to | use |
//! |---|---|
//! | find the devices of this host, and measure them | [`Node`] |
//! | see the hardware, or bind threads to cores | [`Topology`] |
//! | know which devices the ranks of a host would get | [`host_devices`], by a [`Grouping`] of cores |
//! | compute on a pinned group of cores | [`CpuWorker`], with a [`Blas`] that is chosen at run time |
//! | compute on a GPU with its host core | [`CudaWorker`] |
//! | emulate an unlike cluster | [`PacedWorker`], which slows another worker down; [`PacedWork`], which slows a program's own work down |
//! | make a device of one's own | [`Worker`] |
//! | drive all devices of a node at the same time | [`DeviceTeam`] |
//! | repeat an update until its time is known with confidence | [`measure_team`] |
//! | measure any other kernel, also of a shared library and in a process of its own | [`kernel`] |
//!
//! Most programs embed the crate `isochron`, which drives these devices on every rank.
//!
//! Everything that touches hardware or foreign libraries is in this crate, each library in one module: hwloc in
//! [`topology`], BLAS in [`blas`], CUDA in [`cuda`], kernels of users in [`kernel`]. Absent hardware is an empty list,
//! never an error.

// Tests unwrap values that their own inputs make certain; the message of a failed unwrap is the report.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod blas;
pub mod cuda;
// For the other crates of this workspace.
#[doc(hidden)]
pub mod internal;
pub mod kernel;
pub mod measure;

mod contract;
mod cpu;
mod host;
mod node;
mod paced;
mod team;

#[doc(hidden)]
pub use num_complex;

pub use blas::{BlasChoice, CblasLibrary, EmbeddedBlas};
pub use contract::{
    Blas, BlasGemm, Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, ElementType,
    ForkedChild, JobCheck, JobNeeds, JobShape, MatrixView, PanelPair, ReservedThreads, Scalar,
    ThreadPlace, UpdateTime, Updates, View, ViewMut, Worker, leading_dimension,
};
pub use cpu::CpuWorker;
pub use cuda::{CudaConfig, CudaInfo, CudaWorker};
pub use host::cpu_time::thread_cpu_time_s;
pub use host::memory::memory_available_bytes;
pub use host::topology::{
    self, BusId, CoreInfo, DriverGpu, GpuInfo, PciGpu, Topology, TopologySummary,
};
pub use measure::{MeasureConfig, MeasureTally, measure_team};
pub use node::{CoreGroup, GpuHost, Grouping, Node, RankDevices, host_devices};
pub use paced::{Pace, PacedWork, PacedWorker};
pub use team::DeviceTeam;
