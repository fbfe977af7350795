//! Table 4.2: the cost of knowing how to divide, in seconds and as a percentage of the multiplication.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::goal::check_most;
use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::process::run_within;
use crate::report::MxmReport;
use crate::results::list_in_turn;
use crate::statistics::MedianRange;

/// The nodes: four unlike ones on one machine.
pub(super) const PLATFORM: &str = "cluster-configs/emulated-4.toml";
const RANKS: usize = 4;
const BLOCK: usize = 64;

/// The time that a command may take.
pub(super) const LIMIT: Duration = Duration::from_secs(230);

/// The most that a warm store may cost, in percent of the multiplication.
pub(super) const GOAL: f64 = 3.0;

/// The most by which the divisions of two warm runs may differ, in percent of the work.
pub(super) const DIVISION_GOAL: f64 = 2.0;

/// The ways to know the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "lowercase")]
pub(super) enum KnownBy {
    /// Full models from files.
    Full,
    /// Partial models, built before the multiplication.
    Partial,
    /// A short look, and learning in the multiplication.
    Adaptive,
    /// The same with the times that earlier runs have kept.
    Warm,
}

/// The samples of the table.
#[derive(Default, Serialize, Deserialize)]
pub struct CostSamples {
    /// Seconds in which the full models of all devices were built, with the start of the command.
    build_s: f64,
    /// The sizes of the full models, ascending; none in samples that do not tell them apart.
    #[serde(default)]
    built: Vec<BuiltSize>,
    runs: Vec<CostRun>,
}

/// A size of the full models, which all devices are measured at together.
#[derive(Serialize, Deserialize)]
struct BuiltSize {
    /// Rows and columns of the update.
    n: usize,
    /// Seconds of its repetitions on each device.
    costs_s: Vec<f64>,
}

/// The output of `measure mxm --json`, as far as it is needed.
#[derive(Deserialize)]
struct BuiltModels {
    ranks: Vec<BuiltModel>,
}

/// The model of a device.
#[derive(Deserialize)]
struct BuiltModel {
    points: Vec<BuiltPoint>,
}

#[derive(Deserialize)]
struct BuiltPoint {
    /// Blocks of C.
    d: u64,
    t_s: f64,
    /// 0 for a size that was given up after these seconds.
    reps: u32,
}

/// A multiplication.
#[derive(Serialize, Deserialize)]
pub(super) struct CostRun {
    round: usize,
    /// m, and n and k too in the table.
    size: usize,
    way: KnownBy,
    /// Seconds of measuring and partitioning.
    before_s: f64,
    /// Seconds of the multiplication.
    wall_s: f64,
    /// All other seconds of planning and multiplying: the memory of the panels, and the ranks' agreements.
    #[serde(default)]
    rest_s: f64,
    imbalance: f64,
    /// Part of the work that each device did, by rank.
    #[serde(default)]
    shares: Vec<f64>,
}

