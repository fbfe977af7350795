//! StoredModels of the store as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use isochron::Error;
use isochron::store::{Identity, StoreKey, read_clock_s};
use isochron_hierarchy::model::Point;
use serde::Serialize;
use serde_json::Value;

use super::{Folders, find_key, list_runs, name_path};
use crate::failure::Failure;
use crate::lines::count;
use crate::table::TextTable;

const DAY_S: f64 = 86_400.0;

/// Lists the models, and the folders.
pub(super) fn list(folders: &Folders) -> Result<String, Failure> {
    let models = folders.read()?;
    let keys: BTreeSet<&StoreKey> = models.runs().map(|run| &run.key).collect();
    let mut table = TextTable::new(6, "model|host|class|work|pace|state|cores|runs|sizes|days");
    let now_s = read_clock_s();
    for key in &keys {
        let runs = list_runs(&models, key);
        let known = models.find(key, now_s);
        let latest = runs.iter().map(|run| run.at_s).max().unwrap_or(0);
        let identity = &key.identity;
        let pace = match identity {
            Identity::Device(device) => device.pace.clone(),
            Identity::Links(_) => None,
        };
        table.add_row([
            key.name(),
            key.conditions.host.clone(),
            identity.class().to_owned(),
            identity.describe_work(),
            pace.unwrap_or_else(|| "-".to_owned()),
            known
                .as_ref()
                .map_or("-", |known| {
                    if known.stale.is_some() {
                        "renewed"
                    } else {
                        "good"
                    }
                })
                .to_owned(),
            identity.count_cores().to_string(),
            runs.len().to_string(),
            known.map_or(0, |known| known.points.len()).to_string(),
            format!("{:.0}", now_s.saturating_sub(latest) as f64 / DAY_S),
        ]);
    }
    let mut text = match keys.len() {
        0 => String::new(),
        _ => format!("{table}\n"),
    };
    let roles = std::iter::once("read and written").chain(std::iter::repeat("read"));
    for (folder, role) in folders.all.iter().zip(roles) {
        let found = super::find_segments(folder)?.len() as u64;
        let _ = writeln!(
            text,
            "{} ({role}): {}",
            name_path(folder.root()),
            count(found, "segment")
        );
    }
    Ok(text)
}

/// Shows a model.
pub(super) fn show(folders: &Folders, name: &str) -> Result<String, Failure> {
    let models = folders.read()?;
    let key = find_key(&models, name)?;
    let mut text = format!("model {}\n\nidentity\n", key.name());
    for (field, value) in list_fields(&key.identity) {
        let _ = writeln!(text, "  {field}: {value}");
    }
    text.push_str("\nconditions\n");
    for (field, value) in list_fields(&key.conditions) {
        let _ = writeln!(text, "  {field}: {value}");
    }
    let known = models.find(&key, read_clock_s());
    let runs = list_runs(&models, &key).len();
    let counting = known.as_ref().map_or(0, |known| known.runs);
    let _ = writeln!(
        text,
        "\n{}, of which {counting} count",
        count(runs as u64, "run")
    );
    if let Some(reason) = known.as_ref().and_then(|known| known.stale.as_ref()) {
        let _ = writeln!(text, "older ones are stale: {reason}");
    }
    let mut table = TextTable::new(0, "elements|seconds|±|elements/s");
    for point in known.iter().flat_map(|known| &known.points) {
        let at_least = if point.reps == 0 { "≥ " } else { "" };
        table.add_row([
            point.d.to_string(),
            format!("{at_least}{:.4e}", point.t_s),
            format!("{:.1} %", 100.0 * point.ci_s / point.t_s),
            format!("{:.4e}", point.speed()),
        ]);
    }
    Ok(format!("{text}\n{table}"))
}

/// Compares two models.
pub(super) fn compare(folders: &Folders, first: &str, second: &str) -> Result<String, Failure> {
    let models = folders.read()?;
    let keys = [find_key(&models, first)?, find_key(&models, second)?];
    let mut table = TextTable::new(3, &format!("field|{}|{}", keys[0].name(), keys[1].name()));
    let [mine, others] = [&keys[0], &keys[1]].map(|key| {
        let conditions = list_fields(&key.conditions).into_iter();
        let conditions = conditions.map(|(field, value)| (format!("conditions.{field}"), value));
        list_fields(&key.identity)
            .into_iter()
            .chain(conditions)
            .collect::<Vec<_>>()
    });
    for ((field, one), (_, other)) in mine.into_iter().zip(others) {
        if one != other {
            table.add_row([field, one, other]);
        }
    }
    let now_s = read_clock_s();
    let known = keys.map(|key| {
        models
            .find(&key, now_s)
            .map_or_else(Vec::new, |known| known.points)
    });
    let mut times = TextTable::new(0, "elements|seconds|elements|seconds|ratio an element");
    for point in &known[0] {
        let nearest = known[1]
            .iter()
            .min_by(|a, b| find_distance(point, a).total_cmp(&find_distance(point, b)));
        if let Some(other) = nearest {
            times.add_row([
                point.d.to_string(),
                format!("{:.4e}", point.t_s),
                other.d.to_string(),
                format!("{:.4e}", other.t_s),
                format!("{:.3}", point.speed() / other.speed()),
            ]);
        }
    }
    Ok(format!("{table}\n{times}"))
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
