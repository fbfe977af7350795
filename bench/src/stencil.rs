//! The stencil in four languages under both MPI libraries: rows that follow a slow rank, against even parts.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::goal::check_most;
use crate::markdown::format_table;
use crate::process::{path_variable, run_program};
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::MedianRange;

/// The languages, and the names of their programs.
const LANGUAGES: [&str; 4] = ["Rust", "C", "Fortran", "Python"];
/// The MPI libraries, and the names of their folders.
const LIBRARIES: [&str; 2] = ["Open MPI", "MPICH"];

/// Number of ranks. The last one is slow.
const RANKS: usize = 3;

/// The largest time of a run over that of the ideal division, after the first sweeps.
const TIME_GOAL: f64 = 1.15;
/// The most moves in a run.
const MOVES_GOAL: f64 = 5.0;
/// The most sweeps until rows move after a rank has become slow.
const ANSWER_GOAL: f64 = 20.0;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct StencilArguments {
    /// Rounds; in each all programs take their turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sweeps of a run with a slow rank
    #[arg(long, default_value_t = 1000)]
    sweeps: u64,
    /// Sweeps of a run whose rank becomes slow after the first half
    #[arg(long, default_value_t = 200)]
    changing_sweeps: u64,
    /// Measure these languages alone (rust, c, fortran, python), and keep the samples of the others
    #[arg(long, value_delimiter = ',', value_parser = parse_language)]
    only: Vec<&'static str>,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

fn parse_language(name: &str) -> Result<&'static str, String> {
    let found = LANGUAGES
        .iter()
        .find(|language| language.eq_ignore_ascii_case(name));
    let names = LANGUAGES.map(str::to_lowercase).join(", ");
    found.copied().ok_or_else(|| format!("none of {names}"))
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct StencilResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<StencilSample>,
}

/// The two runs of a program.
#[derive(Serialize, Deserialize)]
struct StencilSample {
    round: usize,
    language: String,
    mpi: String,
    sweeps: u64,
    /// The sweep from which the last rank is slow.
    slow_from: u64,
    even: StencilRun,
    balanced: StencilRun,
}

/// The output of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StencilRun {
    seconds: f64,
    /// Its seconds over those of the ideal division.
    over_ideal: f64,
    /// The same after the first sweeps.
    after_warm_up: f64,
    /// The sweeps after which rows moved.
    moves: Vec<u64>,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &StencilArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    StencilResults::publish(fresh.transpose()?)
}

fn measure(arguments: &StencilArguments) -> anyhow::Result<StencilResults> {
    let StencilArguments {
        rounds,
        sweeps,
        changing_sweeps,
        ..
    } = *arguments;
    let mut samples = keep_others(&arguments.only)?;
    let chosen = (LANGUAGES.iter().copied())
        .filter(|language| arguments.only.is_empty() || arguments.only.contains(language));
    let contestants: Vec<(&str, &str)> = chosen
        .flat_map(|language| LIBRARIES.map(|mpi| (language, mpi)))
        .collect();
    for round in 0..rounds {
        for &(language, mpi) in list_in_turn(&contestants, round) {
            for (sweeps, slow_from) in [(sweeps, 0), (changing_sweeps, changing_sweeps / 2)] {
                let [even, balanced] = run_stencil((language, mpi), sweeps, slow_from)?;
                eprintln!("round {round} {language} {mpi} {slow_from}: {even:?}, {balanced:?}");
                samples.push(StencilSample {
                    round,
                    language: language.to_owned(),
                    mpi: mpi.to_owned(),
                    sweeps,
                    slow_from,
                    even,
                    balanced,
                });
            }
        }
    }
    let command = format!(
        "cargo xtask bench stencil --rounds {rounds} --sweeps {sweeps} --changing-sweeps {changing_sweeps}"
    );
    Ok(StencilResults {
        origin: Origin::new(command),
        samples,
    })
}

/// Returns the published samples of the languages that are not measured.
fn keep_others(measured: &[&str]) -> anyhow::Result<Vec<StencilSample>> {
    if measured.is_empty() || !StencilResults::PAGE.is_published() {
        return Ok(Vec::new());
    }
    let mut kept: StencilResults = StencilResults::PAGE.read()?;
    (kept.samples).retain(|sample| !measured.contains(&sample.language.as_str()));
    Ok(kept.samples)
}

/// Runs a program. Returns its run with even parts, and the balanced one.
fn run_stencil(
    (language, mpi): (&str, &str),
    sweeps: u64,
    slow_from: u64,
) -> anyhow::Result<[StencilRun; 2]> {
    let folder = mpi.to_lowercase().replace(' ', "");
    let program = path_variable("ISOCHRON_STENCILS")?.join(&folder);
    let mut command = launch(&folder)?;
    command
        .args(["-n", &RANKS.to_string()])
        .arg(program.join(language.to_lowercase()))
        .args([sweeps.to_string(), "--slow-from".to_owned()])
        .arg(slow_from.to_string());
    let (output, _) = run_program(&mut command)?;
    ensure!(
        output.contains("the same cells: true"),
        "{language}, {mpi}: {output}"
    );
    let runs = output.lines().filter_map(StencilRun::read);
    let runs: Vec<StencilRun> = runs.collect();
    let runs: Option<[StencilRun; 2]> = runs.try_into().ok();
    runs.with_context(|| format!("{language}, {mpi}: {output}"))
}

