//! `isochron mxm`: plans, runs and checks a multiplication.

mod account;
mod check;
mod finished;
mod learnt;
mod options;
mod plan;
pub mod problem;
mod progress;
mod text;
mod ways;

use isochron_devices::with_element;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::flip_element;
use isochron_core::internal::output::PartialFile;
use isochron_core::internal::watch::{LongCall, expect_work, note_progress};
use isochron_core::matrix::file::OutputFile;
use isochron_core::matrix::redistribute::Moved;
use isochron_core::matrix::{Generator, Matrix, Operand, Spread, file};
use isochron_core::plan::{PartOfK, Plan, Problem};
use isochron_core::product::{Element, Factors, RunConfig, Scalars};
use isochron_core::progress::Observer;
use isochron_core::report::Report;
use isochron_core::session::Session;
use isochron_core::verify::{Recall, TakeFactors};
use isochron_hierarchy::printable::show_path;
use num_complex::Complex64;

use crate::failure::Failure;
use crate::lines::output_width;
use crate::output::{self, Answer, check_paths, create_file, name_path};
use crate::trace::{Recorder, RunTrace};
use account::{AccountPhase, Stopwatch};
use check::Check;
pub use finished::{FinishedRun, MxmEnding};
pub use options::MxmArguments;
use options::Verify;
pub use plan::format_plan;
use problem::{MatrixFiles, find_problem};
use progress::{MeasuringLimits, ProgressLine};

/// A disk that writes fewer bytes a second is taken for one that does not answer.
const SLOWEST_DISK_BYTES_S: f64 = 5e6;
/// Bytes of memory a second that a system gets back, at least.
const FREED_BYTES_S: f64 = 1e9;

/// Runs the command on every rank; the program began at `start`. Returns what the head rank has to publish after the
/// end of MPI, which the report accounts for.
pub fn run<'a>(
    comm: &Arc<dyn Comm>,
    start: Instant,
    arguments: &'a MxmArguments,
) -> Result<Option<MxmEnding<'a>>, Failure> {
    let shared = comm;
    let comm = shared.as_ref();
    let mut watch = Stopwatch::started_at(start);
    check_files(comm, arguments)?;
    let given = arguments.load_plan.as_deref();
    let given = given.map(|path| Plan::load(comm, path)).transpose()?;
    arguments.check_readers()?;
    let (problem, files) = find_problem(comm, arguments, given.as_ref())?;
    let outputs = Outputs::create(comm, arguments, &problem)?;
    let trace = RunTrace::begin(comm, arguments.trace.as_deref(), start)?;
    let recorder = trace.as_ref().map(RunTrace::recorder);
    let limits = MeasuringLimits::of(&arguments.balance_config());
    let line = (!arguments.quiet)
        .then(|| ProgressLine::on_terminal(comm, problem.flop(), limits).map(Rc::new))
        .flatten();
    watch.line = line.as_deref();
    watch.recorder = recorder.cloned();
    watch.enter(AccountPhase::Devices);
    let settings = arguments.set_up_session().element(problem.element());
    let settings = match &given {
        Some(given) => settings.blas_of(given, comm.rank()),
        None => settings,
    };
    let mut session = settings.build(Arc::clone(shared))?;
    if let Some(recorder) = recorder {
        let names = session.devices().iter().map(|device| device.name.clone());
        recorder.set_devices(names, problem.element().flop());
    }
    observe(&mut session, line.as_ref(), recorder);
    watch.enter(AccountPhase::Plan);
    let plan = match given {
        Some(given) => session.adopt(given)?,
        None => session.plan(problem, &arguments.balance_config())?,
    };
    if let Some(line) = &line {
        line.note_plan(&plan);
    }
    watch.enter(AccountPhase::Write);
    if arguments.save_plan.is_some() {
        output::write_json(comm, outputs.save_plan, &plan)?;
    }
    if arguments.plan {
        session.save_models()?;
        let is_head = comm.rank() == 0;
        let answer = is_head.then(|| show_plan(arguments, &plan)).transpose()?;
        return Ok(answer.map(MxmEnding::Answer));
    }
    let out = outputs.out;
    let (run, watching) = (&mut session, &mut watch);
    let report = with_element!(plan.problem().element(), T => {
        multiply_as::<T>(run, watching, arguments, &plan, files, out)
    })?;
    drop(session);
    if let Some(trace) = trace {
        trace.finish(comm)?;
    }
    let failure = find_failure(&report);
    let finished =
        FinishedRun { arguments, plan, report, file: outputs.report, watch: watch.end_work() };
    let finished = (comm.rank() == 0).then_some(finished);
    match (failure, finished) {
        (None, finished) => Ok(finished.map(Box::new).map(MxmEnding::Run)),
        // A rank that fails after the end of MPI would end the job before the head rank has printed.
        (Some(failure), None) => Err(failure),
        (Some(failure), Some(finished)) => {
            Ok(Some(MxmEnding::Answer(finished.close()?.with_failure(failure))))
        }
    }
}

