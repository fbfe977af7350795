//! How long partitioning takes: `cargo run --release -p isochron-hierarchy --example partition_speed`.
//!
//! Prints the median of several runs for growing numbers of devices, each with a piecewise linear
//! model of 20 points that rises, levels out and falls off at the edge of its memory.

#![allow(clippy::print_stdout, reason = "an example prints its table")]

use std::time::Instant;

use isochron_hierarchy::model::{ModelError, PiecewiseFpm, Point, SpeedModel};
use isochron_hierarchy::partition::{PartitionError, continuous, gpa, npa};

const RUNS: usize = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>8} {:>15} {:>10} {:>14} {:>10} {:>6}",
        "devices", "units", "gpa ms", "continuous ms", "npa ms", "steps"
    );
    for n_devices in [10, 100, 1_000, 10_000, 100_000] {
        let fpms = devices(n_devices)?;
        let models: Vec<&dyn SpeedModel> = fpms.iter().map(|fpm| fpm as &dyn SpeedModel).collect();
        for units_each in [37, 10_000, 1_000_000] {
            let total = n_devices as u64 * units_each;
            let gpa_ms = median_ms(|| gpa(&models, total).map(drop))?;
            let continuous_ms = median_ms(|| continuous(&models, total).map(drop))?;
            let npa_ms = median_ms(|| npa(&models, total).map(drop))?;
            let steps = npa(&models, total)?.iterations;
            println!(
                "{n_devices:>8} {total:>15} {gpa_ms:>10.3} {continuous_ms:>14.3} {npa_ms:>10.3} {steps:>6}"
            );
        }
    }
    Ok(())
}

/// Devices whose peak speeds and memories differ by factors of up to 50 and 100.
fn devices(n: usize) -> Result<Vec<PiecewiseFpm>, ModelError> {
    // A linear congruential generator, so that every run measures the same.
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..n)
        .map(|_| {
            let (peak, memory) = (10.0 * 50_f64.powf(random()), 1e3 * 100_f64.powf(random()));
            let point = |i: i32| {
                let d = (memory / 1000.0 * 1.7_f64.powi(i)).round() + f64::from(i) + 1.0;
                let paging = 1.0 + (d / memory).powi(4);
                let speed = peak * d / (d + memory / 100.0) / paging;
                Point {
                    d: d as u64,
                    t_s: d / speed,
                    reps: 3,
                    ci_s: 0.0,
                }
            };
            PiecewiseFpm::from_points((0..20).map(point).collect())
        })
        .collect()
}

/// Milliseconds that `work` takes, the median of [`RUNS`].
fn median_ms(mut work: impl FnMut() -> Result<(), PartitionError>) -> Result<f64, PartitionError> {
    let mut times_ms = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        work()?;
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times_ms.sort_by(f64::total_cmp);
    Ok(times_ms[RUNS / 2])
}
