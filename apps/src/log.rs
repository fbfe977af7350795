//! The log: events on standard error, as `ISOCHRON_LOG` asks for them.

use std::env::{self, VarError};
use std::fmt;
use std::io::IsTerminal as _;

use isochron_core::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::output;

/// The environment variable with the filter: `info`, `isochron=debug`, ...
pub const FILTER_VARIABLE: &str = "ISOCHRON_LOG";

/// Sends the events that the environment asks for to standard error. Each line names `rank`.
///
/// # Errors
/// Returns [`Error::Parameter`] for a filter that cannot be read.
pub fn start(rank: usize) -> Result<(), Error> {
    let text = match env::var(FILTER_VARIABLE) {
        Ok(text) => text,
        Err(VarError::NotPresent) => return Ok(()),
        Err(VarError::NotUnicode(text)) => text.to_string_lossy().into_owned(),
    };
    let filter = EnvFilter::try_new(&text).map_err(|error| Error::Parameter {
        name: FILTER_VARIABLE,
        value: text,
        reason: format!("{error}; use warn, info or isochron=debug"),
    })?;
    let has_colors = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || output::log_output(has_colors))
        .with_ansi(has_colors)
        .with_timer(RankAndTime(rank))
        .init();
    Ok(())
}

/// The start of a line: the rank and the time.
struct RankAndTime(usize);

impl FormatTime for RankAndTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "rank {} ", self.0)?;
        SystemTime.format_time(writer)
    }
}
