//! Agreement of all ranks on success or failure, before they act on it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::collectives::{decode, encode};
use super::contract::Comm;
use crate::error::{Error, ErrorClass};

/// Turns one rank's failure into the same failure on every rank.
///
/// A rank that returns early leaves the others waiting in their next collective call for ever. So every rank
/// contributes its outcome: all go on, or all leave with the error of the lowest rank that failed.
///
/// # Errors
/// Returns [`Error::Rank`] on every rank when any rank contributed an error (the error itself when there is one rank);
/// the errors of [`Comm`].
///
/// # Collective
/// All ranks.
pub fn agree<T>(comm: &dyn Comm, outcome: Result<T, Error>) -> Result<T, Error> {
    if comm.size() == 1 {
        return outcome;
    }
    // Success is an empty contribution, which no failure is.
    let failure = outcome.as_ref().err();
    let failure = failure.map_or_else(Vec::new, |error| encode(&ToldFailure::new(comm, error)));
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
    Err(decode::<ToldFailure>(rank, failure)?.into())
}

/// Returns the value of `root` on every rank, or its failure; the other ranks give `None`. It waits once, where
/// [`agree`] and a broadcast wait twice.
///
/// # Errors
/// Returns [`Error::Rank`] on every rank if `root` failed (the error itself when there is one rank),
/// [`Error::Unreadable`] if it gives no value of `V`; the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same `root` and values of the same type.
pub fn share_outcome<V: Serialize + DeserializeOwned>(
    comm: &dyn Comm,
    root: usize,
    outcome: Option<Result<V, Error>>,
) -> Result<V, Error> {
    match outcome {
        Some(outcome) if comm.size() == 1 => outcome,
        outcome => {
            let mut bytes = outcome.map_or_else(Vec::new, |mine| encode_outcome(comm, mine));
            comm.broadcast(root, &mut bytes)?;
            decode_outcome(root, &bytes)
        }
    }
}

/// Encodes an outcome of this rank for the other ranks.
pub fn encode_outcome<V: Serialize>(comm: &dyn Comm, outcome: Result<V, Error>) -> Vec<u8> {
    encode(&outcome.map_err(|error| ToldFailure::new(comm, &error)))
}

/// Decodes the outcome of a rank.
///
/// # Errors
/// Returns [`Error::Rank`] if that rank failed, [`Error::Unreadable`] if it gives no value of `V`.
pub fn decode_outcome<V: DeserializeOwned>(rank: usize, bytes: &[u8]) -> Result<V, Error> {
    decode::<Result<V, ToldFailure>>(rank, bytes)?.map_err(Error::from)
}

/// A failure as it travels between ranks.
#[derive(Serialize, Deserialize)]
struct ToldFailure {
    rank: usize,
    host: String,
    cause: String,
    class: ErrorClass,
}

impl ToldFailure {
    /// Describes an error of this rank, or one that all ranks know already.
    fn new(comm: &dyn Comm, error: &Error) -> Self {
        match error {
            Error::Rank { rank, host, cause, class } => {
                Self { rank: *rank, host: host.clone(), cause: cause.clone(), class: *class }
            }
            error => Self {
                rank: comm.rank(),
                host: comm.host().to_owned(),
                cause: error.to_string(),
                class: error.class(),
            },
        }
    }
}

impl From<ToldFailure> for Error {
    fn from(failure: ToldFailure) -> Self {
        let ToldFailure { rank, host, cause, class } = failure;
        Self::Rank { rank, host, cause, class }
    }
}
