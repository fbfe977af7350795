//! Time functions of the ranks, and the runs of each division.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use isochron_hierarchy::model::{ModelFile, Point};
use isochron_hierarchy::times::RunningMean;
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::launch::MxmLauncher;
use crate::process::run_within;
use crate::results::list_in_turn;

/// The time that a command may take.
const LIMIT: Duration = Duration::from_secs(230);

/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// An application, as the command names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Application {
    Dgemv,
    Fft2d,
}

impl Application {
    /// Returns its name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgemv => "DGEMV",
            Self::Fft2d => "FFT",
        }
    }

    /// Returns the flops of a row of this length, as programs are compared.
    pub fn count_row_flops(self, size: usize) -> f64 {
        let size = size as f64;
        match self {
            Self::Dgemv => 2.0 * size,
            Self::Fft2d => 5.0 * size * size.log2(),
        }
    }
}

/// A way to divide rows, as the command names it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RowDivision {
    Hpopta,
    Balanced,
    Even,
}

/// How much is measured.
pub struct Effort {
    ranks: usize,
    rounds: usize,
    /// Timed runs of a command.
    runs: usize,
    /// Most seconds of a point.
    max_seconds: f64,
}

impl Effort {
    pub fn full(ranks: usize, rounds: usize) -> Self {
        Self {
            ranks,
            rounds,
            runs: 5,
            max_seconds: 1.0,
        }
    }

    pub fn quick(ranks: usize) -> Self {
        Self {
            ranks,
            rounds: 1,
            runs: 3,
            max_seconds: 0.1,
        }
    }
}

/// The samples of an application with one size.
#[derive(Serialize, Deserialize)]
pub struct SizeSamples {
    pub application: Application,
    /// Rows and columns.
    pub size: usize,
    /// The measured times of each rank.
    pub functions: Vec<Vec<Point>>,
    pub runs: Vec<DividedRuns>,
}

/// The runs of a division in a round.
#[derive(Serialize, Deserialize)]
pub struct DividedRuns {
    pub round: usize,
    pub division: RowDivision,
    /// Rows of each rank.
    pub rows: Vec<u64>,
    pub predicted_s: f64,
    /// Seconds in which all kernels were done, run by run.
    pub actual_s: Vec<f64>,
    /// The same with messages.
    pub wall_s: Vec<f64>,
}

/// The output of the applications with `--json`, as far as it is needed.
#[derive(Deserialize)]
struct RowsOutput {
    predicted_s: f64,
    actual: TimesOutput,
    wall: TimesOutput,
    ranks: Vec<RowsRank>,
}

#[derive(Deserialize)]
struct TimesOutput {
    runs_s: Vec<f64>,
}

#[derive(Deserialize)]
struct RowsRank {
    file: String,
    rows: u64,
}

/// The times of the runs of a division in a round.
pub type Times = fn(&DividedRuns) -> &[f64];

/// A mean with the half-width of its confidence interval.
#[derive(Debug, Clone, Copy)]
pub struct MeanInterval {
    pub mean_s: f64,
    pub ci_s: f64,
}

impl MeanInterval {
    fn of(values: &[f64]) -> Self {
        let mean = RunningMean::of(values);
        Self {
            mean_s: mean.mean,
            ci_s: mean.half_width(CONFIDENCE),
        }
    }
}

impl SizeSamples {
    /// Measures the ranks, then runs every division once a round.
    ///
    /// # Errors
    /// If a command fails.
    pub fn measure(
        launcher: &MxmLauncher,
        effort: &Effort,
        application: Application,
        size: usize,
    ) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("isochron-hpopta-{}", std::process::id()));
        let samples = measure_in(&folder, launcher, effort, application, size);
        // What was measured does not depend on the end of the folder.
        let _ = std::fs::remove_dir_all(&folder);
        samples
    }

    /// Returns the runs of a division.
    pub fn list_runs(&self, division: RowDivision) -> impl Iterator<Item = &DividedRuns> {
        self.runs
            .iter()
            .filter(move |runs| runs.division == division)
    }

    /// Summarizes the runs of a division.
    pub fn summarize(&self, division: RowDivision, times: Times) -> MeanInterval {
        MeanInterval::of(&self.list_means(division, times))
    }

    /// Summarizes by how much longer the runs of a division take than those of `other`, round by round.
    pub fn compare(&self, [division, other]: [RowDivision; 2], times: Times) -> MeanInterval {
        let [ours, theirs] = [division, other].map(|division| self.list_means(division, times));
        let differences = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
        MeanInterval::of(&differences.collect::<Vec<f64>>())
    }

    /// Returns the mean of each round, which is one sample: the runs of a process share its memory, and what else the
    /// machine does meanwhile. Of a single round, each run is one.
    fn list_means(&self, division: RowDivision, times: Times) -> Vec<f64> {
        let rounds: Vec<&[f64]> = self.list_runs(division).map(times).collect();
        match rounds[..] {
            [round] => round.to_vec(),
            _ => rounds
                .iter()
                .map(|round| RunningMean::of(round).mean)
                .collect(),
        }
    }

    /// Returns the seconds that are predicted for a division.
    pub fn predict(&self, division: RowDivision) -> f64 {
        self.list_runs(division)
            .next()
            .map_or(f64::NAN, |runs| runs.predicted_s)
    }

    /// Formats the rows of a division.
    pub fn format_rows(&self, division: RowDivision) -> String {
        let runs = self.list_runs(division).next();
        let rows = runs.map_or(&[][..], |runs| &runs.rows);
        let rows: Vec<String> = rows.iter().map(u64::to_string).collect();
        rows.join(" + ")
    }
}

