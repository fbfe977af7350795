//! Runs on alike ranks, and on unlike nodes, that begin with the times of earlier runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cost::{CostRun, DIVISION_GOAL, GOAL, KnownBy, LIMIT, PLATFORM, find_differences};
use crate::goal::check_most;
use crate::launch::MxmLauncher;
use crate::statistics::MedianRange;

/// A product.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct WarmCase {
    ranks: usize,
    /// m, n and k.
    shape: [usize; 3],
    /// `true` on the nodes of [`PLATFORM`].
    #[serde(default)]
    is_emulated: bool,
}

/// The products.
const CASES: [WarmCase; 9] = [
    WarmCase::alike(2, [2048; 3]),
    WarmCase::alike(4, [2048; 3]),
    WarmCase::alike(2, [4096; 3]),
    WarmCase::alike(4, [4096; 3]),
    WarmCase::alike(2, [65536, 512, 512]),
    WarmCase::alike(4, [65536, 512, 512]),
    WarmCase::emulated([2048; 3]),
    WarmCase::emulated([4096; 3]),
    WarmCase::emulated([65536, 512, 512]),
];

impl WarmCase {
    const fn alike(ranks: usize, shape: [usize; 3]) -> Self {
        Self {
            ranks,
            shape,
            is_emulated: false,
        }
    }

    const fn emulated(shape: [usize; 3]) -> Self {
        Self {
            ranks: 4,
            shape,
            is_emulated: true,
        }
    }

    fn name(self) -> String {
        let [m, n, k] = self.shape;
        let ranks = if self.is_emulated {
            "`emulated-4`".to_owned()
        } else {
            format!("{} ranks", self.ranks)
        };
        format!("{m}×{n}×{k}, {ranks}")
    }
}

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
    #[serde(flatten)]
    case: WarmCase,
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

    fn list_runs(&self, case: WarmCase) -> impl Iterator<Item = &CostRun> {
        let runs = self.runs.iter();
        runs.filter(move |run| run.case == case)
            .map(|run| &run.cost)
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
                    case.name()
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

    fn check_cost(&self, case: WarmCase, what: &str, figure: Figure) -> [String; 3] {
        let found = MedianRange::of(self.list_runs(case).map(figure));
        check_most(&format!("{}: {what}, % of it,", case.name()), found, GOAL)
    }
}

fn measure_in(folder: &Path, launcher: &MxmLauncher, rounds: usize) -> anyhow::Result<WarmSamples> {
    std::fs::create_dir_all(folder)?;
    let mut runs = Vec::new();
    for round in 0..FIRST_RUNS + rounds {
        for case in CASES {
            let cost = multiply(launcher, folder, case, round)?;
            if round < FIRST_RUNS {
                continue;
            }
            eprintln!("round {round}, {}: {:.2} %", case.name(), cost.overhead());
            runs.push(WarmRun { case, cost });
        }
    }
    Ok(WarmSamples { runs })
}

fn multiply(
    launcher: &MxmLauncher,
    folder: &Path,
    case: WarmCase,
    round: usize,
) -> anyhow::Result<CostRun> {
    let [m, n, k] = case.shape;
    let mut line = format!("--m {m} --n {n} --k {k}");
    if case.is_emulated {
        line += &format!(" --platform {PLATFORM}");
    }
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let store = folder.join("store").display().to_string();
    let run = launcher.run_mxm_within(case.ranks, &words, &[("ISOCHRON_STORE", &store)], LIMIT)?;
    CostRun::new(round, m, KnownBy::Warm, &run.0)
}
