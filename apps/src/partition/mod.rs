//! `isochron partition`: splits units of work over devices, by models in files.

mod balanced;
mod imbalanced;
mod limits;

use isochron_hierarchy::printable::show_path;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use isochron_hierarchy::model::{Estimate, Fit, Point};
use isochron_hierarchy::partition::{Guess, Partition, PartitionError, SharesOf};
use serde::Serialize;
use strum::Display;

use self::balanced::{describe_end, divide_by_models};
use self::imbalanced::divide_by_times;
use self::limits::LimitArguments;
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::models::alike::read_alike;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::Answer;
use crate::points;
use crate::table::TextTable;

/// The work, the devices and the algorithm.
#[derive(Args)]
pub struct PartitionArguments {
    /// Units of work to split
    #[arg(long, value_name = "D", value_parser = parse_whole::<u64, 0>)]
    units: u64,
    /// Points files (lines `d t [reps [ci]]`), one a device; the devices count from 0
    #[arg(long, num_args = 1.., required = true, value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Take models of the model store: each FILE is the name of one, as `isochron models list` shows it, and a unit
    /// is an element of C
    #[arg(long)]
    stored: bool,
    /// Partitioner
    #[arg(long, value_enum, default_value_t = PartitionAlgorithm::Gpa)]
    algorithm: PartitionAlgorithm,
    /// Model made of the points for even, cpm, gpa, npa and continuous: cpm, piecewise-speed,
    /// piecewise-time, akima or raw-piecewise [default: piecewise-speed]
    #[arg(long, value_parser = name_all::<Fit>(), hide_possible_values = true)]
    fit: Option<Fit>,
    /// Start of npa: even, or in proportion to the speeds at an even share [default: proportional]
    #[arg(long, value_name = "even|proportional", value_parser = name_all::<Guess>(), hide_possible_values = true)]
    guess: Option<Guess>,
    /// Common divisor, in units, of all sizes of the hpopta family [default: the greatest one]
    #[arg(long, value_name = "G", value_parser = parse_whole::<u64, 1>)]
    granule: Option<u64>,
    /// Time taken for a point in the hpopta family: mean, or the upper end of its confidence interval
    /// [default: mean]
    #[arg(long, value_name = "mean|upper", value_parser = name_all::<Estimate>(), hide_possible_values = true)]
    estimate: Option<Estimate>,
    #[command(flatten)]
    limits: LimitArguments,
    /// Identical devices of the one points file (popta)
    #[arg(long, value_name = "P", value_parser = parse_whole::<u32, 1>)]
    devices: Option<u32>,
    /// Identical nodes that each have the devices given (hipopta)
    #[arg(long, value_name = "H", value_parser = parse_whole::<u32, 1>)]
    nodes: Option<u32>,
    /// Steps after which the search is given up [default: 10000000] (hpopta-search)
    #[arg(long, value_name = "STEPS", value_parser = parse_whole::<u64, 0>)]
    work_limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
enum PartitionAlgorithm {
    /// Equal parts, regardless of the models
    Even,
    /// Parts in proportion to the models' speeds at an even share
    Cpm,
    /// The geometric partitioning algorithm on the functional models
    Gpa,
    /// The numerical partitioning algorithm on the functional models
    Npa,
    /// Equal times in real numbers, a bound for every split of whole units
    Continuous,
    /// The exact minimum of the longest time over measured sizes only, for times of any shape
    Hpopta,
    /// The same by the published tree search, over measured sizes only
    HpoptaSearch,
    /// The same for identical devices, over measured sizes only
    Popta,
    /// The same for identical nodes of unlike devices, over measured sizes only
    Hipopta,
}

/// The algorithms that divide by models, and those that divide by measured sizes.
const OF_MODELS: &str = "even, cpm, gpa, npa or continuous";
const OF_SIZES: &str = "hpopta, hpopta-search, popta or hipopta";

impl PartitionAlgorithm {
    /// Returns `true` if it divides by measured sizes instead of models.
    fn takes_sizes(self) -> bool {
        use PartitionAlgorithm::{Hipopta, Hpopta, HpoptaSearch, Popta};
        matches!(self, Hpopta | HpoptaSearch | Popta | Hipopta)
    }
}

/// The part of each device.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Amounts {
    Whole {
        /// Units of each device; in place of them `shares` with `continuous`.
        units: Vec<u64>,
    },
    Real {
        /// Real shares of each device, with `continuous`.
        shares: Vec<f64>,
    },
}

impl Amounts {
    fn to_reals(&self) -> Vec<f64> {
        match self {
            Self::Whole { units } => units.iter().map(|&units| units as f64).collect(),
            Self::Real { shares } => shares.clone(),
        }
    }

    fn to_texts(&self) -> Vec<String> {
        match self {
            Self::Whole { units } => units.iter().map(u64::to_string).collect(),
            Self::Real { shares } => shares.iter().map(|share| format!("{share:.6}")).collect(),
        }
    }
}

/// The end of an algorithm that searches.
#[derive(Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SearchEnd {
    /// `true` if a search ended by itself.
    converged: bool,
    /// Iterations of npa.
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    /// Which algorithm's shares npa took.
    #[serde(skip_serializing_if = "Option::is_none")]
    shares_of: Option<SharesOf>,
    /// Residual of npa.
    #[serde(skip_serializing_if = "Option::is_none")]
    residual: Option<f64>,
}

