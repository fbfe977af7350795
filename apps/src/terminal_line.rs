//! The line of progress on a terminal.

use std::io::{IsTerminal as _, Write as _};

/// A line on standard error that is replaced again and again, and cleared at the end.
pub struct TerminalLine {
    is_shown: bool,
}

impl TerminalLine {
    /// Makes the line of a rank. It is shown by the head rank, if standard error is a terminal.
    pub fn of_rank(is_head: bool) -> Self {
        Self {
            is_shown: is_head && std::io::stderr().is_terminal(),
        }
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        if self.is_shown {
            // If standard error is closed, there is no one to tell.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for TerminalLine {
    fn drop(&mut self) {
        self.show("");
    }
}
