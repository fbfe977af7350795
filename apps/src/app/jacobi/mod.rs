//! `isochron app jacobi`: a linear system by Jacobi's method, its rows divided by the times of the sweeps.
//!
//! Its loop over its own rows, which the library divides and moves, is for measurements. `runtime/examples/jacobi.rs` is the
//! same method in 100 lines, as an example of embedding.
//!
//! # Deviations
//!
//! * **end of the method**: the thesis ends by an error that it does not define (appendix A.5). Here the residual ends it:
//!   the largest `|b_i - a_i·x|`, over the largest `|b_i|`. It is the same in any division of the rows, and a sweep gives it
//!   for nothing.
//! * **balance while iterating**: the thesis's program balances in every iteration (appendix A.5), its algorithm until the
//!   times are equal (4.3). Here `fpm` is the algorithm, because noise would move rows in every iteration.
//! * **constant speeds of ranks without rows**: the thesis does not consider them (2.3.1). Here a rank that got nothing
//!   keeps its last speed, by which it can come back.
//!
//! # References
//! Clarke's thesis, sections 2.3.1 and 4.3, and appendix A.5.

mod balancing;
mod check;
mod options;
mod progress;
pub(crate) mod report;
mod solution;
mod solve;
mod system;

use std::sync::Arc;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::devices::PacedWork;
use isochron_core::internal::bind_rank;
use isochron_core::internal::watch::RankPhase;
use isochron_core::matrix::file::{self, OutputFile};
use isochron_core::matrix::{Matrix, Spread};
use isochron_core::prelude::{ElementType, Platform};

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::output_width;
use crate::output::{Answer, check_paths, name_path};
use crate::trace::{RunTrace, Tracer};
use balancing::Balancing;
use check::{SystemVerdict, check_solution};
pub use options::JacobiArguments;
use report::{JacobiDocument, JacobiRank, list_ranks};
use solution::{Solution, SolveConfig};
use solve::JacobiLoop;
use system::LinearSystem;

/// Runs the command on every rank, in a process that began at `start`; the head rank has an answer.
///
/// # Collective
/// All ranks.
pub fn run(
    comm: &Arc<dyn Comm>,
    start: Instant,
    arguments: &JacobiArguments,
) -> Result<Option<Answer>, Failure> {
    arguments.balancing.check()?;
    arguments.refuse_unknown_solution()?;
    check_files(&**comm, arguments)?;
    let mut pace = open_pace(&**comm, arguments)?;
    let n = arguments.system.find_size(&**comm)?;
    let file = reserve_solution(&**comm, arguments, n)?;
    let trace = RunTrace::begin(&**comm, arguments.trace.as_deref(), start)?;
    let tracer = Tracer::of(trace.as_ref());
    tracer.set_core();
    tracer.enter(RankPhase::Matrices.describe());
    let mut system = LinearSystem::open(&**comm, &arguments.system, n)?;
    tracer.enter(RankPhase::Plan.describe());
    let mut balancing = Balancing::start(comm, arguments, &system)?;
    tracer.enter("iterating");
    let solution = JacobiLoop {
        comm: &**comm,
        tracer,
        balancing: &mut balancing,
        system: &mut system,
        pace: &mut pace,
        config: SolveConfig {
            tolerance: arguments.tolerance,
            max_iterations: arguments.max_iterations,
        },
    }
    .solve()?;
    tracer.enter(RankPhase::Check.describe());
    let verdict = check_solution(&**comm, &system, &solution, arguments.verify)?;
    if verdict.passed == Some(false) {
        return Err(Failure::wrong_result());
    }
    tracer.enter(RankPhase::Write.describe());
    write_solution(&**comm, file, &solution.x)?;
    if let Some(trace) = trace {
        trace.finish(&**comm)?;
    }
    let ranks = list_ranks(&**comm, &pace, &solution)?;
    if comm.rank() > 0 {
        return Ok(None);
    }
    let document = arguments.make_document(&system, solution, &verdict, ranks);
    let format = |document: &JacobiDocument| document.format(output_width());
    Answer::new(arguments.json, &document, format).map(Some)
}

impl JacobiArguments {
    fn make_document(
        &self,
        system: &LinearSystem,
        solution: Solution,
        verdict: &SystemVerdict,
        ranks: Vec<JacobiRank>,
    ) -> JacobiDocument {
        JacobiDocument {
            schema: FormatVersion,
            n: system.size(),
            source: self.system.describe(),
            strategy: self.balancing.strategy,
            partitioner: self.balancing.name_partitioner(),
            tolerance: self.tolerance,
            dominance: system.dominance().map(|weakest| weakest.ratio),
            converged: solution.converged,
            iterations: solution.history.len(),
            residual: solution.residual,
            verified: verdict.passed,
            error: verdict.error,
            wall_s: solution.wall_s,
            moving_s: solution.history.iter().map(|sweep| sweep.moving_s).sum(),
            moved: solution.history.iter().map(|sweep| sweep.moved).sum(),
            checksum: solution.checksum(),
            ranks,
            history: solution.history,
        }
    }
}

/// Checks that no file is given twice.
fn check_files(comm: &dyn Comm, arguments: &JacobiArguments) -> Result<(), Error> {
    let inputs = [
        name_path("--a", &arguments.system.a),
        name_path("--b", &arguments.system.b),
        name_path("--platform", &arguments.platform),
    ];
    let outputs = [name_path("--out", &arguments.out), name_path("--trace", &arguments.trace)];
    check_paths(comm, inputs.into_iter().flatten(), outputs.into_iter().flatten())
}

/// Takes the pace of this rank's node from the platform file; without one, binds the rank to a core of its own.
fn open_pace(comm: &dyn Comm, arguments: &JacobiArguments) -> Result<PacedWork, Error> {
    let Some(path) = &arguments.platform else {
        bind_rank(comm)?;
        return agree(comm, PacedWork::new(None).map_err(Error::from));
    };
    let pace = Platform::load(comm, path)?.nodes()[comm.rank()].pace_of_core();
    agree(comm, pace.and_then(PacedWork::new).map_err(Error::from))
}

fn reserve_solution(
    comm: &dyn Comm,
    arguments: &JacobiArguments,
    n: usize,
) -> Result<Option<OutputFile>, Error> {
    let path = arguments.out.as_deref();
    path.map(|path| file::reserve(comm, path, n, 1, ElementType::F64)).transpose()
}

fn write_solution(comm: &dyn Comm, file: Option<OutputFile>, x: &[f64]) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let on_head = Spread::on_one(x.len(), 1, 0, comm.size())?;
    let mut matrix: Matrix = agree(comm, Matrix::zeros(on_head, comm.rank()))?;
    matrix.fill(|row, _| x[row]);
    file.write(comm, &matrix, matrix.digest()).map(drop)
}