/// One of several identical nodes.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct NodeDivision {
    /// Units of the node.
    units: u64,
    /// Seconds of the node.
    time_s: f64,
    /// Its devices.
    devices: Partition,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PartitionAnswer {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The algorithm.
    algorithm: PartitionAlgorithm,
    #[serde(flatten)]
    parts: Amounts,
    /// Seconds of each device.
    times_s: Vec<f64>,
    /// The longest of these times, in seconds.
    max_time_s: f64,
    /// Number of devices with work.
    active: usize,
    /// Model made of the points, for algorithms that use one.
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<Fit>,
    /// Devices whose time falls with the size by this model, if the algorithm is made for times that grow; absent
    /// without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    falling: Vec<usize>,
    /// Units that all sizes are multiples of, in the hpopta family.
    #[serde(skip_serializing_if = "Option::is_none")]
    granule: Option<u64>,
    /// Time that a point stands for, in the hpopta family.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<Estimate>,
    #[serde(flatten)]
    search: Option<SearchEnd>,
    /// The nodes of hipopta.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeDivision>>,
}

impl PartitionAnswer {
    fn new(algorithm: PartitionAlgorithm, parts: Amounts, times_s: Vec<f64>) -> Self {
        Self {
            schema: FormatVersion,
            algorithm,
            max_time_s: times_s.iter().copied().fold(0.0, f64::max),
            active: parts.to_reals().iter().filter(|&&d| d > 0.0).count(),
            parts,
            times_s,
            fit: None,
            falling: Vec::new(),
            granule: None,
            estimate: None,
            search: None,
            nodes: None,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &PartitionArguments) -> Result<Answer, Failure> {
    arguments.check()?;
    let answer = if arguments.algorithm.takes_sizes() {
        divide_by_times(arguments)?
    } else {
        divide_by_models(arguments)?
    };
    Answer::new(arguments.json, &answer, |answer| format_text(arguments, answer))
}

impl PartitionArguments {
    /// Refuses options that the algorithm would ignore.
    fn check(&self) -> Result<(), Failure> {
        use PartitionAlgorithm::{Hipopta, HpoptaSearch, Npa, Popta};
        let algorithm = self.algorithm;
        let sizes = algorithm.takes_sizes();
        let flags = [
            ("--fit", self.fit.is_some(), !sizes, OF_MODELS),
            ("--guess", self.guess.is_some(), algorithm == Npa, "npa"),
            ("--granule", self.granule.is_some(), sizes, OF_SIZES),
            ("--estimate", self.estimate.is_some(), sizes, OF_SIZES),
            ("--devices", self.devices.is_some(), algorithm == Popta, "popta"),
            ("--nodes", self.nodes.is_some(), algorithm == Hipopta, "hipopta"),
            ("--work-limit", self.work_limit.is_some(), algorithm == HpoptaSearch, "hpopta-search"),
        ];
        let limits = self.limits.flags().map(|(flag, given)| (flag, given, sizes, OF_SIZES));
        for (flag, given, fits, algorithms) in flags.into_iter().chain(limits) {
            if given && !fits {
                return Err(Failure::input(format!(
                    "{flag}: goes with --algorithm {algorithms}, not with {algorithm}"
                )));
            }
        }
        Ok(())
    }

    /// Reads the points of the models; there is at least one of each.
    fn read_points(&self) -> Result<Vec<Vec<Point>>, Failure> {
        if self.stored { read_alike(&self.models) } else { points::read_all_points(&self.models) }
    }

    /// Turns the error of a partitioner into a failure, with the file or the flag that it comes from.
    fn accept<T>(&self, divided: Result<T, PartitionError>) -> Result<T, Failure> {
        divided.map_err(|error| {
            let limits = self.limits.given_names();
            let flag = match error {
                PartitionError::BeyondLimits { .. } => &limits,
                PartitionError::TooLarge { .. } => "--granule",
                PartitionError::TooManyCopies { .. } if self.nodes.is_some() => "--nodes",
                PartitionError::TooManyCopies { .. } if self.devices.is_some() => "--devices",
                PartitionError::TooManyCopies { .. } => "--models",
                _ => "--units",
            };
            points::refuse(&self.models, flag, &error)
        })
    }
}

fn format_text(arguments: &PartitionArguments, answer: &PartitionAnswer) -> String {
    let mut table = match answer.nodes {
        Some(_) => TextTable::new(1, "model|node|units|time s"),
        None => TextTable::new(1, "model|units|time s"),
    };
    // A file stands for the devices of every node, or for several identical ones.
    let files = arguments.models.iter().cycle();
    let parts = answer.parts.to_texts();
    let n = parts.len();
    let devices = files.zip(parts).zip(&answer.times_s).enumerate();
    for (device, ((path, part), time_s)) in devices {
        let mut row = vec![show_path(path)];
        if answer.nodes.is_some() {
            row.push((device / arguments.models.len()).to_string());
        }
        row.extend([part, format!("{time_s:.6}")]);
        table.add_row(row);
    }
    let mut text = format!(
        "{table}longest {:.6} s\n{} of {n} devices get units\n",
        answer.max_time_s, answer.active
    );
    if arguments.algorithm.takes_sizes() {
        text += "only measured sizes: no device gets a size that its points file lacks\n";
    }
    if let (Some(fit), false) = (answer.fit, answer.falling.is_empty()) {
        let files = answer.falling.iter().map(|&index| &arguments.models[index]);
        let files: Vec<String> = files.map(|path| show_path(path)).collect();
        text += &format!(
            "note: times of {} fall with the size by --fit {fit}, and {} is made for times that grow: \
             the parts may be far from the best\n",
            files.join(", "),
            arguments.algorithm
        );
    }
    if let Some(search) = &answer.search {
        text += &format!("{}\n", describe_end(search));
    }
    text
}
