//! Models of the store, as documents and as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use isochron_core::Error;
use isochron_core::store::{Identity, LibrarySource, StoreKey, StoredModels, read_clock_s};
use isochron_hierarchy::model::Point;
use serde::Serialize;
use serde_json::Value;

use super::{Folders, find_key, list_runs, name_path};
use crate::failure::Failure;
use crate::lines::count;
use crate::table::TextTable;

/// Version of the documents.
const SCHEMA: u32 = 1;

const DAY_S: f64 = 86_400.0;

/// The models of a store, and its folders.
#[derive(Serialize)]
pub(super) struct ModelList {
    schema: u32,
    models: Vec<ListedModel>,
    folders: Vec<ListedFolder>,
}

/// One model of a list.
#[derive(Serialize)]
struct ListedModel {
    name: String,
    host: String,
    class: String,
    /// The kernel, with the type and the width of updates, or the message-passing library.
    work: String,
    pace: Option<String>,
    /// `true` if newer runs have replaced older ones that they contradict.
    renewed: bool,
    /// `true` for the library that runs choose, `false` for one that they measured beside it; `null` without a choice.
    chosen: Option<bool>,
    /// Cores of the device, or ranks that exchange messages.
    cores: usize,
    runs: usize,
    sizes: usize,
    last_run_at_s: u64,
}

impl ListedModel {
    fn name_state(&self) -> &'static str {
        match (self.chosen, self.renewed) {
            (Some(true), _) => "chosen",
            (Some(false), _) => "not chosen",
            (None, true) => "renewed",
            (None, false) => "good",
        }
    }
}

/// Returns `true` if runs choose this library, `None` if the key is not of one.
fn is_chosen(models: &StoredModels, key: &StoreKey) -> Option<bool> {
    let Identity::Library(library) = &key.identity else {
        return None;
    };
    let source = LibrarySource::of_key(key)?;
    Some(models.find_library(&source) == Some(&*library.library))
}

/// A folder of the store.
#[derive(Serialize)]
struct ListedFolder {
    path: String,
    is_written: bool,
    segments: usize,
}

impl ModelList {
    /// Lists the models of all folders.
    pub(super) fn read(folders: &Folders) -> Result<Self, Failure> {
        let models = folders.read()?;
        let keys: BTreeSet<&StoreKey> = models.runs().map(|run| &run.key).collect();
        let now_s = read_clock_s();
        let listed = keys.into_iter().map(|key| {
            let runs = list_runs(&models, key);
            let known = models.find(key, now_s);
            ListedModel {
                name: key.name(),
                host: key.conditions.host.clone(),
                class: key.identity.class().to_owned(),
                work: key.identity.describe_work(),
                pace: match &key.identity {
                    Identity::Device(device) => device.pace.clone(),
                    Identity::Links(_) | Identity::Library(_) => None,
                },
                chosen: is_chosen(&models, key),
                renewed: known.as_ref().is_some_and(|known| known.stale.is_some()),
                cores: key.identity.count_cores(),
                runs: runs.len(),
                sizes: known.map_or(0, |known| known.points.len()),
                last_run_at_s: runs.iter().map(|run| run.at_s).max().unwrap_or(0),
            }
        });
        let mut list = Self {
            schema: SCHEMA,
            models: listed.collect(),
            folders: Vec::new(),
        };
        for (index, folder) in folders.all.iter().enumerate() {
            list.folders.push(ListedFolder {
                path: name_path(folder.root()),
                is_written: index == 0,
                segments: super::find_segments(folder)?.len(),
            });
        }
        Ok(list)
    }

    /// Formats the list for people.
    pub(super) fn format(&self) -> String {
        let mut table = TextTable::new(6, "model|host|class|work|pace|state|cores|runs|sizes|days");
        let now_s = read_clock_s();
        for model in &self.models {
            let age_s = now_s.saturating_sub(model.last_run_at_s);
            table.add_row([
                model.name.clone(),
                model.host.clone(),
                model.class.clone(),
                model.work.clone(),
                model.pace.clone().unwrap_or_else(|| "-".to_owned()),
                model.name_state().to_owned(),
                model.cores.to_string(),
                model.runs.to_string(),
                model.sizes.to_string(),
                format!("{:.0}", age_s as f64 / DAY_S),
            ]);
        }
        let mut text = match self.models.is_empty() {
            true => String::new(),
            false => format!("{table}\n"),
        };
        for folder in &self.folders {
            let role = match folder.is_written {
                true => "read and written",
                false => "read",
            };
            let segments = count(folder.segments as u64, "segment");
            let _ = writeln!(text, "{} ({role}): {segments}", folder.path);
        }
        text
    }
}

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
        let models = folders.read()?;
        let key = find_key(&models, name)?;
        let known = models.find(&key, read_clock_s());
        let points = known.as_ref().map_or(&[][..], |known| &known.points);
        let times = points.iter().map(|point| ShownTime {
            units: point.d,
            seconds: point.t_s,
            ci_s: point.ci_s,
            units_per_s: point.speed(),
            at_least: point.reps == 0,
        });
        Ok(Self {
            schema: SCHEMA,
            name: key.name(),
            runs: list_runs(&models, &key).len(),
            counting_runs: known.as_ref().map_or(0, |known| known.runs),
            times: times.collect(),
            age_s: known.as_ref().map(|known| known.age_s),
            stale: known.and_then(|known| known.stale),
            key,
        })
    }

    /// Formats the model for people.
    pub(super) fn format(&self) -> String {
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
            let values = fields.entry(field);
            values.or_insert_with(|| ["-".to_owned(), "-".to_owned()])[index] = value;
        }
    }
    let differing = fields.into_iter().filter(|(_, [one, other])| one != other);
    differing
        .map(|(field, values)| FieldDifference { field, values })
        .collect()
}

/// Returns how far apart two sizes are, as the logarithm of their ratio.
fn find_distance(one: &Point, other: &Point) -> f64 {
    (one.d as f64 / other.d as f64).ln().abs()
}

/// Checks every segment.
pub(super) fn verify(folders: &Folders) -> Result<String, Failure> {
    let mut text = String::new();
    let (mut good, mut broken) = (0, 0);
    for segment in folders.find_segments()? {
        match &segment.runs {
            Ok(_) => good += 1,
            Err(reason) => {
                broken += u64::from(segment.is_corrupt);
                let _ = writeln!(text, "{}: {reason}", name_path(&segment.path));
            }
        }
    }
    let _ = writeln!(text, "{} whole, {broken} broken", count(good, "segment"));
    match broken {
        0 => Ok(text),
        _ => Err(Failure::run(text.trim_end())),
    }
}

/// Lists the fields of a part of a key, by name; those that the system does not tell are empty.
fn list_fields(part: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(part) else {
        return Vec::new();
    };
    let fields = fields.into_iter().map(|(name, value)| match value {
        Value::Null => (name, "-".to_owned()),
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    fields.collect()
}

impl Failure {
    /// Makes a failure to write the store.
    pub(super) fn of_store(error: Error) -> Self {
        Self::run(error)
    }
}
