//! A check by a random vector in floating point, with the size that rounding reaches as its bound.

mod batches;
mod compare;
mod examine;
#[cfg(test)]
mod tests;
mod vector;

use isochron_devices::Scalar;

use self::batches::{
    BATCH, Batch, Totals, add_present, add_squares, count_parts, find_part, pass_over,
};
use self::compare::{Comparison, MOST_SUSPECTS, fold};
pub use self::examine::{Recall, TakeFactors};
use self::vector::{ColumnGroups, ProbeVector, find_norms, find_product_norms};
use super::{SEED, Verdict, enter_factors};
use crate::comm::{CollectiveCall, Comm};
use crate::error::Error;
use crate::matrix::{HeldMatrix, Operand, Region, hash};
use crate::multiply::{Problem, Scalars};

/// A check in floating point.
///
/// The columns of C are cut into groups of up to 512. Let `x_j = ±(1 + ξ_j/4)/s_j` with random signs, uniform `ξ_j` and the
/// size `s_j` of column j, so that every column counts alike. The residual of row i and group G is
/// `r = Σ_{j∈G} (C - alpha·A·B - beta·C0)_ij·x_j`. Let `u` be the unit roundoff of the elements (2⁻⁵³, or 2⁻²⁴ in single
/// precision).
///
/// Roundings are independent or nearly so. An element errs by less than `u·√k·g` with `g = (|A|·|B|)_ij`, and a sum of its
/// errors over a group with random signs by the root of the sum of their squares. By the triangle inequality that root is
/// at most `h = Σ_p |a_ip|·√(Σ_{j∈G} |b_pj·x_j|²)`, which costs no more than a product with a vector. So the bound of a
/// residual is `1.8·u·(√t + 2)·h`, where `t ≤ k` counts the nonzero terms of row i. With beta, `|beta|·√(Σ|c0_ij·x_j|²)` is
/// added to `|alpha|·h`, and for products that underflow `(k + 4)·(1 + |alpha|)·f·Σ|x_j|`, where `f` is the smallest
/// normal number.
///
/// Sums of equal terms break the assumption: their roundings are equal too, and add up in proportion to `k`. Therefore a
/// residual above its bound is only a suspicion. The elements of the most suspicious rows and groups are then computed
/// again, and the result is wrong if one errs by more than `u·min(t + 4, 64·√t)·g` (`√2·(t + 4)` for complex numbers, of which t
/// counts the real products). By the worst case no right one errs by more than `t + 4` roundings. Of more than about 4000
/// terms `64·√t` is less. An element may then err as far as its terms drift if they are added one after the other. If the
/// matrices cannot be made again, a result is wrong from 32 times a bound on, or from `(t + 4)/(1.8·(√t + 2))` times it.
///
/// One wrong element is found if it is off by `64·u·√t·‖a_i‖·‖b_j‖` or more, with up to 16384 columns, whatever the scales of
/// rows and columns. Two columns that changed places are found unless their `ξ` agree to about `u·√k`. The check itself adds
/// the sums of 8 columns in twice double precision.
///
/// # References
/// Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019, theorem
/// 2.4 (`√k` in place of `k`); Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.5.
#[derive(Debug)]
pub struct Probe<T = f64> {
    seed: u64,
    scalars: Scalars<T>,
    groups: ColumnGroups,
    rows: usize,
    /// Sum of the parts of k added so far.
    k: usize,
    vector: ProbeVector,
    /// `true` if the whole factors have scaled the vector.
    is_scaled: bool,
    /// This rank's share of `A·Y`, with the real parts of `Y = B·x`.
    products: Totals,
    /// The same with the imaginary parts, if the elements are complex: to be multiplied by i.
    turned: Option<Totals>,
    /// This rank's share of `h`, for each real part of an element.
    sizes: Vec<f64>,
    /// Nonzero real terms of each line of A.
    terms: Vec<f64>,
    /// This rank's share of `C0·x`, and of its squares.
    added: Option<(Totals, Vec<f64>)>,
}

/// Returns the most bytes that a probe takes on each rank.
pub(crate) fn count_bytes(problem: &Problem) -> usize {
    let parts = if problem.element().is_complex() { 2 } else { 1 };
    let groups = ColumnGroups::new(problem.n()).count();
    // Numbers for each line and each group: those of A·Y, of C, of their sums over ranks; those of B·x.
    let of_rows = (7 + 5 * parts) * problem.m();
    let of_depth = (2 + 6 * parts) * problem.k();
    size_of::<f64>() * (groups * (of_rows + of_depth) + 4 * problem.n())
}

