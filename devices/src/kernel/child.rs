//! Runs of a kernel in a process of its own.

use super::run::{KernelRun, RunEnd, fail};
use super::serve::KernelAnswer;
use crate::contract::DeviceError;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Seconds after its limit at which a run that ignores its interruption is killed.
const GRACE_S: f64 = 1.0;

/// Seconds for which a library may be loaded, and a size prepared, whatever the limit of a run.
const PATIENCE_S: f64 = 60.0;

/// A kernel that runs in a process of its own: a crash of it is an error here, and a run that never returns is killed.
///
/// The process talks to this one over its standard input, and its standard output goes to standard error. Each is started
/// by the same command, which has to [serve](super::serve_kernel) that kernel.
pub struct ChildRun {
    name: String,
    /// Makes the command of a process.
    command: Box<dyn Fn() -> Command>,
    limit_s: f64,
    process: Option<KernelProcess>,
    d: u64,
}

/// A kernel's process.
struct KernelProcess {
    child: Child,
    connection: BufReader<UnixStream>,
}

/// The end of a kernel's process in place of an answer.
enum NoAnswer {
    /// It ended by itself.
    Ended(ExitStatus),
    /// It was killed after these seconds.
    Killed(f64),
    /// The connection failed.
    Failed(io::Error),
}

impl ChildRun {
    /// Starts a process for the kernel. Its runs are to be interrupted after `limit_s` seconds by the process itself, and
    /// the process is killed a second later.
    ///
    /// # Errors
    /// Returns [`DeviceError::KernelLibrary`] if the process cannot be started, or cannot open the kernel.
    pub fn start(
        name: &str,
        command: Box<dyn Fn() -> Command>,
        limit_s: f64,
    ) -> Result<Self, DeviceError> {
        let mut run = Self { name: name.to_owned(), command, limit_s, process: None, d: 0 };
        run.start_process()
            .map_err(|reason| DeviceError::KernelLibrary { library: name.to_owned(), reason })?;
        Ok(run)
    }

    fn start_process(&mut self) -> Result<(), String> {
        let mut process = KernelProcess::spawn((self.command)())
            .map_err(|error| format!("its process cannot be started: {error}"))?;
        match process.receive(PATIENCE_S) {
            Ok(KernelAnswer::Failed(reason)) => return Err(reason),
            Ok(_) => self.process = Some(process),
            Err(end) => return Err(format!("it {end} while it was loaded")),
        }
        Ok(())
    }

    /// Asks for a function of the kernel; `None` if its process had to be killed after `patience_s` seconds.
    fn ask(
        &mut self,
        function: &str,
        d: u64,
        patience_s: f64,
    ) -> Result<Option<KernelAnswer>, DeviceError> {
        if self.process.is_none() {
            self.start_process().map_err(|reason| fail(&self.name, &reason))?;
        }
        let Some(process) = &mut self.process else {
            return Ok(None);
        };
        let answer = process.request(function, d, patience_s);
        if answer.is_err() {
            self.process = None;
        }
        match answer {
            Ok(KernelAnswer::Failed(reason)) => Err(fail(&self.name, &reason)),
            Ok(KernelAnswer::NoMemory(reason)) => {
                Err(DeviceError::KernelMemory { kernel: self.name.clone(), reason })
            }
            Ok(answer) => Ok(Some(answer)),
            Err(NoAnswer::Killed(_)) => Ok(None),
            Err(end) => {
                Err(fail(&self.name, &format!("its process {end} in {function} of {d} units")))
            }
        }
    }

    /// Asks for a function that returns a number or nothing.
    fn ask_number(&mut self, function: &str, d: u64) -> Result<f64, DeviceError> {
        let patience_s = PATIENCE_S.max(self.limit_s);
        match self.ask(function, d, patience_s)? {
            Some(KernelAnswer::Done(number)) => Ok(number),
            _ => Err(fail(
                &self.name,
                &format!("{function} of {d} units did not return in {patience_s} s"),
            )),
        }
    }
}

impl KernelRun for ChildRun {
    fn name(&self) -> &str {
        &self.name
    }

    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError> {
        self.ask_number("complexity", d)
    }

    fn initialize(&mut self, d: u64) -> Result<(), DeviceError> {
        self.d = d;
        self.ask_number("initialize", d).map(|_| ())
    }

    fn execute(&mut self) -> Result<RunEnd, DeviceError> {
        let begun = Instant::now();
        let answer = self.ask("execute", self.d, self.limit_s + GRACE_S)?;
        Ok(match answer {
            Some(KernelAnswer::Done(time_s)) => RunEnd::Done(time_s),
            Some(KernelAnswer::Stopped(time_s)) => RunEnd::Stopped(time_s),
            _ => RunEnd::Stopped(begun.elapsed().as_secs_f64()),
        })
    }

    fn finalize(&mut self) -> Result<(), DeviceError> {
        // A process that was killed has no data.
        if self.process.is_none() {
            return Ok(());
        }
        self.ask_number("finalize", self.d).map(|_| ())
    }
}

impl KernelProcess {
    fn spawn(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        // The kernel's words must not mix with our results.
        command.stdout(io::stderr());
        Ok(Self { child: command.spawn()?, connection: BufReader::new(ours) })
    }

    fn request(
        &mut self,
        function: &str,
        d: u64,
        patience_s: f64,
    ) -> Result<KernelAnswer, NoAnswer> {
        let written = self.connection.get_mut().write_all(format!("{function} {d}\n").as_bytes());
        if written.is_err() {
            return Err(self.find_end());
        }
        self.receive(patience_s)
    }

    /// Waits for an answer, and kills the process if there is none in time.
    fn receive(&mut self, patience_s: f64) -> Result<KernelAnswer, NoAnswer> {
        let patience = Duration::try_from_secs_f64(patience_s).ok();
        self.connection.get_ref().set_read_timeout(patience).map_err(NoAnswer::Failed)?;
        let mut line = String::new();
        match self.connection.read_line(&mut line) {
            Ok(0) => Err(self.find_end()),
            Ok(_) => KernelAnswer::from_line(&line).ok_or_else(|| {
                NoAnswer::Failed(io::Error::other(format!("not an answer: {line}")))
            }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(NoAnswer::Killed(patience_s))
            }
            Err(_) => Err(self.find_end()),
        }
    }

    /// Returns the end of a process that has closed its connection.
    fn find_end(&mut self) -> NoAnswer {
        self.child.wait().map_or_else(NoAnswer::Failed, NoAnswer::Ended)
    }
}

impl Drop for KernelProcess {
    /// Ends the process: at once, because it may be in a run that never returns.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => write!(f, "was ended by {}", name_signal(signal)),
                (None, code) => write!(f, "exited with status {}", code.unwrap_or_default()),
            },
            Self::Killed(after_s) => write!(f, "did not return in {after_s} s"),
            Self::Failed(error) => write!(f, "cannot be reached: {error}"),
        }
    }
}

/// Names the signals of crashes.
fn name_signal(signal: i32) -> String {
    let name = match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        _ => "",
    };
    format!("signal {signal}{name}")
}
