//! Isochron multiplies matrices on unlike nodes over MPI, and balances loops of programs. It divides work by measured speed, so
//! that all nodes and devices finish together.
//!
//! Programs embed this crate. `use isochron::prelude::*` brings what most of them need.
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
//! let mut product: Product<f64> = session.prepare([&a_on, &b_on, &c_on], RunConfig::default())?;
//! for _ in 0..3 {
//!     product.run(&mut session, Scalars::UPDATE, Factors::of((&a, k), (&b, k)), (&mut c, n))?;
//! }
//! assert!(c.iter().all(|&sum| sum == 3.0 * 2.0 * k as f64));
//! # Ok::<(), Error>(())
//! ```
//!
//! # When to use which
//! | a program | uses |
//! |---|---|
//! | multiplies matrices of its own, once | [`Session::gemm`](session::Session::gemm) |
//! | multiplies them again and again | [`Session::prepare`](session::Session::prepare) and [`Product`](product::Product) |
//! | keeps its matrices in the runtime's layout | [`Session::plan`](session::Session::plan), and `prepare` with the plan |
//! | makes or reads A and B in parts to save memory | [`Factors::made`](product::Factors::made) |
//! | moves matrices between layouts | [`matrix::redistribute`] |
//! | reads and writes files with matrices | [`matrix::file`](mod@matrix::file) |
//! | balances a loop of its own | [`rebalance::Rebalancer`] |
//! | divides its work once, by measuring its own kernel | [`partition`] |
//! | predicts an algorithm of its own, and chooses its ranks | [`predict`] |
//! | only divides work by measured points | [`hierarchy::split`] |
//! | measures the devices of a host | [`devices::Node`] |
//!
//! # In a program of yours
//! * **MPI** stays the program's. [`MpiComm::adopt`](comm::mpi::MpiComm::adopt) duplicates a communicator, which may have some
//!   of the job's ranks only. MPI must be initialised with `MPI_THREAD_FUNNELED` or more. Error handlers stay as they are.
//! * **Threads.** A session and its products stay on the thread that made them. The devices compute with threads of their own,
//!   pinned to cores. [`reserved_cores`](session::SessionBuilder::reserved_cores) leaves cores to threads of the program, and
//!   [`host_scope`](session::SessionBuilder::host_scope) says which sessions divide a host.
//! * **Processes.** A forked child may not use what its parent has made ([`Error::Forked`]).
//! * **The BLAS** of the program keeps its number of threads.
//! * **Errors** are values: no call ends the process. [`abort_on_panic`](comm::abort_on_panic) is for programs that want a panic
//!   to end the job.
//! * **Files.** A session writes none unless it is asked to, as by a [`StoreMode`](store::StoreMode) that writes.
//!
//! # Overview
//! A [`session::Session`] joins the ranks of a job (a [`comm::Comm`]) with the devices of each rank's node. It *plans*: it
//! decides by measured speeds which rectangle of C each node computes, and which slice of the rectangle each device. Then it
//! *multiplies* by a blocked heterogeneous SUMMA, and learns from the times of the steps. [`verify`] checks the result, and a
//! [`report::Report`] lists the work and the times of every device.
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
pub use isochron_core::{
    matrix, partition, plan, predict, product, progress, rebalance, report, session, store, verify,
};
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

/// The program in the documentation of predictions, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/predict.md")]
struct Predict;
