//! The memory of a GPU's jobs, taken in smaller and smaller amounts until it is granted.

use super::check::{CallError, CallResult};
use super::gpu::OpenGpu;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{self, TilePlan};
use crate::contract::{DeviceError, JobShape};
use std::ptr::NonNull;
use std::sync::Arc;

/// Held memory that exceeds a job's needs is freed if the excess is more than this, in bytes, and more than the needs.
const WORTH_FREEING: u64 = 64 << 20;

/// The memory of a job, and its layout there.
#[derive(Debug, Clone, Copy)]
pub struct JobMemory {
    pub plan: TilePlan,
    /// Start of the GPU memory.
    pub device: u64,
    /// Start of the pinned memory.
    pub pinned: NonNull<u8>,
}

impl OpenGpu {
    /// Takes memory for a job. If memory is refused, smaller tiles are tried.
    ///
    /// # Errors
    /// Returns [`DeviceError::CudaMemory`] if the smallest tiles exceed the limits; [`DeviceError::Cuda`] with the last
    /// allocation that was refused, or with another call that failed.
    pub fn allocate(&mut self, job: &JobShape) -> Result<JobMemory, DeviceError> {
        let mut limits = self.limits_of(job.element);
        let mut refused: Option<CallError> = None;
        loop {
            let Some(plan) = plan::plan(job, &limits) else {
                return Err(match refused {
                    Some(error) => error.on(&self.name),
                    None => self.too_large(job),
                });
            };
            let error = match self.hold(plan.device_bytes, plan.host_bytes) {
                Ok((device, pinned)) => {
                    return Ok(JobMemory { plan, device, pinned });
                }
                Err(error) => error,
            };
            // Memory that is held already does not suit smaller tiles, and may be the memory that they lack.
            self.device = None;
            self.pinned = None;
            if !error.is_out_of_memory() {
                return self.run(|_| Err(error));
            }
            if error.call == "cuMemHostAlloc" {
                limits.host_bytes = plan.host_bytes / 2;
            } else {
                limits.device_bytes = plan.device_bytes / 2;
            }
            tracing::warn!(
                device = self.name,
                error = %error.on(&self.name),
                device_bytes = limits.device_bytes.min(plan.device_bytes),
                "memory was refused: trying smaller tiles"
            );
            refused = Some(error);
        }
    }

    fn too_large(&self, job: &JobShape) -> DeviceError {
        DeviceError::CudaMemory {
            device: self.name.clone(),
            rows: job.rows,
            cols: job.cols,
            k_max: job.depth.k_max,
            device_bytes: self.limits.device_bytes,
            host_bytes: self.limits.host_bytes,
        }
    }

    /// Holds at least `device_bytes` of GPU memory and `host_bytes` of pinned memory, allocated only if the memory that
    /// is held already does not suit. Returns the start of each.
    pub fn hold(&mut self, device_bytes: u64, host_bytes: u64) -> CallResult<(u64, NonNull<u8>)> {
        let context = Arc::clone(&self.context);
        let _bound = context.bind()?;
        let (device_limit, host_limit) = (self.limits.device_bytes, self.limits.host_bytes);
        // Memory that does not suit goes before more is taken.
        let held = self.device.take();
        let device = match held.filter(|held| suits(held.bytes(), device_bytes, device_limit)) {
            Some(held) => held,
            None => DeviceMemory::new(&context, device_bytes)?,
        };
        let device = self.device.insert(device).start();
        let held = self.pinned.take();
        let pinned = match held.filter(|held| suits(held.bytes(), host_bytes, host_limit)) {
            Some(held) => held,
            None => PinnedMemory::new(&context, host_bytes)?,
        };
        Ok((device, self.pinned.insert(pinned).start()))
    }
}

/// Returns `true` if `held` bytes are enough, below the limit, and not far more than `needed`.
fn suits(held: u64, needed: u64, limit: u64) -> bool {
    let is_enough = (needed..=limit).contains(&held);
    is_enough && (held - needed <= needed || held - needed <= WORTH_FREEING)
}
