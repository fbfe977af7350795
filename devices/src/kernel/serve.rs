//! The side of a kernel's process: it answers the requests of [`ChildRun`](super::ChildRun), a line each.

use super::run::{KernelRun, RunEnd};
use crate::contract::DeviceError;
use std::io::{self, BufRead, Write};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KernelAnswer {
    /// Success, with a number if there is one.
    Done(f64),
    /// The run was stopped after these seconds.
    Stopped(f64),
    /// The reason of a failure.
    Failed(String),
    /// The reason of a failure to find memory for a size.
    NoMemory(String),
}

impl KernelAnswer {
    pub fn to_line(&self) -> String {
        match self {
            Self::Done(number) => format!("done {number}\n"),
            Self::Stopped(time_s) => format!("stopped {time_s}\n"),
            Self::Failed(reason) => format!("failed {}\n", reason.replace(['\n', '\r'], " ")),
            Self::NoMemory(reason) => format!("no-memory {reason}\n"),
        }
    }

    /// Reads a line; `None` if it is no answer.
    pub fn from_line(line: &str) -> Option<Self> {
        let (word, rest) = line.trim_end().split_once(' ')?;
        match word {
            "done" => Some(Self::Done(rest.parse().ok()?)),
            "stopped" => Some(Self::Stopped(rest.parse().ok()?)),
            "failed" => Some(Self::Failed(rest.to_owned())),
            "no-memory" => Some(Self::NoMemory(rest.to_owned())),
            _ => None,
        }
    }
}

/// Answers the requests of another process until that closes the connection. The first answer tells if the kernel could
/// be opened.
///
/// # Errors
/// Returns the errors of the connection.
pub fn serve_kernel(
    opened: Result<Box<dyn KernelRun>, DeviceError>,
    requests: &mut dyn BufRead,
    answers: &mut dyn Write,
) -> io::Result<()> {
    let mut run = match opened {
        Ok(run) => run,
        Err(error) => return answers.write_all(describe_failure(error).to_line().as_bytes()),
    };
    answers.write_all(KernelAnswer::Done(0.0).to_line().as_bytes())?;
    let mut request = String::new();
    while requests.read_line(&mut request)? > 0 {
        let answer = answer_request(run.as_mut(), &request).unwrap_or_else(describe_failure);
        answers.write_all(answer.to_line().as_bytes())?;
        request.clear();
    }
    Ok(())
}

fn answer_request(run: &mut dyn KernelRun, request: &str) -> Result<KernelAnswer, DeviceError> {
    let (function, d) = request.trim_end().split_once(' ').unwrap_or_default();
    let d = d.parse().unwrap_or_default();
    match function {
        "complexity" => run.complexity(d).map(KernelAnswer::Done),
        "initialize" => run.initialize(d).map(|()| KernelAnswer::Done(0.0)),
        "execute" => run.execute().map(|execution| match execution {
            RunEnd::Done(time_s) => KernelAnswer::Done(time_s),
            RunEnd::Stopped(time_s) => KernelAnswer::Stopped(time_s),
        }),
        "finalize" => run.finalize().map(|()| KernelAnswer::Done(0.0)),
        _ => Ok(KernelAnswer::Failed(format!("no such request: {request}"))),
    }
}

/// Returns the reason alone: the other process names the kernel.
fn describe_failure(error: DeviceError) -> KernelAnswer {
    match error {
        DeviceError::KernelMemory { reason, .. } => KernelAnswer::NoMemory(reason),
        DeviceError::Kernel { reason, .. } | DeviceError::KernelLibrary { reason, .. } => {
            KernelAnswer::Failed(reason)
        }
        other => KernelAnswer::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Interrupt, Kernel, KernelError, OwnRun};

    struct Counter;

    impl Kernel for Counter {
        fn complexity(&self, d: u64) -> f64 {
            2.0 * d as f64
        }

        fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
            match d {
                1 => Err(KernelError::Code(5)),
                9 => Err(KernelError::NoMemory),
                _ => Ok(()),
            }
        }

        fn execute(&mut self, _interrupt: &Interrupt) -> Result<(), KernelError> {
            Ok(())
        }

        fn finalize(&mut self) -> Result<(), KernelError> {
            Ok(())
        }
    }

    fn serve(requests: &str) -> Vec<KernelAnswer> {
        let mut answers = Vec::new();
        let run = OwnRun::new("counter", Box::new(Counter), f64::INFINITY).unwrap();
        serve_kernel(Ok(Box::new(run)), &mut requests.as_bytes(), &mut answers).unwrap();
        String::from_utf8(answers)
            .unwrap()
            .lines()
            .map(|line| KernelAnswer::from_line(line).unwrap())
            .collect()
    }

    #[test]
    fn every_request_has_one_answer() {
        let answers = serve(
            "complexity 4\ninitialize 1\ninitialize 2\nexecute 0\nfinalize 0\njump 0\ninitialize 9\n",
        );
        assert_eq!(answers.len(), 8);
        assert_eq!(answers[1], KernelAnswer::Done(8.0));
        let reason = "initialize of 1 units returned error 5".to_owned();
        assert_eq!(answers[2], KernelAnswer::Failed(reason));
        let reason = "initialize of 9 units found no memory for this size".to_owned();
        assert_eq!(answers[7], KernelAnswer::NoMemory(reason));
        assert!(matches!(answers[4], KernelAnswer::Done(time_s) if time_s >= 0.0));
        assert!(matches!(&answers[6], KernelAnswer::Failed(reason) if reason.contains("jump")));
    }

    #[test]
    fn a_kernel_that_cannot_be_opened_is_the_first_answer() {
        let mut answers = Vec::new();
        let error = DeviceError::KernelLibrary {
            library: "k.so".to_owned(),
            reason: "it has\nno symbol".to_owned(),
        };
        serve_kernel(Err(error), &mut "".as_bytes(), &mut answers).unwrap();
        assert_eq!(answers, b"failed it has no symbol\n");
    }
}
