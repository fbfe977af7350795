//! CPU devices: a group of cores, pinned, with a sequential BLAS on each.

mod place;
mod worker;

pub use worker::CpuWorker;
