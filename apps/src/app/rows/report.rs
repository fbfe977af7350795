//! The result of an application, as a table and as JSON.

use isochron_core::plan::KnownFrom;
use isochron_hierarchy::model::Estimate;
use isochron_hierarchy::times::RunningMean;
use serde::Serialize;

use super::application::{RowApplication, is_right};
use super::functions::RowFunctions;
use super::options::{RowStrategy, RowsArguments};
use super::timing::{RunTimes, find_longest_wall, sum_longest_passes, sum_passes};
use crate::lines::{count, wrap};
use crate::measure::MeasuredPart;
use crate::table::TextTable;

/// The document for scripts.
#[derive(Serialize)]
pub struct RowsDocument {
    schema: u32,
    kernel: &'static str,
    size: usize,
    strategy: RowStrategy,
    estimate: Estimate,
    measured_with: Option<String>,
    measuring_s: f64,
    /// Predicted seconds of the longest rank.
    predicted_s: Option<f64>,
    /// Seconds in which all kernels are done, and those of the whole run.
    actual: TimeDocument,
    wall: TimeDocument,
    residual: Option<f64>,
    verified: Option<bool>,
    /// Unusual findings about the model store, one line each.
    notices: Vec<String>,
    ranks: Vec<RankDocument>,
}

/// The rows of a rank.
#[derive(Serialize)]
struct RankDocument {
    rank: usize,
    host: String,
    core: Option<u32>,
    file: Option<String>,
    /// The origin of its times; `None` for files, and without times.
    known: Option<KnownFrom>,
    rows: u64,
    predicted_s: Option<f64>,
    actual: TimeDocument,
}

/// The seconds of all timed runs.
#[derive(Default, Serialize)]
struct TimeDocument {
    mean_s: f64,
    /// Half-width of the confidence interval; `None` of a single run.
    ci_s: Option<f64>,
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
        (rows, predicted_s): (&[u64], Option<Vec<f64>>),
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
            schema: 1,
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
        Self {
            residual,
            verified: residual.map(is_right),
            ..self
        }
    }

    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let mut table = TextTable::new(1, "host|rank|rows|predicted s|actual s");
        for rank in &self.ranks {
            table.add_row([
                rank.host.clone(),
                rank.rank.to_string(),
                rank.rows.to_string(),
                rank.predicted_s
                    .map_or("-".to_owned(), |time_s| format!("{time_s:.4e}")),
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
            self.predicted_s.map_or(String::new(), |time_s| format!(
                "predicted {time_s:.4e} s, "
            )),
            self.actual.format(),
            self.wall.format(),
            self.format_check(),
            self.list_notices(),
        );
        format!("{}\n{table}\n{}", wrap(&above, width), wrap(&below, width))
    }

    fn list_notices(&self) -> String {
        self.notices
            .iter()
            .map(|notice| format!("\nnote: {notice}"))
            .collect()
    }

    fn format_check(&self) -> String {
        match self.residual {
            Some(residual) => {
                let verdict = if is_right(residual) {
                    "verified"
                } else {
                    "WRONG"
                };
                format!("\n{verdict}: the largest error is {residual:.1e} of its bound")
            }
            None => String::new(),
        }
    }
}
