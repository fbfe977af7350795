//! `isochron balance`: a kernel's work divided over the ranks by the dynamic partitioning algorithm, from nothing or from
//! the times of earlier runs.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{KnownTimes, refuse_hpopta};
use isochron_core::plan::KnownFrom;
use isochron_devices::MeasureConfig;
use isochron_hierarchy::balance::{
    BalanceConfig, BalanceError, BalanceStep, Balanced, Dpa, EndReason, Strategy, imbalance,
};
use isochron_hierarchy::model::{Fit, ModelError, Point};
use isochron_hierarchy::times::{Measurement, Sample};
use serde::Serialize;

use crate::choices::BalancingArguments;
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::{count, output_width, wrap};
use crate::measure::{
    DEFAULTS, FileKind, KernelArguments, MeasuredPart, OpenKernel, PointsFiles, flatten_point,
    make_point,
};
use crate::measuring::{MeasuringArguments, show_default};
use crate::numbers::parse_whole;
use crate::output::Answer;
use crate::table::TextTable;
use crate::terminal_line::{TerminalLine, describe_interval, describe_slowest};
use crate::watch::WatchArguments;

/// The kernel, its units, and the limits of balancing.
#[derive(Args)]
#[command(mut_args(|argument| show_default(argument, &DEFAULTS)))]
pub struct DpaArguments {
    #[command(flatten)]
    kernel: KernelArguments,
    /// Units of the kernel to divide over all ranks
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64, 0>)]
    units: u64,
    #[command(flatten)]
    balancing: BalancingArguments,
    #[command(flatten)]
    measuring: MeasuringArguments,
    /// Folder for the points files of the partial models, written after every division. The same command
    /// continues the files that are there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The document for scripts.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct BalanceDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// Name of the kernel, or path of its library.
    kernel: String,
    /// Options that decide on times and on their precision.
    measured_with: String,
    /// Units that were divided.
    units: u64,
    /// Points of an earlier command that it started from.
    resumed: usize,
    /// `true` if the division was measured and found balanced.
    converged: bool,
    /// Reason for the end.
    why: EndReason,
    /// Relative difference of the longest and the shortest time.
    imbalance: f64,
    /// Unusual findings about the model store, one line each.
    notices: Vec<String>,
    /// Part of each rank.
    ranks: Vec<BalancedRank>,
    /// Divisions that were measured, in order.
    history: Vec<DivisionDocument>,
}

/// The part of one rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct BalancedRank {
    /// The rank.
    rank: usize,
    /// Its host.
    host: String,
    /// Logical core that it was bound to; `null` if it was not.
    core: Option<u32>,
    /// Points file of its partial model; `null` without `--out`.
    file: Option<String>,
    /// The origin of its first points: `store` (times of earlier runs), `store+probe` (the same, scaled by a
    /// measurement), or `fresh` (measurements of this run alone); `null` for points of an earlier command.
    #[cfg_attr(
        feature = "schemars",
        schemars(extend("enum" = ["store", "store+probe", "fresh", null]))
    )]
    known: Option<KnownFrom>,
    /// Its units.
    units: u64,
    /// Time of these units in seconds: measured, or predicted if the division was not measured.
    t_s: f64,
}

/// A division that was measured.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct DivisionDocument {
    /// Units of each rank.
    units: Vec<u64>,
    /// Seconds of each rank.
    times_s: Vec<f64>,
    /// Imbalance of these times.
    imbalance: f64,
}

