//! The kernel to measure: built in or from a library, in this process or in one of its own.

use std::env::args_os;
use std::ffi::OsString;
use std::io::BufReader;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use isochron_core::Error;
use isochron_devices::blas::{BlasChoice, choose_blas};
use isochron_devices::kernel::{
    ChildRun, CrashNote, KernelPlace, KernelRun, LibraryKernel, OwnRun, RunQuota, serve_kernel,
};
use isochron_devices::{Blas, DeviceError, EmbeddedBlas};
use isochron_kernels::{KernelParameters, NAMES, make_kernel};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::own_program::find_own_program;

/// The first word of the command line of a kernel's process.
const SERVE: &str = "serve-kernel";

/// The name of the kernel whose parts are devices.
pub const MXM: &str = "mxm";

/// The advice for a kernel that crashes in this process.
const ADVICE: &str = "with --isolate it runs in a process of its own";

/// A kernel of this rank, and the BLAS that it calls as far as that is known.
type OpenedRun = (Box<dyn KernelRun>, Option<String>);

/// The description of a kernel.
#[derive(Debug, Clone)]
pub struct KernelChoice {
    /// The name of a built-in kernel, or the place of one in a library.
    pub name: String,
    /// The sizes within a unit of a built-in kernel.
    pub parameters: KernelParameters,
    /// The BLAS of `gemm`.
    pub blas: BlasChoice,
    /// Seconds after which a run is stopped.
    pub limit_s: f64,
    /// The CPU time that its runs get.
    pub quota: RunQuota,
}

impl KernelChoice {
    /// Returns `true` if the kernel is built in.
    pub fn is_built_in(&self) -> bool {
        NAMES.contains(&self.name.as_str())
    }

    /// Opens the kernel, in a process of its own if it is to be `isolated`. The command has `others` besides the built-in
    /// kernels. Returns the name of its BLAS too, unless the kernel calls none or has a process of its own.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is no such kernel; [`Error::Device`] for a library that cannot be used.
    pub fn open(&self, isolated: bool, others: &[&str]) -> Result<OpenedRun, Error> {
        if !self.is_built_in() && !KernelPlace::parse(&self.name).file.exists() {
            let names = [&NAMES[..], others].concat().join(", ");
            let reason = match self.name.as_str() {
                MXM => format!("only `isochron measure` has this kernel: use one of {names}"),
                _ => format!("neither a file nor a built-in kernel ({names})"),
            };
            return Err(Error::parameter("KERNEL", &self.name, reason));
        }
        if isolated {
            let choice = self.clone();
            let command = Box::new(move || choice.make_command());
            let run = ChildRun::start(&self.name, command, self.limit_s)?;
            return Ok((Box::new(run), None));
        }
        let crash = CrashNote::new(&self.name, ADVICE);
        Ok(crash.watch(|| self.open_here(Some(crash)))?)
    }

    /// Opens the kernel in this process. The one that started it names a crash if there is no note.
    fn open_here(&self, crash: Option<CrashNote>) -> Result<OpenedRun, DeviceError> {
        let calls_blas = self.name == "gemm";
        let blas: Arc<dyn Blas> =
            if calls_blas { choose_blas(&self.blas)? } else { Arc::new(EmbeddedBlas) };
        let blas_name = calls_blas.then(|| blas.name().to_owned());
        let kernel = match make_kernel(&self.name, self.parameters, &blas) {
            Some(kernel) => kernel,
            None => Box::new(LibraryKernel::open(KernelPlace::parse(&self.name))?),
        };
        let run = OwnRun::new(&self.name, kernel, self.limit_s)?;
        let run = run.with_quota(self.quota).with_crash_note(crash);
        Ok((Box::new(run), blas_name))
    }

    /// Makes the command of a process that serves the kernel.
    fn make_command(&self) -> Command {
        // Without a file of its own the process cannot be started, and the error says so.
        let program = find_own_program().unwrap_or_else(|_| PathBuf::from("isochron"));
        let KernelParameters { block, width, memory_bytes } = self.parameters;
        let mut command = Command::new(program);
        command.args([SERVE, &self.name, &self.blas.to_string()]);
        command.args([block.to_string(), width.to_string(), memory_bytes.to_string()]);
        let RunQuota { cores, has_threads } = self.quota;
        command.args([self.limit_s.to_string(), cores.to_string()]);
        command.arg(has_threads.to_string());
        command
    }

    /// Reads the words after the first one of the command line of a kernel's process.
    fn from_words(words: &[OsString]) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        let [name, blas, block, width, memory_bytes, limit_s, cores, has_threads] = words[..]
        else {
            return None;
        };
        Some(Self {
            name: name.to_owned(),
            parameters: KernelParameters {
                block: block.parse().ok()?,
                width: width.parse().ok()?,
                memory_bytes: memory_bytes.parse().ok()?,
            },
            blas: blas.parse().ok()?,
            limit_s: limit_s.parse().ok()?,
            quota: RunQuota { cores: cores.parse().ok()?, has_threads: has_threads.parse().ok()? },
        })
    }
}

/// Serves a kernel if this process was started to do so; returns its exit status then.
pub fn serve_if_asked() -> Option<u8> {
    let words: Vec<OsString> = args_os().skip(1).collect();
    let (first, rest) = words.split_first()?;
    if first != SERVE {
        return None;
    }
    // A kernel that never returns must not outlive the tool.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let connection = std::io::stdin().as_fd().try_clone_to_owned();
    let connections = connection.and_then(|fd| {
        let ours = UnixStream::from(fd);
        Ok((ours.try_clone()?, ours))
    });
    let served = match (KernelChoice::from_words(rest), connections) {
        (Some(choice), Ok((requests, mut answers))) => {
            let mut requests = BufReader::new(requests);
            let run = choice.open_here(None).map(|(run, _)| run);
            serve_kernel(run, &mut requests, &mut answers)
        }
        _ => return Some(2),
    };
    // Without a connection the tool is gone.
    Some(u8::from(served.is_err()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_process_is_told_all_of_the_choice() {
        let choice = KernelChoice {
            name: "./my kernel.so".to_owned(),
            parameters: KernelParameters { block: 3, width: 5, memory_bytes: 7 },
            blas: BlasChoice::Embedded,
            limit_s: 2.5,
            quota: RunQuota::default(),
        };
        let words: Vec<OsString> = choice.make_command().get_args().map(OsString::from).collect();
        assert_eq!(words[0], SERVE);
        let read = KernelChoice::from_words(&words[1..]).expect("a choice");
        assert_eq!(format!("{read:?}"), format!("{choice:?}"));
        assert!(KernelChoice::from_words(&words).is_none());
    }
}
