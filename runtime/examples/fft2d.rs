//! A Fourier transform in two dimensions, whose rows are divided by times that every rank has measured: `mpirun -n 3 fft2d`.
//!
//! Each rank transforms its rows. The ranks transpose the matrix, transform its rows again, and transpose it back.
#![allow(clippy::print_stdout, reason = "its output")]
use std::f64::consts::TAU;
use std::time::Instant;

use isochron::hierarchy::layout::slice_rows;
use isochron::hierarchy::model::Fit;
use isochron::hierarchy::partition::Partitioner;
use isochron::hierarchy::{SplitOptions, split};
use isochron::matrix::redistribute::{RedistributeConfig, Redistribution};
use isochron::prelude::*;
use rustfft::{Fft, FftPlanner};

/// Rows of the matrix, and its columns.
const N: usize = 360;
/// Ranks are timed with multiples of this many rows, and get one of these numbers.
const GRANULE: usize = 20;
/// The matrix is the sum of two waves, `Σ a·exp(2πi·(p·row + q·col)/N)`. Its transform is `a·N²` at (p, q), and 0 elsewhere.
const WAVES: [(f64, usize, usize); 2] = [(1.0, 3, 70), (2.0, 250, 11)];

/// Returns an element of the matrix.
fn find_element(row: usize, col: usize) -> Complex64 {
    WAVES
        .iter()
        .map(|&(a, p, q)| {
            let turns = ((p * row + q * col) % N) as f64 / N as f64;
            Complex64::from_polar(a, TAU * turns)
        })
        .sum()
}

/// Makes rows of the matrix, one after the other.
fn make_rows(first: usize, count: usize) -> Vec<Complex64> {
    (first..first + count).flat_map(|row| (0..N).map(move |col| find_element(row, col))).collect()
}

/// Returns `true` if rows of the result are right, up to rounding: an error of `8·ε·log₂(N²)` in the 2-norm.
fn are_right(first: usize, result: &[Complex64]) -> bool {
    let n = N as f64;
    let norm = n * WAVES.iter().map(|(a, ..)| a * a).sum::<f64>().sqrt();
    let bound = 8.0 * f64::EPSILON * (n * n).log2() * n * norm;
    result.iter().enumerate().all(|(at, found)| {
        let place = (first + at / N, at % N);
        let wanted: f64 =
            WAVES.iter().filter(|&&(_, p, q)| (p, q) == place).map(|(a, ..)| a * n * n).sum();
        (found - wanted).norm() <= bound
    })
}

/// Transforms each of these rows in place.
fn transform(fft: &dyn Fft<f64>, rows: &mut [Complex64]) {
    if !rows.is_empty() {
        fft.process(rows);
    }
}

/// Returns the shortest of three times for these rows.
fn measure(fft: &dyn Fft<f64>, rows: &mut [Complex64]) -> f64 {
    (0..3)
        .map(|_| {
            let begun = Instant::now();
            transform(fft, rows);
            begun.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = connect()?;
    let fft = FftPlanner::new().plan_fft_forward(N);

    // All ranks measure the same sizes at the same time, since they will compute so.
    let mut rows = make_rows(0, N);
    let mut points = Vec::new();
    for n_rows in (GRANULE..=N).step_by(GRANULE) {
        comm.barrier()?;
        points.push((n_rows as u64, measure(&*fft, &mut rows[..n_rows * N])));
    }
    let points: Vec<Vec<(u64, f64)>> = comm.gather(&points)?;

    // HPOPTA assumes nothing of these times, and makes the longest one as short as possible.
    let how = SplitOptions {
        fit: Fit::RawPiecewise,
        partitioner: Partitioner::Hpopta,
        granule: GRANULE as u64,
        ..SplitOptions::default()
    };
    let points: Vec<&[(u64, f64)]> = points.iter().map(Vec::as_slice).collect();
    let counts = split(N as u64, &points, &how)?.units;

    // Transposes a matrix that lies so: planned once, run twice.
    let spread = Spread::on_layout(N, N, 1, &slice_rows(N as u64, &counts)?);
    let config = RedistributeConfig { transposed: true, ..RedistributeConfig::default() };
    let mut transposition =
        Redistribution::prepare(comm.as_ref(), &spread, &spread, Order::Rows, &config)?;
    let part = spread.part(comm.rank());
    let mut rows = make_rows(part.row, part.rows);
    let mut transposed = vec![Complex64::default(); rows.len()];
    for _ in 0..2 {
        transform(&*fft, &mut rows);
        let (from, to) = (&rows[..], &mut transposed[..]);
        transposition.run(comm.as_ref(), Stored::by_rows(from, N), StoredMut::by_rows(to, N))?;
        std::mem::swap(&mut rows, &mut transposed);
    }
    assert!(are_right(part.row, &rows));
    if comm.rank() == 0 {
        println!("the transform is right, with these rows of each rank: {counts:?}");
    }
    Ok(())
}
