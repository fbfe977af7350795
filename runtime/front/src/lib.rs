//! Isochron: matrix multiplication on unlike nodes, balanced by measured speed, over MPI.
//!
//! The crate is the runtime that programs embed. `use isochron::prelude::*` brings what most of them need.
//!
//! # Example
//! A program multiplies matrices of its own, under `mpirun` or alone:
//! ```
//! use isochron::prelude::*;
//!
//! let comm = connect()?; // or `MpiComm::adopt`, if the program has initialised MPI itself
//! let (rank, ranks) = (comm.rank(), comm.size());
//! let mut session = Session::builder().build(comm)?;
//!
//! // Every rank has some rows of A and C, row after row as in C; the first rank has B.
//! let (m, n, k) = (120, 80, 60);
//! let cut = |rank: usize| m * rank / ranks;
//! let rows = |cols: usize| {
//!     let rows = (0..ranks).map(|rank| Region::new(cut(rank)..cut(rank + 1), 0..cols));
//!     Distribution::of_regions(m, cols, &rows.collect::<Vec<_>>()).map(Distribution::row_major)
//! };
//! let (a_on, b_on, c_on) = (rows(k)?, Distribution::on_one(k, n, 0, ranks)?, rows(n)?);
//! let mine = cut(rank + 1) - cut(rank);
//! let a = vec![1.0; mine * k];
//! let b = vec![2.0; if rank == 0 { k * n } else { 0 }];
//! let mut c = vec![0.0; mine * n];
//!
//! // Measured and planned once, and run as often as needed.
//! let mut product: Gemm<f64> = session.prepare_gemm([&a_on, &b_on, &c_on], &GemmConfig::default())?;
//! for _ in 0..3 {
//!     product.run(&mut session, Scalars::UPDATE, (&a, k), (&b, k), (&mut c, n))?;
//! }
//! assert!(c.iter().all(|&sum| sum == 3.0 * 2.0 * k as f64));
//! # Ok::<(), Error>(())
//! ```
//!
//! # When to use which
//! | a program | uses |
//! |---|---|
//! | multiplies matrices of its own, once | [`Session::gemm`](session::Session::gemm) |
//! | does so again and again | [`Session::prepare_gemm`](session::Session::prepare_gemm) and [`Gemm`](session::Gemm) |
//! | keeps its matrices in the runtime's layout | [`Session::plan`](session::Session::plan), [`Matrix`](matrix::Matrix), [`Session::multiply`](session::Session::multiply) |
//! | makes or reads A and B in parts, since memory is short | [`Session::multiply_in_parts`](session::Session::multiply_in_parts) |
//! | moves matrices between layouts | [`matrix::redistribute`] |
//! | reads and writes matrices of files | [`matrix::file`](mod@matrix::file) |
//! | balances a loop of its own | [`rebalance::Rebalancer`] |
//! | divides work of another kind by measured points | [`hierarchy::split`] |
//! | measures the devices of a host | [`devices::Node`] |
//! | decides itself on changes in mid-run | [`multiply::Director`] |
//!
//! # Overview
//! A [`session::Session`] joins the ranks of a job (a [`comm::Comm`]) with the devices of each rank's node. It *plans*: it
//! decides by measured speeds which rectangle of C each node computes, and which slice of it each device. Then it
//! *multiplies* by a blocked heterogeneous SUMMA, and learns from the times of the steps. [`verify`] checks the result, and a
//! [`session::Report`] lists the work and the times of every device.
//! [`Session::save_models`](session::Session::save_models) keeps the times in the model [`store`] for the next run, if the
//! session was built with a [`StoreMode`](store::StoreMode) that writes.
//!
//! Calls named *collective* are made by all ranks of the communicator, in the same order. A failure of one rank is then an
//! error on all of them ([`Error`]).
//!
//! A program that does its own work in a loop needs no session: [`rebalance::Rebalancer`] balances that loop.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012; Clarke, "Design and implementation of parallel algorithms
//! for modern heterogeneous platforms based on the functional performance model", PhD thesis, University College
//! Dublin, 2014.

#![deny(unsafe_code)]

pub mod comm;
pub mod prelude;

pub use isochron_core::{Error, ErrorClass};
#[doc(inline)]
pub use isochron_core::{matrix, multiply, progress, rebalance, session, store, verify};
pub use isochron_devices as devices;
pub use isochron_hierarchy as hierarchy;
#[cfg(feature = "mpi")]
pub use mpi;

/// The program in the project's README, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program in the documentation of loops, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/own-loops.md")]
struct OwnLoops;
