//! A model of the store: its key and its runs.

use std::fmt::Write as _;

use isochron_core::internal::format_utc;
use isochron_core::store::{StoreKey, StoredModels, StoredRun, read_clock_s};
use isochron_hierarchy::model::Point;
use isochron_hierarchy::times::Series;
use serde::Serialize;

use super::super::folders::{list_fields, list_runs};
use crate::lines::count;

/// A stored model without its times.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct StoredModel {
    /// Its name.
    name: String,
    #[serde(flatten)]
    key: StoreKey,
    /// Number of runs in the store.
    runs: usize,
    /// Runs that the times are made from.
    counting_runs: usize,
    /// Reason why older runs do not count; `null` if all agree.
    stale: Option<String>,
    /// Seconds since the last run that counts; `null` if none does.
    age_s: Option<u64>,
    /// Sizes that were given up.
    bounds: Vec<TimeBound>,
    /// The runs, in the order in which they were made.
    stored_runs: Vec<ShownRun>,
}

/// A size that was given up: it takes at least these seconds.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct TimeBound {
    /// Units of the size that was given up.
    d: u64,
    /// Seconds that it takes at least.
    t_s: f64,
}

/// A run of a model.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct ShownRun {
    /// The job of the run.
    writer: String,
    /// Host of the run; of links, all hosts.
    host: String,
    /// Time of writing of the run, in seconds since 1970.
    at_s: u64,
    /// Its times, by size.
    samples: Vec<Series>,
}

impl ShownRun {
    fn new(run: &StoredRun) -> Self {
        Self {
            writer: run.writer.clone(),
            host: run.key.conditions.host.clone(),
            at_s: run.at_s,
            samples: run.samples.clone(),
        }
    }

    /// Formats the run in one line, and its repetitions if they are wanted.
    fn format(&self, with_repetitions: bool) -> String {
        let repetitions = self.samples.iter().map(|sample| sample.seconds.len() as u64);
        let mut text = format!(
            "  {} on {}: {}, {}\n",
            format_utc(self.at_s),
            self.host,
            count(self.samples.len() as u64, "size"),
            count(repetitions.sum(), "repetition")
        );
        for sample in self.samples.iter().filter(|_| with_repetitions) {
            let at_least = if sample.at_least { "≥ " } else { "" };
            let seconds = sample.seconds.iter();
            let seconds: Vec<String> =
                seconds.map(|time_s| format!("{at_least}{time_s:.4e}")).collect();
            let _ = writeln!(text, "    {} units: {} s", sample.units, seconds.join(", "));
        }
        text
    }
}

impl StoredModel {
    /// Finds the model of this key, and the times of its sizes that were measured.
    pub fn find(models: &StoredModels, key: &StoreKey) -> (Self, Vec<Point>) {
        let runs = list_runs(models, key);
        let mut found = Self {
            name: key.name(),
            key: key.clone(),
            runs: runs.len(),
            counting_runs: 0,
            stale: None,
            age_s: None,
            bounds: Vec::new(),
            stored_runs: runs.into_iter().map(ShownRun::new).collect(),
        };
        let Some(known) = models.find(key, read_clock_s()) else {
            return (found, Vec::new());
        };
        let (points, bounds): (Vec<Point>, Vec<Point>) =
            known.points.into_iter().partition(|point| point.reps > 0);
        found.counting_runs = known.runs;
        found.stale = known.stale;
        found.age_s = Some(known.age_s);
        found.bounds =
            bounds.into_iter().map(|Point { d, t_s, .. }| TimeBound { d, t_s }).collect();
        (found, points)
    }

    /// Returns the name of the model, for a heading.
    pub fn describe(&self) -> String {
        format!("model {}", self.name)
    }

    /// Formats the key and the runs for people, with the repetitions of each run if they are wanted.
    pub fn format(&self, with_repetitions: bool) -> String {
        let mut text = String::new();
        for (part, fields) in [
            ("identity", list_fields(&self.key.identity)),
            ("conditions", list_fields(&self.key.conditions)),
        ] {
            let _ = writeln!(text, "\n{part}");
            for (field, value) in fields {
                let _ = writeln!(text, "  {field}: {value}");
            }
        }
        let runs = count(self.runs as u64, "run");
        let _ = writeln!(text, "\n{runs}, of which {} count", self.counting_runs);
        if let Some(reason) = &self.stale {
            let _ = writeln!(text, "older ones are stale: {reason}");
        }
        let runs = self.stored_runs.iter();
        text.extend(runs.map(|run| run.format(with_repetitions)));
        for TimeBound { d, t_s } in &self.bounds {
            let _ = writeln!(text, "{d} units take at least {t_s:.4e} s");
        }
        text + "\n"
    }
}
