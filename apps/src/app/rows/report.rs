//! The result of an application, as a table and as JSON.

use isochron_core::plan::KnownFrom;
use isochron_hierarchy::model::Estimate;
use isochron_hierarchy::times::RunningMean;
use serde::Serialize;

use super::application::{RowApplication, is_right};
use super::functions::RowFunctions;
use super::options::{RowStrategy, RowsArguments};
use super::timing::{RunTimes, find_longest_wall, sum_longest_passes, sum_passes};
use crate::documents::FormatVersion;
use crate::lines::{count, wrap};
use crate::measure::MeasuredPart;
use crate::table::TextTable;

/// The document for scripts.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RowsDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// Kernel that does the work of a rank's rows.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["fft", "dgemv"])))]
    kernel: &'static str,
    /// Rows and columns of the matrix.
    size: usize,
    /// Division of the rows.
    strategy: RowStrategy,
    /// Time that `hpopta` takes for a measured size: the mean, or the upper end of its confidence interval.
    estimate: Estimate,
    /// Options that decide on times and on their precision; `null` if nothing was measured.
    measured_with: Option<String>,
    /// Seconds of measuring in this run.
    measuring_s: f64,
    /// Largest predicted time of a rank's kernel, in seconds; `null` if its times are not known.
    predicted_s: Option<f64>,
    /// Time in which all kernels of a run are done, without messages.
    actual: TimeDocument,
    /// Time of a run, with its messages.
    wall: TimeDocument,
    /// Largest error of the result as a part of its bound; `null` if it was not checked, or is no number.
    residual: Option<f64>,
    /// `true` if the result is right; `null` if it was not checked.
    verified: Option<bool>,
    /// Unusual findings about the model store, one line each.
    notices: Vec<String>,
    /// Part of each rank.
    ranks: Vec<RankDocument>,
}

/// The rows of a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct RankDocument {
    /// The rank.
    rank: usize,
    /// Its host.
    host: String,
    /// Logical core that it was bound to; `null` if it was not.
    core: Option<u32>,
    /// Points file of its times; `null` without one.
    file: Option<String>,
    /// The origin of its times: `store` (earlier runs), `store+probe` (earlier runs, with sizes that this run
    /// measured or times scaled by a measurement), or `fresh` (measurements of this run alone); `null` for times of
    /// files, and without times.
    #[cfg_attr(
        feature = "schemars",
        schemars(extend("enum" = ["store", "store+probe", "fresh", null]))
    )]
    known: Option<KnownFrom>,
    /// Its rows.
    rows: u64,
    /// Time that its measured times predict for its kernel in a run, in seconds; `null` if they are not known.
    predicted_s: Option<f64>,
    /// Time of its kernel in a run.
    actual: TimeDocument,
}

/// The seconds of all timed runs.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct TimeDocument {
    /// Mean over the runs, in seconds.
    mean_s: f64,
    /// Half-width of the confidence interval of the mean, in seconds; `null` of a single run.
    ci_s: Option<f64>,
    /// Time of each run in seconds, in order.
    runs_s: Vec<f64>,
}

impl TimeDocument {
    fn new(runs_s: Vec<f64>, confidence: f64) -> Self {
        let mean = RunningMean::of(&runs_s);
        Self {
            mean_s: mean.mean,
            ci_s: Some(mean.half_width(confidence)).filter(|half_width| half_width.is_finite()),
            runs_s,
        }
    }

    fn format(&self) -> String {
        let interval = self.ci_s.map(|ci_s| format!(" ± {ci_s:.1e}"));
        format!("{:.4e}{}", self.mean_s, interval.unwrap_or_default())
    }
}

