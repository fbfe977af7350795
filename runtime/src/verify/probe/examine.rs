//! The examination of elements whose residual is above its bound.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::batches::{count_parts, pass_over};
use super::compare::{SuspectResidual, divide, find_element_bound, find_worst_bound, read_element};
use super::vector::SHRUNK;
use super::{Probe, Verdict};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::{HeldMatrix, Matrix, Operand, Region, Spread};

/// Makes the matrices of a multiplication again, so that suspicious elements can be examined.
pub trait Recall<T: Scalar> {
    /// Hands A and B to `take`, whole or in the parts of k that were added to the check.
    ///
    /// # Errors
    /// Returns the errors of `take`, and the reason why a matrix cannot be made again.
    ///
    /// # Collective
    /// All ranks.
    fn factors(&mut self, take: &mut TakeFactors<'_, T>) -> Result<(), Error>;

    /// Returns `true` if the matrices are generated or read anew. In memory that the multiplication has used, a change that the
    /// check has not seen would be taken for right.
    fn is_anew(&self) -> bool {
        false
    }

    /// Makes the elements of C before the multiplication that are on `window`.
    ///
    /// # Errors
    /// Returns the reason why they cannot be made again.
    ///
    /// # Collective
    /// All ranks.
    fn c(&mut self, window: Spread) -> Result<Matrix<T>, Error>;
}

/// Takes A and B, or a part of k of them.
pub type TakeFactors<'t, T> = dyn FnMut([Operand<'_, T>; 2]) -> Result<(), Error> + 't;

/// Whole factors. C is not kept.
impl<T: Scalar> Recall<T> for [Operand<'_, T>; 2] {
    fn factors(&mut self, take: &mut TakeFactors<'_, T>) -> Result<(), Error> {
        take(*self)
    }

    fn c(&mut self, _window: Spread) -> Result<Matrix<T>, Error> {
        let reason = "C was overwritten by the result";
        Err(Error::Shape(reason.to_owned()))
    }
}

/// The error of an element over the drift of its terms added one after the other. Another order drifts less, since its sums
/// are smaller, but for the directions of single roundings.
const DRIFT: f64 = 4.0;

/// Most terms of rows that are kept at once. Each such group of rows reads A and B once.
const TERMS_AT_ONCE: usize = 1 << 22;

/// The product of an element of a row and a group, computed again, times [`SHRUNK`].
#[derive(Debug, Clone, Copy, Default)]
struct ComputedElement {
    /// The product in twice double precision, and what was rounded off.
    product: [Complex64; 2],
    /// `g`: the sum of the magnitudes of its terms.
    size: f64,
    /// Its terms added one after the other as elements of the result's type.
    sum: Complex64,
    /// Errors of these additions: roundings of one direction add up within a stretch, and others cancel.
    drift: f64,
}

/// Outcome of the examination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Examined {
    /// The largest error of an element in units of its bound.
    largest: f64,
    /// The largest part of a residual that the errors of its elements do not explain, in units of what rounding leaves.
    unexplained: f64,
    /// The factor by which the smallest error that is found grows, because drift raised a bound.
    raised: f64,
}

impl Examined {
    /// Settles the verdict of a result with suspicious residuals, or returns the doubt that it came from other matrices.
    pub(super) fn settle(&self, verdict: &mut Verdict) -> Option<String> {
        verdict.finds = verdict.finds.map(|finds| finds * self.raised);
        if self.largest <= 1.0 && self.unexplained > 1.0 {
            return Some("A, B and C do not explain it".to_owned());
        }
        verdict.passed = Some(self.largest <= 1.0);
        verdict.residual = self.largest;
        None
    }
}

