//! Ranks agree before they act.

use serde::{Deserialize, Serialize};

use super::Comm;
use crate::error::{Error, ErrorClass};

#[derive(Serialize, Deserialize)]
struct Failure {
    host: String,
    cause: String,
    class: ErrorClass,
}

/// Turns one rank's failure into the same failure on every rank.
///
/// A rank that returned early would leave the others waiting in their next collective call for ever, so every
/// rank contributes its outcome and all go on, or all leave with the error of the lowest rank that failed.
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
    let failure = outcome.as_ref().err().map(|error| Failure {
        host: comm.host().to_string(),
        cause: error.to_string(),
        class: error.class(),
    });
    // An unreadable contribution counts as a failure: silence must not pass for success.
    let bytes = failure.as_ref().map_or_else(Vec::new, |f| {
        serde_json::to_vec(f).unwrap_or_else(|_| vec![0])
    });
    let all = comm.all_gather(&bytes);
    let Some((rank, bytes)) = all.iter().enumerate().find(|(_, bytes)| !bytes.is_empty()) else {
        return outcome;
    };
    let failure = serde_json::from_slice(bytes).unwrap_or_else(|_| Failure {
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
/// The largest of all ranks' values, of which none is negative.
///
/// # Collective
/// All ranks.
pub(crate) fn largest(comm: &dyn Comm, value: f64) -> f64 {
    let all = comm.all_gather(&value.to_le_bytes());
    let values = all
        .iter()
        .filter_map(|bytes| Some(f64::from_le_bytes(bytes.as_slice().try_into().ok()?)));
    values.fold(0.0, f64::max)
}
