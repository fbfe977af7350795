//! What a device's speed is compared with.

use isochron_devices::measure::{Operands, alone};
use isochron_devices::{DeviceError, DeviceKind, DeviceTeam, MeasureConfig, measure_team};
use serde::Serialize;

/// The best speed that a device's own library showed in one product of squares, as a stand-in for the peak of the
/// hardware, which no program can read: clock rates change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// The speed in 10⁹ flop/s; 0 for a device too slow to finish any of them in seconds.
    pub gflops: f64,
    /// Rows of A and inner dimension of the product that showed it; every thread had as many columns.
    pub size: usize,
}

/// Sides of the squares: for a core, from what a second-level cache holds to what a third-level one does; a GPU is
/// only busy with more.
const CPU_SIZES: [usize; 5] = [256, 384, 512, 768, 1024];
const CUDA_SIZES: [usize; 3] = [2048, 4096, 8192];

/// How often each is repeated: the fastest of all counts, so no mean needs to be very precise.
const REPETITIONS: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.05,
    min_reps: 10,
    max_reps: 50,
    max_seconds: 2.0,
};

/// Measures device `index` of the team, the others idle.
///
/// # Errors
/// Those of [`measure_team`].
pub fn measure(
    team: &mut DeviceTeam,
    index: usize,
    operands: &mut Operands,
) -> Result<Peak, DeviceError> {
    let info = &team.infos()[index];
    let threads = info.cores.len().max(1);
    let (sizes, threads) = match info.kind {
        DeviceKind::Cpu => (&CPU_SIZES[..], threads),
        DeviceKind::Cuda => (&CUDA_SIZES[..], 1),
    };
    let mut best = Peak {
        gflops: 0.0,
        size: 0,
    };
    for &size in sizes {
        let mut slices = vec![0; team.len()];
        slices[index] = size * threads;
        let found = measure_team(
            team,
            size,
            &slices,
            size,
            &REPETITIONS,
            operands,
            &mut alone,
        )?;
        let flop = 2.0 * (size * size) as f64 * slices[index] as f64;
        let gflops = flop / found[index].fastest_s / 1e9;
        if gflops.is_finite() && gflops > best.gflops && !found[index].bounded() {
            best = Peak { gflops, size };
        }
    }
    Ok(best)
}