impl<T: Scalar> Probe<T> {
    /// Computes the elements of suspicious rows and groups again.
    ///
    /// # Errors
    /// Returns the errors of `again` and of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same suspects.
    pub(super) fn examine(
        &self,
        comm: &dyn Comm,
        again: &mut dyn Recall<T>,
        c: &HeldMatrix<'_, T>,
        suspects: &[SuspectResidual],
    ) -> Result<Examined, Error> {
        let mut examined = Examined { largest: 0.0, unexplained: 0.0, raised: 1.0 };
        for suspects in suspects.chunks((TERMS_AT_ONCE / self.k.max(1)).max(1)) {
            let list = |suspect: &SuspectResidual| {
                vec![ComputedElement::default(); self.groups.cols(suspect.group).len()]
            };
            let mut elements: Vec<_> = suspects.iter().map(list).collect();
            let mut terms = vec![0.0; suspects.len()];
            let mut take = |[a, b]: [Operand<'_, T>; 2]| {
                let (mut rows, k) = (gather_rows(comm, &a, suspects)?, a.cols());
                rows.iter_mut().for_each(|a| *a *= SHRUNK);
                for (at, suspect) in suspects.iter().enumerate() {
                    let row = &rows[at * k..(at + 1) * k];
                    let real = row.iter().flat_map(|a| [a.re, a.im]);
                    terms[at] += real.filter(|number| *number != 0.0).count() as f64;
                    self.compute_again(row, &b, suspect, &mut elements[at]);
                }
                Ok(())
            };
            if self.scalars.alpha != T::ZERO {
                again.factors(&mut take)?;
            }
            for ((suspect, elements), terms) in suspects.iter().zip(&elements).zip(terms) {
                let errors = self.find_errors(comm, again, c, suspect, elements)?;
                self.judge_elements(suspect, &errors, terms, comm.size(), &mut examined);
            }
        }
        // Their bits, because numbers as text must be finite. The first rank's numbers count.
        let bits = [examined.largest, examined.unexplained, examined.raised].map(f64::to_bits);
        let [largest, unexplained, raised] = comm.share(0, (comm.rank() == 0).then_some(bits))?;
        Ok(Examined {
            largest: f64::from_bits(largest),
            unexplained: f64::from_bits(unexplained),
            raised: f64::from_bits(raised),
        })
    }

