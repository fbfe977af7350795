//! Timed runs, and their report.

use std::time::Instant;

use anyhow::ensure;
use isochron::comm::agree;
use isochron::devices::DeviceError;
use isochron::devices::kernel::{Interrupt, Kernel, KernelError};
use isochron::prelude::*;
use serde::Serialize;

use crate::{RowArguments, RowDivision};

/// An application that is ready to run on this rank's rows.
pub trait Application {
    /// Number of times that a run executes the kernel.
    const PASSES: usize;

    /// Restores the input that a run has overwritten.
    fn restore_input(&mut self) {}

    /// Runs once. Returns the seconds that this rank's kernel took in each pass.
    ///
    /// # Errors
    /// Returns the errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn run(&mut self, comm: &dyn Comm) -> Result<Vec<f64>, Error>;

    /// Returns `true` if this rank's part of the result is right.
    fn is_right(&self) -> bool;
}

/// The report of an application.
#[derive(Serialize)]
struct RowsReport {
    /// Largest predicted time of a rank's kernel, in seconds; `null` if its times are not known.
    predicted_s: Option<f64>,
    /// Time in which all kernels of a run are done, without messages: no pass begins before the slowest rank has ended the one
    /// before.
    actual: RowsTimes,
    /// Time of a run, with its messages.
    wall: RowsTimes,
    ranks: Vec<RankRows>,
}

/// The seconds of all timed runs.
#[derive(Serialize)]
struct RowsTimes {
    mean_s: f64,
    runs_s: Vec<f64>,
}

impl RowsTimes {
    fn new(runs_s: Vec<f64>) -> Self {
        Self { mean_s: runs_s.iter().sum::<f64>() / runs_s.len() as f64, runs_s }
    }
}

/// The part of a rank.
#[derive(Serialize)]
struct RankRows {
    rows: u64,
    predicted_s: Option<f64>,
}

/// Runs an application as often as the arguments say, after a run that does not count; checks the result, and prints a report.
///
/// # Errors
/// Fails if the result is wrong, or as the application.
///
/// # Collective
/// All ranks.
pub fn run_application<A: Application>(
    comm: &dyn Comm,
    arguments: &RowArguments,
    division: &RowDivision,
    application: &mut A,
) -> anyhow::Result<()> {
    let (mut actual_s, mut wall_s) = (Vec::new(), Vec::new());
    for _ in 0..=arguments.runs {
        application.restore_input();
        comm.barrier()?;
        let begun = Instant::now();
        let passes_s = application.run(comm)?;
        let wall = comm.largest(begun.elapsed().as_secs_f64());
        wall_s.push(wall?);
        let longest_s = passes_s.into_iter().map(|pass_s| comm.largest(pass_s));
        actual_s.push(longest_s.sum::<Result<f64, Error>>()?);
    }
    if arguments.verify {
        let are_right = comm.gather(&application.is_right())?;
        ensure!(!are_right.contains(&false), "the result is wrong");
    }
    // The first run does not count.
    let report = RowsReport::new(division, A::PASSES, actual_s.split_off(1), wall_s.split_off(1));
    if comm.rank() == 0 {
        report.print(arguments.json)?;
    }
    Ok(())
}

impl RowsReport {
    fn new(division: &RowDivision, passes: usize, actual_s: Vec<f64>, wall_s: Vec<f64>) -> Self {
        let predict = |rank: usize| Some(passes as f64 * division.times_s.as_ref()?[rank]);
        let ranks = division.rows.iter().enumerate();
        let ranks: Vec<RankRows> =
            ranks.map(|(rank, &rows)| RankRows { rows, predicted_s: predict(rank) }).collect();
        Self {
            predicted_s: ranks.iter().filter_map(|rank| rank.predicted_s).reduce(f64::max),
            actual: RowsTimes::new(actual_s),
            wall: RowsTimes::new(wall_s),
            ranks,
        }
    }

    fn print(&self, is_json: bool) -> serde_json::Result<()> {
        if is_json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            let predicted = rank.predicted_s.map(|time_s| format!(", predicted {time_s:.2e} s"));
            println!("rank {number}: {} rows{}", rank.rows, predicted.unwrap_or_default());
        }
        let (actual_s, wall_s) = (self.actual.mean_s, self.wall.mean_s);
        println!("all kernels take {actual_s:.2e} s, a run with its messages {wall_s:.2e} s");
        Ok(())
    }
}

/// Makes the data of this rank's rows for a kernel.
///
/// # Errors
/// Returns [`Error::Device`] on every rank if one has no memory for them.
///
/// # Collective
/// All ranks.
pub fn prepare_kernel(comm: &dyn Comm, kernel: &mut dyn Kernel, rows: u64) -> Result<(), Error> {
    agree(comm, kernel.initialize(rows).map_err(name_failure))
}

/// Executes a kernel. Returns the seconds that it took.
///
/// # Errors
/// Returns the errors of the kernel.
pub fn time_kernel(kernel: &mut dyn Kernel) -> Result<f64, Error> {
    let begun = Instant::now();
    kernel.execute(&Interrupt::default()).map_err(name_failure)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn name_failure(error: KernelError) -> Error {
    DeviceError::Kernel { kernel: "of the rows".to_owned(), reason: error.to_string() }.into()
}
