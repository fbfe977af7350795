//! Multi-rank cases: the same on the local communicator and under a real `mpirun`. Cases of the GPU path, on an emulated
//! CUDA and on a real one.

// Test code: it stops where it cannot go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

pub mod cases;
pub mod covering;
pub mod emulator;
pub mod general;
pub mod gpu;
pub mod gpu_jobs;
pub mod launch;
pub mod moving;
pub mod parts;
pub mod scalapack;
pub mod table;
pub mod traps;
pub mod travel;
