//! The check of a transform by its definition.

use std::f64::consts::{SQRT_2, TAU};
use std::ops::Range;

use isochron_core::prelude::*;

use crate::app::rows::keep_worse;

/// Sums of waves over the elements of all ranks.
pub struct Waves<'a> {
    pub comm: &'a dyn Comm,
    pub size: usize,
    /// The rows of this rank.
    pub rows: Range<usize>,
}

/// The elements of this rank's rows, by row and column of the whole matrix.
type Elements<'a> = &'a dyn Fn(usize, usize) -> Complex64;

/// Compares entries of the result with sums over the input, and entries of the input with sums over the result.
/// Returns the largest error as a part of its bound.
///
/// The bounds follow from elements of at most √2, `N = n²` of them, and a transform whose error in the 2-norm is
/// `8·ε·log₂(N)` of its own. A sum of n rows of n terms adds `2·n·ε` of the sum of absolute values.
///
/// # Errors
/// The errors of messages.
///
/// # Collective
/// All ranks.
pub fn compare_entries(
    waves: &Waves<'_>,
    input: Elements<'_>,
    result: Elements<'_>,
) -> Result<f64, Error> {
    let n = waves.size as f64;
    let entry_bound = SQRT_2 * n * f64::EPSILON * (8.0 * (n * n + 1.0).log2() + 2.0 * n);
    let places = list_places(waves.size);
    let forward = waves.compare(&places, input, -1.0, result, 1.0)?;
    let inverse = waves.compare(&places, result, 1.0, input, 1.0 / (n * n))?;
    Ok(keep_worse(forward / (n * entry_bound), inverse / entry_bound))
}

/// Lists places in all parts of the matrix.
fn list_places(size: usize) -> [(usize, usize); 4] {
    let last = size - 1;
    [(0, 0), (1 % size, 2 % size), (size / 3, last), (last, size / 2)]
}

impl Waves<'_> {
    /// Returns the largest difference between sums over `source`, multiplied by `scale`, and `target`.
    fn compare(
        &self,
        places: &[(usize, usize)],
        source: Elements<'_>,
        sign: f64,
        target: Elements<'_>,
        scale: f64,
    ) -> Result<f64, Error> {
        let mut differences: Vec<f64> = Vec::new();
        for (&place, sum) in places.iter().zip(self.sum_waves(places, source, sign)) {
            let own = self.rows.contains(&place.0);
            let target = if own { target(place.0, place.1) } else { Complex64::default() };
            let difference = sum * scale - target;
            differences.extend([difference.re, difference.im]);
        }
        self.comm.sum_f64(&mut differences)?;
        Ok(differences.chunks_exact(2).map(|parts| parts[0].hypot(parts[1])).fold(0.0, keep_worse))
    }

    /// Returns the sums of `x_ij·exp(±2πi·(i·k + j·l)/n)` over this rank's rows for these k and l.
    fn sum_waves(
        &self,
        places: &[(usize, usize)],
        source: Elements<'_>,
        sign: f64,
    ) -> Vec<Complex64> {
        let n = self.size;
        let wave: Vec<Complex64> =
            (0..n).map(|step| Complex64::cis(sign * TAU * step as f64 / n as f64)).collect();
        let mut sums = vec![Complex64::default(); places.len()];
        for i in self.rows.clone() {
            let row: Vec<Complex64> = (0..n).map(|j| source(i, j)).collect();
            for (sum, &(k, l)) in sums.iter_mut().zip(places) {
                // All are indices of a matrix in memory, so their products are far below 2⁶⁴.
                let terms = row.iter().enumerate();
                let terms = terms.map(|(j, x)| x * wave[j * l % n]);
                *sum += terms.sum::<Complex64>() * wave[i * k % n];
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the transform by its definition, row after row.
    fn transform(size: usize, input: Elements<'_>) -> Vec<Complex64> {
        let local = LocalComm::new();
        let waves = Waves { comm: &local, size, rows: 0..size };
        let places: Vec<(usize, usize)> =
            (0..size).flat_map(|k| (0..size).map(move |l| (k, l))).collect();
        waves.sum_waves(&places, input, -1.0)
    }

    #[test]
    fn any_wrong_entry_is_seen() {
        for size in [1, 2, 5, 8] {
            let generator = Generator::Uniform { seed: 3 };
            let input = |row: usize, col: usize| generator.element(row, col);
            let right = transform(size, &input);
            let local = LocalComm::new();
            let waves = Waves { comm: &local, size, rows: 0..size };
            let result = |row: usize, col: usize| right[row * size + col];
            let found = compare_entries(&waves, &input, &result).unwrap();
            assert!(found < 0.5, "{size}: {found}");
            for wrong in 0..size * size {
                let result = |row: usize, col: usize| {
                    right[row * size + col] * if row * size + col == wrong { 1.001 } else { 1.0 }
                };
                let found = compare_entries(&waves, &input, &result).unwrap();
                assert!(found > 1.0, "{size}, entry {wrong}: {found}");
            }
        }
    }

    #[test]
    fn a_result_that_is_no_number_is_wrong() {
        let local = LocalComm::new();
        let waves = Waves { comm: &local, size: 2, rows: 0..2 };
        let input = |_, _| Complex64::new(1.0, 0.0);
        let result = |_, _| Complex64::new(f64::NAN, 0.0);
        assert!(compare_entries(&waves, &input, &result).unwrap().is_nan());
    }
}
