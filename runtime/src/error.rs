//! What can go wrong in a session, and whose fault it is.

use std::path::PathBuf;

use isochron_devices::DeviceError;
use isochron_hierarchy::balance::BalanceError;
use isochron_hierarchy::layout::LayoutError;
use isochron_hierarchy::model::ModelError;
use serde::{Deserialize, Serialize};

use crate::matrix::spread::error::SpreadError;

/// Whose fault an error is; decides the exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The request or an input file is wrong: nothing was computed (exit status 2).
    Input,
    /// The run itself failed (exit status 1).
    Run,
}

/// Everything a session, a matrix or a multiplication can fail with.
///
/// With several ranks, what fails on one fails on all: each gets [`Error::Rank`], which tells the other variants as
/// text. A single rank gets the variant itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The shapes of the operands do not fit together.
    #[error("shapes do not multiply: {0}")]
    Shape(String),
    /// A parameter has a value that means nothing.
    #[error("{name} = {value}: {reason}")]
    Parameter {
        /// The parameter's name as the user knows it.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// Why it cannot be used, and what can.
        reason: String,
    },
    /// A file cannot be read or written, or does not hold what it should.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where in the file and why.
        reason: String,
    },
    /// A result could not be written.
    #[error("cannot write {}: {reason}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A saved plan is broken, or was made for something else.
    #[error("the plan cannot be used here: {0}")]
    Plan(String),
    /// A message of another rank makes no sense: the ranks run different programs.
    #[error("a message of another rank cannot be read ({0}): do all ranks run the same version?")]
    Message(String),
    /// The value that a rank contributed to a collective is not of the type that the others expect.
    #[error(
        "the message of rank {rank} cannot be read ({reason}): do all ranks run the same version?"
    )]
    Unreadable {
        /// The rank.
        rank: usize,
        /// Why its message cannot be read.
        reason: String,
    },
    /// A host has less memory than the plan needs.
    #[error(
        "host {host} lacks {} MiB: the plan needs {} MiB there{} and {} MiB are available",
        mib(*needed_bytes - *available_bytes), mib(*needed_bytes), by_rank(*rank), mib(*available_bytes)
    )]
    Memory {
        /// The host, as its ranks name it.
        host: String,
        /// The rank of this host that needs most; `None` where it is about all hosts.
        rank: Option<usize>,
        /// Bytes that all ranks on the host need together.
        needed_bytes: u64,
        /// Bytes that the host has to give.
        available_bytes: u64,
    },
    /// An allocation that the plan had accounted for failed all the same.
    #[error("cannot allocate {} MiB for {what}", mib(*bytes))]
    Allocation {
        /// What the memory was for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// A device failed, or there is none.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The balancing machines were given measurements they cannot use.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// A layout does not tile its matrix.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A performance model is broken.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A matrix cannot be spread, or moved, as asked.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// The program and the launcher belong to different MPI libraries.
    #[error(
        "the launcher started {launched} processes but this program sees itself alone: \
         it is linked with {library}; start it with that library's mpirun"
    )]
    Launcher {
        /// How many processes the launcher says there are.
        launched: usize,
        /// The MPI library of this program.
        library: String,
    },
    /// Another rank failed; every rank leaves with this same error.
    #[error("rank {rank} on {host}: {cause}")]
    Rank {
        /// The lowest rank that failed.
        rank: usize,
        /// Its host.
        host: String,
        /// Its error.
        cause: String,
        /// Whose fault that was.
        class: ErrorClass,
    },
}

impl Error {
    /// Whose fault the error is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Rank { class, .. } => *class,
            Error::Device(
                DeviceError::UnknownBlas { .. }
                | DeviceError::UnknownGrouping { .. }
                | DeviceError::Memory { .. }
                | DeviceError::Blas { .. }
                | DeviceError::Config { .. }
                | DeviceError::Measure { .. },
            ) => ErrorClass::Input,
            Error::Device(_)
            | Error::Output { .. }
            | Error::Message(_)
            | Error::Unreadable { .. }
            | Error::Allocation { .. }
            | Error::Balance(_)
            | Error::Layout(_) => ErrorClass::Run,
            _ => ErrorClass::Input,
        }
    }

    /// An output error with its reason.
    pub(crate) fn output(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Error::Output {
            path: path.into(),
            reason: reason.to_string(),
        }
    }

    /// A file error with its reason.
    pub(crate) fn file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Error::File {
            path: path.into(),
            reason: reason.to_string(),
        }
    }
}

fn by_rank(rank: Option<usize>) -> String {
    rank.map_or(String::new(), |rank| {
        format!(", most of it by rank {rank},")
    })
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
