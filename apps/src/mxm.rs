//! `isochron mxm`: a multiplication, balanced, run and checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::redistribute::Moved;
use isochron::matrix::{Generator, Matrix, file};
use isochron::multiply::{Plan, Problem, Scalars};
use isochron::output::PartialFile;
use isochron::session::{Report, Session, SessionConfig, VerifyReport};
use isochron::verify::{Exact, Probe, Verdict};
use isochron_devices::Grouping;
use isochron_devices::blas::BlasChoice;
use isochron_devices::{MeasureConfig, MeasureTally};
use isochron_hierarchy::balance::{BalanceConfig, Outcome, Strategy};
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;

use crate::failure::Failure;
use crate::measuring::Measuring;
use crate::output;
use crate::table::Table;
use crate::topology::ranges;

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
    /// Factor of A*B
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    alpha: f64,
    /// Factor of C [default: 0, with --c 1]
    #[arg(long, allow_negative_numbers = true)]
    beta: Option<f64>,
    /// Block size b: a unit of work is the update of a b×b block of C
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Width of the panels that travel and are multiplied at a time; without it a multiple of the block that suits k
    #[arg(long)]
    panel: Option<usize>,
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
    /// How the nodes' areas are laid out: kl, br, cartesian, recursive, row-slices or column-slices
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

/// Runs the command on every rank.
pub fn run(comm: &dyn Comm, arguments: &Arguments) -> Result<(), Failure> {
    let report = multiply(comm, arguments)?;
    if comm.rank() == 0 {
        output::write(&text(&report, arguments)?)?;
    }
    match report.0.verified {
        Some(false) => Err(Failure::run("the result is wrong: it failed its check")),
        _ => Ok(()),
    }
}

fn multiply(comm: &dyn Comm, arguments: &Arguments) -> Result<(Report, String), Error> {
    let problem = problem(comm, arguments)?;
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
    let plan = session.plan(problem, &balance)?;
    let beta = arguments
        .beta
        .unwrap_or(if arguments.c.is_some() { 1.0 } else { 0.0 });
    let scalars = Scalars {
        alpha: arguments.alpha,
        beta,
    };
    let ((a, b, mut c), mut moved) = matrices(&mut session, arguments, &plan, scalars)?;
    let check = Check::begin(comm, arguments, scalars, (&a, &b), &c)?;
    let execution = session.multiply(&plan, scalars, (&a, &b), &mut c)?;
    let verdict = check.finish(comm, (&a, &b), &c);
    let mut report = Report::gather(&session, &plan, &balance, &execution, verdict);
    if let (Some(path), Some(true) | None) = (&arguments.out, report.verified) {
        moved = moved.and(file::write(comm, path, &c)?);
    }
    report.add_redistribution(comm, moved);
    write_report(comm, arguments.report.as_deref(), &report)?;
    Ok((report, plan.layout().picture(40)))
}

/// The shape asked for, or that of the files.
fn problem(comm: &dyn Comm, arguments: &Arguments) -> Result<Problem, Error> {
    let generated = arguments
        .size
        .map(|size| (size, size, size))
        .or_else(|| Some((arguments.m?, arguments.n?, arguments.k?)));
    let (m, n, k) = match (generated, &arguments.a, &arguments.b) {
        (Some(shape), ..) => shape,
        (None, Some(a), Some(b)) => {
            let (a_shape, b_shape) = (file::shape(comm, a)?, file::shape(comm, b)?);
            if a_shape.cols != b_shape.rows {
                return Err(Error::Shape(format!(
                    "{} is {}×{} and {} is {}×{}",
                    a.display(),
                    a_shape.rows,
                    a_shape.cols,
                    b.display(),
                    b_shape.rows,
                    b_shape.cols
                )));
            }
            (a_shape.rows, b_shape.cols, a_shape.cols)
        }
        _ => {
            return Err(Error::Parameter {
                name: "size",
                value: "missing".to_string(),
                reason: "give --size, or --m --n --k, or the files --a and --b".to_string(),
            });
        }
    };
    if let Some(path) = &arguments.c {
        let shape = file::shape(comm, path)?;
        if (shape.rows, shape.cols) != (m, n) {
            let found = format!("{} is {}×{}", path.display(), shape.rows, shape.cols);
            return Err(Error::Shape(format!("{found}, but A*B is {m}×{n}")));
        }
    }
    let from_files = arguments.a.is_some();
    if from_files && arguments.c.is_none() && arguments.beta.is_some_and(|beta| beta != 0.0) {
        let reason = "there is no C to add: give its file by --c".to_string();
        let value = arguments.beta.unwrap_or_default().to_string();
        return Err(Error::Parameter {
            name: "beta",
            value,
            reason,
        });
    }
    let scalars = [("alpha", Some(arguments.alpha)), ("beta", arguments.beta)];
    for (name, value) in scalars {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            let reason = "a factor must be a finite number".to_string();
            return Err(Error::Parameter {
                name,
                value: value.to_string(),
                reason,
            });
        }
    }
    if arguments.epsilon.is_nan() || arguments.epsilon <= 0.0 {
        let reason = "use a positive number, such as 0.05".to_string();
        return Err(Error::Parameter {
            name: "epsilon",
            value: arguments.epsilon.to_string(),
            reason,
        });
    }
    let problem = Problem::new(m, n, k, arguments.block)?;
    match arguments.panel {
        Some(panel) => problem.with_panel(panel),
        None => Ok(problem),
    }
}