impl CostSamples {
    /// Builds the full models, then multiplies every size in every way once a round.
    ///
    /// # Errors
    /// If a command fails.
    pub fn measure(launcher: &MxmLauncher, rounds: usize, sizes: &[usize]) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("isochron-thesis-{}", std::process::id()));
        let samples = measure_in(&folder, launcher, rounds, sizes);
        // What was measured does not depend on the end of the folder.
        let _ = std::fs::remove_dir_all(&folder);
        samples
    }

    /// Returns the figure of the runs of a size in a way.
    fn summarize(&self, size: usize, way: KnownBy, figure: fn(&CostRun) -> f64) -> MedianRange {
        let runs = self.runs.iter();
        let runs = runs.filter(|run| (run.size, run.way) == (size, way));
        MedianRange::of(runs.map(figure))
    }

    fn list_sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.runs.iter().map(|run| run.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Formats the goals, the thesis's table and the one with the further columns; nothing without samples.
    pub fn format_tables(&self) -> String {
        if self.runs.is_empty() {
            return String::new();
        }
        let sizes = self.list_sizes();
        let goals = sizes.iter().flat_map(|&size| self.check_goals(size));
        let goals = format_table(["goal", "found", "met"], goals);
        let thesis = format_table(
            [
                "matrix size",
                "full FPM, building s",
                "full FPM, before it s",
                "full FPM, multiplication s",
                "partial FPM, partitioning s",
                "partial FPM, multiplication s",
                "partial FPM, total s",
                "cost of partial FPM, %",
            ],
            sizes.iter().map(|&size| self.make_thesis_row(size)),
        );
        let ours = format_table(
            [
                "matrix size",
                "`adaptive`, before it s",
                "`adaptive`, multiplication s",
                "cost of `adaptive`, %",
                "warm store, before it s",
                "warm store, multiplication s",
                "cost of a warm store, %",
                "all time beside it, %",
                "partial, `adaptive`, warm: total / full FPM's",
            ],
            sizes.iter().map(|&size| self.make_row(size)),
        );
        format!(
            "{goals}\nBuilding the full models took {:.1} s in all.\n\n{thesis}\n{ours}",
            self.build_s
        )
    }

    /// Compares the warm runs of a size with the goals.
    fn check_goals(&self, size: usize) -> [[String; 3]; 3] {
        [
            check_most(
                &format!("cost of a warm store at {size}, %,"),
                self.summarize(size, KnownBy::Warm, CostRun::cost),
                GOAL,
            ),
            check_most(
                &format!(
                    "all time beside the multiplication with a warm store at {size}, % of it,"
                ),
                self.summarize(size, KnownBy::Warm, CostRun::overhead),
                GOAL,
            ),
            check_most(
                &format!("difference of two divisions with a warm store at {size}, % of the work,"),
                MedianRange::of(self.find_differences(size)),
                DIVISION_GOAL,
            ),
        ]
    }

    /// Returns the largest difference of a device's parts, for each pair of successive warm runs of a size, in percent of
    /// the work.
    fn find_differences(&self, size: usize) -> Vec<f64> {
        let warm = self
            .runs
            .iter()
            .filter(|run| (run.size, run.way) == (size, KnownBy::Warm));
        find_differences(warm)
    }

    /// Returns the seconds of building the full models as far as a product of this size can need them: up to the units of
    /// the whole matrix. The devices are measured at the same time, so a size takes as long as on its slowest device.
    fn sum_building_s(&self, size: usize) -> Option<f64> {
        let longest = self
            .built
            .iter()
            .filter(|built| built.n <= size)
            .map(|built| built.costs_s.iter().copied().fold(0.0, f64::max));
        (!self.built.is_empty()).then(|| longest.sum())
    }

    fn make_thesis_row(&self, size: usize) -> [String; 8] {
        [
            size.to_string(),
            self.sum_building_s(size)
                .map_or("-".to_owned(), |seconds| format!("{seconds:.1}")),
            self.summarize(size, KnownBy::Full, |run| run.before_s)
                .text(3),
            self.summarize(size, KnownBy::Full, |run| run.wall_s)
                .text(2),
            self.summarize(size, KnownBy::Partial, |run| run.before_s)
                .text(3),
            self.summarize(size, KnownBy::Partial, |run| run.wall_s)
                .text(2),
            self.summarize(size, KnownBy::Partial, CostRun::total_s)
                .text(2),
            self.summarize(size, KnownBy::Partial, CostRun::cost)
                .text(1),
        ]
    }

    fn make_row(&self, size: usize) -> [String; 9] {
        let mut row = vec![size.to_string()];
        for way in [KnownBy::Adaptive, KnownBy::Warm] {
            row.push(self.summarize(size, way, |run| run.before_s).text(3));
            row.push(self.summarize(size, way, |run| run.wall_s).text(2));
            row.push(self.summarize(size, way, CostRun::cost).text(1));
        }
        row.push(
            self.summarize(size, KnownBy::Warm, CostRun::overhead)
                .text(1),
        );
        let full_s = self.summarize(size, KnownBy::Full, CostRun::total_s).median;
        let ratios = [KnownBy::Partial, KnownBy::Adaptive, KnownBy::Warm].map(|way| {
            let total_s = self.summarize(size, way, CostRun::total_s).median;
            format!("{:.2}", total_s / full_s)
        });
        row.push(ratios.join(", "));
        std::array::from_fn(|column| row[column].clone())
    }
}

