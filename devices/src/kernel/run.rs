//! Runs of a kernel in this process.

use super::crash::CrashNote;
use super::watch::RunWatch;
use crate::contract::DeviceError;
use crate::host::cpu_time::process_cpu_time_s;
use isochron_kernel::{Kernel, KernelError};

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunEnd {
    /// The run was complete after these seconds.
    Done(f64),
    /// The run took too long, and was stopped after these seconds.
    Stopped(f64),
}

/// The CPU time that a kernel's runs get: a CPU quota stops a process that has used up its part, until the next period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunQuota {
    /// Seconds of CPU time a second; infinite without a quota.
    pub cores: f64,
    /// `true` if the kernel may compute with several threads.
    pub has_threads: bool,
}

impl Default for RunQuota {
    fn default() -> Self {
        Self { cores: f64::INFINITY, has_threads: false }
    }
}

impl RunQuota {
    /// Returns the seconds that a run takes in the long run, from its wall time and its CPU time.
    ///
    /// A quota lets a short run through, and stops a later one for both. So the wall time of a single thread that the
    /// quota stops says little, and its time is the CPU time over the quota.
    #[must_use]
    pub fn sustained_s(&self, wall_s: f64, cpu_s: f64) -> f64 {
        let paid_s = cpu_s / self.cores;
        if self.has_threads {
            paid_s.max(wall_s)
        } else if self.cores < 1.0 {
            paid_s
        } else {
            wall_s
        }
    }
}

/// A kernel with a limit on the time of its runs.
///
/// The order of calls is that of [`Kernel`]. Every error is [`DeviceError::Kernel`], or [`DeviceError::KernelMemory`] of a
/// size for which there is no memory, and names the kernel and the function.
pub trait KernelRun {
    /// Returns the kernel's name.
    fn name(&self) -> &str;

    /// Returns the useful work of `d` units, as [`Kernel::complexity`].
    ///
    /// # Errors
    /// Fails if the kernel's process has failed.
    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError>;

    /// Prepares `d` units.
    ///
    /// # Errors
    /// Returns the errors of the kernel.
    fn initialize(&mut self, d: u64) -> Result<(), DeviceError>;

    /// Runs the kernel once.
    ///
    /// # Errors
    /// Returns the errors of the kernel; not an interruption.
    fn execute(&mut self) -> Result<RunEnd, DeviceError>;

    /// Gives the data of the units back.
    ///
    /// # Errors
    /// Returns the errors of the kernel.
    fn finalize(&mut self) -> Result<(), DeviceError>;
}

/// A kernel that runs in this process. If it never returns, the process does not either; if it crashes, so does the
/// process, with the words of a [`CrashNote`] if it has one.
pub struct OwnRun<'k> {
    name: String,
    kernel: Box<dyn Kernel + 'k>,
    watch: RunWatch,
    quota: RunQuota,
    crash: Option<CrashNote>,
    d: u64,
}

impl<'k> OwnRun<'k> {
    /// Makes runs of a kernel that are interrupted after `limit_s` seconds, without a CPU quota.
    ///
    /// # Errors
    /// Returns [`DeviceError::Threads`] if the thread that interrupts them cannot be started.
    pub fn new(
        name: &str,
        kernel: Box<dyn Kernel + 'k>,
        limit_s: f64,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            name: name.to_owned(),
            kernel,
            watch: RunWatch::new(limit_s)?,
            quota: RunQuota::default(),
            crash: None,
            d: 0,
        })
    }

    /// Lets runs take the seconds that they do in the long run under this quota.
    #[must_use]
    pub fn with_quota(self, quota: RunQuota) -> Self {
        Self { quota, ..self }
    }

    /// Lets a crash of the kernel be named.
    #[must_use]
    pub fn with_crash_note(self, crash: Option<CrashNote>) -> Self {
        Self { crash, ..self }
    }

    fn name_failure(&mut self, function: &str, error: KernelError) -> DeviceError {
        let reason = self.describe_failure(function, error);
        fail(&self.name, &reason)
    }

    fn describe_failure(&mut self, function: &str, error: KernelError) -> String {
        match self.kernel.explain_failure() {
            Some(words) => format!("{function} of {} units failed: {words}", self.d),
            None => format!("{function} of {} units {error}", self.d),
        }
    }
}

/// Calls a function of a kernel, whose crash is named if there are words for it.
fn watch_call<R>(crash: Option<CrashNote>, call: impl FnOnce() -> R) -> R {
    match crash {
        Some(crash) => crash.watch(call),
        None => call(),
    }
}

