//! What can go wrong.

use std::io;

/// Why hosts could not be emulated, reached or removed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// This machine, or this user, cannot emulate hosts.
    #[error("hosts cannot be emulated here: {0}")]
    Missing(String),
    /// Something asked for makes no sense.
    #[error("{name} `{value}`: {reason}")]
    Value {
        /// What was given.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, or what would be right.
        reason: String,
    },
    /// A cluster of this name is up.
    #[error("the cluster `{0}` is up already: take it down first, or give this one another name")]
    UpAlready(String),
    /// No cluster of this name is up.
    #[error("no cluster `{0}` is up")]
    NotUp(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What we were about to do.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program of ours, or of the system, failed.
    #[error("{what}: {message}")]
    Program {
        /// The program.
        what: String,
        /// What it said.
        message: String,
    },
}

impl ClusterError {
    pub(crate) fn value(name: &'static str, value: impl ToString, reason: &str) -> Self {
        Self::Value {
            name,
            value: value.to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// Says what we were about to do when the system refused.
pub(crate) trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, ClusterError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, ClusterError> {
        self.map_err(|source| ClusterError::System {
            what: what(),
            source: source.into(),
        })
    }
}
