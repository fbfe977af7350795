//! The engine that holds a campaign's folder, by a file in the folder: on many file systems a lock of one host means nothing on
//! another.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use isochron_base::printable::show_path;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::error::CampaignError;
use crate::files::{host_name, open_regular, read_file};
use crate::processes::HostProcess;

/// Name of the file that names the engine.
const CLAIM: &str = "engine.json";

/// Pause between two beats of an engine. A beat renews the time of the engine's file.
const BEAT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });

/// Beats that an engine on another host misses before another one takes its place.
const MISSED: u32 = 4;

/// Age of the last beat after which readers take an engine on another host for gone. Clocks of hosts may differ.
const OLD: Duration = Duration::from_secs(60);

/// The engine that holds a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Holder {
    /// Its host.
    pub host: String,
    /// Its process on that host.
    pub process: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.process, self.host)
    }
}

/// The content of the file: an engine, and what tells it from all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Claim {
    #[serde(flatten)]
    pub holder: Holder,
    /// A random number.
    pub number: u64,
    /// The kernel, since its start, and the namespace in which the process has its number; `None` if the system does not tell.
    pub processes: Option<String>,
    /// Start of the process there.
    pub started: Option<u64>,
}

impl Claim {
    pub fn own() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid");
        let processes = kernel.ok().zip(namespace.ok());
        Self {
            holder: Holder { host: host_name(), process: std::process::id() },
            number: fastrand::u64(..),
            processes: processes
                .map(|(kernel, namespace)| format!("{} {}", kernel.trim(), namespace.display())),
            started: HostProcess::find_start("self"),
        }
    }

    /// Returns `true` if the engine has ended, `false` if it runs or is stopped, and `None` if its process cannot be seen from
    /// here, as on another host or in another container.
    fn has_ended(&self) -> Option<bool> {
        self.processes.as_ref()?;
        if self.processes != Self::own().processes {
            return None;
        }
        let process = self.holder.process;
        // The number may be that of a later process by now.
        if let Some(start) = HostProcess::find_start(&process.to_string()) {
            return Some(Some(start) != self.started);
        }
        // Some systems hide the processes of other users.
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        let is_hidden = process.map(test_kill_process) == Some(Err(Errno::PERM));
        Some(!is_hidden)
    }

    /// Makes a file with this claim; `None` if there is something under its name already.
    fn write(&self, path: &Path) -> Result<Option<File>, CampaignError> {
        let failed = |error: io::Error| CampaignError::file(path, error);
        let text = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made.map_err(failed)?,
        };
        file.write_all(text.as_bytes()).map_err(|error| {
            let _ = fs::remove_file(path);
            failed(error)
        })?;
        Ok(Some(file))
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&read_file(path).ok()?).ok()
    }
}

/// The hold of this engine on a folder.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    claim: Claim,
    /// Ends the beats when it goes.
    _beats: Sender<()>,
}

impl FolderLock {
    /// Takes a folder that no other engine has, or whose engine is gone.
    pub fn take(folder: &Path) -> Result<Self, CampaignError> {
        let path = folder.join(CLAIM);
        let claim = Claim::own();
        let file = match claim.write(&path)? {
            Some(file) => file,
            None => replace_gone(folder, &path, &claim)?,
        };
        let (beats, end) = mpsc::channel::<()>();
        thread::spawn(move || {
            while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // Before it writes, an engine whose beats fail sees whether another one has taken its place.
                let _ = file.set_modified(SystemTime::now());
            }
        });
        Ok(Self { path, claim, _beats: beats })
    }

    /// Checks that this engine still holds the folder.
    ///
    /// # Errors
    /// Returns [`CampaignError::Write`].
    pub fn check(&self) -> Result<(), CampaignError> {
        let reason = match Claim::read(&self.path) {
            Some(claim) if claim == self.claim => return Ok(()),
            Some(other) => format!("{} has taken this campaign", other.holder),
            None => "this engine's file is gone".to_owned(),
        };
        Err(CampaignError::Write { path: self.path.clone(), reason: io::Error::other(reason) })
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.check().is_ok() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Replaces the file of an engine that is gone.
///
/// Of engines that find the same one gone, only the one that makes a file with the number of the gone one goes on; and it looks
/// once more, since another one may have gone all the way meanwhile.
fn replace_gone(folder: &Path, path: &Path, claim: &Claim) -> Result<File, CampaignError> {
    let held = |holder: Option<Claim>, hint: String| CampaignError::Held {
        folder: folder.to_path_buf(),
        holder: holder
            .map_or_else(|| "another process".to_owned(), |claim| claim.holder.to_string())
            + &hint,
    };
    let before = Claim::read(path);
    let has_ended = before.as_ref().and_then(Claim::has_ended);
    if !has_ended.unwrap_or_else(|| is_silent(path)) {
        return Err(held(before, String::new()));
    }
    let number = before.as_ref().map_or(0, |gone| gone.number);
    let name = format!("engine-{number}.json");
    let next = folder.join(&name);
    let Some(file) = claim.write(&next)? else {
        let hint = format!(" (if it has ended, remove {name})");
        return Err(held(Claim::read(&next), hint));
    };
    let now = Claim::read(path);
    if now != before {
        let _ = fs::remove_file(&next);
        return Err(held(now, String::new()));
    }
    fs::rename(&next, path).map_err(|error| CampaignError::file(path, error))?;
    Ok(file)
}

/// Returns `true` if an engine misses its beats.
fn is_silent(path: &Path) -> bool {
    let (start, last, most) = (Instant::now(), read_beat(path), MISSED * BEAT);
    let file = show_path(path);
    let told = format!("{file}: waiting for a sign of its engine, at most {most:?}\n");
    let _ = io::stderr().write_all(told.as_bytes());
    while start.elapsed() < most {
        thread::sleep(BEAT / 4);
        if read_beat(path) != last {
            return false;
        }
    }
    true
}

/// Returns the time of the last beat. A file that is opened shows it where attributes are cached, as by NFS.
fn read_beat(path: &Path) -> Option<SystemTime> {
    open_regular(path).ok()?.metadata().ok()?.modified().ok()
}

/// Returns the engine that runs the campaign in a folder.
pub(super) fn find_holder(folder: &Path) -> Option<Holder> {
    let path = folder.join(CLAIM);
    let claim = Claim::read(&path)?;
    let has_ended = claim.has_ended().unwrap_or_else(|| {
        let last = read_beat(&path).and_then(|last| last.elapsed().ok());
        last.is_some_and(|age| age > OLD)
    });
    (!has_ended).then_some(claim.holder)
}
