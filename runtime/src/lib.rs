//! The runtime of Isochron without an MPI library: sessions that multiply matrices on the devices of all ranks, and loops
//! that are balanced by their times.
//!
//! The crate `isochron` has the same modules, and ranks over MPI. This crate depends on no MPI library, so that it is
//! compiled once for all of them. Its ranks are those of any [`comm::Comm`].
//!
//! # Example
//! One process multiplies on all its devices. The matrices are NumPy's or C's: row after row.
//! ```
//! use isochron_core::prelude::*;
//!
//! let mut session = Session::builder().build(LocalComm::new())?;
//! let on = |rows, cols| Distribution::on_one(rows, cols, 0, 1).map(Distribution::row_major);
//! let (m, n, k) = (60, 40, 50);
//! let (a_on, b_on, c_on) = (on(m, k)?, on(k, n)?, on(m, n)?);
//! let (a, b, mut c) = (vec![1.0; m * k], vec![2.0; k * n], vec![0.0; m * n]);
//! let factors = Factors::of((&a, k), (&b, n));
//! let run = session.gemm([&a_on, &b_on, &c_on], Scalars::PRODUCT, factors, (&mut c, n))?;
//! assert_eq!(run.in_place, [true; 3]);
//! assert!(c.iter().all(|&sum| sum == 2.0 * k as f64));
//! # Ok::<(), Error>(())
//! ```
//!
//! # When to use which
//! | a program | uses |
//! |---|---|
//! | has ranks over MPI | the crate `isochron`, whose overview is longer |
//! | has one process, and is built without MPI | this crate with [`LocalComm`](comm::LocalComm) |
//! | sends messages by a library of its own | this crate with its own [`comm::Comm`] |
//! | multiplies once | [`Session::gemm`](session::Session::gemm) |
//! | multiplies again and again | [`Session::prepare`](session::Session::prepare) and [`Product`](product::Product) |
//! | keeps its matrices in the runtime's layout | [`Session::plan`](session::Session::plan), and `prepare` with the plan |
//! | balances a loop of its own | [`rebalance::Rebalancer`] |
//! | divides its work once, by measuring its own kernel | [`partition`] |
//! | predicts an algorithm of its own, and chooses its ranks | [`predict`] |
//! | only divides work by measured points | [`hierarchy::split`], which needs no ranks |
//! | only measures the devices of a host | [`devices::Node`] |

// A test that cannot go on panics.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![deny(unsafe_code)]

pub mod comm;
mod error;
mod fault;
mod input;
// For the other crates of this workspace.
#[doc(hidden)]
pub mod internal;
pub mod matrix;
mod output;
pub mod partition;
pub mod plan;
pub mod predict;
pub mod prelude;
pub mod product;
pub mod progress;
pub mod rebalance;
pub mod report;
pub mod session;
pub mod store;
pub mod verify;
mod watch;

pub use error::{Error, ErrorClass};
pub use isochron_devices as devices;
pub use isochron_hierarchy as hierarchy;
