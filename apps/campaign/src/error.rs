//! Errors of campaigns.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use isochron_base::printable::show_path;

/// An error of a campaign.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A file or folder that cannot be used.
    #[error("{}: {reason}", show_path(path))]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A mistake in a line of a file.
    #[error("{}:{line}: {reason}", show_path(path))]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// A folder in which another engine runs.
    #[error("{}: {holder} runs this campaign already", show_path(folder))]
    Held {
        /// The folder.
        folder: PathBuf,
        /// The process and its host.
        holder: String,
    },
    /// A file of the campaign that cannot be written while it runs, as on a full disk, or that something else changed.
    #[error(
        "{}: {reason}: see to that, and run the campaign again, which goes on with what is there",
        show_path(path)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// A number of nodes that no point of the campaign needs.
    #[error("{0}")]
    Nodes(String),
    /// A run that was asked to stop.
    #[error("stopped; the same command goes on where it was")]
    Stopped,
}

impl CampaignError {
    /// Makes an error of a file or folder.
    pub(crate) fn file(path: &Path, reason: impl Display) -> Self {
        Self::File { path: path.to_path_buf(), reason: reason.to_string() }
    }

    /// Returns `true` if the input is wrong, and `false` if the run failed.
    pub fn is_of_input(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Stopped)
    }
}
