//! The failure of a command, with its exit status.

use std::fmt::Display;
use std::path::Path;

use isochron_core::ErrorClass;
use isochron_devices::internal::failed_status;
use isochron_hierarchy::printable::show_path;
use isochron_hierarchy::problem::ProblemError;

/// A message for the user and the exit status.
#[derive(Debug)]
pub struct Failure {
    /// One clear message; empty if the answer says it all.
    pub message: String,
    /// 1 if the run failed, 2 for bad usage or input; `isochron health` and `isochron simulate` have more.
    pub status: u8,
}

impl Failure {
    /// Makes a failure of usage or input.
    pub fn input(message: impl ToString) -> Self {
        Self { message: message.to_string(), status: 2 }
    }

    /// Makes a failure to use the file `path`.
    pub fn of_file(path: &Path, reason: impl Display) -> Self {
        Self::input(format!("{}: {reason}", show_path(path)))
    }

    /// Makes a failure of the run.
    pub fn run(message: impl ToString) -> Self {
        Self { message: message.to_string(), status: failed_status() }
    }

    /// Makes the failure of a result that is wrong.
    pub fn wrong_result() -> Self {
        Self::run("the result is wrong: it failed its check")
    }

    /// Makes the failure of a result that its check can neither confirm nor refute.
    pub fn unverified_result() -> Self {
        Self::run(
            "the result is not verified, so it is not published; --verify none checks nothing",
        )
    }
}

impl From<ProblemError> for Failure {
    fn from(error: ProblemError) -> Self {
        isochron_core::Error::from(error).into()
    }
}

impl From<isochron_core::Error> for Failure {
    fn from(error: isochron_core::Error) -> Self {
        match error.class() {
            ErrorClass::Input => Self::input(error),
            ErrorClass::Run => Self::run(error),
        }
    }
}
