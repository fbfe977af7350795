//! Applications whose units are rows: [`fft2d`](crate::fft2d) and [`dgemv`](crate::dgemv).
//!
//! Each has a kernel that does the work of a rank's rows. The times of the kernel over numbers of rows are measured on all
//! ranks at once, or read from files. They divide the rows, and the division is run and timed.

mod division;
mod functions;
mod options;
mod report;
mod stored;
mod timing;

pub use options::RowsArguments;

use std::time::Instant;

use isochron_core::prelude::*;
use isochron_devices::DeviceError;
use isochron_devices::kernel::{Interrupt, Kernel, KernelError};

use division::{count_room, divide_rows, predict_times};
use functions::find_functions;
use report::RowsDocument;
use timing::time_runs;

use crate::failure::Failure;
use crate::lines::output_width;
use crate::measure::{DEFAULTS, KernelArguments};
use crate::output;

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

    /// Runs once; returns the seconds that this rank's kernel took in each pass.
    ///
    /// # Errors
    /// The errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn run(&mut self, comm: &dyn Comm) -> Result<Vec<f64>, Error>;

    /// Compares the result of the last run with its definition; returns the largest error as a part of its bound.
    ///
    /// # Errors
    /// The errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn check(&self, comm: &dyn Comm) -> Result<f64, Error>;
}

/// The matrix.
#[derive(Debug, Clone, Copy)]
pub struct RowProblem {
    /// Rows and columns.
    pub size: usize,
    /// Seed of its elements.
    pub seed: u64,
}

/// Runs the command on every rank; the head rank prints.
pub fn run<A: RowApplication>(comm: &dyn Comm, arguments: &RowsArguments) -> Result<(), Failure> {
    let config = arguments.measuring.apply_to(DEFAULTS);
    config.validate().map_err(Failure::input)?;
    arguments.check(comm.size()).map_err(Failure::input)?;
    let problem = arguments.problem();
    let room = count_room(comm, problem.size, A::count_row_bytes(problem.size))?;
    let kernel = KernelArguments::of_rows(A::KERNEL, problem.size, arguments.store_mode());
    let kernel = kernel.open(comm, &config, &[])?;
    let parts = kernel.parts.clone();
    let functions = find_functions(comm, arguments, kernel, &config, &room)?;
    let rows = divide_rows(comm, arguments, &functions, &room)?;
    let mut application = A::prepare(problem, comm, &rows)?;
    let hosts: Vec<String> = parts.iter().map(|part| part.host.clone()).collect();
    let runs = time_runs(comm, &mut application, arguments.runs, &hosts)?;
    let residual = arguments.verify.then(|| application.check(comm));
    let residual = residual.transpose()?;
    if comm.rank() == 0 {
        let predicted_s = predict_times(&functions, &rows, A::PASSES)?;
        let document = RowsDocument::new::<A>(arguments, &functions, &parts, (&rows, predicted_s))
            .with_runs(&runs, config.confidence)
            .with_check(residual);
        output::print(&if arguments.json {
            output::json_line(&document)?
        } else {
            document.format(output_width())
        })?;
    }
    if residual.is_none_or(is_right) {
        Ok(())
    } else {
        Err(Failure::run("the result is wrong: it failed its check"))
    }
}

/// Returns `true` if an error is within its bound; one that is no number is not.
fn is_right(residual: f64) -> bool {
    residual <= 1.0
}

/// Returns the larger one of two errors; one that is no number is the worst.
pub fn keep_worse(worst: f64, error: f64) -> f64 {
    if worst.is_nan() || error <= worst {
        worst
    } else {
        error
    }
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
        KernelError::NoMemory => Error::Allocation {
            what: "the rows",
            bytes: rows.saturating_mul(row_bytes),
        },
        error => Error::from(DeviceError::Kernel {
            kernel: name.to_owned(),
            reason: error.to_string(),
        }),
    })
}

/// Executes a built-in kernel; returns the seconds that it took.
pub fn time_kernel(kernel: &mut dyn Kernel) -> f64 {
    let begun = Instant::now();
    if let Err(error) = kernel.execute(&Interrupt::default()) {
        unreachable!("a built-in kernel that nothing interrupts {error}");
    }
    begun.elapsed().as_secs_f64()
}
