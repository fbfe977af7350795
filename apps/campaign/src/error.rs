//! Errors of campaigns.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use isochron_hierarchy::printable::show_path;

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
    /// A file of the campaign that cannot be written while it runs, as on a full disk.
    #[error(
        "{}: {reason}; what was measured before is kept: make room, and run the campaign again",
        show_path(path)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// A folder that something else changed while the campaign ran in it.
    #[error(
        "{}: {reason}: something else changed this folder while the campaign ran; the same command goes on with what is there",
        show_path(path)
    )]
    Changed {
        /// The file that changed.
        path: PathBuf,
        /// The change.
        reason: String,
    },
    /// A number of nodes that no point of the campaign needs.
    #[error("{}", describe_nodes(*nodes, known))]
    Nodes {
        /// The number.
        nodes: u32,
        /// The numbers that points need.
        known: BTreeSet<u32>,
    },
    /// A run that was asked to stop.
    #[error("stopped; the same command goes on where it was")]
    Stopped,
}

impl CampaignError {
    /// Makes an error of a file or folder.
    pub(crate) fn file(path: &Path, reason: impl Display) -> Self {
        Self::File {
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }

    /// Returns `true` if the input is wrong, and `false` if the run failed.
    pub fn is_of_input(&self) -> bool {
        !matches!(
            self,
            Self::Write { .. } | Self::Changed { .. } | Self::Stopped
        )
    }
}

/// Tells which numbers of nodes there are instead of one that is not there.
fn describe_nodes(nodes: u32, known: &BTreeSet<u32>) -> String {
    if known.is_empty() {
        return "the file does not say how many nodes points need: add `nodes`".to_owned();
    }
    let known: Vec<String> = known.iter().map(u32::to_string).collect();
    format!(
        "no point needs {nodes} nodes: known are {}",
        known.join(", ")
    )
}
