//! Agreement of all ranks on success or failure, before they act on it.

use serde::{Deserialize, Serialize};

use super::contract::Comm;
use crate::error::{Error, ErrorClass};

/// The failure of one rank, as it tells the others.
#[derive(Serialize, Deserialize)]
struct RankFailure {
    host: String,
    cause: String,
    class: ErrorClass,
}

/// Turns one rank's failure into the same failure on every rank.
///
/// A rank that returns early leaves the others waiting in their next collective call for ever. So every rank contributes
/// its outcome: all go on, or all leave with the error of the lowest rank that failed.
///
/// # Errors
/// [`Error::Rank`] on every rank when any rank contributed an error (the error itself when there is one rank).
///
/// # Collective
/// All ranks.
pub fn agree<T>(comm: &dyn Comm, outcome: Result<T, Error>) -> Result<T, Error> {
    if comm.size() == 1 {
        return outcome;
    }
    let failure = outcome.as_ref().err().map(|error| RankFailure {
        host: comm.host().to_string(),
        cause: error.to_string(),
        class: error.class(),
    });
    // A failure that cannot be encoded must not look like success, which is an empty contribution.
    let bytes = failure.as_ref().map_or_else(Vec::new, |f| {
        serde_json::to_vec(f).unwrap_or_else(|_| vec![0])
    });
    let all = comm.all_gather(&bytes);
    let Some((rank, bytes)) = all.iter().enumerate().find(|(_, bytes)| !bytes.is_empty()) else {
        return outcome;
    };
    let failure = serde_json::from_slice(bytes).unwrap_or_else(|_| RankFailure {
        host: "an unknown host".to_string(),
        cause: "failed without a readable message".to_string(),
        class: ErrorClass::Run,
    });
    if let Err(error @ Error::Rank { .. }) = outcome {
        return Err(error);
    }
    Err(Error::Rank {
        rank,
        host: failure.host,
        cause: failure.cause,
        class: failure.class,
    })
}
