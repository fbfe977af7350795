//! What the applications `fft2d` and `dgemv` share: rows that are divided by measured times of any shape, and timed runs.
//!
//! Each of them has a kernel that does the work of a rank's rows. The times of the kernel over numbers of rows are measured on
//! all ranks at once, or read from files. They divide the rows, and the division is run and timed.

#![allow(clippy::print_stdout, reason = "the output of the programs")]

mod division;
mod timing;

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

pub use division::{RowDivision, divide_rows};
pub use timing::{Application, prepare_kernel, run_application, time_kernel};

/// The command line of an application.
#[derive(Parser)]
#[command(about = "Divide the rows of a matrix by measured times, and run an application on them")]
pub struct RowArguments {
    /// Rows and columns of the matrix
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = value_parser!(u64).range(1..))]
    size: u64,
    /// Division of the rows over the ranks
    #[arg(long, value_enum, default_value_t = RowStrategy::Hpopta)]
    strategy: RowStrategy,
    /// Points files of `isochron measure` with the times of each rank, in order. Without them the ranks are measured first,
    /// all at once
    #[arg(long, num_args = 1.., value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Runs that are timed, after one that is not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    runs: u32,
    /// Check every element of the result
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl RowArguments {
    /// Rows and columns of the matrix.
    pub fn size(&self) -> usize {
        self.size as usize
    }
}

/// A way to divide rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowStrategy {
    /// Least longest time over the measured sizes, whatever the shape of the times
    Hpopta,
    /// Equal times, by the geometric partitioning algorithm on smooth models of the times
    Balanced,
    /// Equal parts; nothing is measured
    Even,
}
