//! The programs, as users start them: under both MPI libraries, on emulated GPUs and on emulated hosts.
//!
//! One test program, so that it is linked once and its tests share all cores. Judgements by measured times are in `quiet`.
//! `cargo xtask test` builds and names what these tests start.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod agreement;
#[cfg(target_os = "linux")]
mod c_interface;
#[cfg(target_os = "linux")]
mod cluster;
mod command;
mod cuda;
#[cfg(target_os = "linux")]
mod damage;
mod docs;
mod elements;
mod embedding;
mod examples;
mod gpu_campaign;
mod gpu_ranks;
mod interop;
mod killed_rank;
mod learnt;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod lost_hosts;
#[cfg(target_os = "linux")]
mod memcheck;
mod mig;
mod numpy;
#[cfg(target_os = "linux")]
mod one_name;
#[cfg(target_os = "linux")]
mod outputs;
mod own_loops;
mod plans;
mod python;
mod ranks;
mod silence;
#[cfg(target_os = "linux")]
mod slurm;
mod store;
mod trace;
mod wrong_input;
