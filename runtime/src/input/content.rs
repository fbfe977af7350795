//! Files that every rank reads on its own host, and whose content must be the same.

use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::digest::digest_bytes;
use super::watched::{FileReader, WatchedFile};
use crate::comm::{Comm, agree};
use crate::error::Error;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The content of a file, as ranks compare it, and the host on which it lies.
#[derive(Debug, Serialize, Deserialize)]
struct FileContent {
    host: String,
    len: u64,
    digest: u64,
}

/// Refuses a file whose content is not the same on all ranks.
///
/// # Errors
/// [`Error::File`] on every rank, which names the first rank with another content; [`Error::Rank`] for one that cannot read
/// the file.
///
/// # Collective
/// All ranks, with the same path.
pub fn agree_on_content(comm: &dyn Comm, path: &Path) -> Result<(), Error> {
    let digest = digest_file(path).map_err(|error| Error::file(path, error));
    let (len, digest) = agree(comm, digest)?;
    let all = comm.gather(&FileContent {
        host: comm.host().to_owned(),
        len,
        digest,
    })?;
    let head = &all[0];
    let differing = all
        .iter()
        .position(|own| (own.len, own.digest) != (head.len, head.digest));
    let Some(rank) = differing else {
        return Ok(());
    };
    let (host, head_host) = (&all[rank].host, &head.host);
    let reason = format!(
        "rank {rank} on {host} has another file of this name than rank 0 on {head_host}: all ranks need the same one"
    );
    Err(Error::file(path, reason))
}

/// Returns the length and the digest of a file.
fn digest_file(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = Rc::new(WatchedFile::open(path)?);
    let mut reader = FileReader::from(Rc::clone(&file));
    let (mut len, mut digest) = (0, 0u64);
    let mut bytes = Vec::with_capacity(PIECE_BYTES);
    loop {
        bytes.clear();
        let mut piece = std::io::Read::take(&mut reader, PIECE_BYTES as u64);
        if std::io::Read::read_to_end(&mut piece, &mut bytes)? == 0 {
            break;
        }
        digest = digest.wrapping_add(digest_bytes(len, &bytes));
        len += bytes.len() as u64;
    }
    file.check_content()?;
    Ok((len, digest))
}
