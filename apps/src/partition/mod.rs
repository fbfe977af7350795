//! `isochron partition`: units of work over devices with saved models.

mod balanced;
mod imbalanced;
mod limits;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use isochron_hierarchy::model::{Estimate, Fit};
use isochron_hierarchy::partition::{Partition, PartitionError};
use serde::Serialize;

use self::limits::{Cap, Forbidden};
use crate::failure::Failure;
use crate::table::Table;

/// What to partition.
#[derive(Args)]
pub struct Arguments {
    /// Units of work to distribute, at least 1
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    units: u64,
    /// Points files (lines `d t [reps [ci]]`), one a device; the devices count from 0
    #[arg(long, num_args = 1.., required = true, value_name = "FILE")]
    models: Vec<PathBuf>,
    /// How
    #[arg(long, value_enum, default_value_t = Algorithm::Gpa)]
    algorithm: Algorithm,
    /// Model made of the points for even, cpm, gpa and npa: cpm, piecewise-speed, piecewise-time,
    /// akima or raw-piecewise [default: piecewise-speed]
    #[arg(long)]
    fit: Option<Fit>,
    /// Units that all sizes of the hpopta family are multiples of [default: the largest possible]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u64).range(1..))]
    granule: Option<u64>,
    /// Time that a point stands for in the hpopta family: mean, or the upper end of its confidence
    /// interval [default: mean]
    #[arg(long, value_name = "mean|upper")]
    estimate: Option<Estimate>,
    /// Most units of each device in order, `none` for no limit, or one value for all: 100,none,50
    /// (hpopta family)
    #[arg(long, value_delimiter = ',', value_name = "CAP,...")]
    caps: Vec<Cap>,
    /// Sizes that must not be given out, to device I or to any: I:SIZE or SIZE (hpopta family)
    #[arg(long, value_delimiter = ',', value_name = "[I:]SIZE,...")]
    forbid: Vec<Forbidden>,
    /// Identical devices of the one points file (popta)
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
    /// Identical nodes that each have the devices given (hipopta)
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Steps after which the search gives up [default: 10000000] (hpopta-search)
    #[arg(long, value_name = "STEPS")]
    work_limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Algorithm {
    /// Equal parts, whatever the models say
    Even,
    /// In proportion to the constant speeds that the models have at an even share
    Cpm,
    /// The geometric partitioning algorithm on the functional models
    Gpa,
    /// The numerical partitioning algorithm on the functional models
    Npa,
    /// The least largest time for measured times of any shape, exactly
    Hpopta,
    /// The same by the published tree search
    HpoptaSearch,
    /// The same for identical devices
    Popta,
    /// The same for identical nodes of unlike devices
    Hipopta,
}

impl Algorithm {
    /// Whether it divides measured sizes instead of models.
    fn takes_sizes(self) -> bool {
        use Algorithm::{Hipopta, Hpopta, HpoptaSearch, Popta};
        matches!(self, Hpopta | HpoptaSearch | Popta | Hipopta)
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What an algorithm found, device by device; of several nodes, node by node.
#[derive(Default)]
struct Division {
    partition: Partition,
    nodes: Option<Vec<Node>>,
    search: Option<Search>,
}

/// How an algorithm that searches ended.
#[derive(Clone, Copy, Serialize)]
struct Search {
    converged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
}

/// One of several identical nodes.
#[derive(Serialize)]
struct Node {
    units: u64,
    time_s: f64,
    devices: Partition,
}

#[derive(Serialize)]
struct Answer {
    algorithm: Algorithm,
    units: Vec<u64>,
    times_s: Vec<f64>,
    max_time_s: f64,
    active: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<Fit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    granule: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<Estimate>,
    #[serde(flatten)]
    search: Option<Search>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<Node>>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.check()?;
    let answer = if arguments.algorithm.takes_sizes() {
        imbalanced::answer(arguments)?
    } else {
        balanced::answer(arguments)?
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&answer).map_err(Failure::run)?);
    } else {
        print(arguments, &answer);
    }
    Ok(())
}

impl Arguments {
    /// Refuses what the algorithm would ignore.
    fn check(&self) -> Result<(), Failure> {
        let sizes = self.algorithm.takes_sizes();
        let is = |algorithm| self.algorithm == algorithm;
        let flags = [
            ("--fit", self.fit.is_some(), !sizes),
            ("--granule", self.granule.is_some(), sizes),
            ("--estimate", self.estimate.is_some(), sizes),
            ("--caps", !self.caps.is_empty(), sizes),
            ("--forbid", !self.forbid.is_empty(), sizes),
            ("--devices", self.devices.is_some(), is(Algorithm::Popta)),
            ("--nodes", self.nodes.is_some(), is(Algorithm::Hipopta)),
            (
                "--work-limit",
                self.work_limit.is_some(),
                is(Algorithm::HpoptaSearch),
            ),
        ];
        for (flag, given, fits) in flags {
            if given && !fits {
                let name = self.algorithm.name();
                return Err(Failure::input(format!(
                    "{flag}: does not go with --algorithm {name}"
                )));
            }
        }
        Ok(())
    }

    /// The failure of a partitioner, with the file or the flag that it comes from.
    fn refused(&self, error: &PartitionError) -> Failure {
        match error {
            PartitionError::InvalidModel { index, .. }
            | PartitionError::InvalidSpeed { index, .. } => match self.models.get(*index) {
                Some(path) => crate::points::failed(path, error),
                None => Failure::input(error),
            },
            PartitionError::BeyondLimits { .. } if self.forbid.is_empty() => {
                Failure::input(format!("--caps: {error}"))
            }
            PartitionError::BeyondLimits { .. } if self.caps.is_empty() => {
                Failure::input(format!("--forbid: {error}"))
            }
            PartitionError::BeyondLimits { .. } => {
                Failure::input(format!("--caps, --forbid: {error}"))
            }
            _ => Failure::input(format!("--units: {error}")),
        }
    }
}

fn print(arguments: &Arguments, answer: &Answer) {
    let mut table = match answer.nodes {
        Some(_) => Table::new(1, &["model", "node", "units", "time s"]),
        None => Table::new(1, &["model", "units", "time s"]),
    };
    // A file stands for the devices of every node, or for several identical ones.
    let files = arguments.models.iter().cycle();
    let devices = files.zip(&answer.units).zip(&answer.times_s).enumerate();
    for (device, ((path, units), time_s)) in devices {
        let mut row = vec![path.display().to_string()];
        if answer.nodes.is_some() {
            row.push((device / arguments.models.len()).to_string());
        }
        row.extend([units.to_string(), format!("{time_s:.6}")]);
        table.row(row);
    }
    print!("{table}");
    println!("longest {:.6} s", answer.max_time_s);
    println!("{} of {} active", answer.active, answer.units.len());
    if let Some(Search {
        converged,
        iterations,
    }) = answer.search
    {
        let how = if converged {
            "converged"
        } else {
            "not converged"
        };
        match iterations {
            Some(iterations) => println!("{how} after {iterations} iterations"),
            None => println!("{how}"),
        }
    }
}
