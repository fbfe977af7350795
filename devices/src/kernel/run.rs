//! Runs of a kernel in this process.

use super::watch::RunWatch;
use crate::DeviceError;
use isochron_kernel::{Kernel, KernelError};

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunEnd {
    /// The run was complete after these seconds.
    Done(f64),
    /// The run took too long, and was stopped after these seconds.
    Stopped(f64),
}

/// A kernel with a limit on the time of its runs.
///
/// The order of calls is that of [`Kernel`]. Every error is [`DeviceError::Kernel`] and names the kernel and the function.
pub trait KernelRun {
    /// Returns the kernel's name.
    fn name(&self) -> &str;

    /// Returns the useful work of `d` units, as [`Kernel::complexity`].
    ///
    /// # Errors
    /// If the kernel's process has failed.
    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError>;

    /// Prepares `d` units.
    ///
    /// # Errors
    /// Those of the kernel.
    fn initialize(&mut self, d: u64) -> Result<(), DeviceError>;

    /// Runs the kernel once.
    ///
    /// # Errors
    /// Those of the kernel; not an interruption.
    fn execute(&mut self) -> Result<RunEnd, DeviceError>;

    /// Gives the data of the units back.
    ///
    /// # Errors
    /// Those of the kernel.
    fn finalize(&mut self) -> Result<(), DeviceError>;
}

/// A kernel that runs in this process. If it never returns, the process does not either; if it crashes, so does the
/// process.
pub struct OwnRun {
    name: String,
    kernel: Box<dyn Kernel>,
    watch: RunWatch,
    d: u64,
}

impl OwnRun {
    /// Makes runs of a kernel that are interrupted after `limit_s` seconds.
    #[must_use]
    pub fn new(name: &str, kernel: Box<dyn Kernel>, limit_s: f64) -> Self {
        Self {
            name: name.to_owned(),
            kernel,
            watch: RunWatch::new(limit_s),
            d: 0,
        }
    }

    fn name_failure(&self, function: &str, error: KernelError) -> DeviceError {
        fail(
            &self.name,
            &format!("{function} of {} units {error}", self.d),
        )
    }
}

/// Makes the error of a kernel.
pub(super) fn fail(kernel: &str, reason: &str) -> DeviceError {
    DeviceError::Kernel {
        kernel: kernel.to_owned(),
        reason: reason.to_owned(),
    }
}

impl KernelRun for OwnRun {
    fn name(&self) -> &str {
        &self.name
    }

    fn complexity(&mut self, d: u64) -> Result<f64, DeviceError> {
        Ok(self.kernel.complexity(d))
    }

    fn initialize(&mut self, d: u64) -> Result<(), DeviceError> {
        self.d = d;
        let result = self.kernel.initialize(d);
        result.map_err(|error| self.name_failure("initialize", error))
    }

    fn execute(&mut self) -> Result<RunEnd, DeviceError> {
        let kernel = &mut self.kernel;
        match self.watch.time(|interrupt| kernel.execute(interrupt)) {
            (Ok(()), time_s) => Ok(RunEnd::Done(time_s)),
            (Err(KernelError::Interrupted), time_s) => Ok(RunEnd::Stopped(time_s)),
            (Err(error), _) => Err(self.name_failure("execute", error)),
        }
    }

    fn finalize(&mut self) -> Result<(), DeviceError> {
        let result = self.kernel.finalize();
        result.map_err(|error| self.name_failure("finalize", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_kernel::Interrupt;

    /// A kernel that runs until it is interrupted if it has many units, and fails with its number of units if it has few.
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

    #[test]
    fn a_run_that_takes_too_long_is_interrupted() {
        let mut run = OwnRun::new("waiting", Box::new(Waiting(0)), 0.01);
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
        let mut run = OwnRun::new("waiting", Box::new(Waiting(0)), f64::INFINITY);
        let error = run.initialize(0).unwrap_err().to_string();
        assert_eq!(
            error,
            "kernel waiting: initialize of 0 units found no memory for this size"
        );
        run.initialize(8).unwrap();
        let error = run.execute().unwrap_err().to_string();
        assert_eq!(error, "kernel waiting: execute of 8 units returned error 7");
    }
}
