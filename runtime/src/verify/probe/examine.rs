//! The examination of elements whose residual is above its bound.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::Probe;
use super::batches::{count_parts, pass_over};
use super::compare::{SuspectResidual, divide, find_element_bound, find_worst_bound};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::{HeldMatrix, Matrix, Operand, Region, Spread};

/// Makes the matrices of a multiplication again, so that suspicious elements can be examined.
pub trait Recall<T: Scalar> {
    /// Hands A and B to `take`, whole or in the parts of k that were added to the check.
    ///
    /// # Errors
    /// The errors of `take`, and the reason why a matrix cannot be made again.
    ///
    /// # Collective
    /// All ranks.
    fn factors(&mut self, take: &mut TakeFactors<'_, T>) -> Result<(), Error>;

    /// Makes the elements of C before the multiplication that are on `window`.
    ///
    /// # Errors
    /// The reason why they cannot be made again.
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

/// The most roundings of one direction that are no drift. Within them the bound is that of the worst case.
const STRETCH: usize = 4096;

/// The elements of a row and a group, computed again, times the [factor](super::vector::ProbeVector::factor) of the vector.
#[derive(Debug, Clone, Copy, Default)]
struct ComputedElement {
    /// The product in twice double precision, and what was rounded off.
    product: [Complex64; 2],
    /// `g`: the sum of the magnitudes of its terms.
    size: f64,
    /// The element of C.
    found: Complex64,
    /// The element of C before the multiplication.
    added: Complex64,
    /// Its terms added one after the other as elements of the result's type.
    sum: Complex64,
    /// Errors of these additions: of the present stretch, their number, and the magnitudes of all stretches.
    stretch: (Complex64, usize),
    drift: f64,
}

/// The largest error of the elements that were examined.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Examined {
    /// In units of its bound.
    pub largest: f64,
    /// The factor by which drift raised a bound; at least 1.
    pub raised: f64,
}

impl<T: Scalar> Probe<T> {
    /// Computes the elements of suspicious rows and groups again, and returns the largest error in units of its bound.
    ///
    /// # Errors
    /// The errors of `again` and of [`Comm`].
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
        let list = |suspect: &SuspectResidual| {
            vec![ComputedElement::default(); self.groups.cols(suspect.group).len()]
        };
        let mut elements: Vec<_> = suspects.iter().map(list).collect();
        let mut terms = vec![0.0; suspects.len()];
        let mut take = |[a, b]: [Operand<'_, T>; 2]| {
            let (mut rows, k) = (gather_rows(comm, &a, suspects)?, a.cols());
            rows.iter_mut().for_each(|a| *a *= self.vector.factor());
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
        let mut examined = Examined {
            largest: 0.0,
            raised: 1.0,
        };
        for ((suspect, elements), terms) in suspects.iter().zip(&mut elements).zip(terms) {
            self.find_elements(&Operand::from(c), suspect, elements);
            if self.scalars.beta != T::ZERO {
                self.recall_added(comm, again, c.spread(), suspect, elements)?;
            }
            sum_over_ranks(comm, elements)?;
            for element in elements {
                self.judge_element(element, terms, comm.size(), &mut examined);
            }
        }
        // Their bits, because numbers as text must be finite. The first rank's numbers count.
        let bits = [examined.largest, examined.raised].map(f64::to_bits);
        let [largest, raised] = comm.share(0, (comm.rank() == 0).then_some(bits))?;
        Ok(Examined {
            largest: f64::from_bits(largest),
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
        let may_drift = self.k > STRETCH / 2;
        pass_over(b, &Region::new(0..b.rows(), cols.clone()), |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let element = &mut elements[col - cols.start];
                let values = read_elements::<T>(numbers);
                for (a, b) in row[batch.rows.clone()].iter().zip(values) {
                    element.add(*a, b);
                    if may_drift {
                        element.add_rounded::<T>(a * b);
                    }
                }
            }
        });
    }

