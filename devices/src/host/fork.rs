//! The process in which a value was made.

use crate::contract::ForkedChild;
use std::process;

/// The process in which a value was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeProcess(u32);

impl HomeProcess {
    /// Returns this process.
    pub fn current() -> Self {
        Self(process::id())
    }

    /// Returns `true` in this process, and `false` in its forked children.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Checks that `what` is used where it was made.
    ///
    /// # Errors
    /// Returns [`ForkedChild`] in every other process.
    pub fn check(self, what: &'static str) -> Result<(), ForkedChild> {
        if self.is_current() {
            return Ok(());
        }
        Err(ForkedChild { what, parent: self.0, child: process::id() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_told_by_both_numbers() {
        assert!(HomeProcess::current().check("session").is_ok());
        let text = HomeProcess(0).check("session").unwrap_err().to_string();
        let start = format!(
            "process {} is a forked child of process 0, which has made this session",
            process::id()
        );
        assert!(text.starts_with(&start), "{text}");
    }
}
