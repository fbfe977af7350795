//! Time and growth of the algorithms of `isochron-hierarchy`, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use isochron_hierarchy::layout::br;
use isochron_hierarchy::model::{AkimaFpm, PiecewiseFpm, SpeedModel, TimeFunction};
use isochron_hierarchy::partition::{
    Partition, PartitionError, SearchOutcome, gpa, hpopta, hpopta_search, npa,
};
use isochron_hierarchy::times::find_median;
use isochron_support::simulated::SimulatedCluster;
use serde::Serialize;

use crate::instances::{self, make_models};
use crate::learning::time_decisions;

/// Units of each device on average, where the models have no end.
const UNITS_EACH: u64 = 10_000;

/// Sizes of each time function in the load imbalancing, and its largest instance: devices and units.
const SIZES: u64 = 1000;
const DEVICES: usize = 768;
const UNITS: u64 = 100_000;

/// Kinds of devices in the instances with few kinds.
const KINDS: usize = 4;

/// Steps after which the published search gives up.
const WORK_LIMIT: u64 = 20_000_000;

/// Devices of each node in the simulation.
const DEVICES_EACH: usize = 5;

/// Time for which an instance is solved again and again.
const LEAST: Duration = Duration::from_millis(100);

/// An instance of an algorithm.
#[derive(clap::Args)]
pub struct AlgorithmsArguments {
    algorithm: TimedAlgorithm,
    /// Devices, or nodes (br, inpa, decision)
    size: usize,
}

/// An algorithm with its kind of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimedAlgorithm {
    /// The geometric partitioning algorithm, on piecewise linear speed functions.
    Gpa,
    /// The numerical partitioning algorithm, on splines.
    Npa,
    /// The arrangement in columns.
    Br,
    /// Exact load imbalancing of rugged functions, all different.
    Hpopta,
    /// Exact load imbalancing of devices of four kinds.
    HpoptaKinds,
    /// The published search, on the same functions, all different.
    HpoptaSearch,
    /// INPA over IDPA on a simulated cluster, the simulation included.
    Inpa,
    /// The longest decision of a run that learns from its steps.
    Decision,
}

/// What solving an instance takes.
#[derive(Debug, Serialize)]
struct SolvedInstance {
    /// Median time of a solution.
    time_s: f64,
    /// `false` if the algorithm gave up: at the work limit, or without a balance.
    solved: bool,
    /// The most memory that the process had.
    peak_bytes: u64,
    /// Exponent of the size by which the time grows from half the size.
    exponent: f64,
}

/// Solves a problem once, and can do it again.
type Instance = Box<dyn Fn() -> anyhow::Result<FoundDivision>>;

/// One solution.
struct FoundDivision {
    time_s: f64,
    solved: bool,
}

/// Solves the instance, then one of half the size, and prints what that takes as JSON.
///
/// # Errors
/// Fails if an algorithm refuses the instance, or the system does not tell the memory.
pub fn run(arguments: &AlgorithmsArguments) -> anyhow::Result<()> {
    let solved = SolvedInstance::measure(arguments.algorithm, arguments.size)?;
    println!("{}", serde_json::to_string(&solved)?);
    Ok(())
}

impl SolvedInstance {
    fn measure(algorithm: TimedAlgorithm, size: usize) -> anyhow::Result<Self> {
        let whole = solve_repeatedly(algorithm, size)?;
        // Before the smaller instance adds to it.
        let peak_bytes = peak_bytes().context("the system does not tell the memory")?;
        let half = solve_repeatedly(algorithm, size / 2)?;
        Ok(Self {
            time_s: whole.time_s,
            solved: whole.solved,
            peak_bytes,
            exponent: (whole.time_s / half.time_s).ln() / (size as f64 / (size / 2) as f64).ln(),
        })
    }
}

/// Solves an instance once, and again for [`LEAST`]. Returns the last solution with the median time.
fn solve_repeatedly(algorithm: TimedAlgorithm, size: usize) -> anyhow::Result<FoundDivision> {
    let solve = algorithm.instance(size)?;
    let start = Instant::now();
    let mut times_s = Vec::new();
    loop {
        let solution = solve()?;
        times_s.push(solution.time_s);
        if start.elapsed() >= LEAST {
            times_s.sort_by(f64::total_cmp);
            return Ok(FoundDivision { time_s: find_median(&times_s), ..solution });
        }
    }
}

