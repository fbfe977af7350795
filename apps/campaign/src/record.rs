//! The lines of `points.jsonl`.

use isochron_base::printable::escape;
use serde::{Deserialize, Serialize};

use crate::point::{Parameters, is_fingerprint};
use crate::reading::Values;

/// Version of the lines.
pub(crate) const SCHEMA: u32 = 1;

/// Start of a warning of what may be the work of the program itself, so that another attempt would tell no more.
pub(crate) const UNCLEAR: &str = "unclear: ";

/// A repetition that has ended: one run of a contender at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Repetition {
    /// Version of the line.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = 1)))]
    pub schema: u32,
    /// Name of the campaign.
    pub campaign: String,
    /// Name of the point.
    pub point: String,
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Name of the contender.
    pub contender: String,
    /// Fingerprint of the contender's command, launcher and results.
    pub definition: String,
    /// The round; absent for a trial of tuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Number of the attempt in this round, from 0: disturbed repetitions are repeated.
    pub attempt: u32,
    /// Values of the tuned names.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub tuned: Parameters,
    /// Start, in seconds since 1970 by the system's clock.
    pub start_s: f64,
    /// Seconds from start to end by a clock that never jumps.
    pub took_s: f64,
    /// The end.
    pub status: Status,
    /// Exit status of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Reason of a failure: the last line that the program printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Results by name.
    pub values: Values,
    /// Disturbances: the reasons not to trust the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Fingerprint of the JSON document that the program printed, which is `documents/HASH.json`; absent if it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Fingerprint of the environment, which `env/HASH.json` describes.
    pub environment: String,
}

/// The end of a repetition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The program succeeded, and has printed its results.
    Done,
    /// The program failed or printed no results.
    #[default]
    Failed,
    /// The program exceeded its time limit and was killed.
    TimedOut,
}

impl Repetition {
    /// Reads a line.
    ///
    /// # Errors
    /// Returns the reason why it is no repetition, or one that this program cannot read.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(line).map_err(|error| {
            // The line is the only one of its text.
            let error = error.to_string();
            let reason = error.split(" at line ").next().unwrap_or_default();
            format!("is no repetition of a campaign: {reason}")
        })?;
        if read.schema != SCHEMA {
            let other = read.schema;
            return Err(format!(
                "has version {other} of the format, and this program reads version {SCHEMA}"
            ));
        }
        for name in read.document.iter().chain([&read.environment]) {
            if !is_fingerprint(name) {
                return Err(format!("`{}` is no fingerprint", escape(name)));
            }
        }
        Ok(read)
    }

    /// Returns `true` if the repetition succeeded.
    pub fn is_done(&self) -> bool {
        self.status == Status::Done
    }

    /// Returns `true` if the repetition succeeded and was disturbed.
    pub fn is_disturbed(&self) -> bool {
        let mut warnings = self.warnings.iter();
        self.is_done() && warnings.any(|warning| !warning.starts_with(UNCLEAR))
    }

    /// Describes a failure in one line.
    pub fn describe_failure(&self) -> String {
        let end = match (self.status, self.exit, self.signal) {
            (Status::TimedOut, ..) => format!("killed after {:.0} s", self.took_s),
            (_, Some(0), _) => "no result".to_owned(),
            (_, Some(exit), _) => format!("exit status {exit}"),
            (_, None, Some(signal)) => format!("signal {signal}"),
            _ => "not started".to_owned(),
        };
        match &self.reason {
            Some(reason) => format!("{end}: {reason}"),
            None => end,
        }
    }
}
