//! `isochron mxm`: a multiplication, balanced, run and checked.

mod check;
mod plan;
mod problem;
mod text;
mod ways;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::redistribute::Moved;
use isochron::matrix::{Distribution, Generator, Matrix, Op, file};
use isochron::multiply::{PartOfK, Plan, Scalars, SplitChoice};
use isochron::output::PartialFile;
use isochron::session::{Report, SavedPlan, Session, SessionConfig};
use isochron_devices::Element;
use isochron_devices::ElementType;
use isochron_devices::Grouping;
use isochron_devices::MeasureConfig;
use isochron_devices::blas::BlasChoice;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;
use num_complex::{Complex32, Complex64};

use crate::failure::Failure;
use crate::measuring::Measuring;
use crate::output;
use check::Check;
use problem::problem;
use text::text;

/// What to multiply, and how.
#[derive(Args)]
pub struct Arguments {
    /// All of m, n and k
    #[arg(long, conflicts_with_all = ["m", "n", "k", "a", "b"])]
    size: Option<usize>,
    /// Rows of A and C
    #[arg(long, requires = "n", requires = "k", conflicts_with_all = ["a", "b"])]
    m: Option<usize>,
    /// Columns of B and C
    #[arg(long, requires = "m", requires = "k", conflicts_with_all = ["a", "b"])]
    n: Option<usize>,
    /// Columns of A, rows of B
    #[arg(long, requires = "m", requires = "n", conflicts_with_all = ["a", "b"])]
    k: Option<usize>,
    /// File with A, m×k (.npy or .mtx)
    #[arg(long, requires = "b", value_name = "FILE")]
    a: Option<PathBuf>,
    /// File with B, k×n
    #[arg(long, requires = "a", value_name = "FILE")]
    b: Option<PathBuf>,
    /// File with the C that is added, m×n
    #[arg(long, value_name = "FILE")]
    c: Option<PathBuf>,
    /// File for the result (.npy or .mtx)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Factor of A*B, such as -1.5 or, of complex numbers, 2-0.5i
    #[arg(long, default_value = "1", allow_hyphen_values = true)]
    alpha: Complex64,
    /// Factor of C [default: 0, with --c 1]
    #[arg(long, allow_hyphen_values = true)]
    beta: Option<Complex64>,
    /// Type of the elements: f32, f64, c32 or c64 (complex numbers in single and double precision) [default: f64, or what
    /// the files hold]
    #[arg(long = "type", value_name = "TYPE")]
    element: Option<ElementType>,
    /// Block size b: a unit of work is the update of a b×b block of C
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Width of the panels that travel and are multiplied at a time; without it as wide as the measured links make best
    #[arg(long)]
    panel: Option<usize>,
    /// What is taken of A: n (as it is), t (its transpose) or c (its conjugate transpose); m, n and k stay those of the product
    #[arg(long, value_name = "OP", default_value_t = Op::N)]
    op_a: Op,
    /// What is taken of B
    #[arg(long, value_name = "OP", default_value_t = Op::N)]
    op_b: Op,
    /// What the nodes' shares are cut from: c (panels of A and B travel), k (parts of C are summed) or auto
    #[arg(long, default_value_t = SplitChoice::default())]
    split: SplitChoice,
    /// Print the plan, and stop before anything is allocated
    #[arg(long, conflicts_with_all = ["out", "report"])]
    plan: bool,
    /// File for the plan (JSON)
    #[arg(long, value_name = "FILE")]
    save_plan: Option<PathBuf>,
    /// File with a plan for these ranks and devices: nothing is measured
    #[arg(long, value_name = "FILE")]
    load_plan: Option<PathBuf>,
    /// Platform file; without one every rank uses what it finds on its host
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node; in place
    /// of what the platform file says
    #[arg(long)]
    group: Option<Grouping>,
    /// How work is balanced: homogeneous, single-cpm, multi-cpm or fpm
    #[arg(long, default_value_t = Strategy::Fpm)]
    strategy: Strategy,
    /// Imbalance at which measuring ends: max |t_i - t_j| / t_i
    #[arg(long, default_value_t = 0.05)]
    epsilon: f64,
    /// How often all nodes are measured at most
    #[arg(long, default_value_t = 10)]
    max_iterations: u32,
    /// What fpm makes of the measured points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise
    #[arg(long, default_value_t = Fit::default())]
    fit: Fit,
    /// What fpm divides by those models with: gpa, npa or hpopta
    #[arg(long, default_value_t = Partitioner::default())]
    partitioner: Partitioner,
    /// How the nodes' areas are laid out: kl, br, cartesian, cartesian-sums or recursive
    #[arg(long, default_value_t = Method::default())]
    layout: Method,
    /// BLAS of the CPU devices: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    blas: BlasChoice,
    /// How the result is checked; exact makes the generated matrices whole numbers
    #[arg(long, value_enum, default_value_t = Verify::Probe)]
    verify: Verify,
    /// Seed of the generated matrices and of the check
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for the report (JSON)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report (JSON) instead of the summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verify {
    /// No check
    None,
    /// A random probe with a derived bound
    Probe,
    /// An exact check of whole numbers
    Exact,
}

/// What the command ended with.
enum Done {
    /// A plan, which was all that was asked for.
    Planned(Box<SavedPlan>),
    /// The report of a multiplication, and the picture of its layout.
    Multiplied(Box<Report>, String),
}

/// Runs the command on every rank.
pub fn run(comm: &dyn Comm, arguments: &Arguments) -> Result<(), Failure> {
    let done = multiply(comm, arguments)?;
    if comm.rank() == 0 {
        output::write(&match &done {
            Done::Planned(plan) => plan::text(plan, arguments.json)?,
            Done::Multiplied(report, picture) => text(report, picture, arguments.json)?,
        })?;
    }
    match done {
        Done::Multiplied(report, _) if report.verified == Some(false) => {
            Err(Failure::run("the result is wrong: it failed its check"))
        }
        _ => Ok(()),
    }
}

fn multiply(comm: &dyn Comm, arguments: &Arguments) -> Result<Done, Error> {
    let saved = plan::load(comm, arguments.load_plan.as_deref())?;
    let problem = problem(comm, arguments, saved.as_ref())?;
    check_outputs(comm, arguments)?;
    let config = SessionConfig {
        platform: arguments.platform.clone(),
        grouping: arguments.group,
        blas: arguments.blas.clone(),
        measure: arguments.measuring.or(MeasureConfig::default()),
    };
    let mut session = Session::new(comm, &config)?;
    let balance = BalanceConfig {
        strategy: arguments.strategy,
        epsilon: arguments.epsilon,
        max_iterations: arguments.max_iterations,
        fit: arguments.fit,
        partitioner: arguments.partitioner,
        layout: arguments.layout,
        ..Default::default()
    };
    let plan = plan::make(&mut session, arguments, saved.as_ref(), (problem, &balance))?;
    if arguments.plan {
        return Ok(Done::Planned(Box::new(session.describe(&plan)?)));
    }
    let session = &mut session;
    match plan.problem().element() {
        ElementType::F32 => multiply_as::<f32>(session, arguments, &plan, &balance),
        ElementType::F64 => multiply_as::<f64>(session, arguments, &plan, &balance),
        ElementType::C32 => multiply_as::<Complex32>(session, arguments, &plan, &balance),
        ElementType::C64 => multiply_as::<Complex64>(session, arguments, &plan, &balance),
    }
}

/// Runs the plan, with elements of its type.
fn multiply_as<T: Element>(
    session: &mut Session<'_>,
    arguments: &Arguments,
    plan: &Plan,
    balance: &BalanceConfig,
) -> Result<Done, Error> {
    let comm = session.comm();
    let with_c = arguments.c.is_some();
    let beta = arguments
        .beta
        .unwrap_or(Complex64::from(f64::from(u8::from(with_c))));
    let scalars = Scalars {
        alpha: T::of(arguments.alpha),
        beta: T::of(beta),
    };
    let mut source = Source {
        comm,
        arguments,
        moved: Moved::default(),
    };
    let mut c = source.c(session, plan, scalars)?;
    let mut check = Check::begin(comm, arguments, scalars, &c)?;
    let execution = if plan.k_parts() == 1 {
        let (a, b) = (source.a(plan.a())?, source.b(plan.b())?);
        check.add(comm, plan.operands((&a, &b)))?;
        session.multiply(plan, scalars, (&a, &b), &mut c)?
    } else {
        let mut make = |part: &PartOfK| {
            let (a, b) = (source.a(part.a())?, source.b(part.b())?);
            let (a, b) = (a.alone(comm.rank()), b.alone(comm.rank()));
            check.add(comm, part.plan().operands((&a, &b)))?;
            Ok((a, b))
        };
        session.multiply_in_parts(plan, scalars, &mut make, &mut c)?
    };
    let verdict = check.finish(comm, &c);
    let mut moved = source.moved;
    let mut report = Report::gather(session, plan, balance, &execution, verdict)?;
    if let (Some(path), Some(true) | None) = (&arguments.out, report.verified) {
        moved = moved.and(file::write(comm, path, &c)?);
    }
    report.add_redistribution(comm, moved)?;
    write_report(comm, arguments.report.as_deref(), &report)?;
    let picture = plan.layout().picture(40);
    Ok(Done::Multiplied(Box::new(report), picture))
}

/// Finds out before the work that its results can be written.
fn check_outputs(comm: &dyn Comm, arguments: &Arguments) -> Result<(), Error> {
    if let Some(path) = &arguments.out {
        file::check_writable(comm, path)?;
    }
    let documents = [&arguments.report, &arguments.save_plan];
    let mut documents = documents.into_iter().flatten();
    let outcome = match comm.rank() {
        0 => documents.try_for_each(|path| PartialFile::check(path)),
        _ => Ok(()),
    };
    agree(comm, outcome)
}

/// Where the matrices come from, and what it took to read them from files.
struct Source<'a> {
    comm: &'a dyn Comm,
    arguments: &'a Arguments,
    moved: Moved,
}

