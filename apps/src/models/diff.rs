//! Two models of the store side by side, as documents and as text.

use std::collections::BTreeMap;

use isochron_core::store::{StoreKey, read_clock_s};
use isochron_hierarchy::model::Point;
use serde::Serialize;

use super::folders::{Folders, find_key, list_fields};
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::table::TextTable;

/// Two models side by side.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct ModelDifference {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// Names of the two models.
    models: [String; 2],
    /// Fields of their keys that differ.
    fields: Vec<FieldDifference>,
    /// Each time of the first model, with the time of the nearest size of the second.
    times: Vec<TimePair>,
}

/// A field that differs.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct FieldDifference {
    /// Name of the field.
    field: String,
    /// Value of each model; `-` if it has none.
    values: [String; 2],
}

/// The times of a size of the first model and of the nearest size of the second.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct TimePair {
    /// Elements of C, or bytes of a message.
    units: [u64; 2],
    /// The times, in seconds.
    seconds: [f64; 2],
    /// Units per second of the first model over those of the second.
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
            schema: FormatVersion,
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
            fields.entry(field).or_insert_with(|| ["-".to_owned(), "-".to_owned()])[index] = value;
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