/// Runs the command on every rank; the head rank steps the algorithm, writes the files and has an answer.
pub fn run(comm: &dyn Comm, arguments: &DpaArguments) -> Result<Option<Answer>, Failure> {
    let config = arguments.measuring.apply_to(DEFAULTS);
    config.validate().map_err(Failure::input)?;
    arguments.kernel.check_options()?;
    refuse_hpopta(arguments.balancing.make_config().partitioner)?;
    let mut kernel = arguments.kernel.open(comm, &config, &[])?;
    let known = kernel.work.find_known(comm)?;
    let head = match comm.rank() {
        0 => arguments.make_head(&kernel, &config, &known).map(Some),
        _ => Ok(None),
    };
    let mut head = agree(comm, head)?;
    if let Some(head) = &head {
        head.progress.show_start();
    }
    let resumed = head.as_ref().map_or(0, |head| head.resumed);
    let names = head.as_ref().map(|head| head.files.list_paths());
    let balanced = balance_ranks(comm, &mut kernel, &config, &mut head)?;
    if comm.rank() > 0 {
        return Ok(None);
    }
    let document = BalanceDocument {
        schema: FormatVersion,
        kernel: arguments.kernel.kernel.clone(),
        measured_with: kernel.measured_with,
        units: arguments.units,
        resumed,
        converged: balanced.converged,
        why: balanced.why,
        imbalance: balanced.imbalance,
        notices: kernel.work.notices,
        ranks: list_ranks(
            &balanced,
            &kernel.parts,
            names.unwrap_or_default(),
            list_origins(&known, resumed),
        ),
        history: list_history(&balanced),
    };
    let epsilon = arguments.balancing.make_config().epsilon;
    let format = |document: &BalanceDocument| document.format(epsilon, output_width());
    Answer::new(arguments.json, &document, format).map(Some)
}

/// The state of the head rank.
struct HeadState {
    dpa: Dpa,
    files: PointsFiles,
    resumed: usize,
    /// For each rank, stored times that its first measured time scales.
    unscaled: Vec<Vec<Point>>,
    progress: DivisionProgress,
}

/// The progress on the terminal.
struct DivisionProgress {
    line: TerminalLine,
    start: Instant,
    done: u32,
    /// Most divisions, and the imbalance to reach.
    most: u32,
    epsilon: f64,
    confidence: f64,
    /// The host of each rank.
    hosts: Vec<String>,
}

impl DivisionProgress {
    /// Shows that the first division is being measured.
    fn show_start(&self) {
        let most = count(self.most.into(), "division");
        self.line.show(&format!("balancing: 0 of at most {most}, measuring the first"));
    }

    /// Shows that another division was measured, with the result of each rank.
    fn show_division(&mut self, found: &[Measurement]) {
        self.done += 1;
        if self.line.is_shown() {
            self.line.show(&self.describe(found, self.start.elapsed().as_secs_f64()));
        }
    }

    /// Describes the progress after these seconds, the most important first: a narrow terminal cuts the end.
    fn describe(&self, found: &[Measurement], elapsed_s: f64) -> String {
        let times_s: Vec<f64> = found.iter().map(|found| found.sample.seconds).collect();
        let busy = found.iter().filter(|found| found.sample.seconds > 0.0);
        let busy_s: Vec<f64> = busy.clone().map(|found| found.sample.seconds).collect();
        let widest = busy.map(|found| found.ci_s / found.sample.seconds).fold(0.0, f64::max);
        let left_s =
            elapsed_s / f64::from(self.done) * f64::from(self.most.saturating_sub(self.done));
        format!(
            "balancing: {} of at most {}, at most {left_s:.0} s left, imbalance {:.1} % (goal {:.1} %){}{}",
            self.done,
            count(self.most.into(), "division"),
            100.0 * imbalance(&busy_s),
            100.0 * self.epsilon,
            describe_interval(widest, self.confidence),
            describe_slowest(&times_s, &self.hosts)
        )
    }
}

impl DpaArguments {
    /// Starts the algorithm from the points of an earlier command, or else from the times that the store `knows` of every
    /// rank, as far as there are any.
    fn make_head(
        &self,
        kernel: &OpenKernel,
        config: &MeasureConfig,
        known: &[KnownTimes],
    ) -> Result<HeadState, Error> {
        let ranks = kernel.parts.len();
        let files = PointsFiles::open(self.out.as_deref(), FileKind::Points, &kernel.parts)?;
        let balance = BalanceConfig {
            strategy: Strategy::Fpm,
            reps: config.min_reps,
            ..self.balancing.make_config()
        };
        let mut dpa = Dpa::new(balance, ranks, self.units);
        let mut resumed = 0;
        for rank in 0..ranks {
            for point in files.points(rank) {
                dpa.seed(rank, flatten_point(point))?;
                resumed += 1;
            }
        }
        let mut unscaled = vec![Vec::new(); ranks];
        let stored = known.iter().enumerate().filter(|_| resumed == 0);
        for (rank, kernel) in stored {
            match kernel.from {
                KnownFrom::Store => seed_points(&mut dpa, rank, &kernel.points)?,
                _ => unscaled[rank].clone_from(&kernel.points),
            }
        }
        dpa.start_from_points()?;
        Ok(HeadState {
            dpa,
            files,
            resumed,
            unscaled,
            progress: DivisionProgress {
                line: TerminalLine::of_rank(true),
                start: Instant::now(),
                done: 0,
                most: balance.max_iterations,
                epsilon: balance.epsilon,
                confidence: config.confidence,
                hosts: kernel.parts.iter().map(|part| part.host.clone()).collect(),
            },
        })
    }
}

