//! Models measured at adaptive sizes, against models measured on a fixed grid of sizes, of real kernels.
//!
//! Four devices are made of each kernel's times, paced 1 : 2 : 4 : 8, and the models divide work among them. The
//! shortest time of all rounds at each size of the grid is taken for the true one: disturbances only lengthen times. It
//! judges how long the slowest device takes, against the best division.

use std::time::Duration;

use anyhow::Context as _;
use isochron_hierarchy::model::{Fit, ModelSizes, Point, SizeRule, SpeedModel};
use isochron_hierarchy::partition::Partitioner;
use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::MedianRange;

/// The kernels, as `isochron measure` names them.
const KERNELS: [&str; 2] = ["gemm", "fft"];

/// Factor by which each device is slower than its kernel.
const PACES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// The works that are divided: this number of them, up to almost twice the largest size.
const WORKS: u64 = 18;

/// Part of a time by which adaptive sizes let it differ from the line, as `isochron measure` has it by default.
const TOLERANCE: f64 = 0.02;

/// The goals: points over those of the grid, and the longest time over that by models of the grid.
const GOALS: [f64; 2] = [0.5, 1.02];

/// Longest time of a model.
const LIMIT: Duration = Duration::from_secs(600);

/// The size of the campaign.
#[derive(clap::Args)]
pub struct AdaptiveSizesArguments {
    /// Rounds; each measures every kernel on the grid and at adaptive sizes
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The sizes of the grid: the first, the last, and the distance of two.
const GRID: [u64; 3] = [30, 3000, 30];

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct MeasureResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<ModelSample>,
}

/// A model measured in a round.
#[derive(Serialize, Deserialize)]
struct ModelSample {
    round: usize,
    kernel: String,
    is_adaptive: bool,
    points: Vec<Point>,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &AdaptiveSizesArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments.rounds));
    MeasureResults::publish(fresh.transpose()?)
}

fn measure(rounds: usize) -> anyhow::Result<MeasureResults> {
    let launcher = MxmLauncher::from_environment()?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        let models = KERNELS
            .map(|kernel| [(kernel, false), (kernel, true)])
            .concat();
        for &(kernel, is_adaptive) in list_in_turn(&models, round) {
            println!(
                "round {round}: {kernel}, {}",
                if is_adaptive { "adaptive" } else { "grid" }
            );
            samples.push(ModelSample {
                round,
                kernel: kernel.to_owned(),
                is_adaptive,
                points: measure_model(&launcher, kernel, is_adaptive)?,
            });
        }
    }
    Ok(MeasureResults {
        origin: Origin::new(format!("cargo xtask bench measure --rounds {rounds}")),
        samples,
    })
}

/// Measures the model of a kernel by the command.
fn measure_model(
    launcher: &MxmLauncher,
    kernel: &str,
    is_adaptive: bool,
) -> anyhow::Result<Vec<Point>> {
    let [from, to, step] = GRID;
    let sizes = if is_adaptive {
        format!("--adaptive --step {step}")
    } else {
        format!("--points {}", (to - from) / step + 1)
    };
    let words: Vec<String> = format!(
        "measure {kernel} --from {from} --to {to} {sizes} --max-reps 40 --max-seconds 0.3 --json"
    )
    .split(' ')
    .map(str::to_owned)
    .collect();
    let text = launcher.run_isochron(&words, LIMIT)?;
    let found: serde_json::Value = serde_json::from_str(&text)?;
    let points = found["ranks"][0]["points"].clone();
    serde_json::from_value(points).with_context(|| format!("no points in {text}"))
}

