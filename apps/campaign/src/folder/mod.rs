//! The folder of a campaign: `campaign.toml`, `points.jsonl`, `env/` and `documents/`.
//!
//! If the file says how many nodes points need, there is such a folder within it for each number of nodes, `nodes-4`. Jobs of
//! different sizes then run at the same time, each with a folder that it alone writes.

mod lock;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use isochron_hierarchy::printable::show_path;
pub use lock::Holder;
use lock::{FolderLock, find_holder};
use rustix::fs::OFlags;
use serde_json::Value;

use crate::environment::host_name;
use crate::error::CampaignError;
use crate::file::Campaign;
use crate::point::fingerprint;
use crate::record::Repetition;

/// Name of the file with a line for each repetition.
pub const POINTS: &str = "points.jsonl";

/// Name of the folder with the documents that contenders printed.
const DOCUMENTS: &str = "documents";

/// The beginning of every line.
const BEGIN: &[u8] = br#"{"schema":"#;

/// Name of the campaign file in the folder.
pub const FILE: &str = "campaign.toml";

/// The reason why a file cannot hold measurements.
const NO_FOLDER: &str = "is a file: name a folder for the measurements by --dir";

/// Returns the folder with the points that need this number of nodes.
pub(crate) fn find_part(folder: &Path, nodes: u32) -> PathBuf {
    folder.join(format!("nodes-{nodes}"))
}

/// Makes the folder of a campaign whose file says how many nodes points need, or takes one that is there.
///
/// # Errors
/// [`CampaignError::File`] if it cannot be used, has measurements of another campaign, or of one whose file did not say how many
/// nodes points need; [`CampaignError::Line`] if a file in it is damaged; [`CampaignError::Write`] if the file cannot be kept in it.
pub(crate) fn prepare_parts(path: &Path, campaign: &Campaign) -> Result<(), CampaignError> {
    make_folder(path)?;
    read_begun(path, campaign)?;
    replace_file(&path.join(FILE), campaign.text.as_bytes())
}

/// Reads the repetitions in the folder of a campaign, which may not be there yet.
///
/// # Errors
/// [`CampaignError::File`] if the campaign cannot run in it, [`CampaignError::Line`] if a file in it is damaged.
pub(crate) fn read_begun(
    path: &Path,
    campaign: &Campaign,
) -> Result<Vec<Repetition>, CampaignError> {
    if path.exists() && !path.is_dir() {
        return Err(CampaignError::file(path, NO_FOLDER));
    }
    check_parts(path, campaign)?;
    if !campaign.list_nodes().is_empty() && path.join(POINTS).exists() {
        let reason = "has measurements from before the file said how many nodes points need: name another folder by --dir";
        return Err(CampaignError::file(path, reason));
    }
    let file = path.join(FILE);
    if !file.exists() {
        return Ok(Vec::new());
    }
    if read_copy(path).is_none() {
        check_unused(path, campaign)?;
    }
    let repetitions = read_folder(path)?.repetitions;
    check_definitions(path, campaign, &repetitions)?;
    Ok(repetitions)
}

/// Reads the copy of the campaign file in a folder; `None` if there is none, or another file in its place.
fn read_copy(folder: &Path) -> Option<Campaign> {
    let path = folder.join(FILE);
    open_regular(&path).ok()?;
    Campaign::read(&path).ok()
}

/// Opens a file of a folder, which may be a stranger's: a link would show or replace a file elsewhere, and a pipe has no end.
fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        let reason = "is no file of this folder, but a link, a pipe or a folder";
        return Err(io::Error::other(reason));
    }
    // What comes into its place meanwhile is not followed, nor waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags).open(path)
}

/// Reads a file of a folder, which may be a stranger's.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(path)?.read_to_end(&mut content)?;
    Ok(content)
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