/// Returns the most memory that this process ever had; `None` if the system does not tell it. Linux does.
fn peak_bytes() -> Option<u64> {
    let kib: u64 = std::fs::read_to_string("/proc/self/status")
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    Some(1024 * kib)
}

impl TimedAlgorithm {
    /// Makes the instance of `size` devices, or of `size` nodes for [`Br`](Self::Br), [`Inpa`](Self::Inpa) and
    /// [`Decision`](Self::Decision).
    fn instance(self, size: usize) -> anyhow::Result<Instance> {
        Ok(match self {
            Self::Gpa => divide_by_speed(make_models(size, PiecewiseFpm::from_points)?, gpa),
            Self::Npa => {
                divide_by_speed(make_models(size, AkimaFpm::from_points)?, |models, total| {
                    npa(models, total).map(|solution| solution.partition)
                })
            }
            Self::Br => {
                let (areas, side) = (instances::make_areas(size), matrix_side(size));
                timed(move || {
                    black_box(br(&areas, side, side)?);
                    Ok(true)
                })
            }
            Self::Hpopta | Self::HpoptaKinds => {
                let (functions, total) = self.make_functions(size)?;
                timed(move || {
                    black_box(hpopta(&functions, &[], total)?);
                    Ok(true)
                })
            }
            Self::HpoptaSearch => {
                let (functions, total) = self.make_functions(size)?;
                timed(move || {
                    let search = black_box(hpopta_search(&functions, &[], total, WORK_LIMIT)?);
                    Ok(matches!(search, SearchOutcome::Optimal(_)))
                })
            }
            Self::Inpa => {
                let cluster = SimulatedCluster::new(size, DEVICES_EACH, matrix_side(size), 1);
                timed(move || Ok(black_box(cluster.clone().balance_nodes()?).outcome.converged))
            }
            Self::Decision => Box::new(move || {
                let longest_s = time_decisions(size)?.into_iter().reduce(f64::max);
                Ok(FoundDivision { time_s: longest_s.context("no decision")?, solved: true })
            }),
        })
    }

    /// Makes rugged functions for `n` devices; returns them with the units to divide.
    fn make_functions(self, n: usize) -> anyhow::Result<(Vec<TimeFunction>, u64)> {
        let kinds = if self == Self::HpoptaKinds { KINDS } else { n };
        let total = UNITS * n as u64 / DEVICES as u64;
        Ok((instances::make_rugged(n, kinds, SIZES)?, total))
    }
}

/// Makes an instance of a function that returns `false` if the algorithm gave up.
fn timed(solve: impl Fn() -> anyhow::Result<bool> + 'static) -> Instance {
    Box::new(move || {
        let start = Instant::now();
        let solved = solve()?;
        Ok(FoundDivision { time_s: start.elapsed().as_secs_f64(), solved })
    })
}

/// Makes the division of [`UNITS_EACH`] units for each of `models` by `partitioner`.
fn divide_by_speed<M: SpeedModel + 'static>(
    models: Vec<M>,
    partitioner: fn(&[&dyn SpeedModel], u64) -> Result<Partition, PartitionError>,
) -> Instance {
    let total = models.len() as u64 * UNITS_EACH;
    timed(move || {
        let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
        black_box(partitioner(&models, total)?);
        Ok(true)
    })
}

/// Returns the side of a square matrix in blocks, 300 × 300 for each of `n` nodes on average.
fn matrix_side(n: usize) -> u64 {
    (300.0 * (n as f64).sqrt()) as u64
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_algorithm_solves_a_small_instance() -> anyhow::Result<()> {
        for &algorithm in TimedAlgorithm::value_variants() {
            let solution = algorithm.instance(10)?()?;
            assert!(solution.solved && solution.time_s > 0.0, "{algorithm:?}");
        }
        Ok(())
    }
}
