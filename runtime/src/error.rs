//! Errors of sessions, matrices and multiplications.

use isochron_hierarchy::printable::show_path;
use std::path::PathBuf;

use isochron_devices::internal::MemoryScope;
use isochron_devices::{DeviceError, ForkedChild};
use isochron_hierarchy::balance::BalanceError;
use isochron_hierarchy::decide::DecideError;
use isochron_hierarchy::layout::LayoutError;
use isochron_hierarchy::learn::AdaptiveError;
use isochron_hierarchy::model::ModelError;
use isochron_hierarchy::partition::PartitionError;
use isochron_hierarchy::predict::AlgorithmError;
use isochron_hierarchy::problem::ProblemError;
use serde::{Deserialize, Serialize};

use crate::matrix::spread::error::SpreadError;

/// Class of an error, which decides the exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The request or an input file is wrong; nothing was computed (exit status 2).
    Input,
    /// The run itself failed (exit status 1).
    Run,
}

/// Error of a session, a matrix or a multiplication.
///
/// With several ranks, a failure of one is a failure of all: each gets [`Error::Rank`], with the text of the original error.
/// A single rank gets the original error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The shapes of the operands do not fit together.
    #[error("shapes do not multiply: {0}")]
    Shape(String),
    /// A parameter has an impossible value.
    #[error("{name} = {value}: {reason}")]
    Parameter {
        /// Name of the parameter, as the user knows it.
        name: &'static str,
        /// Its value.
        value: String,
        /// Reason why it cannot be used, and values that can.
        reason: String,
    },
    /// A file cannot be read or written, or has the wrong content.
    #[error("{}: {reason}", show_path(path))]
    File {
        /// The file.
        path: PathBuf,
        /// Place in the file, and the reason.
        reason: String,
    },
    /// A file system has less space than an output needs.
    #[error(
        "{}: needs {needed_bytes} bytes, and its file system has {free_bytes} free",
        show_path(path)
    )]
    Space {
        /// The output.
        path: PathBuf,
        /// Bytes that it needs, estimated for a text.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// A result could not be written.
    #[error("cannot write {}: {reason}", show_path(path))]
    Output {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A saved plan is broken, or was made for something else.
    #[error("the plan cannot be used here: {0}")]
    Plan(String),
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
    /// The ranks were started with different settings, or call with different arguments.
    #[error("all ranks need the same command and settings: {0}")]
    Settings(String),
    /// A host has less memory than the plan needs.
    #[error(
        "host {host} lacks {} MiB: the plan needs {} MiB there{} and {} MiB are available{}{}",
        to_mib(needed_bytes.saturating_sub(*available_bytes)), to_mib(*needed_bytes), name_rank(*rank),
        to_mib(*available_bytes), name_bound(bound), compare_with_plan(*planned_bytes, *available_bytes)
    )]
    Memory {
        /// Name of the host, as its ranks know it.
        host: String,
        /// Rank that needs most among the ranks that share the memory; `None` for all hosts together.
        rank: Option<usize>,
        /// Bytes that the ranks need together which share the memory: those of the host, of a control group, or one rank with
        /// a limit of its own.
        needed_bytes: u64,
        /// Bytes that they have available.
        available_bytes: u64,
        /// The processes that share this memory.
        bound: MemoryScope,
        /// Bytes that they had available when the plan was made; `None` while it is made.
        planned_bytes: Option<u64>,
    },
    /// An allocation failed although the plan had accounted for it.
    #[error(
        "cannot allocate {} MiB for {what}: other programs have taken memory since the plan was made, or a limit is near \
         (`ulimit -v`): use a smaller problem or more hosts", to_mib(*bytes)
    )]
    Allocation {
        /// Purpose of the memory.
        what: &'static str,
        /// Number of bytes asked for.
        bytes: u64,
    },
    /// A forked child uses a session, a balancer or a communicator of its parent.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
    /// A device failed, or there is none.
    #[error(transparent)]
    Device(DeviceError),
    /// The balancing machines cannot use their measurements.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// The planner cannot use its answers.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// Nothing can be learnt from these times.
    #[error(transparent)]
    Adaptive(#[from] AdaptiveError),
    /// A layout does not tile its matrix.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A performance model is broken.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model of the program's own failed, or its times cannot be used.
    #[error("the model of rank {rank}: {reason}")]
    OwnModel {
        /// The rank whose time it gives.
        rank: usize,
        /// The reason.
        reason: String,
    },
    /// The time of an algorithm of the program's own cannot be predicted.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// A matrix cannot be spread, or moved, as asked.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// The program and the launcher belong to different MPI libraries.
    #[error(
        "the launcher started {launched} processes but this program sees itself alone: \
         it is linked with {library}; start it with that library's mpirun, or, if no launcher runs and its variables are \
         left over, set ISOCHRON_COMM=local"
    )]
    Launcher {
        /// Number of processes that the launcher says it started.
        launched: usize,
        /// The MPI library of this program.
        library: String,
    },
    /// A program that is a rank itself has started this one, which needs ranks of its own.
    #[error(
        "the MPI program {program} (process {process}) has started this one, which cannot start a second job within it: \
         start it outside of that program, or set ISOCHRON_COMM=local to use one rank"
    )]
    WithinMpi {
        /// The program that is a rank.
        program: String,
        /// Its process number.
        process: u32,
    },
    /// A call of MPI failed on this rank.
    #[error("rank {rank}: {call}: {message}")]
    Mpi {
        /// The call.
        call: &'static str,
        /// This rank.
        rank: usize,
        /// MPI's message.
        message: String,
    },
    /// A group of the program's own does not work, or not any more.
    #[error("rank {rank}: its group: {reason}")]
    Group {
        /// This rank.
        rank: usize,
        /// The reason.
        reason: String,
    },
    /// Another rank failed; every rank leaves with this same error.
    #[error("rank {rank} on {host}: {cause}")]
    Rank {
        /// Lowest rank that failed.
        rank: usize,
        /// Its host.
        host: String,
        /// Its error.
        cause: String,
        /// Its class.
        class: ErrorClass,
    },
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Parameter { name, value, reason } => {
                Error::Parameter { name, value, reason }
            }
            DeviceError::Model(error) => error.into(),
            error => Error::Device(error),
        }
    }
}

