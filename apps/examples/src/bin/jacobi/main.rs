//! A linear system by Jacobi's method, whose rows follow the speeds of the ranks: `mpirun -n 3 jacobi`.
//!
//! Each rank has some rows of `A·x = b`, and all ranks know the whole of x. After each iteration a strategy looks at the times
//! of the ranks and may move rows. Without a platform file the last rank is four times slower, so it ends with the fewest.
//!
//! # Deviations
//!
//! * **end of the method**: the thesis ends by an error that it does not define (appendix A.5). Here the residual ends it:
//!   the largest `|b_i - a_i·x|`, over the largest `|b_i|`. It is the same in any division of the rows, and a sweep gives it
//!   for nothing.
//!
//! # References
//! Clarke's thesis, sections 2.3.1 and 4.3, and appendix A.5.
#![allow(clippy::print_stdout, reason = "its output")]

mod balancing;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Parser, value_parser};
use isochron::comm::agree;
use isochron::devices::{Pace, PacedWork};
use isochron::hierarchy::partition::{Partitioner, even};
use isochron::hierarchy::rebalance::count_moved;
use isochron::prelude::*;
use isochron::rebalance::migrate_units;
use isochron_kernels::{SystemRows, sweep_rows};
use serde::Serialize;

use balancing::{Balancing, JacobiStrategy};

/// Solve a linear system by Jacobi's method, and divide its rows by the times of the iterations.
#[derive(Parser)]
struct Arguments {
    /// Number of unknowns
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = value_parser!(u64).range(1..))]
    size: u64,
    /// Most iterations. The error falls to two thirds in each
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u64).range(1..))]
    max_iterations: u64,
    /// Largest residual |b - A·x| at which the method ends, as a part of the largest |b|; 0 does all iterations
    #[arg(long, value_name = "PART", default_value_t = 1e-10)]
    tolerance: f64,
    /// Platform file whose paces the ranks follow [default: the last rank is four times slower]
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Strategy that divides the rows
    #[arg(long, value_enum, default_value_t = JacobiStrategy::Adaptive)]
    strategy: JacobiStrategy,
    /// Partitioner of fpm
    #[arg(long, default_value_t = Partitioner::Gpa, value_parser = PossibleValuesParser::new(["gpa", "npa"])
        .try_map(|name| name.parse::<Partitioner>()))]
    partitioner: Partitioner,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The rows of the system on this rank.
struct OwnRows {
    /// The rows of A, one after the other.
    a: UnitArray<f64>,
    b: UnitArray<f64>,
}

/// An iteration.
#[derive(Serialize)]
struct Iteration {
    /// Rows of each rank.
    rows: Vec<u64>,
    /// Seconds of each rank for its rows.
    times_s: Vec<f64>,
    /// Largest residual before it, over the largest `|b|`.
    residual: f64,
    /// Rows that changed their rank after it.
    moved: u64,
}

/// The result of the method.
#[derive(Default, Serialize)]
struct Outcome {
    /// Seconds of all iterations, with messages and moving.
    wall_s: f64,
    /// Seconds of moving among them.
    moving_s: f64,
    /// Number of times that a row changed its rank.
    moved: u64,
    /// Largest residual of the result, over the largest `|b|`.
    residual: f64,
    history: Vec<Iteration>,
}

/// The knowledge of all ranks after a sweep over all rows.
#[derive(Default)]
struct Swept {
    x: Vec<f64>,
    /// Largest `|b - A·x|` of the x before.
    residual: f64,
    times_s: Vec<f64>,
}

impl OwnRows {
    /// Generates an even part of the rows. Their diagonal is 1.5 times the sum of their other elements, and the solution is 1
    /// everywhere.
    fn generate(comm: &dyn Comm, n: u64) -> Result<Self, Error> {
        let generator = Generator::Uniform { seed: 1 };
        let rows = even(comm.size(), n);
        let mut a = UnitArray::zeros(comm, &rows, n as usize)?;
        let mut b = UnitArray::zeros(comm, &rows, 1)?;
        let first = a.part().start as usize;
        for ((row, elements), b) in (first..).zip(a.chunks_exact_mut(n as usize)).zip(b.iter_mut())
        {
            for (col, element) in elements.iter_mut().enumerate() {
                *element = generator.element::<f64>(row, col).abs();
            }
            elements[row] = 0.0;
            elements[row] = 1.5 * elements.iter().sum::<f64>().max(1.0);
            *b = elements.iter().sum();
        }
        Ok(Self { a, b })
    }

