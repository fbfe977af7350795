//! Multi-rank cases: the same on the local communicator and under a real `mpirun`. Cases of the GPU path, on an
//! emulated CUDA and on a real one.

// Test code: it stops where it cannot go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

/// Adds up the numbers of cases that a generic function runs for each type of elements.
macro_rules! by_type {
    ($cases:ident($($argument:expr),*)) => {
        $cases::<f32>($($argument),*)
            + $cases::<f64>($($argument),*)
            + $cases::<num_complex::Complex32>($($argument),*)
            + $cases::<num_complex::Complex64>($($argument),*)
    };
}

pub mod bad_times;
pub mod cases;
pub mod changes;
#[cfg(target_os = "linux")]
pub mod cluster;
pub mod command;
pub mod covering;
pub mod disturbed;
pub mod embedded;
pub mod emulator;
pub mod general;
pub mod golden;
pub mod gpu;
pub mod gpu_jobs;
pub mod launch;
pub mod learning;
pub mod learning_sessions;
#[cfg(test)]
mod made_up;
pub mod moving;
pub mod own_loops;
pub mod own_matrices;
pub mod partitions;
pub mod parts;
pub mod predictions;
pub mod scalapack;
pub mod table;
pub mod traps;
pub mod travel;
