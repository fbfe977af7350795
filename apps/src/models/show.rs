//! One model of the store, and two side by side, as documents and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use isochron_core::internal::format_utc;
use isochron_core::store::{StoreKey, StoredRun, StoredSample, read_clock_s};
use isochron_hierarchy::model::Point;
use serde::Serialize;

use super::{Folders, SCHEMA, find_key, list_fields, list_runs};
use crate::failure::Failure;
use crate::lines::count;
use crate::table::TextTable;

/// A model with its times.
#[derive(Serialize)]
pub(super) struct ShownModel {
    schema: u32,
    name: String,
    #[serde(flatten)]
    key: StoreKey,
    runs: usize,
    counting_runs: usize,
    /// The reason why older runs do not count any more.
    stale: Option<String>,
    age_s: Option<u64>,
    times: Vec<ShownTime>,
    stored_runs: Vec<ShownRun>,
}

/// A run of a model.
#[derive(Serialize)]
struct ShownRun {
    writer: String,
    host: String,
    at_s: u64,
    samples: Vec<StoredSample>,
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
        let repetitions = self
            .samples
            .iter()
            .map(|sample| sample.seconds.len() as u64);
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
            let seconds: Vec<String> = seconds
                .map(|time_s| format!("{at_least}{time_s:.4e}"))
                .collect();
            let _ = writeln!(text, "    {} units: {} s", sample.units, seconds.join(", "));
        }
        text
    }
}

/// The time of one size.
#[derive(Serialize)]
struct ShownTime {
    units: u64,
    seconds: f64,
    ci_s: f64,
    units_per_s: f64,
    /// `true` for a size that was given up: it takes at least these seconds.
    at_least: bool,
}

impl ShownModel {
    /// Reads the model of this name.
    pub(super) fn read(folders: &Folders, name: &str) -> Result<Self, Failure> {
        folders.note_missing();
        let models = folders.read()?;
        let key = find_key(&models, name)?;
        let runs = list_runs(&models, &key);
        let known = models.find(&key, read_clock_s());
        let times = known
            .as_ref()
            .map_or(&[][..], |known| &known.points)
            .iter()
            .map(|point| ShownTime {
                units: point.d,
                seconds: point.t_s,
                ci_s: point.ci_s,
                units_per_s: point.speed(),
                at_least: point.reps == 0,
            });
        Ok(Self {
            schema: SCHEMA,
            name: key.name(),
            runs: runs.len(),
            counting_runs: known.as_ref().map_or(0, |known| known.runs),
            times: times.collect(),
            age_s: known.as_ref().map(|known| known.age_s),
            stale: known.and_then(|known| known.stale),
            stored_runs: runs.into_iter().map(ShownRun::new).collect(),
            key,
        })
    }

    /// Formats the model for people, with the repetitions of each run if they are wanted.
    pub(super) fn format(&self, with_repetitions: bool) -> String {
        let mut text = format!("model {}\n", self.name);
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
        text.extend(
            self.stored_runs
                .iter()
                .map(|run| run.format(with_repetitions)),
        );
        let mut table = TextTable::new(0, "units|seconds|±|units/s");
        for time in &self.times {
            let at_least = if time.at_least { "≥ " } else { "" };
            table.add_row([
                time.units.to_string(),
                format!("{at_least}{:.4e}", time.seconds),
                format!("{:.1} %", 100.0 * time.ci_s / time.seconds),
                format!("{:.4e}", time.units_per_s),
            ]);
        }
        format!("{text}\n{table}")
    }
}

/// Two models side by side.
#[derive(Serialize)]
pub(super) struct ModelDifference {
    schema: u32,
    models: [String; 2],
    /// The fields of their keys that differ.
    fields: Vec<FieldDifference>,
    times: Vec<TimePair>,
}

/// A field that differs.
#[derive(Serialize)]
struct FieldDifference {
    field: String,
    /// The value of each model; `-` if it has none.
    values: [String; 2],
}

/// The times of a size of the first model and of the nearest size of the second.
#[derive(Serialize)]
struct TimePair {
    units: [u64; 2],
    seconds: [f64; 2],
    /// Units per second of the first over those of the second.
    speed_ratio: f64,
}

impl ModelDifference {
    /// Compares two models.
    pub(super) fn read(folders: &Folders, names: [&str; 2]) -> Result<Self, Failure> {
        folders.note_missing();
        let models = folders.read()?;
        let keys = [find_key(&models, names[0])?, find_key(&models, names[1])?];
        let now_s = read_clock_s();
        let known = keys.each_ref().map(|key| {
            let known = models.find(key, now_s);
            known.map_or_else(Vec::new, |known| known.points)
        });
        let times = known[0].iter().filter_map(|point| {
            let nearest = known[1]
                .iter()
                .min_by(|a, b| find_distance(point, a).total_cmp(&find_distance(point, b)))?;
            Some(TimePair {
                units: [point.d, nearest.d],
                seconds: [point.t_s, nearest.t_s],
                speed_ratio: point.speed() / nearest.speed(),
            })
        });
        Ok(Self {
            schema: SCHEMA,
            models: keys.each_ref().map(StoreKey::name),
            fields: find_differences(&keys),
            times: times.collect(),
        })
    }

    /// Formats the difference for people.
    pub(super) fn format(&self) -> String {
        let [first, second] = &self.models;
        if first == second {
            return format!("both names are those of model {first}\n");
        }
        let mut table = TextTable::new(3, &format!("field|{first}|{second}"));
        for FieldDifference { field, values } in &self.fields {
            table.add_row([field.clone(), values[0].clone(), values[1].clone()]);
        }
        let mut times = TextTable::new(0, "units|seconds|units|seconds|ratio a unit");
        for pair in &self.times {
            times.add_row([
                pair.units[0].to_string(),
                format!("{:.4e}", pair.seconds[0]),
                pair.units[1].to_string(),
                format!("{:.4e}", pair.seconds[1]),
                format!("{:.3}", pair.speed_ratio),
            ]);
        }
        format!("{table}\n{times}")
    }
}

/// Lists the fields in which two keys differ.
fn find_differences(keys: &[StoreKey; 2]) -> Vec<FieldDifference> {
    let mut fields: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        let conditions = list_fields(&key.conditions).into_iter();
        let conditions = conditions.map(|(field, value)| (format!("conditions.{field}"), value));
        for (field, value) in list_fields(&key.identity).into_iter().chain(conditions) {
            fields
                .entry(field)
                .or_insert_with(|| ["-".to_owned(), "-".to_owned()])[index] = value;
        }
    }
    fields
        .into_iter()
        .filter(|(_, [one, other])| one != other)
        .map(|(field, values)| FieldDifference { field, values })
        .collect()
}

/// Returns how far apart two sizes are, as the logarithm of their ratio.
fn find_distance(one: &Point, other: &Point) -> f64 {
    (one.d as f64 / other.d as f64).ln().abs()
}
