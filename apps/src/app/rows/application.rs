//! What an application does with a rank's rows.

use std::time::Instant;

use isochron_core::prelude::*;
use isochron_devices::DeviceError;
use isochron_devices::kernel::{Interrupt, Kernel, KernelError};

use super::options::RowProblem;
use crate::trace::{DeviceWork, EventKind, Messages, Tracer};

/// The steps of a run in a trace: its passes, each behind the messages that it needs, and the messages of the result.
#[derive(Clone, Copy)]
pub struct RunSteps<'t> {
    pub tracer: Tracer<'t>,
    /// Number of the first one.
    pub first: u32,
}

impl RunSteps<'_> {
    /// Exchanges the messages for a pass, or for the result after the last one. Every rank but this one sends a part of
    /// `bytes`, and gets one of `sent_bytes`.
    ///
    /// # Errors
    /// The errors of `exchange`.
    pub fn exchange(
        self,
        name: &'static str,
        pass: u32,
        comm: &dyn Comm,
        [bytes, sent_bytes]: [usize; 2],
        exchange: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let step = self.first + pass;
        let messages = Messages::between_all(name, step, comm.size() - 1, bytes, sent_bytes);
        self.tracer.time(EventKind::Messages(messages), exchange)
    }

    /// Executes a built-in kernel on this rank's rows in a pass; returns the seconds that it took.
    pub fn time_kernel(self, kernel: &mut dyn Kernel, pass: u32, rows: usize, flop: f64) -> f64 {
        let work = DeviceWork::on_rows("pass", self.first + pass, rows, flop);
        self.tracer.time(EventKind::Work(work), || time_kernel(kernel))
    }
}

/// An application, ready to run on this rank's rows.
pub trait RowApplication: Sized {
    /// Name of the kernel, as `isochron measure` knows it.
    const KERNEL: &'static str;

    /// Number of times that a run executes the kernel.
    const PASSES: u32;

    /// Returns the bytes that a row takes, of a matrix of this size.
    fn count_row_bytes(size: usize) -> u64;

    /// Allocates and fills this rank's rows, and what all runs need besides. `rows` are the rows of every rank.
    ///
    /// # Errors
    /// [`Error::Allocation`] on every rank.
    ///
    /// # Collective
    /// All ranks, with the same problem and rows.
    fn prepare(problem: RowProblem, comm: &dyn Comm, rows: &[u64]) -> Result<Self, Error>;

    /// Restores the input that a run has overwritten.
    fn restore_input(&mut self) {}

    /// Runs once, with these steps in a trace; returns the seconds that this rank's kernel took in each pass.
    ///
    /// # Errors
    /// The errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn run(&mut self, comm: &dyn Comm, steps: RunSteps<'_>) -> Result<Vec<f64>, Error>;

    /// Compares the result of the last run with its definition; returns the largest error as a part of its bound.
    ///
    /// # Errors
    /// The errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn check(&self, comm: &dyn Comm) -> Result<f64, Error>;
}

/// Returns `true` if an error is within its bound; one that is no number is not.
pub fn is_right(residual: f64) -> bool {
    residual <= 1.0
}

/// Returns the larger one of two errors; one that is no number is the worst.
pub fn keep_worse(worst: f64, error: f64) -> f64 {
    if worst.is_nan() || error <= worst { worst } else { error }
}

/// Allocates the data of a kernel's rows.
///
/// # Errors
/// [`Error::Allocation`] if there is no memory for them.
pub fn prepare_kernel(
    kernel: &mut dyn Kernel,
    name: &str,
    rows: u64,
    row_bytes: u64,
) -> Result<(), Error> {
    kernel.initialize(rows).map_err(|error| match error {
        KernelError::NoMemory => {
            Error::Allocation { what: "the rows", bytes: rows.saturating_mul(row_bytes) }
        }
        error => {
            Error::from(DeviceError::Kernel { kernel: name.to_owned(), reason: error.to_string() })
        }
    })
}

/// Executes a built-in kernel; returns the seconds that it took.
fn time_kernel(kernel: &mut dyn Kernel) -> f64 {
    let begun = Instant::now();
    if let Err(error) = kernel.execute(&Interrupt::default()) {
        unreachable!("a built-in kernel that nothing interrupts {error}");
    }
    begun.elapsed().as_secs_f64()
}