/// Bytes of the files in a campaign's folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FolderBytes {
    /// Bytes of all files.
    pub all: u64,
    /// Bytes of the repetitions' lines.
    pub points: u64,
    /// Bytes of the documents that contenders printed.
    pub documents: u64,
}

impl FolderBytes {
    /// Counts the bytes of a folder, with those within it. Nothing is counted that cannot be read.
    pub fn read(folder: &Path) -> Self {
        let mut bytes = Self::default();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                let within = Self::read(&entry.path());
                bytes.all += within.all;
                bytes.points += within.points;
                bytes.documents += within.documents;
                if entry.file_name() == DOCUMENTS {
                    bytes.documents += within.all;
                }
            } else {
                bytes.all += metadata.len();
                if entry.file_name() == POINTS {
                    bytes.points += metadata.len();
                }
            }
        }
        bytes
    }
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
    /// A last line that was cut off is dropped.
    ///
    /// # Errors
    /// [`CampaignError::Held`] if another engine has it; [`CampaignError::File`] if it cannot be used, or holds measurements of
    /// another campaign.
    pub fn open(
        path: &Path,
        campaign: &Campaign,
    ) -> Result<(Self, Vec<Repetition>), CampaignError> {
        make_folder(path)?;
        let path = fs::canonicalize(path).map_err(|error| CampaignError::file(path, error))?;
        let lock = FolderLock::take(&path)?;
        let file = path.join(POINTS);
        check_parts(&path, campaign)?;
        let (repetitions, length) = read_points(&file)?;
        check_definitions(&path, campaign, &repetitions)?;
        let failed = |error: io::Error| CampaignError::Write {
            path: file.clone(),
            reason: error,
        };
        let points = OpenOptions::new().create(true).append(true).open(&file);
        let points = points.map_err(|error| CampaignError::file(&file, error))?;
        points.set_len(length).map_err(failed)?;
        replace_file(&path.join(FILE), campaign.text.as_bytes())?;
        let folder = Self {
            path,
            points,
            length,
            lock,
        };
        Ok((folder, repetitions))
    }

    /// Checks that the folder is as this engine has left it.
    ///
    /// # Errors
    /// [`CampaignError::Changed`] if another engine has taken the folder, or its lines were moved, removed or added to. A line
    /// would be lost, or would follow half of another one.
    pub fn check(&self) -> Result<(), CampaignError> {
        let path = self.path.join(POINTS);
        let reason = match (fs::symlink_metadata(&path), self.points.metadata()) {
            (Err(error), _) | (_, Err(error)) => error.to_string(),
            (Ok(found), Ok(own)) if (found.dev(), found.ino()) != (own.dev(), own.ino()) => {
                "is another file than this engine began".to_owned()
            }
            (Ok(found), Ok(_)) if found.len() != self.length => format!(
                "has {} bytes, and this engine has left {}",
                found.len(),
                self.length
            ),
            _ => return self.lock.check(),
        };
        Err(CampaignError::Changed { path, reason })
    }

    /// Returns the path of the folder, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the line of a repetition, and waits until it is on the disk.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`CampaignError::Write`], after which the file has whole lines all the same.
    pub fn append(&mut self, repetition: &Repetition) -> Result<(), CampaignError> {
        self.check()?;
        let written = serde_json::to_string(repetition)
            .map_err(io::Error::from)
            .and_then(|line| {
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
                Err(CampaignError::Write {
                    path: self.path.join(POINTS),
                    reason,
                })
            }
        }
    }

    /// Keeps the description of an environment as `env/NAME.json`.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`CampaignError::Write`].
    pub fn keep_environment(&self, name: &str, description: &Value) -> Result<(), CampaignError> {
        self.keep("env", name, &format!("{description:#}\n"))
    }

    fn keep(&self, folder: &str, name: &str, text: &str) -> Result<(), CampaignError> {
        self.check()?;
        let path = self.path.join(folder);
        match fs::create_dir_all(&path) {
            Ok(()) => replace_file(&path.join(format!("{name}.json")), text.as_bytes()),
            Err(reason) => Err(CampaignError::Write { path, reason }),
        }
    }

    /// Keeps a document that a contender printed, before the line that names it; returns its name.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`CampaignError::Write`].
    pub fn keep_document(&self, document: &Value) -> Result<String, CampaignError> {
        let name = fingerprint(document);
        self.keep(DOCUMENTS, &name, &document.to_string())?;
        Ok(name)
    }
}

