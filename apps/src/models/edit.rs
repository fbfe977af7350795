//! Changes of the user's folder: segments are written anew, and old ones removed after that. A kill in between leaves both,
//! and readers count a run once. A segment that a job has replaced meanwhile stays.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use isochron_core::internal::input::open_file;
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile};
use isochron_core::store::{
    FoundSegment, SegmentError, StoreFolder, StoreKey, StoredModels, StoredRun, format_segment,
    name_writer, parse_segment, read_clock_s,
};
use serde::Serialize;

use super::folders::{Folders, find_key, find_segments, list_runs, merge};
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::count;

const DAY_S: u64 = 86_400;

/// The commands that change a store, or copy it.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum EditCommand {
    Prune,
    Compact,
    Export,
    Import,
}

/// A change of a store, or a copy of it.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct StoreChange {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The command.
    command: EditCommand,
    /// Runs that were removed, that the segments hold, or that were exported or imported.
    runs: usize,
    /// Segments that were read to be replaced; 0 for `export` and `import`.
    segments: usize,
    /// Leftovers of killed jobs that `prune` removed.
    leftovers: u64,
    /// Segments to which a running job added times meanwhile, and which stay.
    replaced: usize,
    /// Runs of the model given to `prune` that stay in folders which are only read.
    read_only_runs: usize,
}

impl StoreChange {
    fn new(command: EditCommand, runs: usize) -> Self {
        Self {
            schema: FormatVersion,
            command,
            runs,
            segments: 0,
            leftovers: 0,
            replaced: 0,
            read_only_runs: 0,
        }
    }

    /// Formats the change for people.
    pub(super) fn format(&self) -> String {
        let runs = count(self.runs as u64, "run");
        let segments = count(self.segments as u64, "segment");
        let mut text = match self.command {
            EditCommand::Prune => {
                format!("removed {runs} and {}\n", count(self.leftovers, "leftover"))
            }
            EditCommand::Compact if self.segments < 2 => {
                format!("nothing to merge: {segments} with {runs}\n")
            }
            EditCommand::Compact => format!("{segments} with {runs} are one\n"),
            EditCommand::Export => format!("exported {runs}\n"),
            EditCommand::Import => format!("imported {runs}\n"),
        };
        if self.replaced > 0 {
            let replaced = count(self.replaced as u64, "segment");
            text += &format!(
                "{replaced} got new times from a running job and stays: repeat the command when the job has ended\n"
            );
        }
        if self.read_only_runs > 0 {
            let runs = count(self.read_only_runs as u64, "run");
            text += &format!("{runs} of it in folders of the site stay: these are never written\n");
        }
        text
    }
}

/// Removes runs by age or model, and leftovers that are older than a day.
pub(super) fn prune(
    folders: &Folders,
    older_than: Option<u64>,
    model: Option<&str>,
) -> Result<StoreChange, Failure> {
    let folder = folders.user();
    let found = folders.find_segments()?;
    let key = model.map(|name| find_key(&merge(&found.concat()), name)).transpose()?;
    let oldest_s = older_than.map(|days| read_clock_s().saturating_sub(days.saturating_mul(DAY_S)));
    let mut change = StoreChange::new(EditCommand::Prune, 0);
    for segment in &found[0] {
        let Ok(runs) = &segment.runs else {
            continue;
        };
        let kept = runs.iter().filter(|run| {
            let is_old = oldest_s.is_some_and(|oldest_s| run.at_s < oldest_s);
            !is_old && key.as_ref() != Some(&run.key)
        });
        let kept: Vec<StoredRun> = kept.cloned().collect();
        if kept.len() < runs.len() {
            let replaced = replace(folder, &[segment], &kept)?;
            change.replaced += replaced;
            change.segments += 1;
            change.runs += (1 - replaced) * (runs.len() - kept.len());
        }
    }
    change.leftovers = remove_leftovers(folder)?;
    if let Some(key) = key {
        change.read_only_runs = list_runs(&merge(&found[1..].concat()), &key).len();
    }
    Ok(change)
}

