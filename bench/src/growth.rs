//! Partial models that grow: DPA divides work over two unlike kernels, and each division is measured.
//!
//! # References
//! Clarke's thesis, section 3.3 (figure 3.4).

use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Dpa, Strategy};
use isochron_hierarchy::model::Point;
use isochron_hierarchy::partition::imbalance;
use isochron_hierarchy::times::Sample;
use serde::{Deserialize, Serialize};

use crate::points::measure_points;

/// The devices that DPA divides work over: a core that computes naively, and one with a BLAS.
const KERNELS: [&str; 2] = ["naive-gemm", "gemm"];

/// The imbalance at which DPA ends.
const EPSILON: f64 = 0.02;

/// The work.
#[derive(clap::Args)]
pub struct GrowthArguments {
    /// Units of work: updates of a block
    units: u64,
    /// Block size
    block: usize,
}

/// The divisions that DPA measured, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Growth {
    divisions: usize,
    /// Imbalance of the last one.
    imbalance: f64,
    pub steps: Vec<GrowthStep>,
}

/// A division of DPA: a point of each device.
#[derive(Debug, Serialize, Deserialize)]
pub struct GrowthStep {
    pub naive: Point,
    pub blas: Point,
}

impl Growth {
    /// Summarizes these divisions.
    pub fn new(steps: Vec<GrowthStep>) -> Self {
        let last = steps.last();
        Self {
            divisions: steps.len(),
            imbalance: last.map_or(0.0, |step| imbalance(&[step.naive.t_s, step.blas.t_s])),
            steps,
        }
    }
}

/// Divides the units by DPA from nothing, and prints the divisions as JSON.
///
/// # Errors
/// Fails if `isochron measure` fails, or DPA refuses a time.
pub fn run(arguments: &GrowthArguments) -> anyhow::Result<()> {
    let config =
        BalanceConfig { strategy: Strategy::Fpm, epsilon: EPSILON, ..BalanceConfig::default() };
    let mut dpa = Dpa::new(config, KERNELS.len(), arguments.units);
    let mut steps = Vec::new();
    while let BalanceStep::Measure(units) = dpa.step() {
        let mut points = Vec::new();
        for (kernel, &d) in KERNELS.iter().zip(&units) {
            let block = arguments.block;
            points.extend(measure_points(&format!(
                "{kernel} --block {block} --from {d} --to {d} --points 1 --max-reps 30 --max-seconds 3 --store none"
            ))?);
        }
        let [naive, blas] = points[..] else {
            anyhow::bail!("`isochron measure` has no point of {units:?} units");
        };
        let times = [(units[0], naive), (units[1], blas)];
        dpa.observe(&times.map(|(d, point)| Sample::measured(d, point.t_s, point.reps, 0.0)))?;
        steps.push(GrowthStep { naive, blas });
    }
    println!("{}", serde_json::to_string(&Growth::new(steps))?);
    Ok(())
}
