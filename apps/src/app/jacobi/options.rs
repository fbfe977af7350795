//! The options of `isochron app jacobi`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use isochron_core::Error;
use isochron_core::hierarchy::model::Fit;
use isochron_core::hierarchy::partition::Partitioner;
use serde::Serialize;
use strum::Display;

use crate::choices::{check_readers, give, refuse_hpopta};
use crate::named_values::name_all;
use crate::numbers::{parse_least_zero, parse_positive, parse_whole};
use crate::watch::WatchArguments;

/// The system, the end of the method, and the division of its rows.
#[derive(Args)]
pub struct JacobiArguments {
    #[command(flatten)]
    pub(super) system: SystemArguments,
    /// File for the solution x, n×1 (.npy or .mtx)
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Largest residual |b - A·x| at which the method ends, as a part of the largest |b|; 0 does all iterations
    #[arg(long, value_name = "PART", default_value = "1e-10", value_parser = parse_least_zero)]
    pub(super) tolerance: f64,
    /// Most iterations
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_whole::<u64, 1>)]
    pub(super) max_iterations: u64,
    /// Check of the result
    #[arg(long, value_enum, default_value_t = JacobiVerify::Residual)]
    pub(super) verify: JacobiVerify,
    #[command(flatten)]
    pub(super) balancing: BalancingOptions,
    /// Platform file whose paces the ranks follow. Each rank computes on one core
    #[arg(long, value_name = "FILE", help_heading = "Balancing")]
    pub(super) platform: Option<PathBuf>,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// File for the timeline of the run, which Perfetto shows (protobuf)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// The check of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JacobiVerify {
    /// No check
    None,
    /// The residual, computed again in another way
    Residual,
    /// The known solution too: that of a generated system, or of one without --b
    Solution,
}

/// The origin of the system.
#[derive(Args)]
#[command(group = ArgGroup::new("system").required(true).args(["size", "a"]))]
pub struct SystemArguments {
    /// Number of unknowns n of a generated system
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 1>)]
    pub(super) size: Option<usize>,
    /// Seed of a generated system
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "a", value_parser = parse_whole::<u64, 0>)]
    pub(super) seed: u64,
    /// Diagonal of a generated system over the sum of the other elements of its row: the nearer to 1, the more
    /// iterations
    #[arg(long, value_name = "FACTOR", default_value_t = 1.1, conflicts_with = "a", value_parser = parse_positive)]
    pub(super) dominance: f64,
    /// File with A, n×n (.npy or .mtx)
    #[arg(long, value_name = "FILE")]
    pub(super) a: Option<PathBuf>,
    /// File with b, n×1 [default: the right side of the solution x_j = 1 + j/n]
    #[arg(long, value_name = "FILE")]
    pub(super) b: Option<PathBuf>,
}

/// The division of the rows.
#[derive(Args)]
#[command(next_help_heading = "Balancing")]
pub struct BalancingOptions {
    /// Strategy that divides the rows
    #[arg(long, value_enum, default_value_t = JacobiStrategy::Adaptive)]
    pub strategy: JacobiStrategy,
    /// Imbalance max |t_i - t_j| / t_i up to which cpm and fpm leave the rows where they are [default: 0.05]
    #[arg(long, value_name = "PART", value_parser = parse_positive)]
    pub(super) epsilon: Option<f64>,
    /// Most divisions that fpm tries [default: 20]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32, 1>)]
    pub(super) max_divisions: Option<u32>,
    /// Partitioner of fpm: gpa or npa [default: gpa]
    #[arg(long, value_parser = name_all::<Partitioner>(), hide_possible_values = true)]
    pub(super) partitioner: Option<Partitioner>,
    /// Model that fpm makes of the times: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise [default:
    /// akima with npa, otherwise piecewise-speed]
    #[arg(long, value_parser = name_all::<Fit>(), hide_possible_values = true)]
    pub(super) fit: Option<Fit>,
}

/// A strategy that divides the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum JacobiStrategy {
    /// The same rows for all ranks
    Even,
    /// In proportion to the speeds of the last iteration, after every iteration
    Cpm,
    /// By partial speed functions of the iterations' times, until these are equal (DPA)
    Fpm,
    /// By what the iterations teach, where it pays to move rows
    Adaptive,
}

impl JacobiArguments {
    /// Refuses to check a solution that is not known.
    pub(super) fn refuse_unknown_solution(&self) -> Result<(), Error> {
        if self.verify == JacobiVerify::Solution && !self.system.knows_solution() {
            let reason = "the solution of a right side from a file is not known; use residual";
            return Err(Error::parameter("verify", "solution", reason));
        }
        Ok(())
    }
}

impl SystemArguments {
    /// Returns `true` if the right side is made from a known solution.
    pub fn knows_solution(&self) -> bool {
        self.b.is_none()
    }

    /// Describes the origin, for the report.
    pub fn describe(&self) -> String {
        match &self.a {
            Some(path) => path.display().to_string(),
            None => format!("generated, seed {}, dominance {}", self.seed, self.dominance),
        }
    }
}

impl BalancingOptions {
    /// Returns the partitioner that divides, if the strategy has one.
    pub fn name_partitioner(&self) -> Option<Partitioner> {
        (self.strategy == JacobiStrategy::Fpm).then(|| self.partitioner())
    }

    /// Refuses options that the strategy does not use.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the option.
    pub fn check(&self) -> Result<(), Error> {
        use JacobiStrategy::{Cpm, Fpm};
        let readers: [(_, &[_]); 4] = [
            ("epsilon", &[Cpm, Fpm]),
            ("max-divisions", &[Fpm]),
            ("partitioner", &[Fpm]),
            ("fit", &[Fpm]),
        ];
        let given = [
            give("epsilon", self.epsilon),
            give("max-divisions", self.max_divisions),
            give("partitioner", self.partitioner),
            give("fit", self.fit),
        ];
        check_readers(self.strategy, &readers, given)?;
        refuse_hpopta(self.partitioner())
    }

    /// Returns the imbalance up to which rows stay.
    pub(super) fn epsilon(&self) -> f64 {
        self.epsilon.unwrap_or(0.05)
    }

    /// Returns the partitioner of fpm.
    pub(super) fn partitioner(&self) -> Partitioner {
        self.partitioner.unwrap_or_default()
    }
}
