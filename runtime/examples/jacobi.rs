//! A linear system by Jacobi's method, whose rows follow the speeds of the ranks: `mpirun -n 3 jacobi`.
//!
//! Each rank has some rows of `A·x = b`, and all ranks know the whole of x. The last rank does its work four times, so the
//! balancer takes rows from it. With `--made-up` its decisions follow made-up times, and not the clock.
#![allow(clippy::print_stdout, reason = "an example prints its result")]
use std::{hint::black_box, time::Instant};

use isochron::prelude::*;

/// Number of unknowns.
const N: usize = 600;
/// The largest residual `|b - A·x|` at the end, over the largest `|b|`.
const TOLERANCE: f64 = 1e-10;
/// Most sweeps. The error falls to 2/3 in each, so 57 are enough.
const MOST_SWEEPS: u64 = 500;

/// Some rows of `A·x = b` that follow each other.
struct OwnRows {
    /// The rows of A, one after the other, each of `N` elements.
    a: UnitArray<f64>,
    b: UnitArray<f64>,
}

impl OwnRows {
    /// Generates rows. Their diagonal is 1.5 times the sum of their other elements, and the solution is 1 everywhere.
    fn generate(balancer: &Rebalancer) -> Result<Self, Error> {
        let generator = Generator::Uniform { seed: 1 };
        let (mut a, mut b) = (balancer.make_array(N)?, balancer.make_array(1)?);
        let first = balancer.part().start as usize;
        for ((row, elements), b) in (first..).zip(a.chunks_exact_mut(N)).zip(b.iter_mut()) {
            for (col, element) in elements.iter_mut().enumerate() {
                *element = generator.element::<f64>(row, col).abs();
            }
            elements[row] = 0.0;
            elements[row] = 1.5 * elements.iter().sum::<f64>();
            *b = elements.iter().sum();
        }
        Ok(Self { a, b })
    }

    /// Returns the next values of these rows' unknowns, `x_i + (b_i - a_i·x) / a_ii`, and the largest `|b_i - a_i·x|`.
    fn sweep(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let (mut next, mut largest) = (Vec::new(), 0.0_f64);
        let first = self.a.part().start as usize;
        for ((i, a), b) in (first..).zip(self.a.chunks_exact(N)).zip(self.b.iter()) {
            let residual = b - a.iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
            next.push(x[i] + residual / a[i]);
            largest = largest.max(residual.abs());
        }
        (next, largest)
    }

    /// Moves the rows that the balancer has given to other ranks.
    fn migrate(&mut self, balancer: &mut Rebalancer) -> Result<(), Error> {
        balancer.migrate(&mut self.a)?;
        balancer.migrate(&mut self.b)
    }
}

fn main() -> Result<(), Error> {
    let comm = connect()?;
    let is_made_up = std::env::args().any(|word| word == "--made-up");
    let repetitions = if comm.rank() + 1 == comm.size() { 4 } else { 1 };
    let config = RebalanceConfig {
        move_unit_s: is_made_up.then_some(1e-3), // to move a row; otherwise the first move shows it
        ..RebalanceConfig::default()
    };
    let mut balancer = Rebalancer::new(comm.clone(), N as u64, &config, LoopPart::default())?;
    let mut rows = OwnRows::generate(&balancer)?;
    let largest_b = comm.largest(rows.b.iter().copied().fold(0.0, f64::max))?;
    let (mut x, mut sweeps) = (vec![0.0; N], 0);
    let residual = loop {
        let start = Instant::now();
        for _ in 1..repetitions {
            black_box(rows.sweep(black_box(&x)));
        }
        let (next, largest) = rows.sweep(&x);
        let seconds = if is_made_up {
            1e-3 * (repetitions * next.len()) as f64
        } else {
            start.elapsed().as_secs_f64()
        };
        let residual = comm.largest(largest)? / largest_b;
        if residual <= TOLERANCE || sweeps == MOST_SWEEPS {
            break residual;
        }
        x = comm.gather(&next)?.concat();
        sweeps += 1;
        if balancer.observe(seconds)? {
            rows.migrate(&mut balancer)?;
        }
    };
    let report = balancer.report()?;
    if comm.rank() == 0 {
        println!("{sweeps} sweeps, residual {residual:.1e}");
        for change in &report.changes {
            let (sweep, units) = (change.sweep, &change.units);
            println!("moved after sweep {sweep}: the ranks have {units:?} rows");
        }
    }
    Ok(())
}
