//! The folder of a campaign: `campaign.toml`, `points.jsonl`, `env/` and `documents/`.
//!
//! If the file says how many nodes points need, there is such a folder within it for each number of nodes, `nodes-4`. Jobs of
//! different sizes then run at the same time, each with a folder that it alone writes.

mod lock;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use isochron_base::printable::show_path;
pub use lock::Holder;
use lock::{FolderLock, find_holder};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::CampaignError;
use crate::file::Campaign;
use crate::files::{open_regular, read_file, replace_file};
use crate::point::fingerprint;
use crate::record::Repetition;

/// Name of the file with a line for each repetition.
pub const POINTS: &str = "points.jsonl";

/// Name of the folder with the descriptions of environments.
const ENVIRONMENTS: &str = "env";

/// Beginning of the names of folders for a number of nodes.
const PART: &str = "nodes-";

/// Name of the folder with the documents that contenders printed.
const DOCUMENTS: &str = "documents";

/// The beginning of every line.
const BEGIN: &[u8] = br#"{"schema":1,"campaign":""#;

/// Name of the campaign file in the folder.
pub const FILE: &str = "campaign.toml";

/// The reason why a file cannot hold measurements.
const NO_FOLDER: &str = "is a file: name a folder for the measurements by --dir";

/// Returns the folder with the points that need this number of nodes.
pub(crate) fn find_part(folder: &Path, nodes: u32) -> PathBuf {
    folder.join(format!("{PART}{nodes}"))
}

/// Makes the folder of a campaign whose file says how many nodes points need, or takes one that is there.
///
/// # Errors
/// Returns [`CampaignError::File`] if it cannot be used, has measurements of another campaign, or of one whose file did
/// not say how many nodes points need; [`CampaignError::Line`] if a file in it is damaged; [`CampaignError::Write`] if
/// the file cannot be kept in it.
pub(crate) fn prepare_parts(path: &Path, campaign: &Campaign) -> Result<(), CampaignError> {
    make_folder(path)?;
    read_begun(path, campaign)?;
    replace_file(&path.join(FILE), campaign.text.as_bytes())
}

/// Reads the repetitions in the folder of a campaign, which may not be there yet.
///
/// # Errors
/// Returns [`CampaignError::File`] if the campaign cannot run in it, [`CampaignError::Line`] if a file in it is
/// damaged.
pub(crate) fn read_begun(
    path: &Path,
    campaign: &Campaign,
) -> Result<Vec<Repetition>, CampaignError> {
    if path.exists() && !path.is_dir() {
        return Err(CampaignError::file(path, NO_FOLDER));
    }
    if !campaign.list_nodes().is_empty() && path.join(POINTS).exists() {
        let reason = "has measurements from before the file said how many nodes points need: name another folder by --dir";
        return Err(CampaignError::file(path, reason));
    }
    check_links(path)?;
    let content = read_copy(path).map(|before| FolderContent::read(path, before));
    let (before, repetitions) = content
        .transpose()?
        .map_or_else(Default::default, |content| (Some(content.campaign), content.repetitions));
    check_begun(path, campaign, before.as_ref(), &repetitions)?;
    Ok(repetitions)
}

/// Reads the copy of the campaign file in a folder; `None` if there is none, or another file in its place.
fn read_copy(folder: &Path) -> Option<Campaign> {
    let path = folder.join(FILE);
    open_regular(&path).ok()?;
    Campaign::read_copy(&path).ok()
}

/// Refuses a folder in which a link takes the place of one of its folders: what is kept there would lie elsewhere.
fn check_links(folder: &Path) -> Result<(), CampaignError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_own = name == ENVIRONMENTS
            || name == DOCUMENTS
            || name.as_encoded_bytes().starts_with(PART.as_bytes());
        if is_own && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            return Err(CampaignError::file(&entry.path(), "is no folder of this one, but a link"));
        }
    }
    Ok(())
}

/// Makes a folder with those above it.
fn make_folder(path: &Path) -> Result<(), CampaignError> {
    fs::create_dir_all(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CampaignError::file(path, NO_FOLDER),
        _ => CampaignError::file(
            path,
            format!("cannot be made: {error}: name another folder by --dir"),
        ),
    })
}

