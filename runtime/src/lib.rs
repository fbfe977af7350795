//! Isochron: matrix multiplication on unlike nodes, balanced by measured speed, over MPI.
//!
//! # Overview
//! A [`session::Session`] joins the ranks of a job (a [`comm::Comm`]) with the devices of each rank's node. First it
//! *plans*: it measures the speed of every device with the kernel that will run. INPA balances the nodes, and IDPA the
//! devices of each node. The result is a [`multiply::Plan`]: one rectangle of C for each node, one slice of it for each
//! device. Then it *multiplies* [`matrix::Matrix`] operands, spread as the plan says, by a blocked heterogeneous SUMMA.
//! [`verify`] checks the result, and a [`session::Report`] lists the work and the times of every device.
//!
//! The example of [`session::Session`] is a whole program.
//!
//! A program that does its own work in a loop of its own needs neither: [`rebalance::Rebalancer`] balances that loop.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012; Clarke, "Design and implementation of parallel algorithms
//! for modern heterogeneous platforms based on the functional performance model", PhD thesis, University College
//! Dublin, 2014.

// A test that cannot go on panics.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![deny(unsafe_code)]

pub mod comm;
mod error;
mod fault;
pub mod input;
pub mod matrix;
pub mod multiply;
pub mod output;
pub mod prelude;
pub mod progress;
pub mod rebalance;
pub mod session;
pub mod store;
pub mod verify;

pub use error::{Error, ErrorClass};
pub use isochron_devices as devices;
pub use isochron_hierarchy as hierarchy;
#[cfg(feature = "mpi")]
pub use mpi;

/// The program in the project's README, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The program in the documentation of loops, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/own-loops.md")]
struct OwnLoops;
