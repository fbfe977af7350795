//! The stencil in four languages under both MPI libraries: rows that follow a slow rank, against even parts, and rows that
//! stay where they are under noise.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::goal::check_most;
use crate::markdown::format_table;
use crate::process::{path_variable, run_program};
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::MedianRange;

/// The word of `--only` for the runs whose times are made up.
const NOISE: &str = "noise";

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
    /// Measure these languages alone (rust, c, fortran, python), or the runs with made-up times (noise), and keep the
    /// other samples
    #[arg(long, value_delimiter = ',', value_parser = parse_part)]
    only: Vec<&'static str>,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

fn parse_part(name: &str) -> Result<&'static str, String> {
    let mut parts = LANGUAGES.iter().chain([&NOISE]);
    let found = parts.find(|part| part.eq_ignore_ascii_case(name));
    let names = LANGUAGES.map(str::to_lowercase).join(", ");
    found
        .copied()
        .ok_or_else(|| format!("none of {names}, {NOISE}"))
}

/// What a program runs under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scenario {
    /// The last rank is slow.
    Slow,
    /// The last rank becomes slow in mid-run.
    BecomesSlow,
    /// The last rank is slow, and times are made up with 6 % noise.
    Noise,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::Slow, Self::BecomesSlow, Self::Noise];
}

/// The part of the campaign that is measured.
struct Selection<'a>(&'a [&'static str]);

impl Selection<'_> {
    fn has_language(&self, name: &str) -> bool {
        let mut languages = self.0.iter().filter(|&&part| part != NOISE).peekable();
        languages.peek().is_none() || languages.any(|&language| language == name)
    }

    fn has_scenario(&self, scenario: Scenario) -> bool {
        !self.0.contains(&NOISE) || scenario == Scenario::Noise
    }

    fn has_sample(&self, sample: &StencilSample) -> bool {
        self.has_language(&sample.language) && self.has_scenario(sample.find_scenario())
    }
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
    /// `true` if the times are made up, with 6 % noise. Its seconds then say nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_made_up: bool,
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
    let selection = Selection(&arguments.only);
    let (mut samples, kept_origin) = keep_others(&selection)?;
    let contestants: Vec<(&str, &str)> = LANGUAGES
        .into_iter()
        .filter(|language| selection.has_language(language))
        .flat_map(|language| LIBRARIES.map(|mpi| (language, mpi)))
        .collect();
    let scenarios = Scenario::ALL
        .into_iter()
        .filter(|&scenario| selection.has_scenario(scenario));
    let scenarios: Vec<Scenario> = scenarios.collect();
    for round in 0..rounds {
        for &who in list_in_turn(&contestants, round) {
            for &scenario in &scenarios {
                let (sweeps, slow_from) = match scenario {
                    Scenario::BecomesSlow => (changing_sweeps, changing_sweeps / 2),
                    Scenario::Slow | Scenario::Noise => (sweeps, 0),
                };
                let [even, balanced] = run_stencil(who, sweeps, slow_from, scenario)?;
                let (language, mpi) = who;
                eprintln!("round {round} {language} {mpi} {slow_from}: {even:?}, {balanced:?}");
                samples.push(StencilSample {
                    round,
                    language: language.to_owned(),
                    mpi: mpi.to_owned(),
                    sweeps,
                    slow_from,
                    is_made_up: scenario == Scenario::Noise,
                    even,
                    balanced,
                });
            }
        }
    }
    let command = format!(
        "cargo xtask bench stencil --rounds {rounds} --sweeps {sweeps} --changing-sweeps {changing_sweeps}"
    );
    // Made-up times are those of no machine.
    let kept_origin = kept_origin.filter(|_| scenarios == [Scenario::Noise]);
    Ok(StencilResults {
        origin: kept_origin.unwrap_or_else(|| Origin::new(command)),
        samples,
    })
}

/// Returns the published samples that are not measured again, and the origin of all.
fn keep_others(selection: &Selection<'_>) -> anyhow::Result<(Vec<StencilSample>, Option<Origin>)> {
    if selection.0.is_empty() || !StencilResults::PAGE.is_published() {
        return Ok((Vec::new(), None));
    }
    let mut kept: StencilResults = StencilResults::PAGE.read()?;
    kept.samples.retain(|sample| !selection.has_sample(sample));
    Ok((kept.samples, Some(kept.origin)))
}

/// Runs a program. Returns its run with even parts, and the balanced one.
fn run_stencil(
    (language, mpi): (&str, &str),
    sweeps: u64,
    slow_from: u64,
    scenario: Scenario,
) -> anyhow::Result<[StencilRun; 2]> {
    let folder = mpi.to_lowercase().replace(' ', "");
    let program = path_variable("ISOCHRON_STENCILS")?.join(&folder);
    let mut command = launch(&folder)?;
    command
        .args(["-n", &RANKS.to_string()])
        .arg(program.join(language.to_lowercase()))
        .args([sweeps.to_string(), "--slow-from".to_owned()])
        .arg(slow_from.to_string())
        .args((scenario == Scenario::Noise).then_some("--made-up"));
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
    fn is_of(&self, who: (&str, &str)) -> bool {
        (self.language.as_str(), self.mpi.as_str()) == who
    }

    fn find_scenario(&self) -> Scenario {
        match (self.is_made_up, self.slow_from) {
            (true, _) => Scenario::Noise,
            (false, 0) => Scenario::Slow,
            (false, _) => Scenario::BecomesSlow,
        }
    }

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
        answers
            .find(|&&sweep| sweep > self.slow_from)
            .map_or(f64::INFINITY, |sweep| (sweep - self.slow_from) as f64)
    }
}