/// Begins the command that launches ranks on any cores.
fn launch(folder: &str) -> anyhow::Result<Command> {
    let mpirun: PathBuf = path_variable(&format!("ISOCHRON_MPIRUN_{}", folder.to_uppercase()))?;
    let mut command = Command::new(mpirun);
    if folder == "openmpi" {
        command
            .args(["--oversubscribe", "--bind-to", "none"])
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    Ok(command)
}

impl StencilRun {
    /// Reads a line such as `2.50 s, 1.100 x ideal, 1.050 x after 20 sweeps, 2 moves: after sweeps [7, 15]`.
    fn read(line: &str) -> Option<Self> {
        let (times, moves) = line.split_once(" moves: after sweeps [")?;
        let mut numbers = times
            .split(", ")
            .map_while(|part| part.split(' ').next()?.parse().ok());
        let moves = moves.trim_end_matches(']').split(", ");
        let moves = moves.filter(|word| !word.is_empty()).map(str::parse);
        Some(Self {
            seconds: numbers.next()?,
            over_ideal: numbers.next()?,
            after_warm_up: numbers.next()?,
            moves: moves.collect::<Result<_, _>>().ok()?,
        })
    }
}

impl StencilSample {
    fn read_balanced(&self) -> f64 {
        self.balanced.after_warm_up
    }

    fn read_even(&self) -> f64 {
        self.even.after_warm_up
    }

    fn count_moves(&self) -> f64 {
        self.balanced.moves.len() as f64
    }

    /// Returns the sweeps from the change to the first move after it; infinity without one.
    fn count_to_answer(&self) -> f64 {
        let mut answers = self.balanced.moves.iter();
        let answer = answers.find(|&&sweep| sweep > self.slow_from);
        answer.map_or(f64::INFINITY, |sweep| (sweep - self.slow_from) as f64)
    }
}

/// A figure of a sample.
type Figure = fn(&StencilSample) -> f64;

impl StencilResults {
    /// Summarizes a figure of a program, with a rank that is slow from the beginning, or that becomes slow.
    fn summarize(&self, who: (&str, &str), becomes_slow: bool, figure: Figure) -> MedianRange {
        let samples = self.samples.iter().filter(|sample| {
            (sample.language.as_str(), sample.mpi.as_str()) == who
                && (sample.slow_from > 0) == becomes_slow
        });
        MedianRange::of(samples.map(figure))
    }

    fn list_contestants(&self) -> Vec<(&str, &str)> {
        let all = LANGUAGES
            .iter()
            .flat_map(|&language| LIBRARIES.map(|mpi| (language, mpi)));
        let is_measured = |&(language, mpi): &(&str, &str)| {
            let mut samples = self.samples.iter();
            samples.any(|sample| sample.language == language && sample.mpi == mpi)
        };
        all.filter(is_measured).collect()
    }
}

impl CampaignResults for StencilResults {
    const PAGE: ResultsPage = ResultsPage { name: "stencil" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(", on {RANKS} ranks, the last one four times slower");
        let origin = Self::PAGE.describe_origin(&self.origin, "", &more);
        let contestants = self.list_contestants();
        let goals = contestants.iter().flat_map(|&who| {
            let name = format!("{}, {}", who.0, who.1);
            let figures: [(&str, bool, Figure, f64); 3] = [
                (
                    "total / ideal",
                    false,
                    StencilSample::read_balanced,
                    TIME_GOAL,
                ),
                ("moves", false, StencilSample::count_moves, MOVES_GOAL),
                (
                    "sweeps to the answer",
                    true,
                    StencilSample::count_to_answer,
                    ANSWER_GOAL,
                ),
            ];
            figures.map(|(figure, becomes_slow, read, bound)| {
                let found = self.summarize(who, becomes_slow, read);
                check_most(&format!("{name}: {figure}"), found, bound)
            })
        });
        let rows = contestants.iter().map(|&who| {
            let figures: [(bool, Figure); 4] = [
                (false, StencilSample::read_even),
                (false, StencilSample::read_balanced),
                (true, StencilSample::read_even),
                (true, StencilSample::read_balanced),
            ];
            let [even, balanced, even_later, balanced_later] = figures
                .map(|(becomes_slow, figure)| self.summarize(who, becomes_slow, figure).text(2));
            let (language, mpi) = (who.0.to_owned(), who.1.to_owned());
            [language, mpi, even, balanced, even_later, balanced_later]
        });
        let header = [
            "language",
            "MPI",
            "even / ideal",
            "balanced / ideal",
            "slow in mid-run: even / ideal",
            "balanced / ideal in mid-run",
        ];
        Ok(format!(
            "{origin}\n\n{}\n{}",
            format_table(["goal", "found", "met"], goals),
            format_table(header, rows),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_run_is_read() {
        let line = "2.50 s, 1.100 x ideal, 1.050 x after 20 sweeps, 2 moves: after sweeps [7, 15]";
        let run = StencilRun {
            seconds: 2.5,
            over_ideal: 1.1,
            after_warm_up: 1.05,
            moves: vec![7, 15],
        };
        assert_eq!(StencilRun::read(line), Some(run));
        let none = "3.00 s, 3.100 x ideal, 3.050 x after 20 sweeps, 0 moves: after sweeps []";
        assert_eq!(StencilRun::read(none).map(|run| run.moves), Some(vec![]));
        assert_eq!(StencilRun::read("the same cells: true"), None);
    }
}
