//! Files of a folder that may be a stranger's, and the name of this host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::CampaignError;

/// Returns the name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Opens a file of a folder, which may be a stranger's: a link would show or replace a file elsewhere, and a pipe has no end.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
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
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(path)?.read_to_end(&mut content)?;
    Ok(content)
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
        CampaignError::Write { path: path.to_path_buf(), reason }
    })
}
