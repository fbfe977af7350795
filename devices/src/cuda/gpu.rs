//! An opened GPU: the streams, the cuBLAS handle and the memory with which jobs are computed.

use super::blas::BlasHandle;
use super::check::CallResult;
use super::context::Context;
use super::find::CudaInfo;
use super::lanes::Lanes;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::CudaLimits;
use super::staging::Staging;
use super::{CudaConfig, find};
use crate::contract::{DeviceError, ElementType};
use crate::host::memory::memory_available_bytes;
use std::sync::Arc;

/// One in this number of parts of a GPU's free memory is left alone: cuBLAS loads code, and other programs come and go.
const LEFT_FREE: u64 = 16;
/// The peak assumed for an unknown GPU: a middling one.
const UNKNOWN_PEAK_FLOPS_PER_S: f64 = 10e12;

/// Everything that is owned to work with one GPU.
///
/// It may be used from any thread. Copies between matrices and pinned memory use all threads of the rayon pool that the
/// caller is a thread of, and only the calling thread otherwise.
#[derive(Debug)]
pub struct OpenGpu {
    /// The device's name in errors.
    pub name: String,
    pub context: Arc<Context>,
    info: CudaInfo,
    /// Limits of jobs of any type; the peak is that of `f64`.
    pub limits: CudaLimits,
    /// Bytes that jobs may pin if [`limit_pinned`](Self::limit_pinned) does not lower them.
    most_pinned_bytes: u64,
    /// `true` once a product has been computed in parts, which is logged once.
    pub multiplies_parts: bool,
    pub staging: Staging,
    pub device: Option<DeviceMemory>,
    pub pinned: Option<PinnedMemory>,
    pub blas: BlasHandle,
    pub lanes: Lanes,
}

impl OpenGpu {
    /// Opens the GPU `info`, called `name` in errors.
    ///
    /// # Errors
    /// Returns [`DeviceError::CudaLibrary`] without cuBLAS; [`DeviceError::Cuda`] if a call fails.
    pub fn open(name: &str, info: &CudaInfo, config: &CudaConfig) -> Result<Self, DeviceError> {
        find::find_blas()?;
        Self::create(name, info, config).map_err(|error| error.on(name))
    }

    fn create(name: &str, info: &CudaInfo, config: &CudaConfig) -> CallResult<Self> {
        let context = Arc::new(Context::new(info.ordinal)?);
        let own = Arc::clone(&context);
        let _bound = own.bind()?;
        let lanes = Lanes::new(&context)?;
        let blas = BlasHandle::new(&context, &lanes.compute)?;
        let staging = Staging::new(&context)?;
        // A quarter of the available memory: others cannot use pinned memory.
        let host_bytes = config
            .host_limit_bytes
            .unwrap_or_else(|| memory_available_bytes().map_or(u64::MAX, |bytes| bytes / 4));
        let peak = info.peak_flops_per_s(ElementType::F64);
        let mut gpu = Self {
            name: name.to_owned(),
            info: info.clone(),
            limits: CudaLimits {
                device_bytes: 0,
                host_bytes,
                peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S),
                link_bytes_per_s: 0.0,
            },
            most_pinned_bytes: host_bytes,
            context,
            multiplies_parts: false,
            staging,
            device: None,
            pinned: None,
            blas,
            lanes,
        };
        gpu.multiply_first()?;
        // Asked for after cuBLAS has taken its share.
        let free = gpu.context.free_bytes()?;
        let allowed = free - free / LEFT_FREE;
        gpu.limits.device_bytes =
            config.memory_limit_bytes.map_or(allowed, |limit| limit.min(allowed));
        let link_bytes_per_s = match config.link_bytes_per_s {
            Some(given) => given,
            None => gpu.measure_link()?,
        };
        gpu.limits.link_bytes_per_s = link_bytes_per_s;
        tracing::info!(device = name, peak, link_bytes_per_s, "found a GPU");
        Ok(gpu)
    }

    /// Returns the limits of jobs with elements of this type.
    pub fn limits_of(&self, element: ElementType) -> CudaLimits {
        let peak = self.info.peak_flops_per_s(element);
        CudaLimits { peak_flops_per_s: peak.unwrap_or(UNKNOWN_PEAK_FLOPS_PER_S), ..self.limits }
    }

    /// Lets the jobs that follow pin at most `bytes`, and no more than the GPU was opened with.
    pub fn limit_pinned(&mut self, bytes: u64) {
        self.limits.host_bytes = self.most_pinned_bytes.min(bytes);
    }

    /// Runs `work` in the bound context. After a failure no work is under way.
    pub fn run<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> CallResult<R>,
    ) -> Result<R, DeviceError> {
        let context = Arc::clone(&self.context);
        let bound = context.bind();
        let outcome = match &bound {
            Ok(_) => work(self),
            Err(error) => Err(*error),
        };
        outcome.map_err(|error| {
            // A lost device has no work under way, and another error would add nothing.
            let _ = self.lanes.settle();
            error.on(&self.name)
        })
    }
}

impl Drop for OpenGpu {
    /// Waits for work under way: memory must not be freed before.
    fn drop(&mut self) {
        let _bound = self.context.bind();
        let _ = self.lanes.settle();
    }
}
