//! A matrix times a vector, whose rows are divided by times that every rank has measured: `mpirun -n 3 dgemv`.
#![allow(clippy::print_stdout, reason = "its output")]
use std::time::Instant;

use isochron::hierarchy::model::Fit;
use isochron::hierarchy::partition::Partitioner;
use isochron::hierarchy::{SplitOptions, split};
use isochron::prelude::*;

const ROWS: usize = 600;
const COLS: usize = 2000;
/// Ranks are timed with multiples of this many rows, and get one of these numbers.
const GRANULE: usize = 30;

/// Returns an element of A: a whole number, so that sums are exact in any order.
fn a_element(row: usize, col: usize) -> f64 {
    ((row * 7 + col * 3 + row * col) % 19) as f64
}

/// Makes rows of A, one after the other.
fn make_rows(first: usize, count: usize) -> Vec<f64> {
    (first..first + count)
        .flat_map(|row| (0..COLS).map(move |col| (row, col)))
        .map(|(row, col)| a_element(row, col))
        .collect()
}

/// Multiplies rows of A by x.
fn multiply(rows: &[f64], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f64]| row.iter().zip(x).map(|(a, x)| a * x).sum();
    rows.chunks(COLS).map(dot).collect()
}

/// Returns the shortest of three times for this many rows.
fn measure(rows: &[f64], x: &[f64]) -> f64 {
    (0..3)
        .map(|_| {
            let begun = Instant::now();
            std::hint::black_box(multiply(rows, x));
            begun.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = connect()?;
    let x: Vec<f64> = (0..COLS).map(|col| (col % 5) as f64).collect();

    // All ranks measure the same sizes at the same time, since they will compute so.
    let rows = make_rows(0, ROWS);
    let mut points = Vec::new();
    for n_rows in (GRANULE..=ROWS).step_by(GRANULE) {
        comm.barrier()?;
        points.push((n_rows as u64, measure(&rows[..n_rows * COLS], &x)));
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
    let counts: Vec<usize> =
        split(ROWS as u64, &points, &how)?.units.iter().map(|&rows| rows as usize).collect();
    // Each rank multiplies its own rows, and every rank gets all of y.
    let first = counts[..comm.rank()].iter().sum();
    let mine = multiply(&make_rows(first, counts[comm.rank()]), &x);
    let y = comm.gather(&mine)?.concat();
    assert_eq!(y, multiply(&make_rows(0, ROWS), &x));
    if comm.rank() == 0 {
        println!("y is right, with these rows of each rank: {counts:?}");
    }
    Ok(())
}
