//! The speed of cuBLAS with all matrices in the memory of the GPU, measured.

use super::blas::GemmProduct;
use super::check::CallResult;
use super::gpu::OpenGpu;
use super::plan::SLOTS;
use super::stream::DevicePlace;
use super::trial::{TRIAL_PINNED_BYTES, TRIAL_SLOT_BYTES, make_numbers};
use crate::contract::{DeviceError, Scalar, View};
use std::time::Instant;

/// Columns of a matrix that are copied at a time.
const STRIPE: usize = 256;

impl OpenGpu {
    /// Measures products as [`CudaWorker::time_products`](super::CudaWorker::time_products); no job is under way.
    pub fn time_products<T: Scalar>(
        &mut self,
        m: usize,
        n: usize,
        k: usize,
        count: u32,
    ) -> Result<Option<f64>, DeviceError> {
        let sides = 1..=i32::MAX as usize;
        if count == 0 || [m, n, k].iter().any(|side| !sides.contains(side)) {
            return Ok(None);
        }
        let elements = (m * k + k * n + m * n) as u64;
        let bytes = elements.saturating_mul(size_of::<T>() as u64);
        if !self.has_room_for(bytes) {
            return Ok(None);
        }
        self.run(|gpu| {
            let product = gpu.place_operands::<T>(m, n, k, bytes, TRIAL_SLOT_BYTES)?;
            gpu.time_burst::<T>(&product, 1)?;
            let burst_s = gpu.time_burst::<T>(&product, count)?;
            Ok(Some(burst_s / f64::from(count)))
        })
    }

    /// Returns `true` if the limits allow `bytes` of GPU memory, and the staging slots.
    fn has_room_for(&self, bytes: u64) -> bool {
        bytes <= self.limits.device_bytes && TRIAL_PINNED_BYTES <= self.limits.host_bytes
    }

    /// Returns the seconds until `count` products of the matrices that [`place_operands`](Self::place_operands) has
    /// placed are done.
    pub fn time_burst<T: Scalar>(&mut self, product: &GemmProduct, count: u32) -> CallResult<f64> {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the three matrices lie in memory that is held until the work is done, which is waited for.
            unsafe { self.blas.multiply(T::ONE, product) }?;
        }
        self.lanes.compute.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Puts A, B and C of a product, together `bytes`, into the GPU's memory, through staging slots of `slot_bytes`.
    pub fn place_operands<T: Scalar>(
        &mut self,
        m: usize,
        n: usize,
        k: usize,
        bytes: u64,
        slot_bytes: usize,
    ) -> CallResult<GemmProduct> {
        let (device, pinned) = self.hold(bytes, (SLOTS * slot_bytes) as u64)?;
        // SAFETY: the pinned memory is as large, and held until the next job places its own slots. No work is under
        // way: the engine abandons its job before it measures, and each burst is waited for.
        unsafe { self.staging.place(pinned, slot_bytes) };
        let [a, b, c] = [(0, m), (m * k, k), (m * k + k * n, m)].map(|(offset, ld)| DevicePlace {
            address: device + (offset * size_of::<T>()) as u64,
            ld,
        });
        for ((rows, cols), place) in [((m, k), a), ((k, n), b), ((m, n), c)] {
            // One stripe of numbers is copied repeatedly: a whole matrix would need host memory that no limit counts.
            let stripe = cols.min(STRIPE);
            let values = make_numbers::<T>(rows * stripe);
            for first in (0..cols).step_by(stripe) {
                let width = stripe.min(cols - first);
                let from = View::new(&values, rows, width, rows);
                let to = place.at::<T>(0, first);
                self.staging.upload(&self.lanes.upload, from, to)?;
            }
        }
        self.lanes.upload.synchronize()?;
        Ok(GemmProduct { m, n, k, a, b, c })
    }
}
