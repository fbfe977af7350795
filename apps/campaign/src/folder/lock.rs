//! The lock on a campaign's folder.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::environment::host_name;
use crate::error::CampaignError;

/// Name of the locked file.
const LOCK: &str = "engine.lock";

/// Name of the file that stands for the lock on a file system without locks.
const SIGN: &str = "engine.json";

/// Name of the file that an engine has while it removes [`SIGN`] of an engine that is gone.
const REMOVAL: &str = "engine-removal.json";

/// The number of times to look again at a lock that is taken, and the pause before each.
const LOOKS: usize = 4;
const LOOK: Duration = Duration::from_millis(50);

/// The engine that holds a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Holder {
    /// Its host.
    pub host: String,
    /// Its process on that host.
    pub process: u32,
}

impl Holder {
    fn own() -> Self {
        Self {
            host: host_name(),
            process: std::process::id(),
        }
    }

    /// Returns `true` if the process is known to have ended.
    fn is_gone(&self) -> bool {
        self.host == host_name() && !Path::new("/proc").join(self.process.to_string()).exists()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.process, self.host)
    }
}

/// A lock that ends with the process, or is a file that the process removes.
#[derive(Debug)]
pub(super) enum FolderLock {
    Locked { file: File },
    Signed { sign: PathBuf },
}

impl FolderLock {
    /// Takes the lock of a folder.
    pub fn take(folder: &Path) -> Result<Self, CampaignError> {
        Self::take_by(folder, |file| {
            flock(file, FlockOperation::NonBlockingLockExclusive)
        })
    }

    /// Takes the lock of a folder by this system call.
    pub fn take_by(
        folder: &Path,
        lock: impl Fn(&File) -> Result<(), Errno>,
    ) -> Result<Self, CampaignError> {
        let path = folder.join(LOCK);
        let failed = |error: io::Error| CampaignError::file(&path, error);
        let mut file = open_lock(&path).map_err(failed)?;
        let mut locked = lock(&file);
        // A reader holds the lock for a moment, to see whether an engine does.
        for _ in 0..LOOKS {
            if locked == Err(Errno::WOULDBLOCK) {
                thread::sleep(LOOK);
                locked = lock(&file);
            }
        }
        match locked {
            Ok(()) => {
                let holder =
                    serde_json::to_string(&Holder::own()).map_err(|error| failed(error.into()))?;
                file.set_len(0)
                    .and_then(|()| file.write_all(holder.as_bytes()))
                    .map_err(|reason| CampaignError::Write { path, reason })?;
                Ok(Self::Locked { file })
            }
            Err(Errno::WOULDBLOCK) => Err(CampaignError::Held {
                folder: folder.to_path_buf(),
                holder: describe(read_holder(&mut file)),
            }),
            // The file system has no locks, as Lustre without its option.
            Err(_) => Self::sign(folder),
        }
    }

    /// Takes the place of a lock by a file that only one process can make.
    fn sign(folder: &Path) -> Result<Self, CampaignError> {
        let sign = folder.join(SIGN);
        if !make_sign(&sign)? {
            remove_gone(folder)?;
            if !make_sign(&sign)? {
                return Err(held_by_sign(folder, SIGN));
            }
        }
        Ok(Self::Signed { sign })
    }
}

/// Makes a file with the name of this engine. Returns `false` if it is there already.
fn make_sign(path: &Path) -> Result<bool, CampaignError> {
    let failed = |error: io::Error| CampaignError::file(path, error);
    let holder = serde_json::to_string(&Holder::own()).map_err(|error| failed(error.into()))?;
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        made => made.map_err(failed)?,
    };
    file.write_all(holder.as_bytes()).map_err(|error| {
        // A file without a name would stand for an engine that never ends.
        let _ = fs::remove_file(path);
        failed(error)
    })?;
    Ok(true)
}

/// Removes the file of an engine that is gone.
///
/// Of engines that see such a file at the same time, one after the other could remove the file that the one before has made. So
/// only the one that makes [`REMOVAL`] removes a file, and looks at its name once more: no other can change it meanwhile.
///
/// # Errors
/// [`CampaignError::Held`] if the engine is not known to be gone, or another one is removing its file.
pub(super) fn remove_gone(folder: &Path) -> Result<(), CampaignError> {
    let removal = folder.join(REMOVAL);
    if !make_sign(&removal)? {
        return Err(held_by_sign(folder, REMOVAL));
    }
    let sign = folder.join(SIGN);
    let removed = if read_sign(&sign).is_some_and(|holder| holder.is_gone()) {
        fs::remove_file(&sign).map_err(|error| CampaignError::file(&sign, error))
    } else if sign.exists() {
        Err(held_by_sign(folder, SIGN))
    } else {
        Ok(())
    };
    let _ = fs::remove_file(&removal);
    removed
}

/// Tells which engine has made a file that stands for a lock.
fn held_by_sign(folder: &Path, name: &str) -> CampaignError {
    CampaignError::Held {
        folder: folder.to_path_buf(),
        holder: format!(
            "{} (if it has ended, remove {name}: this file system has no locks)",
            describe(read_sign(&folder.join(name)))
        ),
    }
}

fn read_sign(path: &Path) -> Option<Holder> {
    read_holder(&mut File::open(path).ok()?)
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        match self {
            // Closing the file does not end the lock while a child that has not begun its program yet has the file too.
            Self::Locked { file } => {
                let _ = flock(file, FlockOperation::Unlock);
            }
            // The next engine on this host takes over a file that stays.
            Self::Signed { sign } => {
                let _ = fs::remove_file(sign);
            }
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Returns the engine that runs the campaign in a folder.
pub(super) fn find_holder(folder: &Path) -> Option<Holder> {
    let mut file = OpenOptions::new().read(true).open(folder.join(LOCK)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => None,
        Err(Errno::WOULDBLOCK) => read_holder(&mut file),
        Err(_) => read_sign(&folder.join(SIGN)).filter(|holder| !holder.is_gone()),
    }
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn describe(holder: Option<Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string())
}
