//! A run of `isochron app jacobi`, and its report as far as it is needed.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, SpeedModel};
use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::process::run_within;

/// The platforms: one node of four with a memory cliff, two of four, and four of sixteen.
pub const CLIFF: &str = "emulated-memory-cliff";
pub const TWO_CLIFFS: &str = "emulated-two-memory-cliffs";
pub const SIXTEEN: &str = "emulated-16-memory-cliffs";

/// The time that a run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Edge of the blocks that the points files count.
const BLOCK: f64 = 32.0;

/// The points files of the nodes with four ranks.
const CLIFF_POINTS: [&str; 4] = [
    include_str!("../../../cluster-configs/models/cliff-paging.points"),
    include_str!("../../../cluster-configs/models/cliff-60k.points"),
    include_str!("../../../cluster-configs/models/cliff-45k.points"),
    include_str!("../../../cluster-configs/models/cliff-30k.points"),
];
const TWO_CLIFFS_POINTS: [&str; 4] = [
    include_str!("../../../cluster-configs/models/cliff-paging.points"),
    include_str!("../../../cluster-configs/models/cliff-paging-90k.points"),
    include_str!("../../../cluster-configs/models/cliff-60k.points"),
    include_str!("../../../cluster-configs/models/cliff-45k.points"),
];

/// A run on the platform `cluster-configs/PLATFORM.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JacobiTrial {
    pub platform: String,
    pub ranks: usize,
    /// Number of unknowns.
    pub size: usize,
    /// The strategy with its options.
    pub strategy: String,
    pub iterations: usize,
}

/// The report of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JacobiReport {
    pub checksum: String,
    pub history: Vec<SweepSample>,
    pub moved: u64,
    pub moving_s: f64,
    pub verified: Option<bool>,
    pub wall_s: f64,
}

/// An iteration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepSample {
    pub moved: u64,
    pub moving_s: f64,
    pub rows: Vec<u64>,
    pub times_s: Vec<f64>,
    pub wall_s: f64,
}

impl JacobiTrial {
    /// Solves a generated system.
    ///
    /// # Errors
    /// If the program fails, or the result does not pass its check.
    pub fn run(&self, launcher: &MxmLauncher) -> anyhow::Result<JacobiReport> {
        let line = format!(
            "app jacobi --json --tolerance 0 --size {} --max-iterations {} --platform cluster-configs/{}.toml --strategy {}",
            self.size, self.iterations, self.platform, self.strategy
        );
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut command = launcher.mpirun(self.ranks, launcher.options);
        launcher.add_isochron(&mut command, &words);
        let (text, _) = run_within(&mut command, LIMIT)?;
        let report: JacobiReport = serde_json::from_str(&text).context(line)?;
        ensure!(report.verified == Some(true), "a wrong result: {words:?}");
        Ok(report)
    }

    /// Returns the speeds of the nodes by rows, in GFLOP/s, from the files that they follow.
    ///
    /// # Errors
    /// For a platform without known files.
    pub fn load_speeds(&self) -> anyhow::Result<Vec<FullSpeed>> {
        let files = match &*self.platform {
            CLIFF => CLIFF_POINTS,
            TWO_CLIFFS => TWO_CLIFFS_POINTS,
            other => anyhow::bail!("no points of {other}"),
        };
        files
            .iter()
            .map(|text| FullSpeed::parse(text, self.size))
            .collect()
    }

    /// Returns the speed in GFLOP/s of a sweep over rows.
    pub fn find_speed(&self, rows: f64, seconds: f64) -> f64 {
        2.0 * rows * self.size as f64 / seconds / 1e9
    }
}

/// The speed that a node follows, by rows of a system of this size.
pub struct FullSpeed {
    model: PiecewiseFpm,
    size: usize,
}

impl FullSpeed {
    /// Reads a points file.
    fn parse(text: &str, size: usize) -> anyhow::Result<Self> {
        let model = PiecewiseFpm::from_points(ModelFile::parse(text)?.points)?;
        Ok(Self { model, size })
    }

    /// Returns the seconds of a sweep over rows.
    pub fn find_seconds(&self, rows: f64) -> f64 {
        let units = rows * self.size as f64 / (BLOCK * BLOCK);
        self.model.raw().time_s(units)
    }
}

impl SweepSample {
    /// Returns the seconds of the slowest rank.
    pub fn longest_s(&self) -> f64 {
        self.times_s.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the imbalance of the times, in percent.
    pub fn percent_apart(&self) -> f64 {
        100.0 * isochron_hierarchy::partition::imbalance(&self.times_s)
    }
}
