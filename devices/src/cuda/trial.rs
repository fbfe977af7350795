//! The first work of a GPU that is being opened: a small product, and copies that measure the link.

use super::check::CallResult;
use super::gpu::OpenGpu;
use super::plan::SLOTS;
use super::stream::DevicePlace;
use crate::contract::{Scalar, View};
use num_complex::Complex64;
use std::time::Instant;

/// The assumed speed of a link that cannot be measured, in bytes/s: PCI Express 4.0 with 16 lanes, in one direction.
pub const ASSUMED_LINK_BYTES_PER_S: f64 = 25e9;

/// Bytes copied to measure the link: several slots, and milliseconds of any link.
const TRIAL_BYTES: usize = 32 << 20;
/// Bytes of a staging slot while speeds are measured.
pub const TRIAL_SLOT_BYTES: usize = 8 << 20;
/// Bytes of all staging slots while speeds are measured.
pub const TRIAL_PINNED_BYTES: u64 = (SLOTS * TRIAL_SLOT_BYTES) as u64;
/// Number of copies, of which the fastest counts: the first one finds cold caches and sleeping clocks.
const TRIALS: usize = 4;

/// Side of the matrices of the first product.
const SMALL: usize = 32;

impl OpenGpu {
    /// Multiplies two small matrices. cuBLAS loads its code at the first call, and the memory of that code is not free
    /// afterwards. If there is no memory for the matrices, the first job finds out how much is left.
    pub fn multiply_first(&mut self) -> CallResult<()> {
        let bytes = SMALL * SMALL * size_of::<f64>();
        let placed = self.place_operands::<f64>(SMALL, SMALL, SMALL, 3 * bytes as u64, bytes);
        let done = match placed.and_then(|product| self.time_burst::<f64>(&product, 1)) {
            Err(error) if error.is_out_of_memory() => Ok(()),
            done => done.map(|_| ()),
        };
        self.free_after(done)
    }

    /// Measures the speed of the way from ordinary host memory to the GPU in bytes/s. It includes the copy into pinned
    /// memory, made by all threads of the caller's pool. With limits too low for the trial the link counts as
    /// [`ASSUMED_LINK_BYTES_PER_S`].
    pub fn measure_link(&mut self) -> CallResult<f64> {
        let limits = &self.limits;
        if limits.device_bytes < 8 * TRIAL_BYTES as u64 || limits.host_bytes < TRIAL_PINNED_BYTES {
            return Ok(ASSUMED_LINK_BYTES_PER_S);
        }
        let timed = self.time_uploads();
        match self.free_after(timed) {
            Err(error) if error.is_out_of_memory() => Ok(ASSUMED_LINK_BYTES_PER_S),
            timed => timed.map(|fastest_s| TRIAL_BYTES as f64 / fastest_s.max(f64::MIN_POSITIVE)),
        }
    }

    /// Returns the seconds of the fastest of [`TRIALS`] copies of [`TRIAL_BYTES`].
    fn time_uploads(&mut self) -> CallResult<f64> {
        let (address, pinned) = self.hold(TRIAL_BYTES as u64, TRIAL_PINNED_BYTES)?;
        // SAFETY: the pinned memory is as large; it is freed when no work is under way, and the next job places its own
        // slots before it copies.
        unsafe { self.staging.place(pinned, TRIAL_SLOT_BYTES) };
        let cols = 64;
        let rows = TRIAL_BYTES / size_of::<f64>() / cols;
        let values = make_numbers::<f64>(rows * cols);
        let from = View::new(&values, rows, cols, rows);
        let to = DevicePlace { address, ld: rows };
        let mut fastest_s = f64::INFINITY;
        for _ in 0..TRIALS {
            let start = Instant::now();
            self.staging.upload(&self.lanes.upload, from, to)?;
            self.lanes.upload.synchronize()?;
            fastest_s = fastest_s.min(start.elapsed().as_secs_f64());
        }
        Ok(fastest_s)
    }

    /// Frees the memory of a measurement once no work is under way, even after an error.
    fn free_after<R>(&mut self, done: CallResult<R>) -> CallResult<R> {
        let settled = self.lanes.settle();
        self.device = None;
        self.pinned = None;
        done.and_then(|value| settled.map(|()| value))
    }
}

/// Returns numbers in [1/2, 1) without a pattern: the power that a processor draws, and so its clock, depends on the
/// data.
pub fn make_numbers<T: Scalar>(count: usize) -> Vec<T> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        // The multiplier of a well-known linear congruential generator (Knuth).
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fraction = (state >> 11) as f64 / 2.0_f64.powi(54);
        T::of(Complex64::from(0.5 + fraction))
    })
    .take(count)
    .collect()
}
