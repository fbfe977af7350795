//! The folders of the store, and the models in them.

use std::path::Path;

use isochron_core::store::{
    FoundSegment, STORE_VARIABLE, StoreFolder, StoreKey, StorePlaces, StoredModels, StoredRun,
};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;

/// The folders of the store, the user's first.
pub(super) struct Folders {
    pub(super) all: Vec<StoreFolder>,
    /// `true` if the user has named them.
    are_named: bool,
}

impl Folders {
    pub(super) fn find() -> Result<Self, Failure> {
        let places = StorePlaces::find()
            .map_err(|reason| Failure::input(format!("there is no store: {reason}")))?;
        let sites = places.sites.into_iter();
        let mut all = vec![StoreFolder::new(places.user, true)];
        all.extend(sites.map(|site| StoreFolder::new(site, false)));
        Ok(Self { all, are_named: std::env::var_os(STORE_VARIABLE).is_some() })
    }

    pub(super) fn user(&self) -> &StoreFolder {
        &self.all[0]
    }

    /// Lists the folders that the user has named and that do not exist.
    pub(super) fn list_missing(&self) -> Vec<String> {
        self.all
            .iter()
            .filter(|_| self.are_named)
            .filter(|folder| !folder.root().exists())
            .map(|folder| name_path(folder.root()))
            .collect()
    }

    /// Says on standard error which folders that the user has named do not exist.
    pub(super) fn note_missing(&self) {
        for folder in self.list_missing() {
            output::note(&format!("{folder} does not exist"));
        }
    }

    /// Reads the segments of each folder. Names on standard error the files that it cannot read.
    pub(super) fn find_segments(&self) -> Result<Vec<Vec<FoundSegment>>, Failure> {
        self.all.iter().map(find_segments).collect()
    }

    /// Reads the models of all folders, as a run does. Names on standard error the files that it cannot read.
    pub(super) fn read(&self) -> Result<StoredModels, Failure> {
        Ok(merge(&self.find_segments()?.concat()))
    }
}

/// Reads the segments of a folder. Names on standard error the files that it cannot read.
pub(super) fn find_segments(folder: &StoreFolder) -> Result<Vec<FoundSegment>, Failure> {
    let found = folder
        .find_all()
        .map_err(|error| Failure::of_file(folder.root(), blame_variable(&error)))?;
    let unread = found.iter().filter_map(|segment| {
        let reason = segment.runs.as_ref().err()?;
        Some(format!("{} is not read: {reason}", name_path(&segment.path)))
    });
    for word in folder.name_newer().into_iter().chain(unread) {
        output::note(&word);
    }
    Ok(found)
}

/// Adds to an error about a folder of the store that the user has named it, if so.
fn blame_variable(error: &std::io::Error) -> String {
    match std::env::var_os(STORE_VARIABLE) {
        Some(_) => format!("{error}: change {STORE_VARIABLE}, which names it"),
        None => error.to_string(),
    }
}

/// Merges the runs of whole segments.
pub(super) fn merge(segments: &[FoundSegment]) -> StoredModels {
    let runs = segments.iter().filter_map(|segment| segment.runs.as_ref().ok());
    StoredModels::merge(runs.flatten().cloned())
}

/// Returns the key of a model by its name, or by the first digits of it.
pub(super) fn find_key(models: &StoredModels, name: &str) -> Result<StoreKey, Failure> {
    let mut keys: Vec<&StoreKey> = models.runs().map(|run| &run.key).collect();
    keys.retain(|key| !name.is_empty() && key.name().starts_with(name));
    keys.sort();
    keys.dedup();
    match keys.as_slice() {
        [key] => Ok((*key).clone()),
        [] => Err(Failure::input(format!(
            "there is no model {name}: `isochron models list` has their names"
        ))),
        several => {
            let names: Vec<String> = several.iter().map(|key| key.name()).collect();
            Err(Failure::input(format!(
                "{name} names {} models: {}",
                names.len(),
                names.join(", ")
            )))
        }
    }
}

/// Returns the runs of a model.
pub(super) fn list_runs<'m>(models: &'m StoredModels, key: &StoreKey) -> Vec<&'m StoredRun> {
    models.runs().filter(|run| run.key == *key).collect()
}

/// Lists the fields of a part of a key, by name; those that the system does not tell are empty.
pub(super) fn list_fields(part: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(part) else {
        return Vec::new();
    };
    fields.into_iter().map(|(name, value)| (name, format_value(&value))).collect()
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(format_value).collect();
            values.join("; ")
        }
        other => other.to_string(),
    }
}

pub(super) fn name_path(path: &Path) -> String {
    path.display().to_string()
}