/// Measures the divisions that the head rank asks for, until it has the result. The store gets the times of each at once, so
/// that a killed job keeps them.
fn balance_ranks(
    comm: &dyn Comm,
    kernel: &mut OpenKernel,
    config: &MeasureConfig,
    head: &mut Option<HeadState>,
) -> Result<Balanced, Error> {
    loop {
        let step = head.as_ref().map(HeadState::step);
        let units = match comm.share(0, step)? {
            BalanceStep::Measure(units) => units,
            BalanceStep::Done(balanced) => return Ok(balanced),
        };
        let own = units[comm.rank()];
        // Beside idle ranks a kernel has more of the memory than its key says.
        let kept = units.iter().all(|&d| d > 0);
        let found = kernel.work.measure_in_step(comm, own, kept, config)?;
        let found = comm.gather(&found)?;
        // Before the files: the same command goes on after the last division in them.
        kernel.work.save_times(comm)?;
        let observed = head.as_mut().map(|head| head.observe(&units, &found));
        agree(comm, observed.unwrap_or(Ok(())))?;
    }
}

impl HeadState {
    fn step(&self) -> BalanceStep<Vec<u64>, Balanced> {
        self.dpa.step()
    }

    /// Keeps the measured points and tells the algorithm.
    fn observe(&mut self, units: &[u64], found: &[Measurement]) -> Result<(), Error> {
        let points = units.iter().zip(found);
        let points = points.map(|(&d, found)| (d > 0).then(|| make_point((d, 1), found)));
        let lacking = self.files.list_lacking();
        self.files.add(&points.collect(), &lacking)?;
        let times: Vec<Sample> =
            found.iter().zip(units).map(|(found, &d)| found.sample.counted_as(d)).collect();
        self.scale_stored(units, found)?;
        self.dpa.observe(&times)?;
        self.progress.show_division(found);
        Ok(())
    }

    /// Scales stored times by the first measured time of their rank, and adds them to its model.
    fn scale_stored(&mut self, units: &[u64], found: &[Measurement]) -> Result<(), Error> {
        let measured = units.iter().zip(found).enumerate();
        for (rank, (&d, found)) in measured {
            if d == 0 || found.sample.is_bound() || self.unscaled[rank].is_empty() {
                continue;
            }
            let stored = std::mem::take(&mut self.unscaled[rank]);
            let points = scale_points(&stored, d, found.sample.seconds)?;
            seed_points(&mut self.dpa, rank, &points)?;
        }
        Ok(())
    }
}

/// Adds points to the model of a rank.
fn seed_points(dpa: &mut Dpa, rank: usize, points: &[Point]) -> Result<(), BalanceError> {
    let mut points = points.iter();
    points.try_for_each(|point| dpa.seed(rank, *point))
}

/// Returns stored points, scaled so that they agree with a measured size and its time. That size is left out.
fn scale_points(points: &[Point], d: u64, t_s: f64) -> Result<Vec<Point>, ModelError> {
    let measured = points.iter().filter(|point| point.reps > 0).copied();
    let model = Fit::RawPiecewise.model(&measured.collect::<Vec<Point>>())?;
    let factor = t_s / model.time_s(d as f64);
    Ok(points
        .iter()
        .filter(|point| point.d != d)
        .map(|point| Point { t_s: factor * point.t_s, ci_s: factor * point.ci_s, ..*point })
        .collect())
}

