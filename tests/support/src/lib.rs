//! Parts of the tests of several crates, which the benchmarks share.
//!
//! * [`simulated`]: a made-up cluster, and INPA over IDPA on it.
//! * [`headers`]: checks of C headers that are made from Rust.

pub mod headers;
pub mod simulated;
