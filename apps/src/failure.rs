//! Why a command ends, and with which status.

use std::io::Write as _;

use isochron::ErrorClass;

/// A message for the user and the exit status.
#[derive(Debug)]
pub struct Failure {
    /// One clear message.
    pub message: String,
    /// 1 the run failed, 2 bad usage or input.
    pub status: u8,
}

impl Failure {
    /// Bad usage or input.
    pub fn input(message: impl ToString) -> Self {
        Self {
            message: message.to_string(),
            status: 2,
        }
    }

    /// Prints the message; the exit status.
    pub fn tell(&self) -> u8 {
        // Where nobody listens the status has to say it all.
        let _ = writeln!(std::io::stderr(), "isochron: {}", self.message);
        self.status
    }

    /// The run failed.
    pub fn run(message: impl ToString) -> Self {
        Self {
            message: message.to_string(),
            status: 1,
        }
    }
}

impl From<isochron::Error> for Failure {
    fn from(error: isochron::Error) -> Self {
        let status = match error.class() {
            ErrorClass::Input => 2,
            ErrorClass::Run => 1,
        };
        Self {
            message: error.to_string(),
            status,
        }
    }
}