/// Returns the origin of each rank's first points; `None` if these are of an earlier command.
fn list_origins(known: &[KnownTimes], resumed: usize) -> Vec<Option<KnownFrom>> {
    known.iter().map(|kernel| (resumed == 0).then_some(kernel.from)).collect()
}

fn list_ranks(
    balanced: &Balanced,
    parts: &[MeasuredPart],
    files: Vec<Option<String>>,
    known: Vec<Option<KnownFrom>>,
) -> Vec<BalancedRank> {
    let ranks = parts.iter().zip(files).zip(known).enumerate();
    ranks
        .map(|(rank, ((part, file), known))| BalancedRank {
            rank,
            host: part.host.clone(),
            core: part.core,
            file,
            known,
            units: balanced.units[rank],
            t_s: balanced.times_s[rank],
        })
        .collect()
}

fn list_history(balanced: &Balanced) -> Vec<DivisionDocument> {
    balanced
        .history
        .iter()
        .map(|division| DivisionDocument {
            units: division.units.clone(),
            times_s: division.times_s.clone(),
            imbalance: division.imbalance,
        })
        .collect()
}

impl BalanceDocument {
    /// Formats the text for people; `epsilon` is the imbalance that was sought. Prose has at most `width` characters a line.
    fn format(&self, epsilon: f64, width: usize) -> String {
        let mut table = TextTable::new(2, "host|known|rank|units|s|units/s");
        for rank in &self.ranks {
            table.add_row([
                rank.host.clone(),
                rank.known.map_or("files".to_owned(), |known| known.to_string()),
                rank.rank.to_string(),
                rank.units.to_string(),
                format!("{:.3e}", rank.t_s),
                format!("{:.4e}", rank.units as f64 / rank.t_s.max(f64::MIN_POSITIVE)),
            ]);
        }
        let above = format!("kernel {}: {}", self.kernel, self.measured_with);
        let is_noise = self.converged && self.imbalance > epsilon;
        let below = format!(
            "imbalance {:.1} % (goal {:.1} %) after {}: {}{}",
            100.0 * self.imbalance,
            100.0 * epsilon,
            count(self.history.len() as u64, "measured division"),
            self.why,
            if is_noise { " within the noise of the times" } else { "" }
        );
        let notices = self.notices.iter().map(|notice| format!("\nnote: {notice}"));
        let below = below + &notices.collect::<String>();
        format!("{}\n{table}\n{}", wrap(&above, width), wrap(&below, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_tells_the_balance_its_certainty_and_the_slowest_rank() {
        let progress = DivisionProgress {
            line: TerminalLine::of_rank(false),
            start: Instant::now(),
            done: 2,
            most: 10,
            epsilon: 0.05,
            confidence: 0.95,
            hosts: ["a", "b", "c"].map(str::to_owned).to_vec(),
        };
        let found = [(0.5, 0.01), (0.0, 0.0), (1.0, 0.1)].map(|(t_s, ci_s)| Measurement {
            sample: Sample::measured(7, t_s, 3, 0.0),
            ci_s,
            ..Measurement::default()
        });
        assert_eq!(
            progress.describe(&found, 3.0),
            "balancing: 2 of at most 10 divisions, at most 12 s left, imbalance 100.0 % (goal 5.0 %), ±10.0 % at 95 %, slowest: rank 2 (c)"
        );
    }

    #[test]
    fn stored_times_agree_with_a_measured_one_once_they_are_scaled() {
        let points = [(10, 1.0, 1), (20, 3.0, 1), (40, 9.0, 0)].map(|(d, t_s, reps)| Point {
            d,
            t_s,
            reps,
            ci_s: 0.1,
        });
        let scaled = scale_points(&points, 20, 1.5).expect("a model");
        let told = scaled.iter().map(|point| (point.d, point.t_s, point.reps));
        let told: Vec<(u64, f64, u32)> = told.collect();
        assert_eq!(told, [(10, 0.5, 1), (40, 4.5, 0)]);
        assert_eq!(scaled[0].ci_s, 0.05);
    }
}