/// Finds out before the work that its results can be written.
fn check_outputs(comm: &dyn Comm, arguments: &Arguments) -> Result<(), Error> {
    if let Some(path) = &arguments.out {
        file::check_writable(comm, path)?;
    }
    let outcome = match &arguments.report {
        Some(path) if comm.rank() == 0 => PartialFile::check(path),
        _ => Ok(()),
    };
    agree(comm, outcome)
}

/// The operands and C, and what it took to read them from files.
fn matrices(
    session: &mut Session<'_>,
    arguments: &Arguments,
    plan: &Plan,
    scalars: Scalars,
) -> Result<((Matrix, Matrix, Matrix), Moved), Error> {
    let comm = session.comm();
    let generator = |which: u64| {
        let seed = arguments.seed.wrapping_mul(3).wrapping_add(which);
        match arguments.verify {
            Verify::Exact => Generator::Integers { seed },
            _ => Generator::Uniform { seed },
        }
    };
    let mut moved = Moved::default();
    let mut make = |path: &Option<PathBuf>, distribution, which| match path {
        Some(path) => file::read(comm, path, distribution).map(|(matrix, took)| {
            moved = moved.and(took);
            matrix
        }),
        None => agree(
            comm,
            Matrix::generate(distribution, comm.rank(), generator(which)),
        ),
    };
    let a = make(&arguments.a, plan.a(), 0)?;
    let b = make(&arguments.b, plan.b(), 1)?;
    let c = match &arguments.c {
        _ if scalars.beta == 0.0 => agree(comm, session.zeros(plan))?,
        path => make(path, plan.c(), 2)?,
    };
    Ok(((a, b, c), moved))
}

/// The result check that was asked for, begun.
enum Check {
    None,
    Probe(Probe),
    Exact(Exact),
}

impl Check {
    fn begin(
        comm: &dyn Comm,
        arguments: &Arguments,
        scalars: Scalars,
        operands: (&Matrix, &Matrix),
        c: &Matrix,
    ) -> Result<Self, Error> {
        Ok(match arguments.verify {
            Verify::None => Check::None,
            Verify::Probe => Check::Probe(Probe::begin(scalars, c, arguments.seed)),
            Verify::Exact => {
                Check::Exact(Exact::begin(comm, scalars, operands, c, arguments.seed)?)
            }
        })
    }

    fn finish(
        self,
        comm: &dyn Comm,
        operands: (&Matrix, &Matrix),
        c: &Matrix,
    ) -> Option<(VerifyReport, bool)> {
        let (method, Verdict { passed, residual }) = match self {
            Check::None => return None,
            Check::Probe(probe) => ("probe", probe.finish(comm, operands, c)),
            Check::Exact(exact) => ("exact", exact.finish(comm, operands, c)),
        };
        Some((
            VerifyReport {
                method: method.to_string(),
                residual: residual.is_finite().then_some(residual),
            },
            passed,
        ))
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

fn write_json(path: &Path, report: &Report) -> Result<(), Error> {
    let failed = |reason: String| Error::Output {
        path: path.to_path_buf(),
        reason,
    };
    let text = serde_json::to_string_pretty(report).map_err(|error| failed(error.to_string()))?;
    let mut partial = PartialFile::create(path)?;
    let written = partial.file().write_all((text + "\n").as_bytes());
    written.map_err(|error| failed(error.to_string()))?;
    partial.publish()
}

fn text((report, picture): &(Report, String), arguments: &Arguments) -> Result<String, Failure> {
    if arguments.json {
        let json = serde_json::to_string_pretty(report).map_err(Failure::run)?;
        return Ok(json + "\n");
    }
    let Report {
        m,
        n,
        k,
        block,
        panel,
        strategy,
        ..
    } = report;
    let n_nodes = report.nodes.len();
    let plural = if n_nodes == 1 { "" } else { "s" };
    let mut text = format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n}, block {block}, panels of {panel}, strategy {strategy}\n\
         {n_nodes} node{plural}, MPI {}\n\n{picture}\n{}\n{}\n",
        report.mpi,
        device_table(report),
        summary(report)
    );
    for (notice, ranks) in notices(report) {
        let _ = writeln!(text, "note: {notice} (rank {})", ranges(&ranks));
    }
    Ok(text)
}

