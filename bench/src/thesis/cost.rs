//! Table 4.2: the cost of knowing how to divide, in seconds and as a percentage of the multiplication.

use std::path::Path;
use std::time::{Duration, Instant};

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
const PLATFORM: &str = "cluster-configs/emulated-4.toml";
const RANKS: usize = 4;
const BLOCK: usize = 64;

/// The time that a command may take.
const LIMIT: Duration = Duration::from_secs(230);

/// The most that a warm store may cost, in percent of the multiplication.
const GOAL: f64 = 3.0;

/// The ways to know the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "lowercase")]
enum KnownBy {
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
    /// Seconds in which the full models of all devices were built.
    build_s: f64,
    runs: Vec<CostRun>,
}

/// A multiplication.
#[derive(Serialize, Deserialize)]
struct CostRun {
    round: usize,
    /// m = n = k.
    size: usize,
    way: KnownBy,
    /// Seconds of measuring and partitioning.
    before_s: f64,
    /// Seconds of the multiplication.
    wall_s: f64,
    imbalance: f64,
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
        let goals = sizes.iter().map(|&size| {
            let goal = format!("cost of a warm store at {size}, %,");
            check_most(
                &goal,
                self.summarize(size, KnownBy::Warm, CostRun::cost),
                GOAL,
            )
        });
        let goals = format_table(["goal", "found", "met"], goals);
        let thesis = format_table(
            [
                "matrix size",
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
                "multiplication s",
                "cost, %",
                "warm store, before it s",
                "multiplication s",
                "cost, %",
                "partial, `adaptive`, warm: total / full FPM's",
            ],
            sizes.iter().map(|&size| self.make_row(size)),
        );
        format!(
            "{goals}\nBuilding the full models took {:.1} s.\n\n{thesis}\n{ours}",
            self.build_s
        )
    }

    fn make_thesis_row(&self, size: usize) -> [String; 7] {
        [
            size.to_string(),
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

    fn make_row(&self, size: usize) -> [String; 8] {
        let mut row = vec![size.to_string()];
        for way in [KnownBy::Adaptive, KnownBy::Warm] {
            row.push(self.summarize(size, way, |run| run.before_s).text(3));
            row.push(self.summarize(size, way, |run| run.wall_s).text(2));
            row.push(self.summarize(size, way, CostRun::cost).text(1));
        }
        let full_s = self.summarize(size, KnownBy::Full, CostRun::total_s).median;
        let ratios = [KnownBy::Partial, KnownBy::Adaptive, KnownBy::Warm].map(|way| {
            let total_s = self.summarize(size, way, CostRun::total_s).median;
            format!("{:.2}", total_s / full_s)
        });
        row.push(ratios.join(", "));
        std::array::from_fn(|column| row[column].clone())
    }
}

impl CostRun {
    /// Returns the seconds before the multiplication in percent of it.
    fn cost(&self) -> f64 {
        100.0 * self.before_s / self.wall_s
    }

    fn total_s(&self) -> f64 {
        self.before_s + self.wall_s
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
    let build_s = build_models(launcher, &models, largest)?;
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
                let (before_s, wall_s) = (report.balance_s, report.wall_s);
                eprintln!("round {round}, {size}, {way:?}: {before_s:.3} s, then {wall_s:.3} s");
                runs.push(CostRun {
                    round,
                    size,
                    way,
                    before_s,
                    wall_s,
                    imbalance: report.imbalance,
                });
            }
        }
    }
    Ok(CostSamples { build_s, runs })
}

/// Builds full models of all devices up to the parts of this size; returns the seconds that it took.
fn build_models(launcher: &MxmLauncher, models: &Path, size: usize) -> anyhow::Result<f64> {
    let line = format!(
        "devices bench --platform {PLATFORM} --block {BLOCK} --to {size} --budget 60 --out"
    );
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let start = Instant::now();
    let mut command = launcher.mpirun(RANKS, launcher.options);
    launcher.add_isochron(&mut command, &words);
    run_within(command.arg(models), LIMIT)?;
    Ok(start.elapsed().as_secs_f64())
}

fn multiply(
    launcher: &MxmLauncher,
    folder: &Path,
    size: usize,
    way: KnownBy,
) -> anyhow::Result<MxmReport> {
    let [models, store] = ["models", "store"].map(|name| folder.join(name).display().to_string());
    let line = format!("--size {size} --block {BLOCK} --platform {PLATFORM}");
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let (more, store) = match way {
        KnownBy::Full => (vec!["--strategy", "fpm", "--models", &*models], ""),
        KnownBy::Partial => (vec!["--strategy", "fpm"], ""),
        KnownBy::Adaptive => (vec![], ""),
        KnownBy::Warm => (vec![], &*store),
    };
    words.extend(more.into_iter().map(str::to_owned));
    let variables = [("ISOCHRON_STORE", store)];
    let run = launcher.run_mxm_within(RANKS, &words, &variables, LIMIT)?;
    Ok(run.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_what_comes_before_in_percent_of_the_multiplication() {
        let run = |way, before_s| CostRun {
            round: 0,
            size: 8,
            way,
            before_s,
            wall_s: 2.0,
            imbalance: 0.0,
        };
        let samples = CostSamples {
            build_s: 60.0,
            runs: vec![
                run(KnownBy::Full, 0.0),
                run(KnownBy::Partial, 0.5),
                run(KnownBy::Adaptive, 0.1),
                run(KnownBy::Warm, 0.02),
            ],
        };
        let text = samples.format_tables();
        for part in [
            "| cost of a warm store at 8, %, at most 3 | 1.00 (1.00 to 1.00) | yes |",
            "| 25.0 (25.0 to 25.0) |",
            "| 1.25, 1.05, 1.01 |",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
