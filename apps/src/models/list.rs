//! The models of the store and its folders, as a list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use isochron_core::store::{Identity, LibrarySource, StoreKey, StoredModels, read_clock_s};
use serde::Serialize;

use super::folders::{Folders, list_fields, list_runs, merge, name_path};
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::count;
use crate::table::TextTable;

const DAY_S: f64 = 86_400.0;

/// The models of a store, and its folders.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct ModelList {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The models.
    models: Vec<ListedModel>,
    /// The folders of the store, the user's first.
    folders: Vec<ListedFolder>,
}

/// One model of a list.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct ListedModel {
    /// Its name, by which other commands take it.
    name: String,
    /// Host of the device; of links, all hosts.
    host: String,
    /// Model of the processor or GPU.
    class: String,
    /// The kernel with the type and the width of updates or with the sizes within a unit, the message-passing
    /// library, or the BLAS.
    work: String,
    /// The pace that slowed the device down on purpose; `null` at full speed.
    pace: Option<String>,
    /// Fields with their values, in which it differs from models with the same host, class, work, pace and cores.
    differs: Vec<String>,
    /// `true` if newer runs have replaced older ones that they contradict.
    renewed: bool,
    /// `true` for the library that runs choose, `false` for another one that they measured; `null` if it is no
    /// library.
    chosen: Option<bool>,
    /// Cores of the device or of the rank that chooses a library; of links, ranks that exchange messages; of a
    /// kernel, those that it may use.
    cores: usize,
    /// Number of runs in the store.
    runs: usize,
    /// Number of sizes with a time.
    sizes: usize,
    /// Time of the last run, in seconds since 1970.
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

fn find_pace(identity: &Identity) -> Option<&str> {
    match identity {
        Identity::Device(device) => device.pace.as_deref(),
        Identity::Links(_) | Identity::Library(_) | Identity::Kernel(_) => None,
    }
}

/// Finds the fields that tell apart models which have the same host, class, work, pace and number of cores.
fn find_differing<'k>(keys: &BTreeSet<&'k StoreKey>) -> BTreeMap<&'k StoreKey, Vec<String>> {
    let mut alike: BTreeMap<_, Vec<&StoreKey>> = BTreeMap::new();
    for &key in keys {
        let identity = &key.identity;
        let shown = (
            &key.conditions.host,
            identity.class(),
            identity.describe_work(),
            find_pace(identity),
            identity.count_cores(),
        );
        alike.entry(shown).or_default().push(key);
    }
    alike.into_values().filter(|keys| keys.len() > 1).flat_map(|keys| tell_apart(&keys)).collect()
}

/// Returns each key with its values of the fields in which the keys differ.
fn tell_apart<'k>(keys: &[&'k StoreKey]) -> Vec<(&'k StoreKey, Vec<String>)> {
    let fields = keys.iter().map(|key| {
        let conditions = list_fields(&key.conditions);
        BTreeMap::from_iter(list_fields(&key.identity).into_iter().chain(conditions))
    });
    let fields: Vec<BTreeMap<String, String>> = fields.collect();
    keys.iter()
        .zip(&fields)
        .map(|(key, of_key)| {
            let told = of_key
                .iter()
                .filter(|(name, value)| {
                    let mut others = fields.iter();
                    others.any(|other| other.get(*name) != Some(*value))
                })
                .map(|(name, value)| format!("{name} {value}"));
            (*key, told.collect())
        })
        .collect()
}

/// A folder of the store.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct ListedFolder {
    /// The folder.
    path: String,
    /// `true` for the user's folder; the others are only read.
    is_written: bool,
    /// `true` if it exists.
    exists: bool,
    /// Number of its segments.
    segments: usize,
}

impl ModelList {
    /// Lists the models of all folders.
    pub(super) fn read(folders: &Folders) -> Result<Self, Failure> {
        let segments = folders.find_segments()?;
        let models = merge(&segments.concat());
        let keys: BTreeSet<&StoreKey> = models.runs().map(|run| &run.key).collect();
        let now_s = read_clock_s();
        let mut differing = find_differing(&keys);
        let listed = keys.into_iter().map(|key| {
            let runs = list_runs(&models, key);
            let known = models.find(key, now_s);
            ListedModel {
                name: key.name(),
                host: key.conditions.host.clone(),
                class: key.identity.class().to_owned(),
                work: key.identity.describe_work(),
                pace: find_pace(&key.identity).map(str::to_owned),
                differs: differing.remove(key).unwrap_or_default(),
                chosen: is_chosen(&models, key),
                renewed: known.as_ref().is_some_and(|known| known.stale.is_some()),
                cores: key.identity.count_cores(),
                runs: runs.len(),
                sizes: known.map_or(0, |known| known.points.len()),
                last_run_at_s: runs.iter().map(|run| run.at_s).max().unwrap_or(0),
            }
        });
        let listed = listed.collect();
        let folders = folders.all.iter().zip(&segments).enumerate();
        let folders = folders.map(|(index, (folder, segments))| ListedFolder {
            path: name_path(folder.root()),
            is_written: index == 0,
            exists: folder.root().exists(),
            segments: segments.len(),
        });
        Ok(Self { schema: FormatVersion, models: listed, folders: folders.collect() })
    }

    /// Formats the list for people.
    pub(super) fn format(&self) -> String {
        let mut table =
            TextTable::new(7, "model|host|class|work|pace|differs|state|cores|runs|sizes|days");
        let now_s = read_clock_s();
        for model in &self.models {
            let age_s = now_s.saturating_sub(model.last_run_at_s);
            table.add_row([
                model.name.clone(),
                model.host.clone(),
                model.class.clone(),
                model.work.clone(),
                model.pace.clone().unwrap_or_else(|| "-".to_owned()),
                if model.differs.is_empty() { "-".to_owned() } else { model.differs.join(", ") },
                model.name_state().to_owned(),
                model.cores.to_string(),
                model.runs.to_string(),
                model.sizes.to_string(),
                format!("{:.0}", age_s as f64 / DAY_S),
            ]);
        }
        let mut text = if self.models.is_empty() { String::new() } else { format!("{table}\n") };
        for folder in &self.folders {
            let role = if folder.is_written { "read and written" } else { "read" };
            let segments = if folder.exists {
                count(folder.segments as u64, "segment")
            } else {
                "does not exist".to_owned()
            };
            let _ = writeln!(text, "{} ({role}): {segments}", folder.path);
        }
        text
    }
}