/// Shows the progress of a session on the line and in the timeline, as far as there are some.
fn observe(
    session: &mut Session,
    line: Option<&Rc<ProgressLine>>,
    recorder: Option<&Rc<Recorder>>,
) {
    let line = line.map(|line| Rc::clone(line) as Rc<dyn Observer>);
    let recorder = recorder.map(|recorder| Rc::clone(recorder) as Rc<dyn Observer>);
    let observers: Vec<Rc<dyn Observer>> = line.into_iter().chain(recorder).collect();
    if !observers.is_empty() {
        session.observe_progress(Rc::new(observers));
    }
}

/// Returns the failure of a result that did not pass its check.
fn find_failure(report: &Report) -> Option<Failure> {
    report.verify.as_ref()?;
    match (&report.overflow, report.verified) {
        (_, Some(true)) => None,
        (Some(found), _) => {
            let overflows = format!("the result overflows {}: {found}", report.element);
            Some(Failure::run(overflows))
        }
        (None, Some(false)) => Some(Failure::wrong_result()),
        (None, None) => Some(Failure::unverified_result()),
    }
}

/// Answers by the plan.
fn show_plan(arguments: &MxmArguments, plan: &Plan) -> Result<Answer, Failure> {
    Answer::in_lines(arguments.json, plan, |plan| {
        if arguments.quiet { plan::format_line(plan) } else { format_plan(plan, output_width()) }
    })
}

/// Multiplies with elements of the plan's type. Returns the report.
fn multiply_as<T: Element>(
    session: &mut Session,
    watch: &mut Stopwatch<'_>,
    arguments: &MxmArguments,
    plan: &Plan,
    files: MatrixFiles,
    out: Option<OutputFile>,
) -> Result<Report, Error> {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let scalars = find_scalars::<T>(arguments);
    watch.enter(AccountPhase::Matrices);
    session.check_memory(plan)?;
    let mut product = session.prepare::<T>(plan, RunConfig { leaves_c: true })?;
    let plan = &product.plan().clone();
    let mut source = MatrixSource {
        comm,
        arguments,
        moved: Moved::default(),
        notices: files.list_notices(),
        is_finite: true,
        largest: [0.0; 3],
        files,
    };
    let mut c = if scalars.beta == T::ZERO {
        agree(comm, product.zeros(session))?
    } else {
        source.make_matrix(plan.c(), 2)?
    };
    let whole = if plan.k_parts() == 1 {
        let factors = source.make_factors::<T>(plan.a(), plan.b())?;
        source.finish_reading()?;
        Some(factors)
    } else {
        None
    };
    let factors = whole.as_ref().map(|(a, b)| plan.operands(a, b));
    watch.enter(AccountPhase::Check);
    let mut check = Check::begin(comm, arguments, scalars, &c, factors)?;
    let run = if let Some((a, b)) = &whole {
        check.add(comm, plan.operands(a, b))?;
        // So that no rank's multiplication counts the wait for another rank's check.
        comm.barrier()?;
        watch.enter(AccountPhase::Multiply);
        product.run(session, scalars, Factors::of(a, b), &mut c)?
    } else {
        watch.enter(AccountPhase::Multiply);
        let mut make = |part: &PartOfK| source.make_part(watch, &mut check, part);
        let run = product.run(session, scalars, Factors::made(&mut make), &mut c)?;
        watch.enter(AccountPhase::Matrices);
        source.finish_reading()?;
        run
    };
    watch.enter(AccountPhase::Check);
    // Before the check: what is written has to be what was checked.
    let digest = out.is_some().then(|| c.digest());
    flip_element("digested", &mut c);
    let mut again = SourceAgain { source: &mut source, plan, factors };
    let verdict = check.finish(comm, &c, &mut again)?;
    flip_element("checked", &mut c);
    let passed = verdict.as_ref().map(|(_, passed)| *passed == Some(true));
    let overflow = if passed != Some(true) && source.can_overflow(scalars, plan.problem().k()) {
        c.find_not_finite(comm)?
    } else {
        None
    };
    whole.into_iter().for_each(|(a, b)| free_factors(a, b));
    watch.enter(AccountPhase::Write);
    if passed != Some(false) {
        session.save_models()?;
    }
    let mut moved = source.moved;
    let mut report = Report::gather(session, plan, &run.execution, verdict)?;
    if let (Some(out), Some(digest), Some(true) | None) = (out, digest, passed) {
        let c_bytes = plan.problem().m() * plan.problem().n() * size_of::<T>();
        expect_work(0.0, c_bytes as f64 / SLOWEST_DISK_BYTES_S);
        moved = moved.and(out.write(comm, &c, digest)?);
        report.digest = Some(digest.sum_over_ranks(comm)?.to_string());
    }
    report.add_redistribution(comm, moved)?;
    report.notices.extend(source.notices);
    report.overflow = overflow.map(|found| found.to_string());
    Ok(report)
}