/// Returns the largest difference of a device's parts, for each pair of successive runs, in percent of the work.
pub(super) fn find_differences<'r>(runs: impl Iterator<Item = &'r CostRun>) -> Vec<f64> {
    let shares: Vec<&[f64]> = runs.map(|run| &*run.shares).collect();
    shares
        .windows(2)
        .map(|pair| {
            pair[0]
                .iter()
                .zip(pair[1])
                .map(|(one, other)| 100.0 * (one - other).abs())
                .fold(0.0, f64::max)
        })
        .collect()
}

impl CostRun {
    /// Returns the seconds before the multiplication in percent of it.
    pub(super) fn cost(&self) -> f64 {
        100.0 * self.before_s / self.wall_s
    }

    fn total_s(&self) -> f64 {
        self.before_s + self.wall_s
    }

    /// Returns the seconds beside the multiplication in percent of it.
    pub(super) fn overhead(&self) -> f64 {
        100.0 * (self.before_s + self.rest_s) / self.wall_s
    }

    /// Describes a run by its report.
    pub(super) fn new(
        round: usize,
        size: usize,
        way: KnownBy,
        report: &MxmReport,
    ) -> anyhow::Result<Self> {
        let account = report
            .account
            .as_ref()
            .context("the report has no account")?;
        let units: Vec<f64> = report
            .nodes
            .iter()
            .flat_map(|node| &node.devices)
            .map(|device| device.units)
            .collect();
        let all: f64 = units.iter().sum();
        let (before_s, wall_s) = (report.balance_s, report.wall_s);
        Ok(Self {
            round,
            size,
            way,
            before_s,
            wall_s,
            rest_s: account.plan_s + account.multiply_s - before_s - wall_s,
            imbalance: report.imbalance,
            shares: units.iter().map(|units| units / all).collect(),
        })
    }
}

/// Measures with models and a store in a folder.
fn measure_in(
    folder: &Path,
    launcher: &MxmLauncher,
    rounds: usize,
    sizes: &[usize],
) -> anyhow::Result<CostSamples> {
    let models = folder.join("models");
    std::fs::create_dir_all(folder)?;
    let largest = sizes.iter().max().copied().unwrap_or(BLOCK);
    let (build_s, built) = build_models(launcher, &models, largest)?;
    eprintln!("full models: {build_s:.1} s");
    // The first runs of each size fill the store.
    for &size in sizes {
        multiply(launcher, folder, size, KnownBy::Warm)?;
    }
    let mut runs = Vec::new();
    for round in 0..rounds {
        for &size in sizes {
            for &way in list_in_turn(KnownBy::VARIANTS, round) {
                let report = multiply(launcher, folder, size, way)?;
                let run = CostRun::new(round, size, way, &report)?;
                let CostRun {
                    before_s,
                    wall_s,
                    rest_s,
                    ..
                } = run;
                eprintln!(
                    "round {round}, {size}, {way:?}: {before_s:.3} s, {wall_s:.3} s, {rest_s:.3} s"
                );
                runs.push(run);
            }
        }
    }
    Ok(CostSamples {
        build_s,
        built,
        runs,
    })
}

/// Builds full models of all devices up to the parts of this size; returns the seconds that it took, and those of each size.
fn build_models(
    launcher: &MxmLauncher,
    models: &Path,
    size: usize,
) -> anyhow::Result<(f64, Vec<BuiltSize>)> {
    let largest = (size / BLOCK).pow(2);
    let words: Vec<String> = format!(
        "measure mxm --platform {PLATFORM} --block {BLOCK} --to {largest} --budget 60 --store none --json --out"
    )
    .split(' ')
    .map(str::to_owned)
    .collect();
    let start = Instant::now();
    let mut command = launcher.mpirun(RANKS, launcher.options);
    launcher.add_isochron(&mut command, &words);
    let (text, _) = run_within(command.arg(models), LIMIT)?;
    let build_s = start.elapsed().as_secs_f64();
    let found = serde_json::from_str(&text).with_context(|| format!("{command:?}"))?;
    Ok((build_s, list_built_sizes(&found)))
}