    /// Takes this rank's elements of the result.
    fn find_elements(
        &self,
        c: &Operand<'_, T>,
        suspect: &SuspectResidual,
        elements: &mut [ComputedElement],
    ) {
        let cols = self.groups.cols(suspect.group);
        let place = Region::new(suspect.row..suspect.row + 1, cols.clone());
        pass_over(c, &place, |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let mut values = read_elements::<T>(numbers);
                let found = values.next().unwrap_or_default();
                elements[col - cols.start].found = found * self.vector.factor();
            }
        });
    }

    /// Takes the elements of C before the multiplication, on the first rank.
    ///
    /// # Collective
    /// All ranks.
    fn recall_added(
        &self,
        comm: &dyn Comm,
        again: &mut dyn Recall<T>,
        c: &Spread,
        suspect: &SuspectResidual,
        elements: &mut [ComputedElement],
    ) -> Result<(), Error> {
        let first = self.groups.cols(suspect.group).start;
        let row = Spread::on_one(1, elements.len(), 0, comm.size())?;
        let row = row.within((suspect.row, first), (c.rows(), c.cols()));
        let added = again.c(row)?;
        if comm.rank() == 0 {
            for (col, element) in elements.iter_mut().enumerate() {
                element.added = added.local().col(col)[0].value() * self.vector.factor();
            }
        }
        Ok(())
    }

    /// Compares an element, of a row with this number of nonzero real terms, with its bound.
    fn judge_element(
        &self,
        element: &ComputedElement,
        terms: f64,
        ranks: usize,
        examined: &mut Examined,
    ) {
        let (alpha, beta) = (self.scalars.alpha.value(), self.scalars.beta.value());
        let [product, rest] = element.product;
        let error = alpha * product - element.found + beta * element.added + alpha * rest;
        // C is one more term.
        let size = alpha.norm() * element.size + beta.norm() * element.added.norm();
        let terms = terms + f64::from(u8::from(beta != Complex64::ZERO));
        let unit = find_element_bound::<T>(terms) * size;
        // A rank's terms were added to a sum that is smaller than that of all ranks, so they drifted less.
        let drift = DRIFT * ranks as f64 * alpha.norm() * element.drift;
        let worst = find_worst_bound::<T>(terms) * size;
        let bound = drift.clamp(unit, worst.max(unit));
        let underflow = (self.k + 4) as f64 * (1.0 + alpha.l1_norm()) * T::SMALLEST_NORMAL;
        examined.largest = examined
            .largest
            .max(divide(error.norm(), bound + underflow));
        if unit > 0.0 {
            examined.raised = examined.raised.max(bound / unit);
        }
    }
}

/// The error of an element over the drift of its terms added one after the other. Another order drifts less, since its sums
/// are smaller, but for the directions of single roundings.
const DRIFT: f64 = 4.0;

impl ComputedElement {
    fn add(&mut self, a: Complex64, b: Complex64) {
        let term = a * b;
        let [product, rest] = &mut self.product;
        let (total, error) = add_exactly(*product, term);
        *rest += error;
        *product = total;
        self.size += a.norm() * b.norm();
    }

    /// Adds a term as the element's type does. Roundings of one direction add up within a stretch, and others cancel.
    fn add_rounded<T: Scalar>(&mut self, term: Complex64) {
        let term = T::of(term).value();
        let (total, error) = add_exactly(self.sum, term);
        self.sum = T::of(total).value();
        let (errors, count) = &mut self.stretch;
        *errors += error + (total - self.sum);
        *count += 1;
        if *count == STRETCH {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let (errors, _) = std::mem::take(&mut self.stretch);
        self.drift += errors.norm();
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
                row[col] = read_elements::<T>(numbers).next().unwrap_or_default();
            }
        });
    }
    comm.sum_f64(bytemuck::cast_slice_mut(&mut rows))?;
    Ok(rows)
}

/// Returns the elements that these real numbers are.
fn read_elements<T: Scalar>(numbers: &[f64]) -> impl Iterator<Item = Complex64> {
    numbers.chunks_exact(count_parts::<T>()).map(|of| match of {
        [re, im] => Complex64::new(*re, *im),
        real => Complex64::new(real[0], 0.0),
    })
}

fn sum_over_ranks(comm: &dyn Comm, elements: &mut [ComputedElement]) -> Result<(), Error> {
    let mut numbers = Vec::with_capacity(10 * elements.len());
    for element in &mut *elements {
        element.end_stretch();
        for number in [
            element.product[0],
            element.product[1],
            element.found,
            element.added,
        ] {
            numbers.extend([number.re, number.im]);
        }
        numbers.extend([element.size, element.drift]);
    }
    comm.sum_f64(&mut numbers)?;
    for (element, numbers) in elements.iter_mut().zip(numbers.chunks_exact(10)) {
        let complex = |at: usize| Complex64::new(numbers[2 * at], numbers[2 * at + 1]);
        *element = ComputedElement {
            product: [complex(0), complex(1)],
            found: complex(2),
            added: complex(3),
            size: numbers[8],
            drift: numbers[9],
            ..ComputedElement::default()
        };
    }
    Ok(())
}
