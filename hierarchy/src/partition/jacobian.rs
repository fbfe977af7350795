//! Derivative matrices of systems of equations, and the operations on them that a solver needs.

#[cfg(test)]
pub(super) use dense::Dense;

/// The matrix `J` of a system's derivatives, `J_ij = ∂F_i / ∂x_j`, as far as
/// [`solve`](super::hybrid::solve) needs it.
pub(super) trait Jacobian {
    /// Returns the `v` with `J v = rhs`, or `None` if the matrix is singular.
    fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>>;

    /// Returns `J v`.
    fn times(&self, v: &[f64]) -> Vec<f64>;

    /// Returns `Jᵀ v`.
    fn transposed_times(&self, v: &[f64]) -> Vec<f64>;

    /// Returns the Euclidean length of every column.
    fn column_norms(&self) -> Vec<f64>;
}

/// The Jacobian of the partitioning problem, in which every operation costs `O(n)`. With the slopes
/// `a_i` of the times it is
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
pub(super) struct Arrowhead {
    /// `a_1` to `a_n`; at least one.
    pub slopes: Vec<f64>,
}

impl Jacobian for Arrowhead {
    fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>> {
        // With u = a_1 v_1, every row but the first reads a_i v_i = rhs_i + u. So does the equation
        // a_1 v_1 = 0 + u. The first row, -Σ v_i = rhs_1, then determines u.
        let (mut inverses, mut weighted) = (0.0, 0.0);
        for (i, (slope, r)) in self.slopes.iter().zip(rhs).enumerate() {
            inverses += 1.0 / slope;
            weighted += if i == 0 { 0.0 } else { r / slope };
        }
        let u = -(rhs[0] + weighted) / inverses;
        let mut solution: Vec<f64> =
            (self.slopes.iter().zip(rhs)).map(|(slope, r)| (u + r) / slope).collect();
        solution[0] = u / self.slopes[0];
        solution.iter().all(|entry| entry.is_finite()).then_some(solution)
    }

    fn times(&self, v: &[f64]) -> Vec<f64> {
        let reference = self.slopes[0] * v[0];
        let mut product: Vec<f64> =
            (self.slopes.iter().zip(v)).map(|(slope, entry)| slope * entry - reference).collect();
        product[0] = -v.iter().sum::<f64>();
        product
    }

    fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
        let mut product: Vec<f64> =
            (self.slopes.iter().zip(v)).map(|(slope, entry)| slope * entry - v[0]).collect();
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

/// A matrix without structure, the reference that tests compare with.
#[cfg(test)]
mod dense {
    use nalgebra::{DMatrix, DVector};

    use super::Jacobian;

    /// A square matrix solved by QR factorisation in `O(n³)`.
    #[derive(Debug, Clone, PartialEq)]
    pub(in super::super) struct Dense(DMatrix<f64>);

    impl Dense {
        /// Returns the `n×n` matrix of the entries `entry(row, column)`.
        pub fn from_fn(n: usize, entry: impl FnMut(usize, usize) -> f64) -> Self {
            Self(DMatrix::from_fn(n, n, entry))
        }
    }

    impl Jacobian for Dense {
        fn solve(&self, rhs: &[f64]) -> Option<Vec<f64>> {
            let solution = (self.0.clone().qr()).solve(&DVector::from_column_slice(rhs))?;
            solution.iter().all(|entry| entry.is_finite()).then(|| solution.as_slice().to_vec())
        }

        fn times(&self, v: &[f64]) -> Vec<f64> {
            (&self.0 * DVector::from_column_slice(v)).as_slice().to_vec()
        }

        fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
            (self.0.tr_mul(&DVector::from_column_slice(v))).as_slice().to_vec()
        }

        fn column_norms(&self) -> Vec<f64> {
            self.0.column_iter().map(|column| column.norm()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn to_dense(arrowhead: &Arrowhead) -> Dense {
        let slopes = &arrowhead.slopes;
        Dense::from_fn(slopes.len(), |row, col| match (row, col) {
            (0, _) => -1.0,
            (_, 0) => -slopes[0],
            _ if row == col => slopes[row],
            _ => 0.0,
        })
    }

    fn are_close(a: &[f64], b: &[f64]) -> bool {
        let scale = a.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-10 * scale)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn structured_and_dense_jacobian_are_the_same_matrix(
            (slopes, v) in (1..12_usize).prop_flat_map(|n| (
                prop::collection::vec((-3.0..3.0_f64).prop_map(f64::exp), n),
                prop::collection::vec(-1.0..1.0_f64, n),
            )),
        ) {
            let arrowhead = Arrowhead { slopes };
            let dense = to_dense(&arrowhead);
            prop_assert!(are_close(&arrowhead.times(&v), &dense.times(&v)));
            prop_assert!(are_close(&arrowhead.transposed_times(&v), &dense.transposed_times(&v)));
            prop_assert!(are_close(&arrowhead.column_norms(), &dense.column_norms()));
            let (a, b) = (arrowhead.solve(&v).unwrap(), dense.solve(&v).unwrap());
            prop_assert!(are_close(&a, &b), "{a:?} {b:?}");
            prop_assert!(are_close(&arrowhead.times(&a), &v));
        }
    }
}