/// Makes the error of a kernel.
pub(super) fn fail(kernel: &str, reason: &str) -> DeviceError {
    DeviceError::Kernel { kernel: kernel.to_owned(), reason: reason.to_owned() }
}

impl KernelRun for OwnRun<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError> {
        Ok(watch_call(self.crash, || self.kernel.complexity(d)))
    }

    fn initialize(&mut self, d: u64) -> Result<(), DeviceError> {
        self.d = d;
        watch_call(self.crash, || self.kernel.initialize(d)).map_err(|error| match error {
            KernelError::NoMemory => DeviceError::KernelMemory {
                kernel: self.name.clone(),
                reason: self.describe_failure("initialize", error),
            },
            _ => self.name_failure("initialize", error),
        })
    }

    fn execute(&mut self) -> Result<RunEnd, DeviceError> {
        // Watching a call takes time of its own, which is not the kernel's.
        let (result, wall_s, cpu_s) = watch_call(self.crash, || {
            let before_s = process_cpu_time_s();
            let (result, wall_s) = self.watch.time(|interrupt| self.kernel.execute(interrupt));
            (result, wall_s, process_cpu_time_s() - before_s)
        });
        match result {
            Ok(()) => Ok(RunEnd::Done(self.quota.sustained_s(wall_s, cpu_s))),
            Err(KernelError::Interrupted) => Ok(RunEnd::Stopped(wall_s)),
            Err(error) => Err(self.name_failure("execute", error)),
        }
    }

    fn finalize(&mut self) -> Result<(), DeviceError> {
        watch_call(self.crash, || self.kernel.finalize())
            .map_err(|error| self.name_failure("finalize", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_kernel::Interrupt;

    /// A kernel that runs until it is interrupted if it has many units, and fails with its number of units if it has
    /// few.
    struct Waiting(u64);

    impl Kernel for Waiting {
        fn complexity(&self, d: u64) -> f64 {
            d as f64
        }

        fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
            self.0 = d;
            match d {
                0 => Err(KernelError::NoMemory),
                _ => Ok(()),
            }
        }

        fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
            if self.0 < 9 {
                return Err(KernelError::Code(7));
            }
            while !interrupt.is_set() {
                std::thread::yield_now();
            }
            interrupt.check()
        }

        fn finalize(&mut self) -> Result<(), KernelError> {
            Ok(())
        }
    }

    fn quota(cores: f64, has_threads: bool) -> RunQuota {
        RunQuota { cores, has_threads }
    }

    #[test]
    fn a_quota_is_paid_by_cpu_time() {
        assert_eq!(RunQuota::default().sustained_s(3.0, 1.0), 3.0);
        // One thread: a run that was let through, one that was stopped, and one that is never stopped.
        assert_eq!(quota(0.5, false).sustained_s(1.0, 1.0), 2.0);
        assert_eq!(quota(0.5, false).sustained_s(9.0, 1.0), 2.0);
        assert_eq!(quota(1.5, false).sustained_s(2.0, 1.0), 2.0);
        // Several threads, or one alone.
        assert_eq!(quota(2.0, true).sustained_s(1.0, 4.0), 2.0);
        assert_eq!(quota(2.0, true).sustained_s(1.0, 1.0), 1.0);
    }

    #[test]
    fn a_run_that_takes_too_long_is_interrupted() {
        let mut run = OwnRun::new("waiting", Box::new(Waiting(0)), 0.01).unwrap();
        run.initialize(9).unwrap();
        for _ in 0..2 {
            let RunEnd::Stopped(time_s) = run.execute().unwrap() else {
                panic!("it was not stopped");
            };
            assert!(time_s > 0.01, "{time_s}");
        }
        run.finalize().unwrap();
    }

    #[test]
    fn failures_name_the_kernel_the_function_and_the_size() {
        let mut run = OwnRun::new("waiting", Box::new(Waiting(0)), f64::INFINITY).unwrap();
        let error = run.initialize(0).unwrap_err();
        assert!(matches!(error, DeviceError::KernelMemory { .. }));
        assert_eq!(
            error.to_string(),
            "kernel waiting: initialize of 0 units found no memory for this size"
        );
        run.initialize(8).unwrap();
        let error = run.execute().unwrap_err().to_string();
        assert_eq!(error, "kernel waiting: execute of 8 units returned error 7");
    }
}