impl<T: Scalar> Probe<T> {
    /// Begins a check with C before the multiplication, which is not read if `beta = 0`.
    ///
    /// With beta, columns are scaled by the sizes that C and the factors give them. If A and B come in parts of k, no factors
    /// are given, and the first of C and the parts of B that is not zero in a column scales it.
    ///
    /// # Errors
    /// The errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn begin(
        comm: &dyn Comm,
        scalars: Scalars<T>,
        c: &HeldMatrix<'_, T>,
        factors: Option<[Operand<'_, T>; 2]>,
        seed: u64,
    ) -> Result<Self, Error> {
        let _call = CollectiveCall::new(comm, "beginning a check")
            .with_scalars(scalars)
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .with("factors", &factors.is_some())
            .with("seed", &seed)
            .enter()?;
        let (rows, groups) = (c.spread().rows(), ColumnGroups::new(c.spread().cols()));
        let lines = rows * count_parts::<T>();
        let seed = hash(SEED, seed as usize, 0);
        let mut probe = Self {
            seed,
            scalars,
            groups,
            rows,
            k: 0,
            vector: ProbeVector::draw(seed, &groups),
            is_scaled: factors.is_some(),
            products: Totals::zeros(lines * groups.count()),
            turned: (T::TYPE.is_complex()).then(|| Totals::zeros(lines * groups.count())),
            sizes: vec![0.0; lines * groups.count()],
            terms: vec![0.0; lines],
            added: None,
        };
        let mut sizes = vec![0.0; c.spread().cols()];
        let c = Operand::from(c);
        if scalars.beta != T::ZERO {
            let beta = scalars.beta.value().norm();
            sizes = find_norms(comm, &c)?;
            sizes.iter_mut().for_each(|size| *size *= beta);
        }
        if let Some([a, b]) = factors {
            let of_product = if scalars.beta == T::ZERO {
                // Only proportions matter if nothing is added to the product.
                find_norms(comm, &b)?
            } else {
                find_product_norms(comm, scalars.alpha, [&a, &b])?
            };
            for (size, of_product) in sizes.iter_mut().zip(of_product) {
                *size += of_product;
            }
        }
        probe.vector.note_sizes(&sizes);
        if scalars.beta != T::ZERO {
            probe.add_c(&c);
        }
        Ok(probe)
    }

    fn add_c(&mut self, c: &Operand<'_, T>) {
        let mut squares = vec![0.0; self.sizes.len()];
        let totals = self.multiply_groups(c, &self.vector.numbers(), |batch, first, x| {
            let squares = &mut squares[first..first + batch.columns[0].len()];
            add_squares(squares, &batch.columns, x);
        });
        self.added = Some((totals, squares));
    }