impl Source<'_> {
    fn a<T: Element>(&mut self, distribution: Distribution) -> Result<Matrix<T>, Error> {
        self.make(self.arguments.a.as_deref(), distribution, 0)
    }

    fn b<T: Element>(&mut self, distribution: Distribution) -> Result<Matrix<T>, Error> {
        self.make(self.arguments.b.as_deref(), distribution, 1)
    }

    fn c<T: Element>(
        &mut self,
        session: &mut Session<'_>,
        plan: &Plan,
        scalars: Scalars<T>,
    ) -> Result<Matrix<T>, Error> {
        if scalars.beta == T::ZERO {
            return agree(self.comm, session.zeros(plan));
        }
        self.make(self.arguments.c.as_deref(), plan.c(), 2)
    }

    /// The matrix in a file, or a generated one, `which` of them.
    fn make<T: Element>(
        &mut self,
        path: Option<&Path>,
        distribution: Distribution,
        which: u64,
    ) -> Result<Matrix<T>, Error> {
        let comm = self.comm;
        let Some(path) = path else {
            let seed = self.arguments.seed.wrapping_mul(3).wrapping_add(which);
            let generator = match self.arguments.verify {
                Verify::Exact => Generator::Integers { seed },
                _ => Generator::Uniform { seed },
            };
            return agree(comm, Matrix::generate(distribution, comm.rank(), generator));
        };
        let (matrix, took) = file::read(comm, path, distribution)?;
        self.moved = self.moved.and(took);
        Ok(matrix)
    }
}

fn write_report(comm: &dyn Comm, path: Option<&Path>, report: &Report) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let outcome = if comm.rank() == 0 {
        write_json(path, report)
    } else {
        Ok(())
    };
    agree(comm, outcome)
}

fn write_json(path: &Path, document: &impl serde::Serialize) -> Result<(), Error> {
    let failed = |reason: String| Error::Output {
        path: path.to_path_buf(),
        reason,
    };
    let text = serde_json::to_string_pretty(document).map_err(|error| failed(error.to_string()))?;
    let mut partial = PartialFile::create(path)?;
    let written = partial.file().write_all((text + "\n").as_bytes());
    written.map_err(|error| failed(error.to_string()))?;
    partial.publish()
}