/// Returns the factors of the product that the options ask for.
fn find_scalars<T: Element>(arguments: &MxmArguments) -> Scalars<T> {
    let beta = if arguments.c.is_some() { Complex64::ONE } else { Complex64::ZERO };
    Scalars { alpha: T::of(arguments.alpha), beta: T::of(arguments.beta.unwrap_or(beta)) }
}

/// Frees A and B: the system takes a while for each page.
fn free_factors<T: Element>(a: Matrix<T>, b: Matrix<T>) {
    let bytes = size_of::<T>() * (a.part().len() + b.part().len());
    let _freeing = LongCall::begin(bytes as f64 / FREED_BYTES_S);
    drop((a, b));
}

/// Checks that no file is given twice.
fn check_files(comm: &dyn Comm, arguments: &MxmArguments) -> Result<(), Error> {
    let inputs = [
        name_path("--a", &arguments.a),
        name_path("--b", &arguments.b),
        name_path("--c", &arguments.c),
        name_path("--platform", &arguments.node.platform),
        name_path("--load-plan", &arguments.load_plan),
    ];
    let outputs = [
        name_path("--out", &arguments.out),
        name_path("--report", &arguments.report),
        name_path("--save-plan", &arguments.save_plan),
        name_path("--trace", &arguments.trace),
    ];
    check_paths(comm, inputs.into_iter().flatten(), outputs.into_iter().flatten())
}

/// The files of the results, created before the work.
struct Outputs {
    out: Option<OutputFile>,
    /// On the head rank.
    report: Option<PartialFile>,
    /// On the head rank.
    save_plan: Option<PartialFile>,
}

impl Outputs {
    fn create(comm: &dyn Comm, arguments: &MxmArguments, problem: &Problem) -> Result<Self, Error> {
        let (m, n, element) = (problem.m(), problem.n(), problem.element());
        let out = arguments.out.as_deref();
        let out = out.map(|path| file::reserve(comm, path, m, n, element));
        let out = out.transpose()?;
        let create = [&arguments.report, &arguments.save_plan]
            .map(|path| create_file(path.as_deref().filter(|_| comm.rank() == 0)));
        let [report, save_plan] = create;
        Ok(Self { out, report: agree(comm, report)?, save_plan: agree(comm, save_plan)? })
    }
}

/// The source of the matrices, with the cost of reading them from files.
struct MatrixSource<'a> {
    comm: &'a dyn Comm,
    arguments: &'a MxmArguments,
    files: MatrixFiles,
    moved: Moved,
    /// Files that are not the same on all hosts, numbers that are not finite, and what was lost of the numbers.
    notices: Vec<String>,
    /// `false` once a number that was read is not finite.
    is_finite: bool,
    /// The largest sums of the magnitudes of an element's parts, in A, B and C.
    largest: [f64; 3],
}