/// Counts the bytes of the files in a folder and within its folders: of all, and of lines and documents. Nothing is counted that
/// cannot be read.
pub(crate) fn count_bytes(folder: &Path) -> [u64; 2] {
    let [mut all, mut kept] = [0; 2];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type();
        let [own, mut of_repetitions] = if kind.is_ok_and(|kind| kind.is_dir()) {
            count_bytes(&entry.path())
        } else {
            [entry.metadata().map_or(0, |metadata| metadata.len()), 0]
        };
        if entry.file_name() == POINTS || entry.file_name() == DOCUMENTS {
            of_repetitions = own;
        }
        all += own;
        kept += of_repetitions;
    }
    [all, kept]
}

/// A campaign's folder that this process holds and writes.
#[derive(Debug)]
pub(crate) struct CampaignFolder {
    path: PathBuf,
    points: File,
    /// Bytes of the whole lines.
    length: u64,
    lock: FolderLock,
}

impl CampaignFolder {
    /// Opens or makes the folder of a campaign; returns the repetitions that are there.
    ///
    /// A last line that was cut off is dropped, and one that lacks its end alone gets it.
    ///
    /// # Errors
    /// Returns [`CampaignError::Held`] if another engine has it; [`CampaignError::File`] if it cannot be used, or holds
    /// measurements of another campaign.
    pub fn open(
        path: &Path,
        campaign: &Campaign,
    ) -> Result<(Self, Vec<Repetition>), CampaignError> {
        make_folder(path)?;
        let path = fs::canonicalize(path).map_err(|error| CampaignError::file(path, error))?;
        let lock = FolderLock::take(&path)?;
        let file = path.join(POINTS);
        check_links(&path)?;
        let (repetitions, length) = read_points(&file)?;
        check_begun(&path, campaign, read_copy(&path).as_ref(), &repetitions)?;
        let failed = |error: io::Error| CampaignError::Write { path: file.clone(), reason: error };
        let points = OpenOptions::new().create(true).append(true).open(&file);
        let mut points = points.map_err(|error| CampaignError::file(&file, error))?;
        let ended = if points.metadata().map_err(failed)?.len() < length {
            points.write_all(b"\n")
        } else {
            points.set_len(length)
        };
        ended.map_err(failed)?;
        replace_file(&path.join(FILE), campaign.text.as_bytes())?;
        let folder = Self { path, points, length, lock };
        Ok((folder, repetitions))
    }

    /// Checks that the folder is as this engine has left it.
    ///
    /// # Errors
    /// Returns [`CampaignError::Write`] if another engine has taken the folder, or its lines were moved, removed or
    /// added to. A line would be lost, or would follow half of another one.
    pub fn check(&self) -> Result<(), CampaignError> {
        let path = self.path.join(POINTS);
        let reason = match (fs::symlink_metadata(&path), self.points.metadata()) {
            (Err(error), _) | (_, Err(error)) => error,
            (Ok(found), Ok(own)) if (found.dev(), found.ino()) != (own.dev(), own.ino()) => {
                io::Error::other("is another file than this engine began")
            }
            (Ok(found), Ok(_)) if found.len() != self.length => {
                let (there, left) = (found.len(), self.length);
                io::Error::other(format!("has {there} bytes, and this engine has left {left}"))
            }
            _ => return self.lock.check(),
        };
        Err(CampaignError::Write { path, reason })
    }

    /// Returns the path of the folder, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the line of a repetition, and waits until it is on the disk.
    ///
    /// # Errors
    /// Returns [`CampaignError::Write`] if the file cannot be written, if another engine has taken the folder, or if
    /// its lines were moved, removed or added to. The file has whole lines all the same.
    pub fn append(&mut self, repetition: &Repetition) -> Result<(), CampaignError> {
        self.check()?;
        let written = serde_json::to_string(repetition).map_err(io::Error::from).and_then(|line| {
            // What nobody could read again would spoil the file.
            serde_json::from_str::<Repetition>(&line)?;
            let line = line + "\n";
            self.points.write_all(line.as_bytes())?;
            self.points.sync_data()?;
            Ok(line.len() as u64)
        });
        match written {
            Ok(bytes) => {
                self.length += bytes;
                Ok(())
            }
            Err(reason) => {
                // A line that cannot be cut off here is dropped by the next reader.
                let _ = self.points.set_len(self.length);
                Err(CampaignError::Write { path: self.path.join(POINTS), reason })
            }
        }
    }

