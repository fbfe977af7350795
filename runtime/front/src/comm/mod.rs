//! Messages between ranks.
//!
//! [`connect`] gives a program its communicator, and [`MpiComm`](mpi::MpiComm) adopts one that it has. Both are a [`Comm`],
//! and so is [`LocalComm`], one rank without MPI. All but `connect` and `MpiComm` comes from the crate `isochron-core`.

mod connect;
#[cfg(feature = "mpi")]
#[allow(unsafe_code, reason = "the one place of this crate that calls a system library")]
pub mod mpi;

pub use connect::{abort_on_panic, connect};
#[doc(inline)]
pub use isochron_core::comm::*;
