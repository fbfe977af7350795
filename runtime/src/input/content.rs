//! Files of one name that several ranks read, and whose content must be the same.

use std::hash::Hasher as _;
use std::io;
use std::path::Path;

use siphasher::sip::SipHasher13;

use super::seen::SeenFile;
use super::watched::WatchedFile;
use crate::comm::{Comm, agree};
use crate::error::Error;

/// Bytes that are read at a time. Ranks share out pieces of this length.
const PIECE_BYTES: usize = 256 << 10;

/// Refuses a file whose content is not the same on all ranks.
///
/// # Errors
/// Returns [`Error::File`] on every rank if the contents differ, which names the first rank with another one;
/// [`Error::Rank`] if a rank cannot read the file.
///
/// # Collective
/// All ranks, with the same path.
pub fn agree_on_content(comm: &dyn Comm, path: &Path) -> Result<(), Error> {
    let opened = WatchedFile::open(path).map_err(|error| Error::file(path, error));
    let file = agree(comm, opened)?;
    let others = find_other_contents(comm, path, Some(&file))?;
    agree(comm, file.check().map_err(|error| Error::file(path, error)))?;
    match describe_other_contents(comm, &others)? {
        None => Ok(()),
        Some(others) => {
            let reason = format!("{others}: all ranks need the same one");
            Err(Error::file(path, reason))
        }
    }
}

/// Finds the ranks whose file differs from the head rank's. Bytes are read only of files that are not
/// known to be one. Ranks with one file share out its bytes. A rank without a file passes `None`
/// and is not among the ranks that are found.
///
/// # Errors
/// Returns [`Error::Rank`] if a rank cannot read its file.
///
/// # Collective
/// All ranks.
pub fn find_other_contents(
    comm: &dyn Comm,
    path: &Path,
    file: Option<&WatchedFile>,
) -> Result<Vec<usize>, Error> {
    let own = file.map(SeenFile::of).transpose();
    let own = agree(comm, own.map_err(|error| Error::file(path, error)))?;
    let seen = comm.gather(&own)?;
    let copies = number_copies(&seen);
    if copies.iter().flatten().all(|&copy| copy == 0) {
        return Ok(Vec::new());
    }
    let digest = digest_share(file, &copies, comm.rank());
    let digest = agree(comm, digest.map_err(|error| Error::file(path, error)))?;
    let len = file.map_or(0, WatchedFile::len);
    let found: Vec<(u64, u64)> = comm.gather(&(len, digest))?;
    let mut contents = vec![(0, 0u64); seen.len()];
    for (copy, (len, digest)) in copies.iter().zip(found) {
        if let Some(copy) = *copy {
            contents[copy] = (len, contents[copy].1.wrapping_add(digest));
        }
    }
    let is_other = |copy: &Option<usize>| copy.is_some_and(|copy| contents[copy] != contents[0]);
    Ok((0..seen.len()).filter(|&rank| is_other(&copies[rank])).collect())
}

/// Names the first of the ranks whose file differs from the head's; `None` without one.
///
/// # Errors
/// See [`Comm::share`].
///
/// # Collective
/// All ranks, with the same list.
pub fn describe_other_contents(comm: &dyn Comm, others: &[usize]) -> Result<Option<String>, Error> {
    let Some(&first) = others.first() else {
        return Ok(None);
    };
    let hosts = comm.gather(&comm.host().to_owned())?;
    let more = match others.len() - 1 {
        0 => String::new(),
        more => format!(", like {more} more ranks,"),
    };
    Ok(Some(format!(
        "rank {first} on {}{more} has another file of this name than rank 0 on {}",
        hosts[first], hosts[0],
    )))
}

/// Numbers each rank's file by the first rank that sees the same one.
fn number_copies(seen: &[Option<SeenFile>]) -> Vec<Option<usize>> {
    let number = |(rank, own): (usize, &Option<SeenFile>)| {
        let own = own.as_ref()?;
        Some(
            seen[..rank]
                .iter()
                .position(|other| other.as_ref().is_some_and(|other| own.is_known_to_be(other)))
                .unwrap_or(rank),
        )
    };
    seen.iter().enumerate().map(number).collect()
}

/// Digests a rank's share of the pieces of its file, each with its place. The shares of one file add up to the digest of the
/// whole. It is no protection against a forger.
fn digest_share(
    file: Option<&WatchedFile>,
    copies: &[Option<usize>],
    rank: usize,
) -> io::Result<u64> {
    let Some(file) = file else {
        return Ok(0);
    };
    let is_reader = |&other: &usize| copies[other] == copies[rank];
    let readers = (0..copies.len()).filter(is_reader).count() as u64;
    let before = (0..rank).filter(is_reader).count() as u64;
    let pieces = file.len().div_ceil(PIECE_BYTES as u64);
    let (mut bytes, mut digest) = (Vec::new(), 0u64);
    for piece in pieces * before / readers..pieces * (before + 1) / readers {
        let at = piece * PIECE_BYTES as u64;
        bytes.resize((file.len() - at).min(PIECE_BYTES as u64) as usize, 0);
        file.read_exact_at(&mut bytes, at)?;
        let mut hasher = SipHasher13::new();
        hasher.write_u64(at);
        hasher.write(&bytes);
        digest = digest.wrapping_add(hasher.finish());
    }
    Ok(digest)
}
