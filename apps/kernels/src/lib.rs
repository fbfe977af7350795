//! Computational kernels to measure, each the work of one iteration of an application: examples of
//! [`Kernel`] in Rust. The folder `c/` has two of them in C, as shared libraries.
//!
//! | name | computational unit | application |
//! |---|---|---|
//! | `gemm` | the update of a `b×b` block of C, by a BLAS | multiplication of matrices |
//! | `naive-gemm` | the same, by three loops | the same, without a BLAS |
//! | `jacobi` | a row of a dense system with `width` unknowns | Jacobi's method |
//! | `dgemv` | a row of a matrix with `width` columns | products of a matrix and vectors |
//! | `fft` | a row of `width` complex numbers | the first half of a Fourier transform in two dimensions |
//!
//! The command measures them by these names. A program measures one of them like this:
//! ```
//! use isochron_devices::MeasureConfig;
//! use isochron_devices::kernel::OwnRun;
//! use isochron_devices::measure::{limit_run_s, measure_kernel, repeat_alone};
//! use isochron_kernels::{FftRows, KernelParameters};
//!
//! let kernel = FftRows::new(KernelParameters { width: 64, ..KernelParameters::default() });
//! let config = MeasureConfig { max_seconds: 0.05, ..MeasureConfig::default() };
//! let mut run = OwnRun::new("fft", Box::new(kernel), limit_run_s(&config))?;
//! let of_10_rows = measure_kernel(&mut run, 10, &config, &mut repeat_alone)?;
//! assert!(of_10_rows.sample.seconds > 0.0);
//! # Ok::<(), isochron_devices::DeviceError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod dgemv;
mod fft;
mod jacobi;
mod memory;
mod naive_gemm;
mod rows;
mod update;

pub use dgemv::Dgemv;
pub use fft::FftRows;
pub use jacobi::{Jacobi, SystemRows, sweep_rows};
pub use naive_gemm::NaiveGemm;
pub use update::{BlasProduct, Multiply, Update};

use isochron_devices::Blas;
use isochron_kernel::Kernel;
use std::sync::Arc;

/// Version of the kernels. Increase it when a change alters their times.
pub const VERSION: u32 = 1;

/// The names of the kernels.
pub const NAMES: [&str; 5] = ["gemm", "jacobi", "dgemv", "fft", "naive-gemm"];

/// The sizes within a unit, and the memory of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelParameters {
    /// Block size b of `gemm` and `naive-gemm`, at least 1.
    pub block: usize,
    /// Length of a row of the other kernels, at least 1.
    pub width: usize,
    /// Bytes that the data may take.
    pub memory_bytes: u64,
}

impl Default for KernelParameters {
    fn default() -> Self {
        Self { block: 32, width: 1024, memory_bytes: u64::MAX }
    }
}

/// Makes the kernel of this name; `None` if there is none. `blas` computes for `gemm`.
#[must_use]
pub fn make_kernel(
    name: &str,
    parameters: KernelParameters,
    blas: &Arc<dyn Blas>,
) -> Option<Box<dyn Kernel>> {
    Some(match name {
        "gemm" => Box::new(Update::new(parameters, BlasProduct(Arc::clone(blas)))),
        "naive-gemm" => Box::new(Update::new(parameters, NaiveGemm)),
        "jacobi" => Box::new(Jacobi::new(parameters)),
        "dgemv" => Box::new(Dgemv::new(parameters)),
        "fft" => Box::new(FftRows::new(parameters)),
        _ => return None,
    })
}
