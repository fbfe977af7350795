//! A check by a random vector in floating point, with the size that rounding reaches as its bound.

mod batches;
mod compare;
mod examine;
#[cfg(test)]
mod tests;
mod vector;

use isochron_devices::Scalar;

use self::batches::{AddGroups, BATCH, Terms, Totals, count_parts, find_part, pass_over};
use self::compare::{MOST_TERMS, fold};
pub use self::examine::{Recall, TakeFactors};
use self::vector::{ColumnGroups, ProbeVector, find_norms, find_sum_sizes};
use super::{SEED, Verdict, enter_factors};
use crate::comm::{CollectiveCall, Comm};
use crate::error::Error;
use crate::matrix::scalars::Scalars;
use crate::matrix::{HeldMatrix, Operand, Region, hash};
use isochron_hierarchy::problem::Problem;

/// A check in floating point.
///
/// The columns of C are cut into groups of up to 512. Let `x_j = ±(1 + ξ_j/4)/s_j` with random signs, uniform `ξ_j` and the
/// size `s_j` of column j, so that every column counts alike. The residual of row i and group G is
/// `r = Σ_{j∈G} (C - alpha·A·B - beta·C0)_ij·x_j`. The unit roundoff of the elements is `u` (2⁻⁵³, or 2⁻²⁴ in single precision).
///
/// Roundings are independent or nearly so. An element errs by less than `u·√k·g` with `g = (|A|·|B|)_ij`. A sum of its errors
/// over a group with random signs errs by the root of the sum of their squares. By the triangle inequality that root is at
/// most `h = Σ_p |a_ip|·√(Σ_{j∈G} |b_pj·x_j|²)`, which costs no more than a product with a vector. So the bound of a residual is
/// `1.8·u·(√t + 2)·h`, where `t ≤ k` counts the nonzero terms of row i. With beta, `|alpha|·h` becomes the root of
/// `(|alpha|·h)² + |beta|²·Σ|c0_ij·x_j|²`. For products that underflow `(k + 4)·(1 + |alpha|)·f·Σ|x_j|` is added, where `f` is
/// the smallest normal number.
///
/// Sums of equal terms break the assumption: their roundings are equal too, and add up in proportion to `k`. So a residual above
/// its bound is only a suspicion. From 32 times the bound on, or from `(t + 4)/(1.8·(√t + 2))` times it, the result is wrong.
/// Below, the elements of all suspicious rows and groups are computed again, up to 2²⁷ terms of them: beyond that the result
/// is not verified. It is wrong if an element errs by more than `u·min(t + 4, 64·√t)·g`. For complex numbers that is
/// `√2·(t + 4)`, and t counts real products. By the worst case no right element errs by more than `t + 4` roundings. From about
/// 4000 terms on `64·√t` is less: such an element may err as far as its terms drift if they are added one after the other.
///
/// Elements that are right acquit only if their errors, times `x_j`, add up to the residual within its bound. A bit of A or B
/// that flips after the check has read it spoils C and the second look alike. It does not spoil the sums that the check keeps.
///
/// One wrong element is found if it is off by `64·u·(√t + 4)·(‖a_i‖·‖b_j‖ + c)` or more, with up to 16384 columns of any
/// scales. Here c is the size of row i of `beta·C0`, if its columns are scaled to the size of column j. If A and B come in parts
/// of k, the first matrix scales the columns. If all together have other proportions, they are made again for a vector that
/// all have scaled. Otherwise a column may hide errors of another, and the result is not verified. A wrong element of A spoils a
/// row, whose errors may cancel in the residuals. If the largest error of such a row is just 64 of these units, about one row in
/// 30 is missed. Larger errors are missed in proportion less often. Two columns that changed places are found unless their `ξ` agree to about
/// `u·√k`. The check itself adds the sums of 8 columns in twice double precision.
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
    /// `true` if A and B, whole, have scaled the vector.
    is_scaled: bool,
    /// This rank's share of `A·Y`, with the real parts of `Y = B·x`. If the elements are complex, the products with the imaginary
    /// parts follow: to be multiplied by i.
    products: Totals,
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
    /// Columns are scaled by the sizes that C and the factors give them, where all rows count alike. If A and B come in parts of k, no factors are given.
    /// The first of C and the parts of B that is not zero in a column scales it.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
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
            .with_settings(scalars.describe())
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
            products: Totals::zeros(lines * groups.count() * count_parts::<T>()),
            sizes: vec![0.0; lines * groups.count()],
            terms: vec![0.0; lines],
            added: None,
        };
        let factors = factors.filter(|_| scalars.alpha != T::ZERO);
        if scalars.beta != T::ZERO {
            let c = Operand::from(c);
            probe.vector.scale(find_sum_sizes(comm, scalars, &c, factors)?);
            probe.add_c(&c);
        } else if let Some([_, b]) = factors {
            // Only the proportions of columns matter if nothing is added to the product.
            probe.vector.scale(find_norms(comm, &b, None)?);
        }
        Ok(probe)
    }

    fn add_c(&mut self, c: &Operand<'_, T>) {
        let x = self.vector.numbers();
        let mut squares = vec![0.0; self.sizes.len()];
        let totals = self.multiply_groups(c, &x, (Terms::Squares, &x), &mut squares);
        self.added = Some((totals, squares));
    }

    /// Adds A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Shape`] for factors of another product than C; the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::plan::Plan::operands) gives the
    /// factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) -> Result<(), Error> {
        let _call = enter_factors(
            comm,
            "adding factors to a check",
            self.seed,
            self.scalars,
            [&a, &b],
            self.rows,
            self.groups.n_cols(),
        )?;
        self.k += b.rows();
        if self.scalars.alpha == T::ZERO {
            return Ok(());
        }
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        if !self.is_scaled {
            let of_a = find_norms(comm, &a, None)?.into_iter().fold(0.0, f64::hypot);
            let alpha = self.scalars.alpha.value().norm();
            self.vector.note_part(of_a, &find_norms(comm, &b, None)?, alpha, self.k);
        }
        let probed = self.multiply_b(comm, &b)?;
        self.multiply_a(&a, &probed);
        Ok(())
    }

    /// Multiplies B by the probe vector, and takes the root of the sum of squares of each row and group.
    fn multiply_b(&self, comm: &dyn Comm, b: &Operand<'_, T>) -> Result<ProbedRows, Error> {
        let parts = count_parts::<T>();
        let mut squares = vec![0.0; b.rows() * parts * self.groups.count()];
        let x = self.vector.numbers();
        let mut all = self.multiply_groups(b, &x, (Terms::Squares, &x), &mut squares).round();
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

    /// Multiplies this rank's part of a matrix by the probe vector, group by group. `sums` gets the terms of its elements with
    /// these factors of columns.
    fn multiply_groups(
        &self,
        matrix: &Operand<'_, T>,
        vector: &[f64],
        (terms, factors): (Terms, &[f64]),
        sums: &mut [f64],
    ) -> Totals {
        let (parts, rows) = (count_parts::<T>(), matrix.rows());
        let mut totals = Totals::zeros(rows * parts * self.groups.count());
        for group in 0..self.groups.count() {
            let region = Region::new(0..rows, self.groups.cols(group));
            pass_over(matrix, &region, |batch| {
                AddGroups {
                    totals: &mut totals,
                    terms,
                    sums: &mut *sums,
                    counts: &mut [],
                    first: (group * rows + batch.rows.start) * parts,
                    stride: 0,
                    batch,
                    factors: &[[vector, factors].map(|numbers| batch.pick(numbers))],
                    turned: &[],
                }
                .run();
            });
        }
        totals
    }

    fn multiply_a(&mut self, a: &Operand<'_, T>, probed: &ProbedRows) {
        let (parts, k) = (count_parts::<T>(), a.cols());
        let part = find_part(a);
        for terms in &mut self.terms[part.row * parts..(part.row + part.rows) * parts] {
            *terms += part.cols as f64;
        }
        pass_over(a, &part, |batch| {
            let of_groups = |values: &[f64]| -> Vec<[f64; BATCH]> {
                let groups = values.chunks_exact(k).take(self.groups.count());
                groups.map(|of_group| batch.pick(of_group)).collect()
            };
            let factors: Vec<_> = of_groups(&probed.real)
                .into_iter()
                .zip(of_groups(&probed.roots))
                .map(<[_; 2]>::from)
                .collect();
            AddGroups {
                totals: &mut self.products,
                terms: Terms::Sizes,
                sums: &mut self.sizes,
                counts: &mut self.terms,
                first: batch.rows.start * parts,
                stride: self.rows * parts,
                batch,
                factors: &factors,
                turned: &of_groups(&probed.imaginary),
            }
            .run();
        });
    }

    /// Finishes the check with C after the multiplication. Suspicious elements are examined if the other matrices can be
    /// made again, which takes as much memory as C if C was added. NaN or infinite residuals do not pass.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn finish(
        self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
        mut again: Option<&mut dyn Recall<T>>,
    ) -> Result<Verdict, Error> {
        let _call = CollectiveCall::new(comm, "ending a check")
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .with("again", &again.is_some())
            .enter()?;
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let hides_errors = !self.is_scaled && self.has_uneven_columns(comm)?;
        if let Some(again) = again.as_mut().filter(|again| hides_errors && again.is_anew()) {
            match self.scale_again(comm, c, *again) {
                Ok(scaled) => return scaled.judge(comm, c, Some(*again), false),
                Err(error) => tracing::warn!(%error, "errors in small columns cannot be found"),
            }
        }
        self.judge(comm, c, again, hides_errors)
    }

    /// Returns `true` if the columns of all matrices have other proportions than those that scale the vector.
    fn has_uneven_columns(&self, comm: &dyn Comm) -> Result<bool, Error> {
        // Ranks may have rounded the sums differently.
        let is_uneven = (comm.rank() == 0).then(|| self.vector.is_uneven());
        comm.share(0, is_uneven)
    }

    /// Begins again with the vector scaled by all matrices, which are made again.
    fn scale_again(
        &self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
        again: &mut dyn Recall<T>,
    ) -> Result<Self, Error> {
        let mut scaled = Self {
            vector: self.vector.clone(),
            is_scaled: true,
            k: 0,
            products: Totals::zeros(self.sizes.len() * count_parts::<T>()),
            sizes: vec![0.0; self.sizes.len()],
            terms: vec![0.0; self.terms.len()],
            added: None,
            ..*self
        };
        scaled.vector.scale_by_all();
        if self.scalars.beta != T::ZERO {
            let c = again.c(c.spread().clone())?;
            scaled.add_c(&Operand::from(&c));
        }
        again.factors(&mut |factors| scaled.add(comm, factors))?;
        Ok(scaled)
    }

    /// Judges the result by its residuals. Nothing is verified if columns hide errors of others.
    fn judge(
        &self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
        again: Option<&mut dyn Recall<T>>,
        hides_errors: bool,
    ) -> Result<Verdict, Error> {
        let found = self.compare(comm, c)?;
        let mut verdict = Verdict {
            passed: Some(found.certain <= 1.0),
            doubt: None,
            residual: found.residual,
            finds: Some(found.finds).filter(|_| found.residual.is_finite()),
        };
        if found.overflows {
            (verdict.residual, verdict.finds) = (f64::INFINITY, None);
            // Nothing is known of a finite result.
            let is_finite = c.find_not_finite(comm)?.is_none();
            verdict.doubt = is_finite.then(|| OVERFLOWS.to_owned());
        } else if hides_errors && found.certain <= 1.0 {
            verdict.doubt = Some(HIDES_ERRORS.to_owned());
        } else if found.terms > 0.0 && found.certain <= 1.0 {
            let why = match again {
                _ if found.terms > MOST_TERMS => {
                    Some("too many are like it for a second look".to_owned())
                }
                None => Some("a second look needs A, B and C".to_owned()),
                Some(again) => self.examine(comm, again, c, &found.suspects).map_or_else(
                    |error| Some(format!("a second look failed: {error}")),
                    |examined| examined.settle(&mut verdict),
                ),
            };
            let residual = found.residual;
            verdict.doubt =
                why.map(|why| format!("a residual is {residual:.3} of its bound, and {why}"));
        }
        if verdict.doubt.is_some() {
            verdict.passed = None;
        }
        Ok(verdict)
    }
}

/// Reasons why nothing is known of a result.
const OVERFLOWS: &str = "numbers of the probe overflow";
const HIDES_ERRORS: &str = "columns that grow between parts of A and B may hide errors of others";

/// `Y = B·x` and the roots of the sums of squares, group by group, on every rank.
struct ProbedRows {
    /// The real parts of Y.
    real: Vec<f64>,
    /// The imaginary parts, if the elements are complex.
    imaginary: Vec<f64>,
    /// `√(Σ_{j∈G} |b_pj·x_j|²)`.
    roots: Vec<f64>,
}