/// Merges all whole segments into one.
pub(super) fn compact(folders: &Folders) -> Result<StoreChange, Failure> {
    let folder = folders.user();
    let mut segments = find_segments(folder)?;
    segments.retain(|segment| segment.runs.is_ok());
    let runs: Vec<StoredRun> = merge(&segments).runs().cloned().collect();
    let mut change = StoreChange::new(EditCommand::Compact, runs.len());
    change.segments = segments.len();
    if segments.len() > 1 {
        let old: Vec<&FoundSegment> = segments.iter().collect();
        change.replaced = replace(folder, &old, &runs)?;
    }
    Ok(change)
}

/// Writes all models to a file.
pub(super) fn export(folders: &Folders, path: &Path) -> Result<StoreChange, Failure> {
    let file = PartialFile::create(path, DOCUMENT_BYTES)?;
    folders.note_missing();
    let models = folders.read()?;
    let runs: Vec<StoredRun> = models.runs().cloned().collect();
    file.fill(&format_segment(&runs).map_err(Failure::run)?)?;
    Ok(StoreChange::new(EditCommand::Export, runs.len()))
}

/// Adds the runs of an exported file that the store does not have, or has in a shorter form.
pub(super) fn import(folders: &Folders, path: &Path) -> Result<StoreChange, Failure> {
    let fail = |error: std::io::Error| Failure::of_file(path, error);
    let mut bytes = Vec::new();
    open_file(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(fail)?;
    let runs = parse_segment(&bytes).map_err(|error| {
        let reason = match error {
            SegmentError::Foreign => {
                "is no file of models: `isochron models export` writes them".to_owned()
            }
            SegmentError::OtherVersion(_) => format!("{error}: import it by that isochron"),
            SegmentError::Corrupt(_) => format!("{error}: export it again"),
        };
        Failure::of_file(path, reason)
    })?;
    let stored = folders.read()?;
    let known: BTreeMap<(&str, &StoreKey), (usize, usize)> =
        stored.runs().map(|run| (name_run(run), run.length())).collect();
    let imported = StoredModels::merge(runs);
    let new = imported.runs().filter(|run| {
        let length = known.get(&name_run(run));
        length.is_none_or(|&length| length < run.length())
    });
    let new: Vec<StoredRun> = new.cloned().collect();
    if !new.is_empty() {
        folders.user().write(&name_writer("import"), &new).map_err(Failure::of_store)?;
    }
    Ok(StoreChange::new(EditCommand::Import, new.len()))
}

/// Returns the name that a run has in every store.
fn name_run(run: &StoredRun) -> (&str, &StoreKey) {
    (&run.writer, &run.key)
}

/// Writes these runs as a segment, and then removes those that they replace. Returns the number of segments that a job
/// has replaced since they were read: they stay.
fn replace(
    folder: &StoreFolder,
    old: &[&FoundSegment],
    runs: &[StoredRun],
) -> Result<usize, Failure> {
    if !runs.is_empty() {
        folder.write(&name_writer("merged"), runs).map_err(Failure::of_store)?;
    }
    let mut replaced = 0;
    for segment in old {
        let is_gone = folder.remove_found(segment).map_err(Failure::of_store)?;
        replaced += usize::from(!is_gone);
    }
    Ok(replaced)
}

/// Removes the files of killed writers, and those set aside, if they are older than a day.
fn remove_leftovers(folder: &StoreFolder) -> Result<u64, Failure> {
    let found = folder.find_leftovers().map_err(|error| Failure::of_file(folder.root(), error))?;
    let mut removed = 0;
    for path in found {
        let changed = path.metadata().and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if age.is_some_and(|age| age > Duration::from_secs(DAY_S)) {
            folder.remove(&path).map_err(Failure::of_store)?;
            removed += 1;
        }
    }
    Ok(removed)
}
