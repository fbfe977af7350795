//! Models measured at adaptive sizes, against models measured on a fixed grid of sizes, of a real kernel.
//!
//! Four devices are made of the kernel's times, paced 1 : 2 : 4 : 8, and the models divide work among them. The shorter
//! time of two more grids, measured before and after, is taken for the true one: disturbances only lengthen times. It
//! judges how long the slowest device takes, against the best division.

use isochron_hierarchy::model::{Fit, ModelSizes, Point, SizeRule, SpeedModel};
use isochron_hierarchy::partition::Partitioner;
use serde::Serialize;

use crate::points::measure_points;

/// Factor by which each device is slower than its kernel.
const PACES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// The works that are divided: this number of them, up to almost twice the largest size.
const WORKS: u64 = 18;

/// Part of a time by which adaptive sizes let it differ from the line, as `isochron measure` has it by default.
const TOLERANCE: f64 = 0.02;

/// The sizes of the grid: the first, the last, and the distance of two.
const GRID: [u64; 3] = [30, 3000, 30];

/// The kernel whose models are compared.
#[derive(clap::Args)]
pub struct AdaptiveSizesArguments {
    /// A kernel, as `isochron measure` names it
    kernel: String,
}

/// Models of one kernel, judged by its true times.
#[derive(Debug, Serialize)]
struct ModelComparison {
    /// The grid.
    grid: JudgedModel,
    /// The points of the grid at the sizes that adaptive measuring asks for.
    chosen: JudgedModel,
    /// Points measured at adaptive sizes.
    measured: JudgedModel,
}

/// A model and its divisions.
#[derive(Debug, Serialize)]
struct JudgedModel {
    points: usize,
    /// Longest time of the slowest device over that of the best division, of all works.
    over_best: f64,
}

/// Measures models of a kernel and prints their comparison as JSON.
///
/// # Errors
/// Fails if `isochron measure` fails.
pub fn run(arguments: &AdaptiveSizesArguments) -> anyhow::Result<()> {
    let measure = |is_adaptive| measure_model(&arguments.kernel, is_adaptive);
    let before = measure(false)?;
    let (grid, measured) = (measure(false)?, measure(true)?);
    let after = measure(false)?;
    let comparison = ModelComparison::new(&[before, after], &grid, &measured)?;
    println!("{}", serde_json::to_string(&comparison)?);
    Ok(())
}

/// Measures the model of a kernel by the command.
fn measure_model(kernel: &str, is_adaptive: bool) -> anyhow::Result<Vec<Point>> {
    let [from, to, step] = GRID;
    let sizes = if is_adaptive {
        format!("--adaptive --step {step}")
    } else {
        format!("--points {}", (to - from) / step + 1)
    };
    measure_points(&format!(
        "{kernel} --from {from} --to {to} {sizes} --max-reps 40 --max-seconds 0.3"
    ))
}

impl ModelComparison {
    fn new(true_grids: &[Vec<Point>], grid: &[Point], measured: &[Point]) -> anyhow::Result<Self> {
        let truth = PacedDevices::new(&find_truth(true_grids))?;
        let judge = |points: &[Point]| {
            anyhow::Ok(JudgedModel {
                points: points.len(),
                over_best: truth.judge(&PacedDevices::new(points)?)?,
            })
        };
        Ok(Self {
            grid: judge(grid)?,
            chosen: judge(&choose_points(grid))?,
            measured: judge(measured)?,
        })
    }
}

/// Returns the shortest time of several grids at each size.
fn find_truth(grids: &[Vec<Point>]) -> Vec<Point> {
    let mut truth = grids.concat();
    truth.sort_by(|a, b| a.d.cmp(&b.d).then(a.t_s.total_cmp(&b.t_s)));
    truth.dedup_by_key(|point| point.d);
    truth
}

/// Chooses of the points of the grid those that adaptive measuring asks for.
fn choose_points(grid: &[Point]) -> Vec<Point> {
    let [from, to, step] = GRID;
    let rule = SizeRule::Adaptive { step, tolerance: TOLERANCE };
    let mut sizes = ModelSizes::new(from..=to, rule);
    let mut chosen = Vec::new();
    while let Some(d) = sizes.next_size() {
        let place = grid.binary_search_by_key(&d, |point| point.d);
        let point = place.map(|place| grid[place]).ok();
        sizes.observe(d, &[point]);
        chosen.extend(point);
    }
    chosen.sort_by_key(|point| point.d);
    chosen
}

