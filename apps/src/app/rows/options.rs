//! The options that the applications have in common.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use isochron_core::store::StoreMode;
use isochron_hierarchy::model::Estimate;
use serde::Serialize;
use strum::Display;

use crate::choices::give;
use crate::lines::count;
use crate::measure::DEFAULTS;
use crate::measuring::{MeasuringArguments, show_default};
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::watch::WatchArguments;

/// The matrix, the division of its rows, and the runs.
#[derive(Args)]
#[command(mut_args(|argument| show_default(argument, &DEFAULTS)))]
pub struct RowsArguments {
    /// Rows and columns of the matrix
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 1>)]
    pub size: usize,
    /// Seed of the matrix
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = parse_whole::<u64, 0>)]
    seed: u64,
    /// Division of the rows over the ranks
    #[arg(long, value_enum, default_value_t = RowStrategy::Hpopta)]
    pub strategy: RowStrategy,
    /// Time that hpopta takes for a measured size: mean, or upper, the end of its confidence interval [default: upper]
    #[arg(long, value_name = "mean|upper", value_parser = name_all::<Estimate>(), hide_possible_values = true)]
    estimate: Option<Estimate>,
    /// Points files of `isochron measure` with the times of each rank, in order, or one for all. Without them the
    /// ranks are measured first, all at once
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with_all = ["granule", "out"])]
    pub models: Vec<PathBuf>,
    /// Rows between two sizes that are measured [default: about a sixteenth of all rows]
    #[arg(long, value_name = "ROWS", value_parser = parse_whole::<u64, 1>)]
    pub granule: Option<u64>,
    /// Runs that are timed, after one that is not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_whole::<u32, 1>)]
    pub runs: u32,
    /// Check the result by its definition
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// Folder for the points files of the ranks. The same command takes the times that are there, and measures
    /// what they lack
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Use of the model store: none, read (sizes that earlier runs have timed are not measured again, unless --out is
    /// given), or read-write (this run's times are added too) [default: read-write]
    #[arg(long, value_name = "USE", help_heading = "Output")]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    store: Option<StoreMode>,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// File for the timeline of the run, which Perfetto shows (protobuf)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// The matrix.
#[derive(Debug, Clone, Copy)]
pub struct RowProblem {
    /// Rows and columns.
    pub size: usize,
    /// Seed of its elements.
    pub seed: u64,
}

/// A way to divide rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RowStrategy {
    /// Least longest time over the measured sizes, whatever the shape of the times
    Hpopta,
    /// Equal times, by the geometric partitioning algorithm on smooth models of the times
    Balanced,
    /// Equal parts; nothing is measured without --out
    Even,
}

impl RowsArguments {
    /// Returns the matrix.
    pub fn problem(&self) -> RowProblem {
        RowProblem { size: self.size, seed: self.seed }
    }

    /// Returns the time that hpopta takes for a measured size.
    pub fn estimate(&self) -> Estimate {
        self.estimate.unwrap_or(Estimate::Upper)
    }

    /// Refuses a number of ranks that the files do not fit, and options that would do nothing.
    ///
    /// # Errors
    /// The option and the reason.
    pub fn check(&self, ranks: usize) -> Result<(), String> {
        let files = self.models.len();
        if files > 1 && files != ranks {
            return Err(format!(
                "--models: {files} files for {}: give one of each rank in order, or one for all",
                count(ranks as u64, "rank")
            ));
        }
        let (strategy, is_measured) = (self.strategy, self.is_measured());
        if self.estimate.is_some() && strategy != RowStrategy::Hpopta {
            return Err(format!(
                "--estimate: goes with --strategy hpopta alone, not with {strategy}"
            ));
        }
        let of_measuring = self.measuring.list_given().into_iter();
        let store = self.store.filter(|&store| store != StoreMode::None);
        let mut given = of_measuring
            .chain([give("granule", self.granule), give("store", store)])
            .filter_map(|(name, value)| value.and(Some(name)));
        match given.next() {
            Some(name) if !is_measured && files > 0 => {
                Err(format!("--{name}: nothing is measured with --models"))
            }
            Some(name) if !is_measured => {
                Err(format!("--{name}: strategy {strategy} measures nothing without --out"))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the ranks are to be measured.
    pub fn is_measured(&self) -> bool {
        self.models.is_empty() && (self.strategy != RowStrategy::Even || self.out.is_some())
    }

    /// Returns the use of the model store: none if nothing is measured.
    pub fn store_mode(&self) -> StoreMode {
        if self.is_measured() {
            self.store.unwrap_or(StoreMode::ReadWrite)
        } else {
            StoreMode::None
        }
    }

    /// Lists the numbers of rows to measure, `most` at most: the multiples of the granule, and those that complete them
    /// to the total if that is none.
    pub fn list_sizes(&self, most: u64) -> Vec<u64> {
        let total = self.size as u64;
        let granule = self.granule.unwrap_or_else(|| choose_granule(total));
        let rest = total % granule;
        let mut sizes: Vec<u64> = (0..=total / granule)
            .map(|number| number * granule)
            .flat_map(|size| [size, size + rest])
            .collect();
        sizes.dedup();
        sizes.retain(|&size| (1..=most.min(total)).contains(&size));
        sizes
    }
}

/// Returns a divisor of `total` that is a sixteenth to an eighth of it, or a sixteenth rounded up if there is none.
fn choose_granule(total: u64) -> u64 {
    let least = total.div_ceil(16).max(1);
    (least..=2 * least).find(|&granule| total.is_multiple_of(granule)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        rows: RowsArguments,
    }

    fn list_sizes(line: &str, most: u64) -> Vec<u64> {
        let words = ["rows"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words).expect("a command line").rows.list_sizes(most)
    }

    #[test]
    fn sizes_are_multiples_of_the_granule_and_complete_each_other_to_the_total() {
        assert_eq!(list_sizes("--size 12 --granule 4", 12), [4, 8, 12]);
        assert_eq!(list_sizes("--size 11 --granule 4", 12), [3, 4, 7, 8, 11]);
        assert_eq!(list_sizes("--size 11 --granule 4", 7), [3, 4, 7]);
        assert_eq!(list_sizes("--size 3 --granule 5", 9), [3]);
        assert_eq!(list_sizes("--size 1024", 128), [64, 128]);
        assert_eq!(list_sizes("--size 1000", 300), [100, 200, 300]);
        // A prime number has no divisor.
        assert_eq!(list_sizes("--size 1009", 200), [49, 64, 113, 128, 177, 192]);
        assert_eq!(list_sizes("--size 1", 9), [1]);
    }
}
