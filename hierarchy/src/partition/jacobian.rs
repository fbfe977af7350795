//! Derivative matrices of systems of equations, and what a solver needs of them.

use nalgebra::{DMatrix, DVector};

/// The matrix `J` of a system's derivatives, `J_ij = ∂F_i / ∂x_j`, as far as
/// [`solve`](super::hybrid::solve) needs it.
pub trait Jacobian {
    /// The `v` with `J v = rhs`; `None` if the matrix is singular.
    fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>>;

    /// `J v`.
    fn times(&self, v: &[f64]) -> Vec<f64>;

    /// `Jᵀ v`.
    fn transposed_times(&self, v: &[f64]) -> Vec<f64>;

    /// The Euclidean length of every column.
    fn column_norms(&self) -> Vec<f64>;
}

/// A square matrix without structure: `O(n³)` to solve with, by QR factorisation.
///
/// # Example
/// ```
/// use isochron_hierarchy::partition::jacobian::{Dense, Jacobian};
///
/// let matrix = Dense::from_fn(2, |row, col| [[2.0, 1.0], [0.0, 4.0]][row][col]);
/// assert_eq!(matrix.times(&[1.0, 1.0]), [3.0, 4.0]);
/// assert_eq!(matrix.transposed_times(&[1.0, 1.0]), [2.0, 5.0]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dense(DMatrix<f64>);

impl Dense {
    /// The `n×n` matrix of the entries `entry(row, column)`.
    #[must_use]
    pub fn from_fn(n: usize, entry: impl FnMut(usize, usize) -> f64) -> Self {
        Self(DMatrix::from_fn(n, n, entry))
    }
}

impl Jacobian for Dense {
    fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>> {
        let solution = self
            .0
            .clone()
            .qr()
            .solve(&DVector::from_column_slice(rhs))?;
        finite(solution.as_slice().to_vec())
    }

    fn times(&self, v: &[f64]) -> Vec<f64> {
        (&self.0 * DVector::from_column_slice(v))
            .as_slice()
            .to_vec()
    }

    fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
        self.0
            .tr_mul(&DVector::from_column_slice(v))
            .as_slice()
            .to_vec()
    }

    fn column_norms(&self) -> Vec<f64> {
        self.0.column_iter().map(|column| column.norm()).collect()
    }
}

/// The Jacobian of the partitioning problem, everything in `O(n)`: with the slopes `a_i` of the times,
///
/// ```text
///   -1   -1   -1  …  -1
///  -a_1  a_2   0  …   0
///  -a_1   0   a_3 …   0
///   …                …
///  -a_1   0    0  …  a_n
/// ```
///
/// # References
/// Clarke's thesis, section 4.2, equation 4.8.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrowhead {
    /// `a_1` to `a_n`; at least one.
    pub slopes: Vec<f64>,
}

impl Arrowhead {
    /// The same matrix without its structure.
    #[must_use]
    pub fn to_dense(&self) -> Dense {
        Dense::from_fn(self.slopes.len(), |row, col| match (row, col) {
            (0, _) => -1.0,
            (_, 0) => -self.slopes[0],
            _ if row == col => self.slopes[row],
            _ => 0.0,
        })
    }
}

impl Jacobian for Arrowhead {
    fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>> {
        // With u = a_1 v_1, every row but the first reads a_i v_i = rhs_i + u; so does a row
        // a_1 v_1 = 0 + u, and the first one, -Σ v_i = rhs_1, then determines u.
        let (mut inverses, mut weighted) = (0.0, 0.0);
        for (i, (slope, r)) in self.slopes.iter().zip(rhs).enumerate() {
            inverses += 1.0 / slope;
            weighted += if i == 0 { 0.0 } else { r / slope };
        }
        let u = -(rhs[0] + weighted) / inverses;
        let entry =
            |(i, (slope, r)): (usize, (&f64, &f64))| (u + if i == 0 { 0.0 } else { *r }) / slope;
        finite(self.slopes.iter().zip(rhs).enumerate().map(entry).collect())
    }

    fn times(&self, v: &[f64]) -> Vec<f64> {
        let reference = self.slopes[0] * v[0];
        let difference = |(slope, v): (&f64, &f64)| slope * v - reference;
        let mut product: Vec<f64> = self.slopes.iter().zip(v).map(difference).collect();
        product[0] = -v.iter().sum::<f64>();
        product
    }

    fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
        let column = |(slope, entry): (&f64, &f64)| slope * entry - v[0];
        let mut product: Vec<f64> = self.slopes.iter().zip(v).map(column).collect();
        product[0] = -v[0] - self.slopes[0] * v[1..].iter().sum::<f64>();
        product
    }

    fn column_norms(&self) -> Vec<f64> {
        let rows = (self.slopes.len() - 1) as f64;
        let mut norms: Vec<f64> = self.slopes.iter().map(|slope| slope.hypot(1.0)).collect();
        norms[0] = (self.slopes[0] * rows.sqrt()).hypot(1.0);
        norms
    }
}

fn finite(v: Vec<f64>) -> Option<Vec<f64>> {
    v.iter().all(|entry| entry.is_finite()).then_some(v)
}
