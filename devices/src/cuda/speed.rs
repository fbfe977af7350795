//! How fast a GPU and the way to it are, measured.

use super::blas::{BlasHandle, Product};
use super::check::Outcome;
use super::context::Context;
use super::engine::Engine;
use super::lanes::Lanes;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::SLOTS;
use super::staging::{Place, Staging};
use crate::worker::ResidentPeak;
use crate::{DeviceError, Element, View};
use num_complex::Complex64;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the link is taken for where it cannot be measured: PCI Express 4.0 with 16 lanes, in one direction, bytes/s.
pub const ASSUMED_LINK_BYTES_PER_S: f64 = 25e9;

/// What is copied to find out how fast that is: as much as several slots, and milliseconds of any link.
const PROBE_BYTES: usize = 32 << 20;
const PROBE_SLOT_BYTES: usize = 8 << 20;
const PINNED_BYTES: u64 = (SLOTS * PROBE_SLOT_BYTES) as u64;
/// The fastest of so many counts: the first one finds cold caches and sleeping clocks.
const PROBES: usize = 4;

/// Side of the squares of the first product.
const SMALL: usize = 32;

/// Multiplies two small squares, in a bound context: cuBLAS loads its code when it is first called, and the memory that
/// this takes is not free afterwards. Where there is no memory for them, the first job will see what is left.
pub fn first_product(
    context: &Arc<Context>,
    lanes: &Lanes,
    (blas, staging): (&BlasHandle, &mut Staging),
) -> Outcome<()> {
    let bytes = (SMALL * SMALL * size_of::<f64>()) as u64;
    let pinned = PinnedMemory::new(context, SLOTS as u64 * bytes);
    let (pinned, device) = match (pinned, DeviceMemory::new(context, 3 * bytes)) {
        (Ok(pinned), Ok(device)) => (pinned, device),
        (Err(error), _) | (_, Err(error)) if error.is_out_of_memory() => return Ok(()),
        (pinned, device) => (pinned?, device?),
    };
    let done = (|| {
        // SAFETY: the pinned memory is as large; it is freed when nothing is under way, and the next job places its own
        // slots before it copies.
        unsafe { staging.place(pinned.start().cast(), bytes as usize) };
        let values = numbers::<f64>(SMALL * SMALL);
        let from = View::new(&values, SMALL, SMALL, SMALL);
        let place = |matrix: u64| Place {
            address: device.address() + matrix * bytes,
            ld: SMALL,
        };
        for matrix in 0..3 {
            staging.upload(&lanes.upload, from, place(matrix))?;
        }
        lanes.upload.synchronize()?;
        let product = Product {
            m: SMALL,
            n: SMALL,
            k: SMALL,
            a: place(0),
            b: place(1),
            c: place(2),
        };
        // SAFETY: the three squares lie in memory that is freed when the work is done.
        unsafe { blas.multiply(1.0, &product) }
    })();
    let done = match done {
        Err(error) if error.is_out_of_memory() => Ok(()),
        done => done,
    };
    // Before the memory goes, whatever happened.
    done.and(lanes.settle())
}

/// What the way from ordinary host memory to the GPU carries, bytes/s, with the copy into pinned memory that the calling
/// thread's pool makes; in a bound context. With so many bytes of GPU and of pinned memory at most: of little memory none
/// is taken, and the link is as [assumed](ASSUMED_LINK_BYTES_PER_S).
pub fn link_bytes_per_s(
    context: &Arc<Context>,
    lanes: &Lanes,
    staging: &mut Staging,
    (device_bytes, host_bytes): (u64, u64),
) -> Outcome<f64> {
    if device_bytes < 8 * PROBE_BYTES as u64 || host_bytes < PINNED_BYTES {
        return Ok(ASSUMED_LINK_BYTES_PER_S);
    }
    let timed = (|| {
        let pinned = PinnedMemory::new(context, PINNED_BYTES)?;
        let device = DeviceMemory::new(context, PROBE_BYTES as u64)?;
        // SAFETY: the pinned memory is as large; it is freed below, when nothing is under way, and the next job places its
        // own slots before it copies.
        unsafe { staging.place(pinned.start().cast(), PROBE_SLOT_BYTES) };
        let fastest_s = time_uploads(lanes, staging, device.address());
        // Before the memory goes.
        lanes.settle()?;
        fastest_s
    })();
    match timed {
        Ok(fastest_s) => Ok(PROBE_BYTES as f64 / fastest_s.max(f64::MIN_POSITIVE)),
        Err(error) if error.is_out_of_memory() => Ok(ASSUMED_LINK_BYTES_PER_S),
        Err(error) => Err(error),
    }
}

/// The time of the fastest of some copies of [`PROBE_BYTES`], in seconds.
fn time_uploads(lanes: &Lanes, staging: &mut Staging, address: u64) -> Outcome<f64> {
    let cols = 64;
    let rows = PROBE_BYTES / size_of::<f64>() / cols;
    let values = numbers::<f64>(rows * cols);
    let mut fastest_s = f64::INFINITY;
    for _ in 0..PROBES {
        let start = Instant::now();
        let to = Place { address, ld: rows };
        staging.upload(&lanes.upload, View::new(&values, rows, cols, rows), to)?;
        lanes.upload.synchronize()?;
        fastest_s = fastest_s.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest_s)
}

/// Sides of the squares that cuBLAS shows its speed on.
const SIDES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];
/// Columns of a matrix that are copied at a time.
const STRIPE: usize = 256;
/// How often each is multiplied; the fastest counts.
const PRODUCTS: usize = 5;
/// A square that takes longer is the last one: larger ones would show no more.
const LONG: Duration = Duration::from_millis(200);

