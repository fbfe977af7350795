//! Several hosts emulated on one machine.
//!
//! An [`EmulatedCluster`] is made of what a [`Spec`] asks for. Each host is a set of Linux namespaces with its own
//! hostname, network card, shared memory and control group; programs in it see the files and cores of the machine. The
//! hosts are joined by the kernel's bridge or, if a latency, groups or flaws are asked for, by a [switch](switch::Switch) in
//! user space.
//! `mpirun` reaches them by a script that stands for ssh.
//!
//! A *keeper*, a process in the background, holds the hosts and is the switch. Whatever ends the keeper ends the
//! hosts; the keeper of an [`EmulatedCluster::bring_up`] ends with the value, or with the process that holds it.
//!
//! ```no_run
//! use isochron_cluster::{EmulatedCluster, MpiLauncher, MpiFamily, Spec};
//!
//! # fn main() -> Result<(), isochron_cluster::ClusterError> {
//! let mut spec = Spec::new("example", 2)?;
//! spec.bandwidth = Some("1gbit".parse()?);
//! spec.latency = "100us".parse()?;
//! let cluster = EmulatedCluster::bring_up("target/release/isochron-cluster".as_ref(), &spec)?;
//! let mpirun = MpiLauncher { mpi: MpiFamily::OpenMpi, mpirun: "mpirun".into() };
//! let status = cluster.mpirun_command(&mpirun, &[1, 1])?.arg("hostname").status();
//! # Ok(())
//! # }
//! ```
#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")
)]

pub mod check;
mod cluster;
mod error;
mod flaw;
mod groups;
pub mod host;
pub mod keeper;
mod launch;
mod link;
mod spec;
mod state;
pub mod switch;
// The one place that calls the system without a safe wrapper.
#[allow(unsafe_code)]
mod system;
mod units;

pub use cluster::{EmulatedCluster, cluster_names, take_down};
pub use error::ClusterError;
pub use flaw::{Flaw, FlawKind};
pub use launch::{MpiFamily, MpiLauncher, split_remote};
pub use spec::Spec;
pub use state::{ClusterState, EmulatedHost};
pub use units::{Latency, Quota, Rate};