    /// Keeps the description of an environment as `env/NAME.json`; returns its name.
    ///
    /// # Errors
    /// Returns [`CampaignError::Write`] if the file cannot be written, if another engine has taken the folder, or if
    /// its lines were moved, removed or added to.
    pub fn keep_environment(&self, facts: &Value) -> Result<String, CampaignError> {
        self.keep(ENVIRONMENTS, facts, &format!("{facts:#}\n"))
    }

    /// Keeps a document that a contender printed, before the line that names it; returns its name.
    ///
    /// # Errors
    /// Returns [`CampaignError::Write`] if the file cannot be written, if another engine has taken the folder, or if
    /// its lines were moved, removed or added to.
    pub fn keep_document(&self, document: &Value) -> Result<String, CampaignError> {
        self.keep(DOCUMENTS, document, &document.to_string())
    }

    fn keep(&self, folder: &str, document: &Value, text: &str) -> Result<String, CampaignError> {
        self.check()?;
        let (path, name) = (self.path.join(folder), fingerprint(document));
        fs::create_dir_all(&path)
            .map_err(|reason| CampaignError::Write { path: path.clone(), reason })?;
        replace_file(&path.join(format!("{name}.json")), text.as_bytes())?;
        Ok(name)
    }
}

/// Reads a document that a contender printed from the first of these folders that has it; `None` if it was removed to save room.
///
/// # Errors
/// Returns [`CampaignError::File`] if it cannot be read, or is damaged.
pub(crate) fn read_document(
    folders: &[PathBuf],
    name: &str,
) -> Result<Option<Value>, CampaignError> {
    read_kept(folders, DOCUMENTS, name)
}

fn read_kept(
    folders: &[PathBuf],
    within: &str,
    name: &str,
) -> Result<Option<Value>, CampaignError> {
    for folder in folders {
        let path = folder.join(within).join(format!("{name}.json"));
        match read_file(&path) {
            Ok(bytes) => {
                let document = serde_json::from_slice(&bytes);
                return document.map_err(|error| CampaignError::file(&path, error));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CampaignError::file(&path, error)),
        }
    }
    Ok(None)
}

/// What a campaign's folder holds, for readers beside a running engine.
#[derive(Debug)]
pub(crate) struct FolderContent {
    pub campaign: Campaign,
    pub repetitions: Vec<Repetition>,
    /// The engines that run the campaign.
    pub holders: Vec<Holder>,
    /// The folders with measurements: the campaign's own, or one for each number of nodes.
    pub folders: Vec<PathBuf>,
}

impl FolderContent {
    fn read(path: &Path, campaign: Campaign) -> Result<Self, CampaignError> {
        check_links(path)?;
        let nodes = campaign.list_nodes();
        let folders: Vec<PathBuf> = if nodes.is_empty() || path.join(POINTS).exists() {
            vec![path.to_path_buf()]
        } else {
            let parts = nodes.into_iter().map(|nodes| find_part(path, nodes));
            parts.collect()
        };
        let mut repetitions = Vec::new();
        for folder in &folders {
            check_links(folder)?;
            repetitions.extend(read_points(&folder.join(POINTS))?.0);
        }
        Ok(Self {
            campaign,
            repetitions,
            holders: folders.iter().filter_map(|folder| find_holder(folder)).collect(),
            folders,
        })
    }

