//! The error type of this crate.

use std::fmt;
use std::io;

/// An error while hosts are emulated, reached or removed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// This machine, or this user, cannot emulate hosts.
    #[error("hosts cannot be emulated here: {0}")]
    Missing(String),
    /// A given value is not allowed.
    #[error("{name} `{value}`: {reason}")]
    Value {
        /// Name of the value.
        name: &'static str,
        /// The value.
        value: String,
        /// The reason, or the allowed values.
        reason: String,
    },
    /// A cluster of this name is up.
    #[error("the cluster `{0}` is up already: take it down first, or give this one another name")]
    UpAlready(String),
    /// No cluster of this name is up.
    #[error("no cluster `{0}` is up")]
    NotUp(String),
    /// The system refused an action.
    #[error("{what}: {source}")]
    System {
        /// The action.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program of ours, or of the system, failed.
    #[error("{what}: {message}")]
    Program {
        /// The program.
        what: String,
        /// Its message.
        message: String,
    },
}

impl ClusterError {
    pub(crate) fn value(name: &'static str, value: impl ToString, reason: &str) -> Self {
        Self::Value { name, value: value.to_string(), reason: reason.to_owned() }
    }
}

/// Adds the action that the system refused.
pub(crate) trait During<T> {
    fn during(self, what: impl fmt::Display) -> Result<T, ClusterError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T, ClusterError> {
        self.map_err(|source| ClusterError::System {
            what: what.to_string(),
            source: source.into(),
        })
    }
}