/// The devices that are made of a kernel's points.
struct PacedDevices(Vec<Box<dyn SpeedModel>>);

impl PacedDevices {
    fn new(points: &[Point]) -> anyhow::Result<Self> {
        let models = PACES.map(|pace| {
            let paced = points.iter().map(|point| Point {
                t_s: pace * point.t_s,
                ci_s: pace * point.ci_s,
                ..*point
            });
            Fit::default().model(&paced.collect::<Vec<_>>())
        });
        let models: Result<Vec<_>, _> = models.into_iter().collect();
        Ok(Self(models?))
    }

    fn divide(&self, work: u64) -> anyhow::Result<Vec<u64>> {
        let models: Vec<&dyn SpeedModel> = self.0.iter().map(AsRef::as_ref).collect();
        Ok(Partitioner::default().divide(&models, work)?.units)
    }

    /// Returns the time of the slowest device.
    fn time_s(&self, units: &[u64]) -> f64 {
        let times = self.0.iter().zip(units);
        times.map(|(model, &d)| model.time_s(d as f64)).fold(0.0, f64::max)
    }

    /// Returns the longest time of these devices over the shortest possible one, of all works, when `models` divide.
    fn judge(&self, models: &Self) -> anyhow::Result<f64> {
        let mut longest: f64 = 0.0;
        for part in 1..=WORKS {
            let work = GRID[1] * part / (WORKS / 2 + 1);
            let [found, best] = [models, self].map(|models| models.divide(work));
            longest = longest.max(self.time_s(&found?) / self.time_s(&best?));
        }
        Ok(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_hierarchy::times::find_median;

    /// Measured on a machine with neighbours: a line has the kernel, and the size, time, repetitions and interval of each point.
    const GRIDS: &str = include_str!("../tests/grids.jsonl");

    #[test]
    fn adaptive_sizes_need_half_the_points_of_the_recorded_grids() -> anyhow::Result<()> {
        for kernel in ["gemm", "fft"] {
            let grids = read_grids(kernel)?;
            let (mut counts, mut ratios) = (Vec::new(), Vec::new());
            for round in 0..grids.len() {
                let mut others = grids.clone();
                let grid = others.remove(round);
                let ModelComparison { grid, chosen, .. } =
                    ModelComparison::new(&others, &grid, &grid)?;
                counts.push(chosen.points as f64 / grid.points as f64);
                ratios.push(chosen.over_best / grid.over_best);
            }
            counts.sort_by(f64::total_cmp);
            ratios.sort_by(f64::total_cmp);
            assert!(find_median(&counts) <= 0.5, "{kernel}: {counts:?}");
            assert!(find_median(&ratios) <= 1.02, "{kernel}: {ratios:?}");
            // In no round does noise ask for more than the grid has.
            assert!(counts.iter().all(|&part| part <= 0.75), "{kernel}: {counts:?}");
        }
        Ok(())
    }

    fn read_grids(kernel: &str) -> anyhow::Result<Vec<Vec<Point>>> {
        let mut grids = Vec::new();
        for line in GRIDS.lines() {
            let (name, points): (String, Vec<(u64, f64, u32, f64)>) = serde_json::from_str(line)?;
            if name == kernel {
                let points =
                    points.into_iter().map(|(d, t_s, reps, ci_s)| Point { d, t_s, reps, ci_s });
                grids.push(points.collect());
            }
        }
        Ok(grids)
    }

    #[test]
    fn works_reach_beyond_the_largest_size_of_one_device() -> anyhow::Result<()> {
        let grid: Vec<Point> = (1..=100).map(|i| point(30 * i, i as f64)).collect();
        let devices = PacedDevices::new(&grid)?;
        assert_eq!(devices.judge(&devices)?, 1.0);
        // Models that know nothing of a cliff.
        let cliff: Vec<Point> =
            grid.iter().map(|p| point(p.d, if p.d > 900 { 4.0 } else { 1.0 } * p.t_s)).collect();
        assert!(PacedDevices::new(&cliff)?.judge(&devices)? > 1.5);
        assert_eq!(choose_points(&grid).len(), 17);
        Ok(())
    }

    fn point(d: u64, t_s: f64) -> Point {
        Point { d, t_s, reps: 3, ci_s: 0.0 }
    }
}