/// Lists the sizes of models with their costs on every device.
fn list_built_sizes(models: &BuiltModels) -> Vec<BuiltSize> {
    let mut costs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for point in models.ranks.iter().flat_map(|model| &model.points) {
        let side = (point.d as f64).sqrt() * BLOCK as f64;
        let cost_s = point.t_s * f64::from(point.reps.max(1));
        costs.entry(side as usize).or_default().push(cost_s);
    }
    costs
        .into_iter()
        .map(|(n, costs_s)| BuiltSize { n, costs_s })
        .collect()
}

fn multiply(
    launcher: &MxmLauncher,
    folder: &Path,
    size: usize,
    way: KnownBy,
) -> anyhow::Result<MxmReport> {
    let [models, store] = ["models", "store"].map(|name| folder.join(name).display().to_string());
    let mut words: Vec<String> = format!("--size {size} --platform {PLATFORM}")
        .split(' ')
        .map(str::to_owned)
        .collect();
    let (more, store) = match way {
        KnownBy::Full => (vec!["--strategy", "fpm", "--models", &*models], ""),
        KnownBy::Partial => (vec!["--strategy", "fpm"], ""),
        KnownBy::Adaptive => (vec![], ""),
        KnownBy::Warm => (vec![], &*store),
    };
    words.extend(more.into_iter().map(str::to_owned));
    let variables = [("ISOCHRON_STORE", store)];
    Ok(launcher.run_mxm_within(RANKS, &words, &variables, LIMIT)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run of a size, of two devices.
    fn make_run(way: KnownBy, before_s: f64, share: f64) -> CostRun {
        CostRun {
            round: 0,
            size: 8,
            way,
            before_s,
            wall_s: 2.0,
            rest_s: 0.05,
            imbalance: 0.0,
            shares: vec![share, 1.0 - share],
        }
    }

    #[test]
    fn the_cost_is_what_comes_before_in_percent_of_the_multiplication() {
        let samples = CostSamples {
            build_s: 60.0,
            built: Vec::new(),
            runs: vec![
                make_run(KnownBy::Full, 0.0, 0.5),
                make_run(KnownBy::Partial, 0.5, 0.5),
                make_run(KnownBy::Adaptive, 0.1, 0.5),
                make_run(KnownBy::Warm, 0.02, 0.25),
                make_run(KnownBy::Full, 0.0, 0.5),
                make_run(KnownBy::Warm, 0.02, 0.28),
            ],
        };
        let text = samples.format_tables();
        for part in [
            "| cost of a warm store at 8, %, at most 3 | 1.00 (1.00 to 1.00) | yes |",
            "with a warm store at 8, % of it, at most 3 | 3.50 (3.50 to 3.50) | no |",
            "with a warm store at 8, % of the work, at most 2 | 3.00 (3.00 to 3.00) | no |",
            "| 25.0 (25.0 to 25.0) |",
            "| 1.25, 1.05, 1.01 |",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_matrix_needs_the_models_up_to_its_size() -> anyhow::Result<()> {
        let [one, other] = [0.5, 2.0].map(|t_s| {
            let points = [1, 4, 9].map(|d| format!(r#"{{"d": {d}, "t_s": {t_s}, "reps": 2}}"#));
            format!(r#"{{"points": [{}]}}"#, points.join(","))
        });
        let models = serde_json::from_str(&format!(r#"{{"ranks": [{one}, {other}]}}"#))?;
        let mut run = make_run(KnownBy::Full, 0.25, 0.5);
        run.size = 2 * BLOCK;
        let mut samples = CostSamples {
            built: list_built_sizes(&models),
            runs: vec![run],
            ..CostSamples::default()
        };
        let text = samples.format_tables();
        assert!(text.contains("| 128 | 8.0 | 0.250"), "{text}");
        // Samples that do not tell the sizes apart.
        samples.built.clear();
        let text = samples.format_tables();
        assert!(text.contains("| 128 | - | 0.250"), "{text}");
        Ok(())
    }
}