    /// Adds this rank's terms to the elements.
    fn compute_again(
        &self,
        row: &[Complex64],
        b: &Operand<'_, T>,
        suspect: &SuspectResidual,
        elements: &mut [ComputedElement],
    ) {
        let cols = self.groups.cols(suspect.group);
        pass_over(b, &Region::new(0..b.rows(), cols.clone()), |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let element = &mut elements[col - cols.start];
                let values = numbers.chunks_exact(count_parts::<T>()).map(read_element);
                let terms = row[batch.rows.clone()].iter().zip(values);
                element.drift +=
                    terms.map(|(a, b)| element.add::<T>(*a, b)).sum::<Complex64>().norm();
            }
        });
    }

    /// Returns the error of each element, as its real and imaginary part, the size of its terms and their drift.
    ///
    /// # Collective
    /// All ranks.
    fn find_errors(
        &self,
        comm: &dyn Comm,
        again: &mut dyn Recall<T>,
        c: &HeldMatrix<'_, T>,
        suspect: &SuspectResidual,
        elements: &[ComputedElement],
    ) -> Result<Vec<[f64; 4]>, Error> {
        let (alpha, beta) = (self.scalars.alpha.value(), self.scalars.beta.value());
        let cols = self.groups.cols(suspect.group);
        let [mut found, mut added] = [0, 1].map(|_| vec![Complex64::ZERO; cols.len()]);
        let place = Region::new(suspect.row..suspect.row + 1, cols.clone());
        pass_over(&Operand::from(c), &place, |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let parts = &numbers[..count_parts::<T>()];
                found[col - cols.start] = read_element(parts) * SHRUNK;
            }
        });
        if self.scalars.beta != T::ZERO {
            let row = Spread::on_one(1, cols.len(), 0, comm.size())?;
            let c = c.spread();
            let row = row.within((suspect.row, cols.start), (c.rows(), c.cols()));
            let c = again.c(row)?;
            if comm.rank() == 0 {
                for (col, added) in added.iter_mut().enumerate() {
                    *added = c.local().col(col)[0].value() * SHRUNK;
                }
            }
        }
        let share = |((element, found), added): ((&ComputedElement, &Complex64), &Complex64)| {
            let [product, rest] = element.product;
            let error = alpha * product - found + beta * added + alpha * rest;
            // C is one more term.
            let size = alpha.norm() * element.size + beta.norm() * added.norm();
            [error.re, error.im, size, alpha.norm() * element.drift]
        };
        let mut errors: Vec<_> = elements.iter().zip(&found).zip(&added).map(share).collect();
        comm.sum_f64(errors.as_flattened_mut())?;
        Ok(errors)
    }

    /// Compares the elements of a row, with this number of nonzero real terms, with their bounds.
    fn judge_elements(
        &self,
        suspect: &SuspectResidual,
        errors: &[[f64; 4]],
        terms: f64,
        ranks: usize,
        examined: &mut Examined,
    ) {
        let terms = terms + f64::from(u8::from(self.scalars.beta != T::ZERO));
        let alpha = self.scalars.alpha.value().l1_norm();
        let underflow = (self.k + 4) as f64 * (1.0 + alpha) * T::SMALLEST_NORMAL;
        let mut unexplained = read_element(&suspect.parts);
        let numbers = self.vector.numbers();
        let numbers = &numbers[self.groups.cols(suspect.group)];
        for ([re, im, size, drift], x) in errors.iter().zip(numbers) {
            let error = Complex64::new(*re, *im);
            let unit = find_element_bound::<T>(terms) * size;
            // A rank's terms were added to a sum that is smaller than that of all ranks, so they drifted less.
            let drift = (DRIFT * ranks as f64 * drift).min(find_worst_bound::<T>(terms) * size);
            let bound = drift.max(unit);
            examined.largest = examined.largest.max(divide(error.norm(), bound + underflow));
            if unit > 0.0 {
                examined.raised = examined.raised.max(bound / unit);
            }
            unexplained -= error * (x / SHRUNK);
        }
        let unexplained = divide(unexplained.norm(), suspect.slack);
        examined.unexplained = examined.unexplained.max(unexplained);
    }
}

impl ComputedElement {
    /// Adds a term, and returns the error of adding it as the element's type does.
    fn add<T: Scalar>(&mut self, a: Complex64, b: Complex64) -> Complex64 {
        let term = a * b;
        let [product, rest] = &mut self.product;
        let (total, error) = add_exactly(*product, term);
        *rest += error;
        *product = total;
        // Norms cost more than all else here.
        self.size += if T::TYPE.is_complex() { a.norm() * b.norm() } else { term.re.abs() };
        let (total, error) = add_exactly(self.sum, T::of(term).value());
        self.sum = T::of(total).value();
        error + (total - self.sum)
    }
}

/// Adds two numbers; returns the sum and its error.
fn add_exactly(first: Complex64, second: Complex64) -> (Complex64, Complex64) {
    let total = first + second;
    let added = total - first;
    (total, (first - (total - added)) + (second - added))
}

/// Returns the rows of A that are suspicious, one after the other, on every rank.
///
/// # Collective
/// All ranks.
fn gather_rows<T: Scalar>(
    comm: &dyn Comm,
    a: &Operand<'_, T>,
    suspects: &[SuspectResidual],
) -> Result<Vec<Complex64>, Error> {
    let k = a.cols();
    let mut rows = vec![Complex64::ZERO; suspects.len() * k];
    for (suspect, row) in suspects.iter().zip(rows.chunks_exact_mut(k.max(1))) {
        let place = Region::new(suspect.row..suspect.row + 1, 0..k);
        pass_over(a, &place, |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                row[col] = read_element(&numbers[..count_parts::<T>()]);
            }
        });
    }
    comm.sum_f64(bytemuck::cast_slice_mut(&mut rows))?;
    Ok(rows)
}