impl Engine {
    /// The best speed of cuBLAS on squares that are in the GPU's memory: what is left to lose by transfers. A job under
    /// way is abandoned, and the limits are kept. `None` when not even the smallest square fits.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when a call fails.
    pub fn resident_peak<T: Element>(&mut self) -> Result<Option<ResidentPeak>, DeviceError> {
        self.abandon()?;
        let mut best: Option<ResidentPeak> = None;
        for side in SIDES {
            let bytes = (3 * side * side * size_of::<T>()) as u64;
            if bytes > self.memory_limit_bytes() || PINNED_BYTES > self.limits.host_bytes {
                break;
            }
            let timed = self.guarded(|engine| match engine.time_square::<T>(side, bytes) {
                // Others have taken the memory since the limit was set.
                Err(error) if error.is_out_of_memory() => Ok(None),
                timed => timed.map(Some),
            })?;
            let Some(fastest_s) = timed else { break };
            let flops_per_s = T::TYPE.flop() * (side as f64).powi(3) / fastest_s;
            if best.is_none_or(|best| flops_per_s > best.flops_per_s) {
                best = Some(ResidentPeak { flops_per_s, side });
            }
            if fastest_s > LONG.as_secs_f64() {
                break;
            }
        }
        Ok(best)
    }

    /// What one product `C += A·B` takes with everything in the GPU's memory, in seconds; A: `m×k`, B: `k×n`, C: `m×n`. It is
    /// the mean over `count` products that are queued one behind the other, after one that warms up. A job under way is
    /// abandoned. `None` where the limits have no room for the matrices, or there is nothing to compute.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when a call fails.
    pub fn time_products<T: Element>(
        &mut self,
        (m, n, k): (usize, usize, usize),
        count: u32,
    ) -> Result<Option<f64>, DeviceError> {
        self.abandon()?;
        let elements = m as u128 * k as u128 + k as u128 * n as u128 + m as u128 * n as u128;
        let bytes = u64::try_from(elements * size_of::<T>() as u128).unwrap_or(u64::MAX);
        let too_long = [m, n, k].iter().any(|&side| side > i32::MAX as usize);
        let too_large = bytes > self.memory_limit_bytes() || PINNED_BYTES > self.limits.host_bytes;
        if m * n * k == 0 || count == 0 || too_long || too_large {
            return Ok(None);
        }
        self.guarded(|engine| {
            let product = engine.place_operands::<T>((m, n, k), bytes)?;
            engine.time_burst::<T>(&product, 1)?;
            let burst_s = engine.time_burst::<T>(&product, count)?;
            Ok(Some(burst_s / f64::from(count)))
        })
    }

    /// The time of the fastest of some products of squares, in seconds.
    fn time_square<T: Element>(&mut self, side: usize, bytes: u64) -> Outcome<f64> {
        let product = self.place_operands::<T>((side, side, side), bytes)?;
        let mut fastest_s = f64::INFINITY;
        for _ in 0..PRODUCTS {
            fastest_s = fastest_s.min(self.time_burst::<T>(&product, 1)?);
        }
        Ok(fastest_s)
    }

    /// The seconds until as many products of what [`place_operands`](Self::place_operands) has placed are done.
    fn time_burst<T: Element>(&mut self, product: &Product, count: u32) -> Outcome<f64> {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the three matrices lie in memory that is held until the work is done, which is waited for.
            unsafe { self.blas.multiply(T::ONE, product) }?;
        }
        self.lanes.compute.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Puts A, B and C of a product into the GPU's memory, `bytes` in all.
    fn place_operands<T: Element>(
        &mut self,
        (m, n, k): (usize, usize, usize),
        bytes: u64,
    ) -> Outcome<Product> {
        let held = self.hold_for(bytes)?;
        let of = |elements: usize, ld: usize| Place {
            address: held + (elements * size_of::<T>()) as u64,
            ld,
        };
        let (a, b, c) = (of(0, m), of(m * k, k), of(m * k + k * n, m));
        for ((rows, cols), place) in [((m, k), a), ((k, n), b), ((m, n), c)] {
            // A stripe of numbers, again and again: as many as a matrix has are more memory than anybody has counted.
            let stripe = cols.min(STRIPE);
            let values = numbers::<T>(rows * stripe);
            for first in (0..cols).step_by(stripe) {
                let width = stripe.min(cols - first);
                let from = View::new(&values, rows, width, rows);
                let to = place.at::<T>(0, first);
                self.staging.upload(&self.lanes.upload, from, to)?;
            }
        }
        self.lanes.upload.synchronize()?;
        Ok(Product { m, n, k, a, b, c })
    }

    /// Memory of the GPU for `bytes`, and staging slots; where it begins.
    fn hold_for(&mut self, bytes: u64) -> Outcome<u64> {
        let (device, start) = self.hold(bytes, PINNED_BYTES)?;
        // SAFETY: the pinned memory is as large, and held until the next job places its own slots; nothing is under way.
        unsafe { self.staging.place(start, PROBE_SLOT_BYTES) };
        Ok(device)
    }
}

/// Numbers in [1/2, 1) without a pattern: what a processor draws of power, and so its clock, depends on what it computes.
fn numbers<T: Element>(count: usize) -> Vec<T> {
    let mut state = 1_u64;
    let next = || {
        // The multiplier of a well-known linear congruential generator (Knuth).
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        T::of(Complex64::from(
            0.5 + (state >> 11) as f64 / 2.0_f64.powi(54),
        ))
    };
    std::iter::repeat_with(next).take(count).collect()
}
