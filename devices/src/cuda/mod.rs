//! NVIDIA GPUs, through the CUDA driver and cuBLAS.
//!
//! Both libraries are opened at run time: the same program runs on hosts without a GPU. [`devices`] lists the GPUs,
//! [`survey`] sums up the state of CUDA in one line, and [`CudaWorker`] makes a device of a GPU and its host cores. Its
//! [plan](CudaWorker::plan) says whether C stays on the GPU or streams through it in tiles.
//!
//! Three layers: the foreign functions with checked result codes (`raw`, `codes`, `check`); resources that free
//! themselves (`context`, `memory`, `stream`, `blas`); and safe operations (the rest).

mod allocate;
mod blas;
mod check;
mod codes;
mod context;
mod engine;
mod find;
mod gathered;
mod gpu;
mod lanes;
mod memory;
pub(crate) mod nvml;
pub(crate) mod plan;
mod products;
mod raw;
mod resident;
mod speed;
mod staging;
mod stream;
mod streamed;
mod tiles;
mod trial;
mod worker;

pub use find::{CudaInfo, CudaState, devices, survey};
pub use worker::CudaWorker;

pub(crate) use nvml::{GpuState, read_gpu_state};

use crate::contract::DeviceError;

/// Limits of the memory that jobs of a GPU use, and the speed of its link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CudaConfig {
    /// Most bytes of GPU memory for jobs. `None`: the memory that is free when the worker is made, less a sixteenth.
    pub memory_limit_bytes: Option<u64>,
    /// Most bytes of host memory that jobs may pin. They pin a few megabytes for copies, and for gathered panels at
    /// most as much as C takes, or as the panels of one update. If the limit is too low for these, nothing is gathered.
    /// `None`: a quarter of the memory that is available when the worker is made, as for the only GPU of its host.
    pub host_limit_bytes: Option<u64>,
    /// Bytes per second that the link between host and GPU carries in one direction. It only decides how much is
    /// gathered if C does not fit on the GPU. `None`: measured when the worker is made, in some milliseconds.
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
