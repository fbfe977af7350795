//! Changes of the user's folder: segments are written anew, and old ones removed after that. A kill in between leaves both,
//! and readers count a run once.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use isochron_core::input::open_file;
use isochron_core::output::{DOCUMENT_BYTES, PartialFile};
use isochron_core::store::{
    SegmentError, StoreFolder, StoredModels, StoredRun, format_segment, name_writer, parse_segment,
    read_clock_s,
};

use super::{Folders, find_key, find_segments};
use crate::failure::Failure;
use crate::lines::count;

const DAY_S: u64 = 86_400;

/// Removes runs by age or model, and leftovers that are older than a day.
pub(super) fn prune(
    folders: &Folders,
    older_than: Option<u64>,
    model: Option<&str>,
) -> Result<String, Failure> {
    let folder = folders.user();
    let key = model
        .map(|name| find_key(&folders.read()?, name))
        .transpose()?;
    let oldest_s = older_than.map(|days| read_clock_s().saturating_sub(days.saturating_mul(DAY_S)));
    let mut removed = 0;
    for segment in find_segments(folder)? {
        let Ok(runs) = segment.runs else {
            continue;
        };
        let all = runs.len();
        let kept = runs.into_iter().filter(|run| {
            let is_old = oldest_s.is_some_and(|oldest_s| run.at_s < oldest_s);
            !is_old && key.as_ref() != Some(&run.key)
        });
        let kept: Vec<StoredRun> = kept.collect();
        if kept.len() < all {
            replace(folder, &[&segment.path], &kept)?;
            removed += all - kept.len();
        }
    }
    let leftovers = remove_leftovers(folder)?;
    let removed = count(removed as u64, "run");
    Ok(format!(
        "removed {removed} and {}\n",
        count(leftovers, "leftover")
    ))
}

/// Merges all whole segments into one.
pub(super) fn compact(folders: &Folders) -> Result<String, Failure> {
    let folder = folders.user();
    let mut segments = find_segments(folder)?;
    segments.retain(|segment| segment.runs.is_ok());
    let old: Vec<_> = segments
        .iter()
        .map(|segment| segment.path.clone())
        .collect();
    let runs = segments
        .into_iter()
        .filter_map(|segment| segment.runs.ok())
        .flatten();
    let merged = StoredModels::merge(runs);
    let runs: Vec<StoredRun> = merged.runs().cloned().collect();
    if old.len() > 1 {
        replace(
            folder,
            &old.iter().map(|path| &**path).collect::<Vec<_>>(),
            &runs,
        )?;
    }
    let merged = format!(
        "{} with {}",
        count(old.len() as u64, "segment"),
        count(runs.len() as u64, "run")
    );
    Ok(match old.len() {
        0 | 1 => format!("nothing to merge: {merged}\n"),
        _ => format!("{merged} are one\n"),
    })
}

/// Writes all models to a file.
pub(super) fn export(folders: &Folders, path: &Path) -> Result<String, Failure> {
    let file = PartialFile::create(path, DOCUMENT_BYTES)?;
    let models = folders.read()?;
    let runs: Vec<StoredRun> = models.runs().cloned().collect();
    file.fill(&format_segment(&runs).map_err(Failure::run)?)?;
    Ok(format!("exported {}\n", count(runs.len() as u64, "run")))
}

/// Adds the runs of an exported file that the store does not have.
pub(super) fn import(folders: &Folders, path: &Path) -> Result<String, Failure> {
    let fail = |error: std::io::Error| Failure::of_file(path, error);
    let mut bytes = Vec::new();
    open_file(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(fail)?;
    let runs = parse_segment(&bytes).map_err(|error| {
        let reason = match error {
            SegmentError::Foreign => {
                "is no file of models: `isochron models export` writes them".to_owned()
            }
            error => format!("{error}: export it again"),
        };
        Failure::of_file(path, reason)
    })?;
    let known = folders.read()?;
    let known: Vec<(&str, _)> = known.runs().map(|run| (&*run.writer, &run.key)).collect();
    let new = runs
        .into_iter()
        .filter(|run| !known.contains(&(&*run.writer, &run.key)));
    let new: Vec<StoredRun> = new.collect();
    if !new.is_empty() {
        folders
            .user()
            .write(&name_writer("import"), &new)
            .map_err(Failure::of_store)?;
    }
    Ok(format!("imported {}\n", count(new.len() as u64, "run")))
}

/// Writes these runs as a segment, and then removes those that they replace.
fn replace(folder: &StoreFolder, old: &[&Path], runs: &[StoredRun]) -> Result<(), Failure> {
    if !runs.is_empty() {
        folder
            .write(&name_writer("merged"), runs)
            .map_err(Failure::of_store)?;
    }
    for path in old {
        folder.remove(path).map_err(Failure::of_store)?;
    }
    Ok(())
}

/// Removes the files of killed writers, and those set aside, if they are older than a day.
fn remove_leftovers(folder: &StoreFolder) -> Result<u64, Failure> {
    let found = folder
        .find_leftovers()
        .map_err(|error| Failure::of_file(folder.root(), error))?;
    let mut removed = 0;
    for path in found {
        let changed = path.metadata().and_then(|metadata| metadata.modified());
        let age = changed
            .ok()
            .and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if age.is_some_and(|age| age > Duration::from_secs(DAY_S)) {
            folder.remove(&path).map_err(Failure::of_store)?;
            removed += 1;
        }
    }
    Ok(removed)
}
