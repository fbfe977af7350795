//! Agreement of all ranks on success or failure, before they act on it.

use super::collectives::{decode, encode};
use super::contract::Comm;
use crate::error::Error;

/// Turns one rank's failure into the same failure on every rank.
///
/// A rank that returns early leaves the others waiting in their next collective call for ever. So every rank
/// contributes its outcome: all go on, or all leave with the error of the lowest rank that failed.
///
/// # Errors
/// [`Error::Rank`] on every rank when any rank contributed an error (the error itself when there is one rank); those of
/// [`Comm`].
///
/// # Collective
/// All ranks.
pub fn agree<T>(comm: &dyn Comm, outcome: Result<T, Error>) -> Result<T, Error> {
    if comm.size() == 1 {
        return outcome;
    }
    // Success is an empty contribution, which no failure is.
    let failure = outcome.as_ref().err().map_or_else(Vec::new, |error| {
        encode(&(comm.host(), error.to_string(), error.class()))
    });
    let all = match comm.all_gather(&failure) {
        Ok(all) => all,
        Err(lost) => return Err(outcome.err().unwrap_or(lost)),
    };
    let Some((rank, failure)) = all.iter().enumerate().find(|(_, bytes)| !bytes.is_empty()) else {
        return outcome;
    };
    if let Err(error @ Error::Rank { .. }) = outcome {
        return Err(error);
    }
    let (host, cause, class) = decode(rank, failure)?;
    Err(Error::Rank {
        rank,
        host,
        cause,
        class,
    })
}
