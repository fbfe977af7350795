//! The naive matrix product: its full model, and the partial models that DPA grows next to a BLAS.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context as _;
use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Dpa, Strategy};
use isochron_hierarchy::model::Point;
use isochron_hierarchy::times::Sample;
use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;

/// The devices that DPA divides work over: a core that computes naively, and one with a BLAS.
const KERNELS: [&str; 2] = ["naive-gemm", "gemm"];

/// The block size: a unit is the update of a block of C by blocks of A and B.
const BLOCK: usize = 64;

/// Units that DPA divides, and the largest size of the full model, that of an even division.
const UNITS: u64 = 8192;
const LARGEST: u64 = UNITS / 2;

/// The imbalance at which DPA ends.
const EPSILON: f64 = 0.02;

/// The time that a measurement may take.
const LIMIT: Duration = Duration::from_secs(230);

/// The measured points of the figures.
#[derive(Default, Serialize, Deserialize)]
pub struct KernelSamples {
    /// The full model of the naive kernel.
    pub points: Vec<Point>,
    /// The divisions that DPA measured, in order.
    pub growth: Vec<GrowthStep>,
}

/// A division of DPA: a point of each device.
#[derive(Serialize, Deserialize)]
pub struct GrowthStep {
    pub naive: Point,
    pub blas: Point,
}

/// The output of `isochron measure --json`, as far as it is needed.
#[derive(Deserialize)]
struct MeasureOutput {
    ranks: Vec<RankOutput>,
}

/// The points of a rank.
#[derive(Deserialize)]
struct RankOutput {
    points: Vec<Point>,
}

impl KernelSamples {
    /// Measures the full model with this number of points, then lets DPA measure.
    ///
    /// # Errors
    /// If `isochron measure` fails or DPA refuses a time.
    pub fn measure(launcher: &MxmLauncher, points: usize) -> anyhow::Result<Self> {
        let from = LARGEST / points as u64;
        let full = measure_kernel(launcher, KERNELS[0], from..=LARGEST, points)?;
        Ok(Self {
            points: full,
            growth: grow_models(launcher)?,
        })
    }

    /// Returns the flops of a unit.
    pub fn flops_per_unit() -> f64 {
        2.0 * (BLOCK as f64).powi(3)
    }
}

/// Runs `isochron measure` over a range of sizes; returns its points.
fn measure_kernel(
    launcher: &MxmLauncher,
    kernel: &str,
    sizes: RangeInclusive<u64>,
    points: usize,
) -> anyhow::Result<Vec<Point>> {
    let (from, to) = sizes.into_inner();
    let words: Vec<String> = format!(
        "measure {kernel} --block {BLOCK} --from {from} --to {to} --points {points} --max-reps 30 --max-seconds 3 --json"
    ).split(' ').map(str::to_owned).collect();
    let output: MeasureOutput = serde_json::from_str(&launcher.run_isochron(&words, LIMIT)?)?;
    let rank = output.ranks.into_iter().next();
    Ok(rank.context("a rank")?.points)
}

/// Divides the units by DPA from nothing; each division is measured.
fn grow_models(launcher: &MxmLauncher) -> anyhow::Result<Vec<GrowthStep>> {
    let config = BalanceConfig {
        strategy: Strategy::Fpm,
        epsilon: EPSILON,
        ..BalanceConfig::default()
    };
    let mut dpa = Dpa::new(config, KERNELS.len(), UNITS);
    let mut steps = Vec::new();
    while let BalanceStep::Measure(units) = dpa.step() {
        let mut points = Vec::new();
        for (kernel, &d) in KERNELS.iter().zip(&units) {
            let measured = measure_kernel(launcher, kernel, d..=d, 1)?;
            points.extend(measured.first().copied());
        }
        let [naive, blas] = points[..] else {
            anyhow::bail!("`isochron measure` has no point of {units:?} units");
        };
        eprintln!(
            "division {units:?}: {:.4} s and {:.4} s",
            naive.t_s, blas.t_s
        );
        let times = [(units[0], naive), (units[1], blas)];
        dpa.observe(&times.map(|(d, point)| Sample::measured(d, point.t_s, point.reps, 0.0)))?;
        steps.push(GrowthStep { naive, blas });
    }
    Ok(steps)
}