    /// Sweeps over the rows of all ranks, each at its pace.
    fn sweep(&self, comm: &dyn Comm, pace: &mut PacedWork, x: &[f64]) -> Result<Swept, Error> {
        let rows = SystemRows { a: &self.a, b: &self.b, first: self.a.part().start as usize };
        let mut mine = vec![0.0; 2 + self.b.len()];
        let (numbers, next) = mine.split_at_mut(2);
        let (residual, time_s) = pace.run(self.a.len() as u64, || sweep_rows(rows, x, next));
        numbers.copy_from_slice(&[residual, time_s]);
        let mut swept = Swept::default();
        for bytes in comm.all_gather(bytemuck::cast_slice(&mine))? {
            let mut told = vec![0.0; bytes.len() / size_of::<f64>()];
            bytemuck::cast_slice_mut(&mut told).copy_from_slice(&bytes);
            swept.residual = swept.residual.max(told[0]);
            swept.times_s.push(told[1]);
            swept.x.extend(&told[2..]);
        }
        Ok(swept)
    }

    /// Moves the rows that change their rank. Returns their number.
    fn move_rows(&mut self, comm: &dyn Comm, rows: &[u64]) -> Result<u64, Error> {
        let (moved, _) = count_moved(self.a.units(), rows);
        migrate_units(comm, rows, &mut self.a)?;
        migrate_units(comm, rows, &mut self.b)?;
        Ok(moved)
    }
}

/// Iterates from 0 until the residual is within the tolerance, and moves rows between iterations.
fn solve(
    comm: &dyn Comm,
    arguments: &Arguments,
    rows: &mut OwnRows,
    pace: &mut PacedWork,
    balancing: &mut Balancing,
) -> Result<Outcome, Error> {
    let largest_b = comm.largest(rows.b.iter().copied().fold(0.0, f64::max))?;
    let mut x = vec![0.0; arguments.size as usize];
    let mut outcome = Outcome::default();
    comm.barrier()?;
    let begin = Instant::now();
    for iteration in 1..=arguments.max_iterations {
        let swept = rows.sweep(comm, pace, &x)?;
        let residual = swept.residual / largest_b;
        let mut seen =
            Iteration { rows: rows.a.units().to_vec(), times_s: swept.times_s, residual, moved: 0 };
        let is_solved = residual <= arguments.tolerance;
        if !is_solved {
            x = swept.x;
        }
        let is_last = is_solved || iteration == arguments.max_iterations;
        if !is_last && let Some(next) = balancing.advise(comm, &seen.rows, &seen.times_s)? {
            let start = Instant::now();
            seen.moved = rows.move_rows(comm, &next)?;
            let seconds = start.elapsed().as_secs_f64();
            balancing.note_move(seconds);
            outcome.moving_s += seconds;
        }
        outcome.moved += seen.moved;
        outcome.history.push(seen);
        if is_last {
            break;
        }
    }
    outcome.wall_s = comm.largest(begin.elapsed().as_secs_f64())?;
    outcome.moving_s = comm.largest(outcome.moving_s)?;
    let mut unpaced = agree(comm, PacedWork::new(None).map_err(Error::from))?;
    outcome.residual = rows.sweep(comm, &mut unpaced, &x)?.residual / largest_b;
    Ok(outcome)
}

/// Returns the pace of this rank.
fn open_pace(comm: &dyn Comm, arguments: &Arguments) -> Result<PacedWork, Error> {
    let pace = match &arguments.platform {
        Some(path) => PlatformSpec::load(comm, path)?.nodes()[comm.rank()].pace_of_core(),
        None if comm.rank() + 1 == comm.size() => Ok(Some(Pace::Slowdown(4.0))),
        None => Ok(Some(Pace::Slowdown(1.0))),
    };
    agree(comm, pace.and_then(PacedWork::new).map_err(Error::from))
}

/// Prints the iterations after which rows moved, and the end.
fn print_outcome(outcome: &Outcome) {
    for (number, pair) in (1..).zip(outcome.history.windows(2)) {
        if pair[0].moved > 0 {
            println!("moved after iteration {number}: the ranks have {:?} rows", pair[1].rows);
        }
    }
    let Outcome { wall_s, moving_s, residual, history, .. } = outcome;
    println!(
        "{} iterations in {wall_s:.3} s, of which moving took {moving_s:.3} s; residual {residual:.1e}",
        history.len()
    );
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let comm = connect()?;
    let mut pace = open_pace(&*comm, &arguments)?;
    let mut rows = OwnRows::generate(&*comm, arguments.size)?;
    let mut balancing = Balancing::start(&comm, &arguments)?;
    let outcome = solve(&*comm, &arguments, &mut rows, &mut pace, &mut balancing)?;
    if comm.rank() == 0 {
        if arguments.json {
            println!("{}", serde_json::to_string(&outcome)?);
        } else {
            print_outcome(&outcome);
        }
    }
    let is_solved = arguments.tolerance == 0.0 || outcome.residual <= arguments.tolerance;
    ensure!(is_solved, "the residual is still {:.1e}", outcome.residual);
    Ok(())
}
