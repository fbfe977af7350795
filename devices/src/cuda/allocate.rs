//! The memory of an engine's jobs: how much there may be, and what is held.

use super::check::{CallError, Outcome};
use super::engine::Engine;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{self, CudaLimits, TilePlan};
use crate::DeviceError;
use crate::memory::memory_available_bytes;
use crate::worker::JobShape;
use std::ptr::NonNull;
use std::sync::Arc;

/// What is held of memory beyond what a job needs is given back when it is more than this, in bytes, and more than half.
const WORTH_FREEING: u64 = 64 << 20;

impl Engine {
    /// Bytes of pinned host memory that are held, for the next job that they suit.
    pub fn held_bytes(&self) -> u64 {
        self.pinned.as_ref().map_or(0, PinnedMemory::bytes)
    }

    /// Lets jobs pin no more than `bytes` from the next one on, nor more than the engine was made for.
    pub fn limit_host(&mut self, bytes: u64) {
        self.limits.host_bytes = self.host_bytes.min(bytes);
    }

    /// Finds memory for a job, in smaller and smaller tiles: how it is laid out, and where the memory begins on the GPU and
    /// on the host.
    pub(super) fn allocate(
        &mut self,
        job: &JobShape,
    ) -> Result<(TilePlan, u64, NonNull<u8>), DeviceError> {
        let mut limits = self.limits_of(job.element);
        let mut refused: Option<CallError> = None;
        loop {
            let Some(plan) = plan::plan(job, &limits) else {
                return Err(refused.map_or_else(
                    || DeviceError::CudaMemory {
                        device: self.name.clone(),
                        rows: job.rows,
                        cols: job.cols,
                        k_max: job.depth.k_max,
                        device_bytes: self.limits.device_bytes,
                        host_bytes: self.limits.host_bytes,
                    },
                    |error| error.on(&self.name),
                ));
            };
            let error = match self.hold(plan.device_bytes, plan.host_bytes) {
                Ok((device, start)) => return Ok((plan, device, start)),
                Err(error) => error,
            };
            // What is held already is of no use to smaller tiles, and may be what the others lack.
            self.device = None;
            self.pinned = None;
            if !error.is_out_of_memory() {
                return self.guarded(|_| Err(error));
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

    /// Allocates so many bytes of GPU memory and of pinned memory, unless they are held already; where they begin.
    pub(super) fn hold(
        &mut self,
        device_bytes: u64,
        host_bytes: u64,
    ) -> Outcome<(u64, NonNull<u8>)> {
        let context = Arc::clone(&self.context);
        let _bound = context.bind()?;
        let suits = |held: u64, needed: u64| {
            held >= needed && (held - needed <= needed || held - needed <= WORTH_FREEING)
        };
        let CudaLimits {
            device_bytes: device_limit,
            host_bytes: host_limit,
            ..
        } = self.limits;
        let device = match self.device.take() {
            Some(held) if suits(held.bytes(), device_bytes) && held.bytes() <= device_limit => held,
            // What is too small or too large goes first.
            other => {
                drop(other);
                DeviceMemory::new(&context, device_bytes)?
            }
        };
        let device = self.device.insert(device).address();
        let pinned = match self.pinned.take() {
            Some(held) if suits(held.bytes(), host_bytes) && held.bytes() <= host_limit => held,
            other => {
                drop(other);
                PinnedMemory::new(&context, host_bytes)?
            }
        };
        Ok((device, self.pinned.insert(pinned).start().cast()))
    }
}

/// What jobs may pin where nobody says: a quarter of what is left, since pinned memory is nobody else's.
pub(super) fn host_limit_bytes() -> u64 {
    memory_available_bytes().map_or(u64::MAX, |bytes| bytes / 4)
}
