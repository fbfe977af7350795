//! Files that every rank reads on its own host, and whose content must be the same.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::watched::WatchedFile;
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
/// [`Error::File`] on every rank if the contents differ, which names the first rank with another one; [`Error::Rank`] if a
/// rank cannot read the file.
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
    let file = WatchedFile::open(path)?;
    let mut bytes = vec![0; PIECE_BYTES];
    for at in (0..file.len()).step_by(PIECE_BYTES) {
        let left = file.len() - at;
        file.read_exact_at(&mut bytes[..left.min(PIECE_BYTES as u64) as usize], at)?;
    }
    file.check_content()?;
    Ok((file.len(), file.digest()))
}
