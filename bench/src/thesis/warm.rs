//! Runs on alike ranks that begin with the times of earlier runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cost::{CostRun, DIVISION_GOAL, GOAL, KnownBy, LIMIT, find_differences};
use crate::goal::check_most;
use crate::launch::MxmLauncher;
use crate::statistics::MedianRange;

/// Ranks and m, n and k of the products.
const CASES: [(usize, [usize; 3]); 6] = [
    (2, [2048; 3]),
    (4, [2048; 3]),
    (2, [4096; 3]),
    (4, [4096; 3]),
    (2, [65536, 512, 512]),
    (4, [65536, 512, 512]),
];

/// A figure of a run.
type Figure = fn(&CostRun) -> f64;

/// Runs that fill the store.
const FIRST_RUNS: usize = 2;

/// The samples of all products.
#[derive(Default, Serialize, Deserialize)]
pub struct WarmSamples {
    runs: Vec<WarmRun>,
}

/// A multiplication.
#[derive(Serialize, Deserialize)]
struct WarmRun {
    ranks: usize,
    shape: [usize; 3],
    cost: CostRun,
}

impl WarmSamples {
    /// Fills a store, then multiplies every product once a round.
    ///
    /// # Errors
    /// If a command fails.
    pub fn measure(launcher: &MxmLauncher, rounds: usize) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("isochron-warm-{}", std::process::id()));
        let samples = measure_in(&folder, launcher, rounds);
        // The samples are complete, even if the folder cannot be removed.
        let _ = std::fs::remove_dir_all(&folder);
        samples
    }

    fn list_runs(&self, case: (usize, [usize; 3])) -> impl Iterator<Item = &CostRun> {
        let runs = self.runs.iter();
        let runs = runs.filter(move |run| (run.ranks, run.shape) == case);
        runs.map(|run| &run.cost)
    }

    /// Compares each product with the goals; nothing without samples.
    pub fn check_goals(&self) -> Vec<[String; 3]> {
        if self.runs.is_empty() {
            return Vec::new();
        }
        CASES
            .iter()
            .flat_map(|&case| {
                let differences = MedianRange::of(find_differences(self.list_runs(case)));
                let name = format!(
                    "{}: difference of two divisions, % of the work,",
                    name_case(case)
                );
                [
                    self.check_cost(case, "measuring and partitioning", CostRun::cost),
                    self.check_cost(
                        case,
                        "all time beside the multiplication",
                        CostRun::overhead,
                    ),
                    check_most(&name, differences, DIVISION_GOAL),
                ]
            })
            .collect()
    }

    fn check_cost(&self, case: (usize, [usize; 3]), what: &str, figure: Figure) -> [String; 3] {
        let found = MedianRange::of(self.list_runs(case).map(figure));
        check_most(
            &format!("{}: {what}, % of it,", name_case(case)),
            found,
            GOAL,
        )
    }
}

fn name_case((ranks, [m, n, k]): (usize, [usize; 3])) -> String {
    format!("{m}×{n}×{k}, {ranks} ranks")
}

fn measure_in(folder: &Path, launcher: &MxmLauncher, rounds: usize) -> anyhow::Result<WarmSamples> {
    std::fs::create_dir_all(folder)?;
    let mut runs = Vec::new();
    for round in 0..FIRST_RUNS + rounds {
        for (ranks, shape) in CASES {
            let cost = multiply(launcher, folder, (ranks, shape), round)?;
            if round < FIRST_RUNS {
                continue;
            }
            eprintln!(
                "round {round}, {ranks} ranks, {shape:?}: {:.2} %",
                cost.overhead()
            );
            runs.push(WarmRun { ranks, shape, cost });
        }
    }
    Ok(WarmSamples { runs })
}

fn multiply(
    launcher: &MxmLauncher,
    folder: &Path,
    (ranks, [m, n, k]): (usize, [usize; 3]),
    round: usize,
) -> anyhow::Result<CostRun> {
    let line = format!("--m {m} --n {n} --k {k}");
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let store = folder.join("store").display().to_string();
    let run = launcher.run_mxm_within(ranks, &words, &[("ISOCHRON_STORE", &store)], LIMIT)?;
    CostRun::new(round, m, KnownBy::Warm, &run.0)
}
