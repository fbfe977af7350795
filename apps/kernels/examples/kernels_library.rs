//! Kernels in Rust as a shared library: `cargo build --release -p isochron-kernels --example kernels_library`, then
//! `isochron measure target/release/examples/libkernels_library.so:dgemv`.
//!
//! A library with one kernel names it only for reports, as in `export_kernel!(Jacobi, c"jacobi in Rust")`.

use isochron_kernel::export_kernel;
use isochron_kernels::{BlasProduct, Dgemv, FftRows, Jacobi, NaiveGemm, Update};

export_kernel!(Update<BlasProduct>, c"gemm in Rust", isochron_kernel_gemm);
export_kernel!(Update<NaiveGemm>, c"naive-gemm in Rust", isochron_kernel_naive_gemm);
export_kernel!(Jacobi, c"jacobi in Rust", isochron_kernel_jacobi);
export_kernel!(Dgemv, c"dgemv in Rust", isochron_kernel_dgemv);
export_kernel!(FftRows, c"fft in Rust", isochron_kernel_fft);