impl RowsDocument {
    /// Describes a division before its runs: the rows of each rank, and the seconds predicted for them.
    pub fn new<A: RowApplication>(
        arguments: &RowsArguments,
        functions: &RowFunctions,
        parts: &[MeasuredPart],
        rows: &[u64],
        predicted_s: Option<Vec<f64>>,
    ) -> Self {
        let longest = predicted_s.as_ref();
        let longest = longest.map(|times_s| times_s.iter().copied().fold(0.0, f64::max));
        let ranks = parts.iter().enumerate().map(|(rank, part)| RankDocument {
            rank,
            host: part.host.clone(),
            core: part.core,
            file: functions.files.get(rank).cloned().flatten(),
            known: functions.known.get(rank).copied(),
            rows: rows[rank],
            predicted_s: predicted_s.as_ref().map(|times_s| times_s[rank]),
            actual: TimeDocument::default(),
        });
        Self {
            schema: FormatVersion,
            kernel: A::KERNEL,
            size: arguments.size,
            strategy: arguments.strategy,
            estimate: arguments.estimate(),
            measured_with: functions.measured_with.clone(),
            measuring_s: functions.measuring_s,
            predicted_s: longest,
            actual: TimeDocument::default(),
            wall: TimeDocument::default(),
            residual: None,
            verified: None,
            notices: functions.notices.clone(),
            ranks: ranks.collect(),
        }
    }

    /// Adds the times of the runs, with intervals of this confidence.
    pub fn with_runs(mut self, runs: &[RunTimes], confidence: f64) -> Self {
        let of_ranks: Vec<Vec<f64>> = runs.iter().map(sum_passes).collect();
        for rank in &mut self.ranks {
            let times_s = of_ranks.iter().map(|times_s| times_s[rank.rank]);
            rank.actual = TimeDocument::new(times_s.collect(), confidence);
        }
        let longest = runs.iter().map(sum_longest_passes).collect();
        self.actual = TimeDocument::new(longest, confidence);
        let walls = runs.iter().map(find_longest_wall).collect();
        self.wall = TimeDocument::new(walls, confidence);
        self
    }

    /// Adds the largest error of the result as a part of its bound, if it was checked.
    pub fn with_check(self, residual: Option<f64>) -> Self {
        Self { residual, verified: residual.map(is_right), ..self }
    }

    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let mut table = TextTable::new(1, "host|rank|rows|predicted s|actual s");
        for rank in &self.ranks {
            table.add_row([
                rank.host.clone(),
                rank.rank.to_string(),
                rank.rows.to_string(),
                rank.predicted_s.map_or("-".to_owned(), |time_s| format!("{time_s:.4e}")),
                rank.actual.format(),
            ]);
        }
        let known = self.ranks.iter().find_map(|rank| rank.known);
        let origin = match known {
            Some(KnownFrom::Store | KnownFrom::StoreAndProbe) => " by times of the model store",
            _ => "",
        };
        let measured = match &self.measured_with {
            Some(how) => format!(", measured in {:.1} s: {how}", self.measuring_s),
            None => String::new(),
        };
        let above = format!(
            "{} of {} rows, divided by {}{origin}{measured}",
            self.kernel, self.size, self.strategy
        );
        let runs = count(self.actual.runs_s.len() as u64, "run");
        let below = format!(
            "longest: {}actual {} s\nwith messages: {} s, over {runs}{}{}",
            self.predicted_s.map_or(String::new(), |time_s| format!("predicted {time_s:.4e} s, ")),
            self.actual.format(),
            self.wall.format(),
            self.format_check(),
            self.list_notices(),
        );
        format!("{}\n{table}\n{}", wrap(&above, width), wrap(&below, width))
    }

    fn list_notices(&self) -> String {
        self.notices.iter().map(|notice| format!("\nnote: {notice}")).collect()
    }

    fn format_check(&self) -> String {
        match self.residual {
            Some(residual) => {
                let verdict = if is_right(residual) { "verified" } else { "WRONG" };
                format!("\n{verdict}: the largest error is {residual:.1e} of its bound")
            }
            None => String::new(),
        }
    }
}
