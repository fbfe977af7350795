//! The first work of a GPU that is being opened: a small product, and copies that measure the link.

use super::blas::{BlasHandle, Product};
use super::check::CallResult;
use super::context::Context;
use super::lanes::Lanes;
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::SLOTS;
use super::staging::Staging;
use super::stream::DevicePlace;
use crate::{Element, View};
use num_complex::Complex64;
use std::sync::Arc;
use std::time::Instant;

/// The assumed speed of a link that cannot be measured, in bytes/s: PCI Express 4.0 with 16 lanes, in one direction.
pub const ASSUMED_LINK_BYTES_PER_S: f64 = 25e9;

/// Bytes copied to measure the link: several slots, and milliseconds of any link.
const PROBE_BYTES: usize = 32 << 20;
/// Bytes of a staging slot while speeds are measured.
pub const PROBE_SLOT_BYTES: usize = 8 << 20;
/// Bytes of all staging slots while speeds are measured.
pub const PROBE_PINNED_BYTES: u64 = (SLOTS * PROBE_SLOT_BYTES) as u64;
/// Number of copies, of which the fastest counts: the first one finds cold caches and sleeping clocks.
const PROBES: usize = 4;

/// Side of the matrices of the first product.
const SMALL: usize = 32;

/// Multiplies two small matrices in a bound context. cuBLAS loads its code at the first call, and the memory of that code is
/// not free afterwards. If there is no memory for the matrices, the first job finds out how much is left.
pub fn multiply_first(
    context: &Arc<Context>,
    lanes: &Lanes,
    (blas, staging): (&BlasHandle, &mut Staging),
) -> CallResult<()> {
    let bytes = (SMALL * SMALL * size_of::<f64>()) as u64;
    let pinned = PinnedMemory::new(context, SLOTS as u64 * bytes);
    let (pinned, device) = match (pinned, DeviceMemory::new(context, 3 * bytes)) {
        (Ok(pinned), Ok(device)) => (pinned, device),
        (Err(error), _) | (_, Err(error)) if error.is_out_of_memory() => return Ok(()),
        (pinned, device) => (pinned?, device?),
    };
    // SAFETY: the pinned memory is as large; it is freed when no work is under way, and the next job places its own slots
    // before it copies.
    unsafe { staging.place(pinned.start(), bytes as usize) };
    let done = match multiply_small(lanes, (blas, staging), device.start()) {
        Err(error) if error.is_out_of_memory() => Ok(()),
        done => done,
    };
    // The memory goes afterwards, even after an error.
    done.and(lanes.settle())
}

/// Queues the product of two small matrices in the GPU memory at `address`, which is held until all work is done.
fn multiply_small(
    lanes: &Lanes,
    (blas, staging): (&BlasHandle, &mut Staging),
    address: u64,
) -> CallResult<()> {
    let values = make_numbers::<f64>(SMALL * SMALL);
    let from = View::new(&values, SMALL, SMALL, SMALL);
    let [a, b, c] = [0, 1, 2].map(|matrix| DevicePlace {
        address: address + matrix * size_of_val(values.as_slice()) as u64,
        ld: SMALL,
    });
    for place in [a, b, c] {
        staging.upload(&lanes.upload, from, place)?;
    }
    lanes.upload.synchronize()?;
    let product = Product {
        m: SMALL,
        n: SMALL,
        k: SMALL,
        a,
        b,
        c,
    };
    // SAFETY: the three matrices lie in memory that the caller holds until the work is done.
    unsafe { blas.multiply(1.0, &product) }
}

/// Measures the speed of the way from ordinary host memory to the GPU in bytes/s, in a bound context. It includes the copy
/// into pinned memory, made by all threads of the caller's pool. With limits too low for the probe, in bytes of GPU memory
/// and of pinned memory, the link counts as [`ASSUMED_LINK_BYTES_PER_S`].
pub fn measure_link(
    context: &Arc<Context>,
    lanes: &Lanes,
    staging: &mut Staging,
    (device_bytes, host_bytes): (u64, u64),
) -> CallResult<f64> {
    if device_bytes < 8 * PROBE_BYTES as u64 || host_bytes < PROBE_PINNED_BYTES {
        return Ok(ASSUMED_LINK_BYTES_PER_S);
    }
    match time_probe(context, lanes, staging) {
        Ok(fastest_s) => Ok(PROBE_BYTES as f64 / fastest_s.max(f64::MIN_POSITIVE)),
        Err(error) if error.is_out_of_memory() => Ok(ASSUMED_LINK_BYTES_PER_S),
        Err(error) => Err(error),
    }
}

/// Takes memory for the probe, and returns the seconds of its fastest copy.
fn time_probe(context: &Arc<Context>, lanes: &Lanes, staging: &mut Staging) -> CallResult<f64> {
    let pinned = PinnedMemory::new(context, PROBE_PINNED_BYTES)?;
    let device = DeviceMemory::new(context, PROBE_BYTES as u64)?;
    // SAFETY: the pinned memory is as large; it is freed below, when no work is under way, and the next job places its own
    // slots before it copies.
    unsafe { staging.place(pinned.start(), PROBE_SLOT_BYTES) };
    let fastest_s = time_uploads(lanes, staging, device.start());
    // Before the memory goes.
    lanes.settle()?;
    fastest_s
}

/// Returns the seconds of the fastest of [`PROBES`] copies of [`PROBE_BYTES`].
fn time_uploads(lanes: &Lanes, staging: &mut Staging, address: u64) -> CallResult<f64> {
    let cols = 64;
    let rows = PROBE_BYTES / size_of::<f64>() / cols;
    let values = make_numbers::<f64>(rows * cols);
    let to = DevicePlace { address, ld: rows };
    let mut fastest_s = f64::INFINITY;
    for _ in 0..PROBES {
        let start = Instant::now();
        staging.upload(&lanes.upload, View::new(&values, rows, cols, rows), to)?;
        lanes.upload.synchronize()?;
        fastest_s = fastest_s.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest_s)
}

/// Returns numbers in [1/2, 1) without a pattern: the power that a processor draws, and so its clock, depends on the data.
pub fn make_numbers<T: Element>(count: usize) -> Vec<T> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        // The multiplier of a well-known linear congruential generator (Knuth).
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let fraction = (state >> 11) as f64 / 2.0_f64.powi(54);
        T::of(Complex64::from(0.5 + fraction))
    })
    .take(count)
    .collect()
}
