//! The functions of the CUDA driver.

pub mod context;
pub mod copy;
pub mod devices;
pub mod memory;
pub mod streams;
