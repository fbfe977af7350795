//! The runtime of Isochron without an MPI library.
//!
//! Programs use the crate `isochron`, which has the same modules, and ranks over MPI. This crate depends on no MPI library,
//! so that it is compiled once for all of them. Its ranks are what implements [`comm::Comm`].

// A test that cannot go on panics.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![deny(unsafe_code)]

pub mod comm;
mod error;
mod fault;
// Public for the command, whose files they read and write.
#[doc(hidden)]
pub mod input;
pub mod matrix;
pub mod multiply;
#[doc(hidden)]
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
