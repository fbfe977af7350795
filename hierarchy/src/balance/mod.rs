//! Balancing: step machines that ask for measurements and end in a balanced division.
//!
//! [`Dpa`] balances units over parts, [`Inpa`] a matrix over nodes, [`Idpa`] a node's sub-matrix over
//! its devices. None of them measures anything. The caller takes a request from `step()`, measures, and
//! hands the times to `observe()`, until `step()` returns [`BalanceStep::Done`].

use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray, VariantNames};

use crate::layout::LayoutError;
use crate::model::ModelError;
use crate::partition::PartitionError;
use crate::times::{expected_range, pool_errors};

mod config;
mod device_models;
pub mod dpa;
pub mod idpa;
pub mod inpa;

pub use config::{BalanceConfig, BalanceStart, Rule, Strategy};
pub use device_models::DeviceModels;
pub use dpa::{Balanced, Dpa};
pub use idpa::{DeviceBalance, Idpa};
pub use inpa::{BalanceOutcome, Extent, Inpa, NodeBalance};

pub use crate::partition::imbalance;

/// The next request of a step machine, or its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceStep<R, D> {
    /// A request to measure, and to hand over the times with `observe`.
    Measure(R),
    /// The result of a balancing that is over.
    Done(D),
}

/// Least relative difference between two measurements of the same work, however well their repetitions
/// agree. Holder: `simulation::ten_thousand_nodes_with_cliffs_and_noise_converge`.
pub(crate) const DRIFT: f64 = 0.01;

/// Largest relative standard error that counts as noise. Without it, a division of which the times are known to nothing would be
/// called balanced whatever its imbalance. Holder: `balance::noise_without_bounds_calls_no_division_balanced`.
const MOST_NOISE: f64 = 0.05;

/// One measured division.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MeasuredDivision {
    /// Units of each part, which is a node in a plan.
    pub units: Vec<u64>,
    /// Measured seconds of each part; 0 for a part without units.
    pub times_s: Vec<f64>,
    /// Standard errors of these times, in seconds.
    pub errors_s: Vec<f64>,
    /// Seconds of measuring, of the part that took longest.
    pub measuring_s: f64,
    /// Kernel runs of a repetition; 1 if each was one run without other work.
    pub runs: f64,
    /// `true` if a measurement was given up: its time is a lower bound.
    pub cut_off: bool,
    /// Imbalance of these times.
    pub imbalance: f64,
}

impl MeasuredDivision {
    /// Returns the range that noise alone gives to as many times, relative to a time.
    pub(crate) fn noise_range(&self) -> f64 {
        let busy = self.units.iter().filter(|&&d| d > 0).count();
        expected_range(busy) * pool_errors(&self.times_s, &self.errors_s, DRIFT).min(MOST_NOISE)
    }

    /// Returns the seconds by which noise alone lifts the longest of as many times.
    pub(crate) fn noise_s(&self) -> f64 {
        0.5 * self.noise_range() * self.max_time_s()
    }

    /// Returns the seconds of the part that finished last.
    pub fn max_time_s(&self) -> f64 {
        self.times_s.iter().copied().fold(0.0, f64::max)
    }
}

/// The reason why balancing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum EndReason {
    /// The last measured division was balanced; or, if the best division need not be
    /// ([`Partitioner::Hpopta`](crate::partition::Partitioner::Hpopta)), as fast as the best one that
    /// the models promise.
    Balanced,
    /// The next division was measured before, so nothing more can be learnt.
    NothingNew,
    /// A further measurement would have cost more than it could save.
    NotWorthIt,
    /// The permitted number of iterations was used up.
    IterationLimit,
    /// The result follows from a measurement, and was not itself measured ([`Strategy::SingleCpm`]).
    Predicted,
    /// Nothing was measured ([`Strategy::Homogeneous`]).
    NotMeasured,
    /// There was no work to divide.
    NoWork,
}

/// The reason why times are unusable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BalanceError {
    /// The name of a strategy that does not exist.
    #[error("unknown strategy \"{0}\": expected one of {names}", names = <Strategy as VariantNames>::VARIANTS.join(", "))]
    UnknownStrategy(String),
    /// Times that no request asked for.
    #[error("balancing has ended: no measurement is wanted")]
    NotMeasuring,
    /// Not one value for each part.
    #[error("{got} values for {wanted} parts")]
    WrongLength {
        /// Number of parts.
        wanted: usize,
        /// Number of values.
        got: usize,
    },
    /// A measured division of another number of units.
    #[error("{got} units measured of a total of {wanted}")]
    WrongTotal {
        /// Units to divide.
        wanted: u64,
        /// Sum of the measured units.
        got: u64,
    },
    /// A part with work and without a finite positive time.
    #[error("part {index}: {source}")]
    InvalidTime {
        /// Index of the part.
        index: usize,
        /// The refused point.
        source: ModelError,
    },
    /// The models do not admit a division.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The models do not admit a layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_relative_to_the_faster_part_and_ignores_idle_ones() {
        assert_eq!(imbalance(&[2.0, 3.0, 0.0]), 0.5);
        assert_eq!(imbalance(&[2.0, 0.0]), 0.0);
        assert_eq!(imbalance(&[]), 0.0);
    }

    #[test]
    fn end_reasons_have_one_name_in_text_and_in_json() {
        for why in EndReason::VARIANTS {
            let json = serde_json::to_string(&why).expect("serialises");
            assert_eq!(json, format!("\"{why}\""));
        }
    }
}