impl From<ProblemError> for Error {
    fn from(error: ProblemError) -> Self {
        let ProblemError { name, value, reason } = error;
        Error::Parameter { name, value, reason }
    }
}

impl Error {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Rank { class, .. } => *class,
            Error::Device(
                DeviceError::UnknownBlas(_)
                | DeviceError::UnknownGrouping(_)
                | DeviceError::Memory { .. }
                | DeviceError::Blas { .. }
                | DeviceError::BlasMemory { .. }
                | DeviceError::BlasThreads { .. }
                | DeviceError::Config { .. }
                | DeviceError::KernelLibrary { .. }
                | DeviceError::Measure { .. }
                | DeviceError::Forked(_),
            )
            | Error::Adaptive(
                AdaptiveError::InvalidConfig { .. }
                | AdaptiveError::InvalidFunction(_)
                | AdaptiveError::MissingFunction { .. }
                | AdaptiveError::BeyondCapacity { .. }
                | AdaptiveError::Partition(
                    PartitionError::BeyondModels { .. }
                    | PartitionError::BeyondLimits { .. }
                    | PartitionError::NotASum { .. },
                ),
            )
            | Error::Decide(DecideError::Layout(
                LayoutError::OtherGrid { .. }
                | LayoutError::GridAlongK(_)
                | LayoutError::OwnColumns { .. },
            )) => ErrorClass::Input,
            Error::Device(_)
            | Error::Output { .. }
            | Error::Unreadable { .. }
            | Error::Mpi { .. }
            | Error::Group { .. }
            | Error::Allocation { .. }
            | Error::Balance(_)
            | Error::Decide(_)
            | Error::Adaptive(_)
            | Error::Layout(_)
            | Error::OwnModel { .. } => ErrorClass::Run,
            Error::Shape(_)
            | Error::Parameter { .. }
            | Error::File { .. }
            | Error::Space { .. }
            | Error::Plan(_)
            | Error::Settings(_)
            | Error::Memory { .. }
            | Error::Forked(_)
            | Error::Model(_)
            | Error::Algorithm(_)
            | Error::Spread(_)
            | Error::Launcher { .. }
            | Error::WithinMpi { .. } => ErrorClass::Input,
        }
    }

    /// Makes an [`Error::Parameter`].
    pub fn parameter(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Error::Parameter { name, value: value.to_string(), reason: reason.into() }
    }

    /// Makes an [`Error::Output`].
    pub fn output(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Error::Output { path: path.into(), reason: reason.to_string() }
    }

    /// Makes an [`Error::File`].
    pub fn file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Error::File { path: path.into(), reason: reason.to_string() }
    }
}

fn name_rank(rank: Option<usize>) -> String {
    rank.map_or(String::new(), |rank| format!(", most of it by rank {rank},"))
}

fn name_bound(bound: &MemoryScope) -> &'static str {
    match bound {
        MemoryScope::Host => "",
        MemoryScope::Group(..) => " in its control group",
        MemoryScope::Process => " under the limit on the address space (`ulimit -v`)",
    }
}

fn compare_with_plan(planned_bytes: Option<u64>, available_bytes: u64) -> String {
    match planned_bytes {
        Some(bytes) if bytes > available_bytes => format!(
            "; {} MiB were when it was planned, so other programs have taken memory since",
            to_mib(bytes)
        ),
        _ => String::new(),
    }
}

fn to_mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