impl DividedRuns {
    pub fn actual_s(&self) -> &[f64] {
        &self.actual_s
    }

    pub fn wall_s(&self) -> &[f64] {
        &self.wall_s
    }
}

fn measure_in(
    folder: &Path,
    launcher: &MxmLauncher,
    effort: &Effort,
    application: Application,
    size: usize,
) -> anyhow::Result<SizeSamples> {
    let words: Vec<String> = format!("app {application} --json --size {size}")
        .split(' ')
        .map(str::to_owned)
        .collect();
    let measuring = format!(
        "--runs 1 --max-reps 30 --max-seconds {} --out {}",
        effort.max_seconds,
        folder.display()
    );
    let measured = run_application(launcher, effort, &words, &measuring)?;
    let files: Vec<&str> = measured.ranks.iter().map(|rank| &*rank.file).collect();
    let functions = files.iter().map(|file| read_points(Path::new(file)));
    let functions = functions.collect::<anyhow::Result<_>>()?;
    let mut runs = Vec::new();
    for round in 0..effort.rounds {
        for &division in list_in_turn(RowDivision::VARIANTS, round) {
            let options = format!(
                "--runs {} --verify --strategy {division} --models {}",
                effort.runs,
                files.join(" ")
            );
            let found = run_application(launcher, effort, &words, &options)?;
            runs.push(DividedRuns {
                round,
                division,
                rows: found.ranks.iter().map(|rank| rank.rows).collect(),
                predicted_s: found.predicted_s,
                actual_s: found.actual.runs_s,
                wall_s: found.wall.runs_s,
            });
        }
    }
    eprintln!("{application} of {size} rows: done");
    Ok(SizeSamples {
        application,
        size,
        functions,
        runs,
    })
}

fn run_application(
    launcher: &MxmLauncher,
    effort: &Effort,
    words: &[String],
    options: &str,
) -> anyhow::Result<RowsOutput> {
    let mut command = launcher.mpirun(effort.ranks, launcher.options);
    launcher.add_isochron(&mut command, words);
    let (text, _) = run_within(command.args(options.split(' ')), LIMIT)?;
    serde_json::from_str(&text).with_context(|| format!("{command:?}"))
}

fn read_points(file: &Path) -> anyhow::Result<Vec<Point>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(ModelFile::parse(&text)?
        .points
        .into_iter()
        .filter(|point| point.reps > 0)
        .collect())
}

/// Makes up samples, in which HPOPTA takes 0.8 times as long as the balanced division.
#[cfg(test)]
pub fn make_samples(application: Application, size: usize) -> SizeSamples {
    let points = [16, 32, 48, 64].map(|d| Point {
        d,
        t_s: d as f64 / 1000.0,
        reps: 3,
        ci_s: 0.001,
    });
    let runs = [
        (RowDivision::Hpopta, [48, 16], 0.8),
        (RowDivision::Balanced, [32, 32], 1.0),
    ];
    let runs = runs.map(|(division, rows, scale)| DividedRuns {
        round: 0,
        division,
        rows: rows.to_vec(),
        predicted_s: scale,
        actual_s: [0.98, 1.0, 1.02].map(|t_s| t_s * scale).to_vec(),
        wall_s: [0.99, 1.0, 1.01].map(|t_s| t_s * scale).to_vec(),
    });
    SizeSamples {
        application,
        size,
        functions: vec![points.to_vec(), points.to_vec()],
        runs: runs.into(),
    }
}

#[cfg(test)]
impl DividedRuns {
    /// Makes the runs of HPOPTA take longer by a factor.
    pub fn slow_down(&mut self, factor: f64) {
        if self.division == RowDivision::Hpopta {
            self.wall_s.iter_mut().for_each(|t_s| *t_s *= factor);
        }
    }
}
