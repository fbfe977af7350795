//! A kernel in Rust as a shared library: `cargo build --release -p isochron-kernels --example jacobi_library`, then
//! `isochron measure target/release/examples/libjacobi_library.so`.

use isochron_kernels::Jacobi;

isochron_kernel::export_kernel!(Jacobi, c"jacobi in Rust");
