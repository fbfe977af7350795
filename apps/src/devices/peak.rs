//! The peak that a device's speeds are compared with.

use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{Depth, DeviceError, DeviceTeam, MeasureConfig, Scalar, measure_team};
use serde::{Deserialize, Serialize};

/// The best speed of a device's own library in one product of squares.
///
/// It stands in for the peak of the hardware, which no program can read, since clock rates change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The speed in 10⁹ flop/s; 0 for a device too slow to finish any of them in seconds.
    pub gflops: f64,
    /// Rows of A and inner dimension of the fastest product; every thread had as many columns.
    pub size: usize,
    /// The memory of the matrices.
    pub operands: OperandsIn,
}

/// The memory of a product's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperandsIn {
    /// The host's memory, as for an update.
    HostMemory,
    /// The device's own memory: no transfer is part of the time.
    DeviceMemory,
}

/// Sides of the squares: from ones that fit a core's second-level cache to ones that fit a third-level cache.
const SIZES: [usize; 5] = [256, 384, 512, 768, 1024];

/// The repetitions of each. The fastest of all counts, so no mean needs to be very precise.
const REPETITIONS: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.05,
    min_reps: 10,
    max_reps: 50,
    max_seconds: 2.0,
};

/// Measures device `index` of the team, the others idle, in about `limit_s` seconds.
///
/// # Errors
/// The errors of [`measure_team`] and of the device.
pub fn measure_peak<T: Scalar>(
    team: &mut DeviceTeam,
    index: usize,
    limit_s: f64,
    operands: &mut UpdateOperands<T>,
) -> Result<Peak, DeviceError> {
    let threads = team.infos()[index].cores.len().max(1);
    if let Some(found) = team.resident_peak::<T>(index)? {
        return Ok(Peak {
            gflops: found.flops_per_s / 1e9,
            size: found.side,
            operands: OperandsIn::DeviceMemory,
        });
    }
    let config = MeasureConfig {
        max_seconds: REPETITIONS.max_seconds.min(limit_s / SIZES.len() as f64),
        ..REPETITIONS
    };
    let mut best = Peak {
        gflops: 0.0,
        size: 0,
        operands: OperandsIn::HostMemory,
    };
    for size in SIZES {
        let mut slices = vec![0; team.len()];
        slices[index] = size * threads;
        let found = measure_team(
            team,
            size,
            &slices,
            Depth::endless(size),
            &config,
            operands,
            &mut repeat_alone,
        )?;
        let flop = T::TYPE.flop() * (size * size) as f64 * slices[index] as f64;
        let gflops = flop / found[index].fastest_s / 1e9;
        if gflops.is_finite() && gflops > best.gflops && !found[index].is_bound() {
            (best.gflops, best.size) = (gflops, size);
        }
    }
    Ok(best)
}