/// Chooses of the points of the grid those that adaptive measuring asks for.
fn choose_points(grid: &[Point]) -> Vec<Point> {
    let [from, to, step] = GRID;
    let rule = SizeRule::Adaptive {
        step,
        tolerance: TOLERANCE,
    };
    let mut sizes = ModelSizes::new((from, to), rule);
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
        times
            .map(|(model, &d)| model.time_s(d as f64))
            .fold(0.0, f64::max)
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

/// The figures of one kernel, by round.
struct KernelFigures {
    kernel: &'static str,
    /// Points of the grid.
    grid: usize,
    /// Longest time by models of the grid, over the best.
    longest: Vec<f64>,
    /// Points, and longest time over that by the grid: of sizes chosen from the grid, and measured by themselves.
    chosen: [Vec<f64>; 2],
    measured: [Vec<f64>; 2],
}

impl MeasureResults {
    fn list_models(&self, kernel: &str, is_adaptive: bool) -> Vec<&[Point]> {
        let samples = self.samples.iter();
        let samples =
            samples.filter(|sample| sample.kernel == kernel && sample.is_adaptive == is_adaptive);
        samples.map(|sample| &sample.points[..]).collect()
    }

    /// Returns the shortest time of all rounds at each size of the grid.
    fn find_truth(&self, kernel: &str) -> Vec<Point> {
        let grids = self.list_models(kernel, false);
        let first = grids.first().copied().unwrap_or_default();
        (0..first.len())
            .filter_map(|place| {
                grids
                    .iter()
                    .filter_map(|grid| grid.get(place))
                    .copied()
                    .min_by(|a, b| a.t_s.total_cmp(&b.t_s))
            })
            .collect()
    }

    fn compare_kernel(&self, kernel: &'static str) -> anyhow::Result<KernelFigures> {
        let truth = PacedDevices::new(&self.find_truth(kernel))?;
        let mut figures = KernelFigures {
            kernel,
            grid: 0,
            longest: Vec::new(),
            chosen: Default::default(),
            measured: Default::default(),
        };
        for (grid, measured) in self
            .list_models(kernel, false)
            .into_iter()
            .zip(self.list_models(kernel, true))
        {
            let longest = truth.judge(&PacedDevices::new(grid)?)?;
            let chosen = choose_points(grid);
            let both = [
                (&mut figures.chosen, &chosen[..]),
                (&mut figures.measured, measured),
            ];
            for ([counts, ratios], points) in both {
                counts.push(points.len() as f64);
                ratios.push(truth.judge(&PacedDevices::new(points)?)? / longest);
            }
            figures.grid = grid.len();
            figures.longest.push(longest);
        }
        Ok(figures)
    }
}

impl KernelFigures {
    fn meets_goals(&self, [counts, ratios]: &[Vec<f64>; 2]) -> bool {
        let [points, longest] =
            [counts, ratios].map(|values| MedianRange::of(values.clone()).median);
        points <= GOALS[0] * self.grid as f64 && longest <= GOALS[1]
    }

    fn format_rows(&self) -> [[String; 6]; 2] {
        [
            ("chosen from the grid", &self.chosen),
            ("measured", &self.measured),
        ]
        .map(|(name, figures)| {
            let [counts, ratios] = figures;
            [
                self.kernel.to_owned(),
                name.to_owned(),
                format!(
                    "{} of {}",
                    MedianRange::of(counts.clone()).text(0),
                    self.grid
                ),
                MedianRange::of(self.longest.clone()).text(2),
                MedianRange::of(ratios.clone()).text(3),
                yes_or_no(self.meets_goals(figures)),
            ]
        })
    }
}

impl CampaignResults for MeasureResults {
    const PAGE: ResultsPage = ResultsPage { name: "measure" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = Self::PAGE.describe_origin(&self.origin, ", on one core", "");
        let mut rows = Vec::new();
        for kernel in KERNELS {
            rows.extend(self.compare_kernel(kernel)?.format_rows());
        }
        let columns = [
            "kernel",
            "adaptive sizes",
            "points",
            "longest time by the grid / best",
            "longest time by adaptive sizes / by the grid",
            "met",
        ];
        Ok(format!("{origin}\n\n{}", format_table(columns, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read_results;
    use std::path::Path;

    #[test]
    fn adaptive_sizes_need_half_the_points_of_the_recorded_grids() -> anyhow::Result<()> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/measure.json");
        let results: MeasureResults = read_results(&file)?;
        for kernel in KERNELS {
            let figures = results.compare_kernel(kernel)?;
            assert!(
                figures.meets_goals(&figures.chosen),
                "{kernel}: {:?}",
                figures.chosen
            );
            // In no round does noise ask for more than the grid has.
            let most = figures.chosen[0].iter().copied().fold(0.0, f64::max);
            assert!(
                most <= 0.75 * figures.grid as f64,
                "{kernel}: {:?}",
                figures.chosen
            );
        }
        Ok(())
    }

    #[test]
    fn works_reach_beyond_the_largest_size_of_one_device() -> anyhow::Result<()> {
        let grid: Vec<Point> = (1..=100).map(|i| point(30 * i, i as f64)).collect();
        let devices = PacedDevices::new(&grid)?;
        assert_eq!(devices.judge(&devices)?, 1.0);
        // Models that know nothing of a cliff.
        let cliff: Vec<Point> = grid
            .iter()
            .map(|p| point(p.d, if p.d > 900 { 4.0 } else { 1.0 } * p.t_s))
            .collect();
        assert!(PacedDevices::new(&cliff)?.judge(&devices)? > 1.5);
        assert_eq!(choose_points(&grid).len(), 17);
        Ok(())
    }

    fn point(d: u64, t_s: f64) -> Point {
        Point {
            d,
            t_s,
            reps: 3,
            ci_s: 0.0,
        }
    }
}
