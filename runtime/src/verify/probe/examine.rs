//! The examination of elements whose residual is above its bound.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::Probe;
use super::batches::{count_parts, pass_over};
use super::compare::{SuspectResidual, divide, find_element_bound};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::{HeldMatrix, Operand, Region};

/// The elements of a row and a group, computed again.
#[derive(Debug, Clone, Copy, Default)]
struct ComputedElement {
    /// The product in twice double precision, and what was rounded off.
    product: [Complex64; 2],
    /// `g`: the sum of the magnitudes of its terms.
    size: f64,
    /// The element of C.
    found: Complex64,
}

impl<T: Scalar> Probe<T> {
    /// Computes the elements of suspicious rows and groups again, and returns the largest error in units of its bound.
    ///
    /// # Collective
    /// All ranks, with the same suspects.
    pub(super) fn examine(
        &self,
        comm: &dyn Comm,
        [a, b]: [Operand<'_, T>; 2],
        c: &HeldMatrix<'_, T>,
        suspects: &[SuspectResidual],
    ) -> Result<f64, Error> {
        let (rows, k) = (gather_rows(comm, &a, suspects)?, a.cols());
        let mut largest: f64 = 0.0;
        for (at, suspect) in suspects.iter().enumerate() {
            let row = &rows[at * k..(at + 1) * k];
            let elements = self.compute_again(comm, row, &b, c, suspect)?;
            let terms = row.iter().flat_map(|a| [a.re, a.im]).filter(|x| *x != 0.0);
            let terms = terms.count() as f64;
            let alpha = self.scalars.alpha.value();
            let underflow = (self.k + 4) as f64 * (1.0 + alpha.l1_norm()) * T::SMALLEST_NORMAL;
            for element in elements {
                let [product, rest] = element.product;
                let error = alpha * product - element.found + alpha * rest;
                let bound = find_element_bound::<T>(terms) * alpha.norm() * element.size;
                largest = largest.max(divide(error.norm(), bound + underflow));
            }
        }
        // Its bits, because numbers as text must be finite. The first rank's number counts.
        let bits = comm.share(0, (comm.rank() == 0).then(|| largest.to_bits()))?;
        Ok(f64::from_bits(bits))
    }

    fn compute_again(
        &self,
        comm: &dyn Comm,
        row: &[Complex64],
        b: &Operand<'_, T>,
        c: &HeldMatrix<'_, T>,
        suspect: &SuspectResidual,
    ) -> Result<Vec<ComputedElement>, Error> {
        let cols = self.groups.cols(suspect.group);
        let mut elements = vec![ComputedElement::default(); cols.len()];
        pass_over(b, &Region::new(0..b.rows(), cols.clone()), |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let element = &mut elements[col - cols.start];
                let values = read_elements::<T>(numbers);
                for (a, b) in row[batch.rows.clone()].iter().zip(values) {
                    element.add(*a, b);
                }
            }
        });
        let place = Region::new(suspect.row..suspect.row + 1, cols.clone());
        pass_over(&Operand::from(c), &place, |batch| {
            for (col, numbers) in batch.cols.clone().zip(batch.columns) {
                let mut values = read_elements::<T>(numbers);
                elements[col - cols.start].found = values.next().unwrap_or_default();
            }
        });
        sum_over_ranks(comm, &mut elements)?;
        Ok(elements)
    }
}

impl ComputedElement {
    fn add(&mut self, a: Complex64, b: Complex64) {
        let term = a * b;
        let [product, rest] = &mut self.product;
        let total = *product + term;
        let added = total - *product;
        *rest += (*product - (total - added)) + (term - added);
        *product = total;
        self.size += a.norm() * b.norm();
    }
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
    let mut numbers: Vec<f64> = elements
        .iter()
        .flat_map(
            |ComputedElement {
                 product: [sum, rest],
                 size,
                 found,
             }| { [sum.re, sum.im, rest.re, rest.im, *size, found.re, found.im] },
        )
        .collect();
    comm.sum_f64(&mut numbers)?;
    let (numbers, _) = numbers.as_chunks();
    for (element, &[re, im, rest_re, rest_im, size, found_re, found_im]) in
        elements.iter_mut().zip(numbers)
    {
        *element = ComputedElement {
            product: [Complex64::new(re, im), Complex64::new(rest_re, rest_im)],
            size,
            found: Complex64::new(found_re, found_im),
        };
    }
    Ok(())
}