/// What is unusual about the ranks' hosts, each with the ranks that say so.
fn notices(report: &Report) -> BTreeMap<&str, Vec<u32>> {
    let mut notices: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, node) in (0..).zip(&report.nodes) {
        for notice in &node.notices {
            notices.entry(notice).or_default().push(rank);
        }
    }
    notices
}

fn device_table(report: &Report) -> Table {
    let mut table = Table::new(
        4,
        &[
            "node",
            "device",
            "runs on",
            "paced",
            "units",
            "share",
            "GFLOP/s",
            "busy s",
            "waiting s",
        ],
    );
    let total: f64 = report.nodes.iter().map(|node| node.units).sum();
    let unit_flop = 2.0 * (report.block as f64).powi(2) * report.k as f64;
    for node in &report.nodes {
        for device in &node.devices {
            let speed = if device.busy_s > 0.0 {
                device.units * unit_flop / device.busy_s / 1e9
            } else {
                0.0
            };
            let name = if node.name.is_empty() {
                &node.host
            } else {
                &node.name
            };
            table.row(vec![
                format!("{} {name}", node.rank),
                device.name.clone(),
                device.blas.clone(),
                device.paced.clone().unwrap_or_else(|| "-".to_string()),
                format!("{:.0}", device.units),
                format!(
                    "{:.1} %",
                    100.0 * device.units / total.max(f64::MIN_POSITIVE)
                ),
                format!("{speed:.2}"),
                format!("{:.3}", device.busy_s),
                format!("{:.3}", (report.wall_s - device.busy_s).max(0.0)),
            ]);
        }
    }
    table
}

fn summary(report: &Report) -> String {
    let share = 100.0 * report.balance_s / (report.balance_s + report.wall_s);
    let (iterations, why) = report
        .balance
        .as_ref()
        .map_or((0, ""), |b| (b.iterations, reason(b.why)));
    let ratio = if report.ideal_s > 0.0 {
        report.wall_s / report.ideal_s
    } else {
        1.0
    };
    let check = match (&report.verify, report.verified) {
        (Some(verify), Some(passed)) => {
            let word = if passed { "verified" } else { "WRONG" };
            format!(
                "{word} by {}: largest residual {:.2e} of its bound",
                verify.method,
                verify.residual.unwrap_or(f64::INFINITY)
            )
        }
        _ => "not verified".to_string(),
    };
    format!(
        "balanced in {:.3} s ({share:.1} % of the run), {iterations} iterations: {why}\n\
         multiplied in {:.3} s, {:.2} × ideal ({:.3} s), {:.2} GFLOP/s, imbalance {:.1} %\n\
         sent {:.1} MiB in {} messages\n{}{}{check}",
        report.balance_s,
        report.wall_s,
        ratio,
        report.ideal_s,
        report.gflops,
        100.0 * report.imbalance,
        report.bytes as f64 / f64::from(1 << 20),
        report.messages,
        redistributed(report),
        measured(report),
    )
}

/// What reading and writing files took.
fn redistributed(report: &Report) -> String {
    let Moved {
        seconds,
        messages,
        bytes,
    } = report.redistribution;
    if seconds == 0.0 {
        return String::new();
    }
    let mib = bytes as f64 / f64::from(1 << 20);
    format!(
        "files read and written in {seconds:.3} s, sent {mib:.1} MiB of them in {messages} messages\n"
    )
}

/// What of the measurements is not as it should be.
fn measured(report: &Report) -> String {
    let nodes = report.nodes.iter().map(|node| node.measured);
    let tally = nodes.fold(MeasureTally::default(), |all, node| all.and(&node));
    let MeasureTally {
        measurements,
        outliers,
        imprecise,
        bounds,
        ..
    } = tally;
    if imprecise + bounds == 0 {
        return String::new();
    }
    format!(
        "of {measurements} measurements {imprecise} did not reach their precision and {bounds} were given up; \
         {outliers} repetitions were disturbed\n"
    )
}

/// Why balancing ended, in words.
fn reason(why: Outcome) -> &'static str {
    match why {
        Outcome::Balanced => "balanced",
        Outcome::NothingNew => "nothing more to learn",
        Outcome::NotWorthIt => "more would not pay for itself",
        Outcome::IterationLimit => "not balanced when the iterations ran out",
        Outcome::Predicted => "split by one measurement",
        Outcome::NotMeasured => "split evenly",
        Outcome::NoWork => "no work",
    }
}