    /// Adds A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Errors
    /// On every rank: [`Error::Shape`] for factors of another product than C; those of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::multiply::Plan::operands) gives the
    /// factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) -> Result<(), Error> {
        let _call = enter_factors(
            comm,
            "adding factors to a check",
            (self.seed, self.scalars),
            [&a, &b],
            (self.rows, self.groups.n_cols()),
        )?;
        self.k += b.rows();
        if self.scalars.alpha == T::ZERO {
            return Ok(());
        }
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        if !self.is_scaled {
            let sizes = find_product_norms(comm, self.scalars.alpha, [&a, &b])?;
            self.vector.note_sizes(&sizes);
        }
        let probed = self.multiply_b(comm, &b)?;
        self.multiply_a(&a, &probed);
        Ok(())
    }

    /// Multiplies B by the probe vector, and takes the root of the sum of squares of each row and group.
    fn multiply_b(&self, comm: &dyn Comm, b: &Operand<'_, T>) -> Result<ProbedRows, Error> {
        let parts = count_parts::<T>();
        let mut squares = vec![0.0; b.rows() * parts * self.groups.count()];
        let mut all = self
            .multiply_groups(b, &self.vector.numbers(), |batch, first, x| {
                let squares = &mut squares[first..first + batch.columns[0].len()];
                add_squares(squares, &batch.columns, x);
            })
            .round();
        all.append(&mut squares);
        comm.sum_f64(&mut all)?;
        let (products, squares) = all.split_at(all.len() / 2);
        let of_part = |part| products.iter().skip(part).step_by(parts).copied().collect();
        Ok(ProbedRows {
            real: of_part(0),
            imaginary: if parts == 2 { of_part(1) } else { Vec::new() },
            roots: fold(squares, parts).map(f64::sqrt).collect(),
        })
    }

    /// Multiplies this rank's part of a matrix by the probe vector, group by group. `note` gets every batch, its first
    /// line within the totals and its part of the vector.
    fn multiply_groups(
        &self,
        matrix: &Operand<'_, T>,
        vector: &[f64],
        mut note: impl FnMut(&Batch<'_>, usize, &[f64; BATCH]),
    ) -> Totals {
        let (parts, rows) = (count_parts::<T>(), matrix.rows());
        let mut totals = Totals::zeros(rows * parts * self.groups.count());
        for group in 0..self.groups.count() {
            let region = Region::new(0..rows, self.groups.cols(group));
            pass_over(matrix, &region, |batch| {
                let first = (group * rows + batch.rows.start) * parts;
                let x = batch.pick(vector);
                totals.add(first, &batch.columns, &x);
                note(batch, first, &x);
            });
        }
        totals
    }

    fn multiply_a(&mut self, a: &Operand<'_, T>, probed: &ProbedRows) {
        let (parts, k) = (count_parts::<T>(), a.cols());
        pass_over(a, &find_part(a), |batch| {
            let (first, lines) = (batch.rows.start * parts, batch.columns[0].len());
            let mut present = [0.0; BATCH];
            present[..batch.cols.len()].fill(1.0);
            let terms = &mut self.terms[first..first + lines];
            add_present(terms, &batch.columns, &present);
            for group in 0..self.groups.count() {
                let first = group * self.rows * parts + first;
                let of_group = group * k..(group + 1) * k;
                let pick = |values: &[f64]| batch.pick(&values[of_group.clone()]);
                let roots = pick(&probed.roots);
                let real = pick(&probed.real);
                (self.products).add_sized(first, &batch.columns, &real, &mut self.sizes, &roots);
                if let Some(turned) = &mut self.turned {
                    turned.add(first, &batch.columns, &pick(&probed.imaginary));
                }
            }
        });
    }

    /// Finishes the check with C after the multiplication. Suspicious elements are examined if the other matrices can be
    /// made again. NaN or infinite residuals do not pass.
    ///
    /// # Errors
    /// The errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn finish(
        self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
        again: Option<&mut dyn Recall<T>>,
    ) -> Result<Verdict, Error> {
        let _call = CollectiveCall::new(comm, "ending a check")
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .with("again", &again.is_some())
            .enter()?;
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let Comparison {
            usual,
            certain,
            suspects,
        } = self.compare(comm, c)?;
        let Some(again) = again.filter(|_| self.scalars.alpha != T::ZERO) else {
            return Ok(judge(certain.largest, certain.finds));
        };
        if suspects.is_empty() || usual.largest.is_infinite() {
            return Ok(judge(usual.largest, usual.finds));
        }
        let examined = match self.examine(comm, again, c, &suspects) {
            Ok(examined) => examined,
            Err(error) => {
                tracing::warn!(%error, "suspicious elements cannot be examined");
                return Ok(judge(certain.largest, certain.finds));
            }
        };
        let hidden = match suspects.last() {
            Some(least) if suspects.len() == MOST_SUSPECTS => least.ratio,
            _ => 1.0,
        };
        let finds = usual.finds * hidden.max(examined.raised);
        Ok(judge(examined.largest, finds))
    }
}

fn judge(residual: f64, finds: f64) -> Verdict {
    Verdict {
        passed: residual <= 1.0,
        residual,
        finds: Some(finds).filter(|_| residual.is_finite()),
    }
}

/// `Y = B·x` and the roots of the sums of squares, group by group, on every rank.
struct ProbedRows {
    /// The real parts of Y.
    real: Vec<f64>,
    /// The imaginary parts, if the elements are complex.
    imaginary: Vec<f64>,
    /// `√(Σ_{j∈G} |b_pj·x_j|²)`.
    roots: Vec<f64>,
}
