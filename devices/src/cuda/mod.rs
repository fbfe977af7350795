//! NVIDIA GPUs, through the CUDA driver and cuBLAS.
//!
//! Both libraries are opened at run time: the same program runs where there is no GPU. [`devices`] lists what there is,
//! [`survey`] says in one line what was found and what it means, [`CudaWorker`] makes a device of a GPU and its host
//! cores, and [`Engine`] is its arithmetic for single, double and complex numbers. [`plan`] says when C stays on the GPU, and
//! how large tiles are when it does not. [`Engine::transfers`], [`Engine::time_products`] and [`BlasXt`] are what all of that
//! is compared with.
//!
//! Three layers, one above the other: the foreign functions and whether they are there (`raw`, `codes`); result codes
//! checked, and what is allocated freed (`check`, `context`, `memory`, `stream`, `blas`); and what is safe to call.

mod allocate;
mod blas;
mod check;
mod codes;
mod context;
mod engine;
mod find;
mod gathered;
mod lanes;
mod memory;
mod pinned;
pub mod plan;
mod products;
mod raw;
mod resident;
mod speed;
mod staging;
mod stream;
mod streamed;
mod tiles;
mod transfers;
mod worker;
mod xt;

pub use engine::Engine;
pub use find::{CudaInfo, Survey, devices, survey};
pub use pinned::PinnedVec;
pub use plan::{Placement, TilePlan};
pub use transfers::Transfers;
pub use worker::CudaWorker;
pub use xt::BlasXt;

use crate::DeviceError;

/// What a GPU may use, and how its link is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CudaConfig {
    /// The most bytes of GPU memory that jobs may use; without one, what is free when the worker is made, less a sixteenth.
    pub memory_limit_bytes: Option<u64>,
    /// The most bytes of host memory that jobs may pin: a few megabytes for copies, and less than half the size of C for the
    /// panels of several updates, or as much as those of one take. Where it is too low for these, nothing is gathered.
    /// Without one, a quarter of what is available when the worker is made: as for the only GPU of its host.
    pub host_limit_bytes: Option<u64>,
    /// What the link between host and GPU carries in one direction, bytes/s. It decides only how much is gathered where C
    /// does not fit on the GPU. Without it, it is measured when the worker is made, in some milliseconds.
    pub link_bytes_per_s: Option<f64>,
}

impl CudaConfig {
    fn check(&self, device: &str) -> Result<(), DeviceError> {
        match self.link_bytes_per_s {
            Some(link) if !(link.is_finite() && link > 0.0) => Err(DeviceError::Config {
                device: device.to_owned(),
                reason: format!("link_bytes_per_s = {link}, but it must be positive"),
            }),
            _ => Ok(()),
        }
    }
}