/// Reads a document that a contender printed from the first of these folders that has it; `None` if it was removed to save room.
///
/// # Errors
/// [`CampaignError::File`] if it cannot be read, or is damaged.
pub(crate) fn read_document(
    folders: &[PathBuf],
    name: &str,
) -> Result<Option<Value>, CampaignError> {
    for folder in folders {
        let path = folder.join(DOCUMENTS).join(format!("{name}.json"));
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
    /// Reads descriptions of environments.
    pub fn read_environments(
        &self,
        names: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Value>, CampaignError> {
        let read = |name: String| {
            let paths = self.folders.iter();
            let mut paths = paths.map(|folder| folder.join("env").join(format!("{name}.json")));
            // One is there for each environment that a line names, unless it was removed.
            let path = paths
                .clone()
                .find(|path| path.exists())
                .or_else(|| paths.next());
            let path = path.unwrap_or_default();
            let failed = |error: io::Error| {
                let reason = format!("cannot be read, and lines of {POINTS} name it: {error}");
                CampaignError::file(&path, reason)
            };
            let text = read_file(&path).map_err(failed)?;
            let description = serde_json::from_slice(&text);
            let description = description.map_err(|error| failed(error.into()))?;
            Ok((name, description))
        };
        names.into_iter().map(read).collect()
    }
}

/// Reads the folder of a campaign.
///
/// # Errors
/// [`CampaignError::File`] if it is no such folder, [`CampaignError::Line`] if a file in it is damaged.
pub(crate) fn read_folder(path: &Path) -> Result<FolderContent, CampaignError> {
    let file = path.join(FILE);
    check_readable(path, &file)?;
    let campaign = Campaign::read(&file)?;
    let nodes = campaign.list_nodes();
    let folders: Vec<PathBuf> = if nodes.is_empty() || path.join(POINTS).exists() {
        vec![path.to_path_buf()]
    } else {
        let parts = nodes.into_iter().map(|nodes| find_part(path, nodes));
        parts.collect()
    };
    let mut repetitions = Vec::new();
    for folder in &folders {
        repetitions.extend(read_points(&folder.join(POINTS))?.0);
    }
    Ok(FolderContent {
        campaign,
        repetitions,
        holders: folders
            .iter()
            .filter_map(|folder| find_holder(folder))
            .collect(),
        folders,
    })
}

/// Refuses a place without the file of a campaign.
fn check_readable(path: &Path, file: &Path) -> Result<(), CampaignError> {
    let made = "name a folder that `isochron campaign run FILE` has made";
    let reason = match (fs::metadata(path), open_regular(file)) {
        (Ok(found), _) if !found.is_dir() => format!("is a file: {made}"),
        (Ok(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            format!("is no folder of a campaign, because it has no {FILE}: {made}")
        }
        (Ok(_), Ok(_)) => return Ok(()),
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {
            format!("is not there: {made}")
        }
        (Err(error), _) | (_, Err(error)) => format!("cannot be read: {error}"),
    };
    Err(CampaignError::file(path, reason))
}

/// Refuses a folder that has measurements for each number of nodes, of a file that no longer says how many points need.
fn check_parts(path: &Path, campaign: &Campaign) -> Result<(), CampaignError> {
    if campaign.list_nodes().is_empty()
        && let Some(before) = read_copy(path)
        && let Some(nodes) = before.list_nodes().first()
        && !path.join(POINTS).exists()
    {
        let reason = format!(
            "has measurements for each number of nodes, as in {}, and the file no longer has `nodes`: name another folder by --dir",
            show_path(&find_part(path, *nodes))
        );
        return Err(CampaignError::file(path, reason));
    }
    Ok(())
}

/// Reads the lines of a file; returns them with the bytes that they take.
///
/// A last line without its end is left out: an engine was killed, or its disk was full, while it wrote. Any other line that is no
/// repetition is refused, since the file may be someone else's.
fn read_points(path: &Path) -> Result<(Vec<Repetition>, u64), CampaignError> {
    let bytes = match read_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        read => read.map_err(|error| CampaignError::file(path, error))?,
    };
    let mut repetitions = Vec::new();
    let mut length = 0;
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let read = if line.ends_with(b"\n") {
            Repetition::read(line)
        } else if line
            .iter()
            .zip(BEGIN)
            .all(|(byte, begin)| [0, *begin].contains(byte))
        {
            // After a power failure bytes may be zero.
            break;
        } else {
            Err("has no end, and begins as no repetition does".to_owned())
        };
        // An editor leaves empty lines.
        if !line.trim_ascii().is_empty() {
            repetitions.push(read.map_err(|reason| CampaignError::Line {
                path: path.to_path_buf(),
                line: number + 1,
                reason,
            })?);
        }
        length += line.len() as u64;
    }
    Ok((repetitions, length))
}

/// Refuses measurements of other contenders: under the same names, or without one that has come since. Its repetitions would
/// not be of the rounds of the others.
fn check_definitions(
    path: &Path,
    campaign: &Campaign,
    repetitions: &[Repetition],
) -> Result<(), CampaignError> {
    for repetition in repetitions {
        if repetition.campaign != campaign.name {
            let reason = format!(
                "holds the campaign `{}`, not `{}`: name another folder by --dir",
                repetition.campaign, campaign.name
            );
            return Err(CampaignError::file(path, reason));
        }
        let contender = campaign.find_contender(&repetition.contender);
        if contender.is_some_and(|contender| contender.definition != repetition.definition) {
            let reason = format!(
                "holds measurements of another contender `{}`, whose command or results differ: name \
                 another folder by --dir",
                repetition.contender
            );
            return Err(CampaignError::file(path, reason));
        }
    }
    if repetitions.is_empty() {
        return check_unused(path, campaign);
    }
    if let Some(before) = read_copy(path)
        && let Some(new) = campaign
            .contenders
            .iter()
            .find(|contender| before.find_contender(&contender.name).is_none())
    {
        let reason = format!(
            "holds rounds without the contender `{}`: name another folder by --dir",
            new.name
        );
        return Err(CampaignError::file(path, reason));
    }
    Ok(())
}

/// Refuses a folder without measurements if the copy of the campaign file would replace a file of something else.
fn check_unused(path: &Path, campaign: &Campaign) -> Result<(), CampaignError> {
    let file = &path.join(FILE);
    let is_same = read_copy(path).is_some_and(|before| before.name == campaign.name);
    if is_same || !file.exists() {
        return Ok(());
    }
    let reason = format!(
        "is the file of something else than the campaign `{}`, whose copy would replace it: name another folder by --dir",
        campaign.name
    );
    Err(CampaignError::file(file, reason))
}

/// Writes a file that is never seen half written.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> Result<(), CampaignError> {
    if read_file(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    // Of this process alone: the engines for several numbers of nodes begin together.
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}-{}.partial", host_name(), std::process::id()));
    let write = || {
        // A link of this name would lead elsewhere.
        let _ = fs::remove_file(&partial);
        let mut file = File::create_new(&partial)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|reason| {
        // A part of it is of no use.
        let _ = fs::remove_file(&partial);
        CampaignError::Write {
            path: path.to_path_buf(),
            reason,
        }
    })
}

#[cfg(test)]
mod tests;
