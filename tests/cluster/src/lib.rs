//! Several hosts emulated on one machine.
//!
//! A [`Cluster`] is made of what a [`Spec`] asks for. Each host is a set of Linux namespaces with its own hostname,
//! network card, shared memory and control group; programs in it see the files and cores of the machine. The hosts
//! are joined by the kernel's bridge or, where a latency is asked for, by a [switch](switch::Switch) in user space.
//! `mpirun` reaches them by a script that stands for ssh.
//!
//! A *keeper*, a process in the background, holds the hosts and is the switch. Whatever ends the keeper ends the
//! hosts; the keeper of a [`Cluster::up`] ends with the value, or with the process that holds it.
//!
//! ```no_run
//! use isochron_cluster::{Cluster, Launcher, Library, Spec};
//!
//! # fn main() -> Result<(), isochron_cluster::Error> {
//! let mut spec = Spec::new("example", 2)?;
//! spec.bandwidth = Some("1gbit".parse()?);
//! spec.latency = "100us".parse()?;
//! let cluster = Cluster::up("target/release/isochron-cluster".as_ref(), &spec)?;
//! let mpirun = Launcher { mpi: Library::OpenMpi, mpirun: "mpirun".into() };
//! let status = cluster.mpirun(&mpirun, &[1, 1])?.arg("hostname").status();
//! # Ok(())
//! # }
//! ```
#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        reason = "a test that cannot go on should panic where it stands"
    )
)]

pub mod check;
mod cluster;
mod error;
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

pub use cluster::{Cluster, down, names};
pub use error::Error;
pub use launch::{Launcher, Library, remote};
pub use spec::Spec;
pub use state::{Host, State};
pub use units::{Latency, Quota, Rate};
