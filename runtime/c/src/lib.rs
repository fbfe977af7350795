//! The C interface of Isochron: a shared library and `isochron.h`, and a Fortran module of the same calls.
//!
//! Handles are opaque, sizes have 64 bits, every call returns a status, and no call ends the process. A communicator is
//! passed as the number that it has in Fortran, so that the interface holds no type of an MPI library. The header takes an
//! `MPI_Comm` if `mpi.h` was included before it.
//!
//! | calls | purpose |
//! |---|---|
//! | [`isochron_abi`], [`isochron_strerror`], [`isochron_last_error`], [`isochron_free`] | version, errors, memory |
//! | [`isochron_open`], [`isochron_open_local`], [`isochron_set`], [`isochron_get`], [`isochron_report`], [`isochron_save_models`], [`isochron_close`] | a session: the ranks and their devices |
//! | [`isochron_gemm`], [`isochron_prepare`], [`isochron_run`], [`isochron_last_run`], [`isochron_plan`], [`isochron_close_product`] | products |
//! | [`isochron_from_descriptor`], [`isochron_elements`] | a matrix of ScaLAPACK, and the elements of this rank |
//! | [`isochron_split`] | units divided by measured times |
//! | [`isochron_benchmark`], [`isochron_partition`], [`isochron_partition_iterate`], [`isochron_partition_units`], [`isochron_close_partition`] | units divided by benchmarks of the program's kernel |
//! | [`isochron_recon`], [`isochron_platform_of_file`], [`isochron_search_plan`], [`isochron_timeof`], [`isochron_choose`], [`isochron_group`], [`isochron_close_platform`], [`isochron_scheme_compute`], [`isochron_scheme_transfer`], [`isochron_scheme_begin_parallel`], [`isochron_scheme_begin_repeat`], [`isochron_scheme_end`] | the program's algorithms, predicted and chosen |
//! | [`isochron_balancer`], [`isochron_balancer_of_group`], [`isochron_balancer_by_times`], [`isochron_measure_move_unit_s`], [`isochron_part`], [`isochron_neighbours`], [`isochron_begin`], [`isochron_end`], [`isochron_record`], [`isochron_balance`], [`isochron_units`], [`isochron_shares`], [`isochron_move`], [`isochron_move_blocks`], [`isochron_balancer_report`], [`isochron_state`], [`isochron_restore`], [`isochron_close_balancer`] | a loop of the program |
//!
//! The Rust library does all of it. This crate checks arguments and passes them on.
//!
//! # Example
//! Every rank has some rows of three matrices, in the order of C. `cargo xtask install` installs what the program is compiled
//! and linked with:
//!
#![doc = concat!("```c\n", include_str!("../examples/product.c"), "```")]
//!
//! # Collective calls
//! Calls named *collective* are made by all ranks of the session, in the same order. An argument that is wrong on one rank is
//! an error on all of them. A wrong handle is the exception: it leads to no communicator, so the other ranks wait.
//!
//! # Answers
//! A call that fails writes null for the handles, texts and states that it returns, and 0 for numbers.
//!
//! # Threads
//! A handle belongs to the thread that made it, as the calls of MPI do with `MPI_THREAD_FUNNELED`. On another thread it is
//! an unknown handle. [`isochron_last_error`] is that of the calling thread.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod balancer;
mod element;
mod group;
mod handles;
mod matrix;
mod memory;
mod operands;
mod partition;
mod pointers;
mod predict;
mod product;
mod session;
mod settings;
mod split;
mod status;
mod structs;
mod times;
mod version;

pub use balancer::*;
pub use element::*;
pub use group::*;
pub use handles::SessionHandle;
pub use matrix::*;
pub use memory::*;
pub use partition::*;
pub use predict::*;
pub use product::*;
pub use session::*;
pub use split::*;
pub use status::*;
pub use times::TimesTable;
pub use version::*;
