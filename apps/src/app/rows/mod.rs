//! Applications whose units are rows: [`fft2d`](super::fft2d) and [`dgemv`](super::dgemv).
//!
//! Each has a kernel that does the work of a rank's rows. The times of the kernel over numbers of rows are measured on all
//! ranks at once, or read from files. They divide the rows, and the division is run and timed.

mod application;
mod division;
mod functions;
mod options;
pub(crate) mod report;
mod stored;
mod timing;

pub use application::{RowApplication, RunSteps, keep_worse, prepare_kernel};
pub use options::{RowProblem, RowsArguments};

use std::time::Instant;

use isochron_core::internal::watch::RankPhase;
use isochron_core::prelude::*;

use application::is_right;
use division::{count_room, divide_rows, predict_times};
use functions::find_functions;
use report::RowsDocument;
use timing::time_runs;

use crate::failure::Failure;
use crate::lines::output_width;
use crate::measure::{DEFAULTS, KernelArguments};
use crate::output::{Answer, check_paths, name_path};
use crate::trace::{RunTrace, Tracer};

/// Runs the command on every rank, in a process that began at `start`; the head rank has an answer.
pub fn run<A: RowApplication>(
    comm: &dyn Comm,
    start: Instant,
    arguments: &RowsArguments,
) -> Result<Option<Answer>, Failure> {
    let config = arguments.measuring.apply_to(DEFAULTS);
    config.validate().map_err(Failure::input)?;
    arguments.check(comm.size()).map_err(Failure::input)?;
    let models = arguments.models.iter();
    let models = models.map(|path| ("--models", path.as_path()));
    check_paths(comm, models, name_path("--trace", &arguments.trace))?;
    let trace = RunTrace::begin(comm, arguments.trace.as_deref(), start)?;
    let tracer = Tracer::of(trace.as_ref());
    tracer.set_core();
    tracer.enter(RankPhase::Plan.describe());
    let problem = arguments.problem();
    let room = count_room(comm, problem.size, A::count_row_bytes(problem.size))?;
    let kernel = KernelArguments::of_rows(A::KERNEL, problem.size, arguments.store_mode());
    let kernel = kernel.open(comm, &config, &[])?;
    let parts = kernel.parts.clone();
    let functions = find_functions(comm, arguments, kernel, &config, &room)?;
    let rows = divide_rows(comm, arguments, &functions, &room)?;
    tracer.enter(RankPhase::Matrices.describe());
    let mut application = A::prepare(problem, comm, &rows)?;
    let hosts: Vec<String> = parts.iter().map(|part| part.host.clone()).collect();
    tracer.enter("running");
    let runs = time_runs(comm, tracer, &mut application, arguments.runs, &hosts)?;
    tracer.enter(RankPhase::Check.describe());
    let residual = arguments.verify.then(|| application.check(comm));
    let residual = residual.transpose()?;
    let failure = residual.filter(|&residual| !is_right(residual)).map(|_| Failure::wrong_result());
    if let Some(trace) = trace {
        trace.finish(comm)?;
    }
    if comm.rank() > 0 {
        return failure.map_or(Ok(None), Err);
    }
    let predicted_s = predict_times(&functions, &rows, A::PASSES)?;
    let document = RowsDocument::new::<A>(arguments, &functions, &parts, &rows, predicted_s)
        .with_runs(&runs, config.confidence)
        .with_check(residual);
    let format = |document: &RowsDocument| document.format(output_width());
    let answer = Answer::new(arguments.json, &document, format)?;
    Ok(Some(match failure {
        Some(failure) => answer.with_failure(failure),
        None => answer,
    }))
}