impl MatrixSource<'_> {
    /// Makes A and B.
    fn make_factors<T: Element>(
        &mut self,
        a: Spread,
        b: Spread,
    ) -> Result<(Matrix<T>, Matrix<T>), Error> {
        let a = self.make_matrix(a, 0)?;
        Ok((a, self.make_matrix(b, 1)?))
    }

    /// Makes a part of k of A and B, and adds it to the check.
    fn make_part<T: Element>(
        &mut self,
        watch: &mut Stopwatch<'_>,
        check: &mut Check<T>,
        part: &PartOfK,
    ) -> Result<(Matrix<T>, Matrix<T>), Error> {
        watch.enter(AccountPhase::Matrices);
        let (a, b) = self.make_factors(part.a(), part.b())?;
        let (a, b) = (a.alone(self.comm.rank()), b.alone(self.comm.rank()));
        watch.enter(AccountPhase::Check);
        check.add(self.comm, part.plan().operands(&a, &b))?;
        watch.enter(AccountPhase::Multiply);
        Ok((a, b))
    }

    /// Reads A (0), B (1) or C (2) from its file, or generates it with a seed of its own.
    fn make_matrix<T: Element>(
        &mut self,
        spread: Spread,
        which: usize,
    ) -> Result<Matrix<T>, Error> {
        let matrix: Matrix<T> = self.read_matrix(spread, which)?;
        let view = matrix.local();
        let largest = (0..view.cols())
            .inspect(|_| note_progress())
            .flat_map(|col| view.col(col))
            .map(|element| element.value().l1_norm())
            .fold(self.largest[which], f64::max);
        self.largest[which] = self.comm.largest(largest)?;
        Ok(matrix)
    }

    fn read_matrix<T: Element>(
        &mut self,
        spread: Spread,
        which: usize,
    ) -> Result<Matrix<T>, Error> {
        let comm = self.comm;
        let Some(file) = self.files.find(which) else {
            let seed = self.arguments.seed.wrapping_mul(3);
            let seed = seed.wrapping_add(which as u64);
            let generator = match self.arguments.verify {
                Verify::Exact => Generator::Integers { seed },
                _ => Generator::Uniform { seed },
            };
            return agree(comm, Matrix::generate(spread, comm.rank(), generator));
        };
        let path = file.path();
        let (matrix, took) = file.read(comm, spread)?;
        self.moved = self.moved.and(took);
        if let Some(found) = matrix.find_not_finite(comm)? {
            if self.arguments.verify != Verify::None {
                let lost = file.describe_losses(comm)?;
                let lost = lost.map(|lost| format!(" ({lost})")).unwrap_or_default();
                let reason = format!("{found}{lost}; only --verify none multiplies them");
                return Err(Error::file(path, reason));
            }
            let notice = format!("{}: {found}", show_path(path));
            self.notices.push(notice);
            self.is_finite = false;
        }
        Ok(matrix)
    }

    /// Ends the reading of the files.
    fn finish_reading(&mut self) -> Result<(), Error> {
        self.notices.extend(self.files.describe_losses(self.comm)?);
        self.moved.seconds += self.files.check(self.comm)?;
        Ok(())
    }

    /// Returns `true` if a sum of products may be beyond the range of its type, by the largest numbers of A, B and C.
    fn can_overflow<T: Element>(&self, scalars: Scalars<T>, k: usize) -> bool {
        let [alpha, beta] = [scalars.alpha, scalars.beta].map(|scalar| scalar.value().norm());
        let [a, b, c] = self.largest;
        let bound = 2.0 * (alpha * a * b * k as f64 + beta * c);
        self.is_finite && !T::of(Complex64::new(bound, 0.0)).value().is_finite()
    }
}

/// Makes the matrices of a multiplication again, for its check.
struct SourceAgain<'a, 's, T> {
    source: &'a mut MatrixSource<'s>,
    plan: &'a Plan,
    /// A and B, if they are whole.
    factors: Option<[Operand<'a, T>; 2]>,
}

impl<T: Element> Recall<T> for SourceAgain<'_, '_, T> {
    fn factors(&mut self, take: &mut TakeFactors<'_, T>) -> Result<(), Error> {
        if let Some(factors) = self.factors {
            return take(factors);
        }
        let rank = self.source.comm.rank();
        for index in 0..self.plan.k_parts() {
            let part = self.plan.k_part(index);
            let (a, b) = self.source.make_factors(part.a(), part.b())?;
            take(part.plan().operands(&a.alone(rank), &b.alone(rank)))?;
        }
        self.source.files.check(self.source.comm).map(drop)
    }

    fn is_anew(&self) -> bool {
        self.factors.is_none()
    }

    fn c(&mut self, window: Spread) -> Result<Matrix<T>, Error> {
        let c = self.source.make_matrix(window, 2)?;
        self.source.files.check(self.source.comm)?;
        Ok(c)
    }
}
