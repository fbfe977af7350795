//! The other ranks as the watcher of one sees them.

use super::sign::Sign;

/// The state of a process that sends no signs, as its host tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It is stopped by a signal.
    Stopped,
    /// A debugger holds it.
    Traced,
    /// There is no such process.
    Gone,
    /// It exists; or its host is another one, and nothing is known.
    Unknown,
}

/// A rank as this one sees it.
#[derive(Debug, Clone)]
pub(super) struct SeenRank {
    pub host: String,
    /// The last sign; `None` if there was none.
    pub sign: Option<Sign>,
    /// The time of that sign, or of the start.
    pub heard_s: f64,
}