    /// Reads descriptions of environments.
    pub fn read_environments(
        &self,
        names: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Value>, CampaignError> {
        let read = |name: String| {
            let facts = read_kept(&self.folders, ENVIRONMENTS, &name)?;
            let facts = facts.ok_or_else(|| {
                let reason =
                    format!("lacks {ENVIRONMENTS}/{name}.json, which lines of {POINTS} name");
                CampaignError::file(&self.folders[0], reason)
            })?;
            Ok((name, facts))
        };
        names.into_iter().map(read).collect()
    }
}

/// Reads the folder of a campaign.
///
/// # Errors
/// Returns [`CampaignError::File`] if it is no such folder, [`CampaignError::Line`] if a file in it is damaged.
pub(crate) fn read_folder(path: &Path) -> Result<FolderContent, CampaignError> {
    let file = path.join(FILE);
    if let Err(error) = open_regular(&file) {
        let reason = match error.kind() {
            io::ErrorKind::NotADirectory => "is a file".to_owned(),
            io::ErrorKind::NotFound if !path.is_dir() => "is not there".to_owned(),
            io::ErrorKind::NotFound => {
                format!("is no folder of a campaign, because it has no {FILE}")
            }
            _ => return Err(CampaignError::file(&file, error)),
        };
        let reason = format!("{reason}: name a folder that `isochron campaign run FILE` has made");
        return Err(CampaignError::file(path, reason));
    }
    FolderContent::read(path, Campaign::read_copy(&file)?)
}

/// Reads the lines of a file, and counts their bytes with the end of each line. The file may lack the last end.
///
/// A last line that was cut off is left out: an engine was killed, or its disk was full, while it wrote. Any other line that is no
/// repetition is refused, since the file may be someone else's.
fn read_points(path: &Path) -> Result<(Vec<Repetition>, u64), CampaignError> {
    let bytes = match read_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        read => read.map_err(|error| CampaignError::file(path, error))?,
    };
    let mut repetitions = Vec::new();
    let mut length = 0;
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let read = Repetition::read(line);
        let has_end = line.ends_with(b"\n");
        if !has_end && read.is_err() && is_cut_off(line) {
            break;
        }
        // An editor leaves empty lines.
        if !line.trim_ascii().is_empty() {
            repetitions.push(read.map_err(|reason| CampaignError::Line {
                path: path.to_path_buf(),
                line: number + 1,
                reason,
            })?);
        }
        length += (line.len() + usize::from(!has_end)) as u64;
    }
    Ok((repetitions, length))
}

/// Returns `true` for a part of a line of a campaign. After a power failure bytes may be zero.
fn is_cut_off(line: &[u8]) -> bool {
    let mut begin = line.iter().zip(BEGIN);
    begin.all(|(byte, begin)| [0, *begin].contains(byte))
        && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

/// Refuses a folder in which a campaign cannot run, by its repetitions and the copy `before` of the campaign file.
fn check_begun(
    path: &Path,
    campaign: &Campaign,
    before: Option<&Campaign>,
    repetitions: &[Repetition],
) -> Result<(), CampaignError> {
    let refuse = |path: &Path, reason: String| {
        let reason = format!("{reason}: name another folder by --dir");
        Err(CampaignError::file(path, reason))
    };
    let nodes = before.and_then(|before| before.list_nodes().pop_first());
    if let Some(nodes) = nodes
        && campaign.list_nodes().is_empty()
        && !path.join(POINTS).exists()
    {
        let part = find_part(path, nodes);
        let part = show_path(&part);
        let reason = "and the file no longer has `nodes`";
        return refuse(
            path,
            format!("has measurements for each number of nodes, as in {part}, {reason}"),
        );
    }
    for repetition in repetitions {
        if repetition.campaign != campaign.name {
            let (there, name) = (&repetition.campaign, &campaign.name);
            return refuse(path, format!("holds the campaign `{there}`, not `{name}`"));
        }
        let contender = campaign.find_contender(&repetition.contender);
        if contender.is_some_and(|contender| contender.definition != repetition.definition) {
            let name = &repetition.contender;
            let reason = "whose command or results differ";
            return refuse(
                path,
                format!("holds measurements of another contender `{name}`, {reason}"),
            );
        }
    }
    if repetitions.is_empty() {
        let file = path.join(FILE);
        let is_same = before.is_some_and(|before| before.name == campaign.name);
        if !is_same && file.exists() {
            let (name, reason) = (&campaign.name, "whose copy would replace it");
            return refuse(
                &file,
                format!("is the file of something else than the campaign `{name}`, {reason}"),
            );
        }
        // A new contender's repetitions would not be of the rounds of the others.
    } else if let Some(before) = before
        && let mut contenders = campaign.contenders.iter()
        && let Some(new) = contenders.find(|it| before.find_contender(&it.name).is_none())
    {
        let name = &new.name;
        return refuse(path, format!("holds rounds without the contender `{name}`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