/// A figure of a sample.
type Figure = fn(&StencilSample) -> f64;

impl StencilResults {
    /// Summarizes a figure of a program.
    fn summarize(&self, who: (&str, &str), scenario: Scenario, figure: Figure) -> MedianRange {
        let samples = (self.samples.iter())
            .filter(|sample| sample.is_of(who) && sample.find_scenario() == scenario);
        MedianRange::of(samples.map(figure))
    }

    /// Lists the goals of a program as rows of a table.
    fn list_goals(&self, who: (&str, &str)) -> Vec<[String; 3]> {
        let noisy = (self.samples.iter())
            .find(|sample| sample.is_made_up && sample.is_of(who))
            .map(|sample| format!("moves in {} sweeps with 6 % noise", sample.sweeps));
        let mut figures: Vec<(&str, Scenario, Figure, f64)> = vec![
            (
                "total / ideal",
                Scenario::Slow,
                StencilSample::read_balanced,
                TIME_GOAL,
            ),
            (
                "moves",
                Scenario::Slow,
                StencilSample::count_moves,
                MOVES_GOAL,
            ),
            (
                "sweeps to the answer",
                Scenario::BecomesSlow,
                StencilSample::count_to_answer,
                ANSWER_GOAL,
            ),
        ];
        if let Some(name) = &noisy {
            let count: Figure = StencilSample::count_moves;
            figures.push((name, Scenario::Noise, count, MOVES_GOAL));
        }
        figures
            .into_iter()
            .map(|(name, scenario, figure, bound)| {
                let found = self.summarize(who, scenario, figure);
                check_most(&format!("{}, {}: {name}", who.0, who.1), found, bound)
            })
            .collect()
    }

    fn list_contestants(&self) -> Vec<(&str, &str)> {
        let all = LANGUAGES
            .iter()
            .flat_map(|&language| LIBRARIES.map(|mpi| (language, mpi)));
        let is_measured = |&(language, mpi): &(&str, &str)| {
            (self.samples.iter()).any(|sample| sample.is_of((language, mpi)))
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
        let goals = contestants.iter().flat_map(|&who| self.list_goals(who));
        let rows = contestants.iter().map(|&who| {
            let figures: [(Scenario, Figure); 4] = [
                (Scenario::Slow, StencilSample::read_even),
                (Scenario::Slow, StencilSample::read_balanced),
                (Scenario::BecomesSlow, StencilSample::read_even),
                (Scenario::BecomesSlow, StencilSample::read_balanced),
            ];
            let [even, balanced, even_later, balanced_later] =
                figures.map(|(scenario, figure)| self.summarize(who, scenario, figure).text(2));
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

    fn sample(language: &str, slow_from: u64, is_made_up: bool) -> StencilSample {
        let [even, balanced] = [vec![], vec![7]].map(|moves| StencilRun {
            seconds: 1.0,
            over_ideal: 1.0,
            after_warm_up: 1.0,
            moves,
        });
        StencilSample {
            round: 0,
            language: language.to_owned(),
            mpi: "MPICH".to_owned(),
            sweeps: 1000,
            slow_from,
            is_made_up,
            even,
            balanced,
        }
    }

    /// Lists the samples that are measured again, of Rust and C under all scenarios.
    fn list_selected(only: &[&'static str]) -> Vec<bool> {
        let selection = Selection(only);
        ["Rust", "C"]
            .into_iter()
            .flat_map(|language| {
                [(0, false), (100, false), (0, true)]
                    .map(|(from, made)| sample(language, from, made))
            })
            .map(|sample| selection.has_sample(&sample))
            .collect()
    }

    #[test]
    fn noise_is_measured_alone_and_merged() {
        assert_eq!(list_selected(&[]), [true; 6]);
        let [yes, no] = [true, false];
        assert_eq!(list_selected(&["noise"]), [no, no, yes, no, no, yes]);
        assert_eq!(list_selected(&["Rust"]), [yes, yes, yes, no, no, no]);
        assert_eq!(list_selected(&["noise", "C"]), [no, no, no, no, no, yes]);
        assert_eq!(parse_part("Noise"), Ok("noise"));
        assert_eq!(parse_part("rust"), Ok("Rust"));
        assert!(matches!(parse_part("noises"), Err(error) if error.contains("python, noise")));
    }

    #[test]
    fn samples_without_noise_have_no_goal_of_it() {
        let mut results = StencilResults {
            origin: Origin::new("measure".to_owned()),
            samples: vec![sample("Rust", 0, false), sample("Rust", 100, false)],
        };
        let who = ("Rust", "MPICH");
        assert_eq!(results.list_goals(who).len(), 3);
        results.samples.push(sample("Rust", 0, true));
        let goals = results.list_goals(who);
        let [name, found, met] = &goals[3];
        let wanted = "Rust, MPICH: moves in 1000 sweeps with 6 % noise at most 5";
        assert_eq!((name.as_str(), met.as_str()), (wanted, "yes"), "{found}");
    }

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
