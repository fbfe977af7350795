//! `isochron app`: applications whose rows are divided by measured times.
//!
//! [`fft2d`] and [`dgemv`] divide their rows before the run, by times of any shape, as [`rows`] does for both. [`jacobi`]
//! divides them while it iterates.

mod dgemv;
mod fft2d;
pub(crate) mod jacobi;
pub(crate) mod rows;

use std::sync::Arc;
use std::time::Instant;

use clap::Subcommand;
use isochron_core::comm::Comm;

use crate::failure::Failure;
use crate::output::Answer;
use crate::watch::WatchArguments;

/// The applications.
#[derive(Subcommand)]
pub enum AppCommand {
    /// Transform a matrix by a Fourier transform in two dimensions, its rows divided by times of any shape
    Fft2d(Box<rows::RowsArguments>),
    /// Multiply a matrix and a vector, y = A*x, the rows divided by times of any shape
    Dgemv(Box<rows::RowsArguments>),
    /// Solve a linear system by Jacobi's method, and divide its rows by the times of the iterations
    Jacobi(Box<jacobi::JacobiArguments>),
}

impl AppCommand {
    /// Returns how the ranks are watched.
    pub fn watch(&self) -> WatchArguments {
        match self {
            Self::Fft2d(arguments) | Self::Dgemv(arguments) => arguments.watch,
            Self::Jacobi(arguments) => arguments.watch,
        }
    }
}

/// Runs the application on every rank, in a process that began at `start`; the head rank has an answer.
///
/// # Collective
/// All ranks.
pub fn run(
    comm: &Arc<dyn Comm>,
    start: Instant,
    command: &AppCommand,
) -> Result<Option<Answer>, Failure> {
    match command {
        AppCommand::Fft2d(arguments) => rows::run::<fft2d::Fft2d>(&**comm, start, arguments),
        AppCommand::Dgemv(arguments) => rows::run::<dgemv::MatrixVector>(&**comm, start, arguments),
        AppCommand::Jacobi(arguments) => jacobi::run(comm, start, arguments),
    }
}
