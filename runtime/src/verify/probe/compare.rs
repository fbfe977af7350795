//! The comparison of residuals with their bounds.

use isochron_devices::Scalar;
use num_complex::Complex64;
use serde::{Deserialize, Serialize};

use super::Probe;
use super::batches::{Terms, Totals, count_parts};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::scalars::Scalars;
use crate::matrix::{HeldMatrix, Operand};

/// Rounding of one element in units of `u·√t·g`: the residuals of random matrices stay below it.
const ROUNDING: f64 = 1.8;
/// Roundings of an element whatever its number of terms, among them those of the check itself.
const FEW_ROUNDINGS: f64 = 2.0;
/// Roundings of the check itself, in units of `2⁻⁵³·h`: a sum of 8 columns is rounded alike in all rows that are alike.
const OWN_ROUNDINGS: f64 = 16.0;
/// The least factor of a bound above which a residual is wrong for certain.
const CERTAINLY_WRONG: f64 = 32.0;
/// Most terms of all elements that are examined: about half a second. Sums of equal terms alone have more.
pub(super) const MOST_TERMS: f64 = (1 << 27) as f64;
/// Terms that the messages about a residual's elements count as.
const TERMS_OF_MESSAGES: f64 = (1 << 15) as f64;

/// The residual of a row and a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Residual {
    pub row: usize,
    pub group: usize,
    pub value: Complex64,
    /// The bound of its magnitude.
    pub bound: f64,
    /// The largest difference from the errors of its elements.
    pub slack: f64,
    /// The factor of the bound above which it is wrong for certain.
    pub certainly: f64,
    /// An error that the bound of an element of the group's typical size lets pass, times its number of the probe vector.
    pub element: f64,
    /// The largest part of its column's norm that an error of 1 in the residual can be.
    pub reach: f64,
    /// Mean magnitude of the row's elements in the group, as parts of their columns' norms.
    pub mean: f64,
    /// Terms of its elements.
    pub terms: f64,
}

/// A residual above its bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct SuspectResidual {
    pub row: usize,
    pub group: usize,
    /// Its real and imaginary part.
    pub parts: [f64; 2],
    /// The largest difference from the errors of its elements.
    pub slack: f64,
}

/// All residuals, compared with their bounds.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The largest residual in units of its bound; infinite for one that is no finite number.
    pub residual: f64,
    /// The same with the bounds above which a residual is wrong for certain.
    pub certain: f64,
    /// The smallest error of an element of typical size that is found in every row and group, as a part of the mean
    /// magnitude of its row's elements in its group, each scaled by its column's norm.
    pub finds: f64,
    /// The residuals above their bounds; only some if their elements have more than [`MOST_TERMS`].
    pub suspects: Vec<SuspectResidual>,
    /// Terms of the elements of all residuals above their bounds.
    pub terms: f64,
    /// `true` if a bound is no finite number.
    pub overflows: bool,
}

impl<T: Scalar> Probe<T> {
    /// Compares all residuals with their bounds. What the first rank finds holds on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn compare(
        &self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
    ) -> Result<Comparison, Error> {
        let mut found = Comparison::default();
        self.pass_over_residuals(comm, c, |residual| found.note(&residual))?;
        // Their bits, because numbers as text must be finite.
        let bits = [found.residual, found.certain, found.finds, found.terms].map(f64::to_bits);
        let told = (comm.rank() == 0).then_some((bits, found.suspects, found.overflows));
        let (bits, suspects, overflows) = comm.share(0, told)?;
        let [residual, certain, finds, terms] = bits.map(f64::from_bits);
        Ok(Comparison { residual, certain, finds, suspects, terms, overflows })
    }

    /// Passes over the residuals of all rows and groups, on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn pass_over_residuals(
        &self,
        comm: &dyn Comm,
        c: &HeldMatrix<'_, T>,
        mut take: impl FnMut(Residual),
    ) -> Result<(), Error> {
        let parts = count_parts::<T>();
        let (vector, weights) = (self.vector.numbers(), self.vector.weights());
        let mut sizes = vec![0.0; self.sizes.len()];
        let c = Operand::from(c);
        let totals = self.multiply_groups(&c, &vector, (Terms::Sizes, &weights), &mut sizes);
        let count = self.rows * self.groups.count();
        let mut all = self.subtract(&totals);
        all.extend(fold(&self.sizes, parts));
        all.extend(fold(&sizes, parts));
        all.extend(fold(&self.terms, parts));
        if let Some((_, squares)) = &self.added {
            all.extend(fold(squares, parts));
        }
        comm.sum_f64(&mut all)?;
        let (residuals, rest) = all.split_at(count * parts);
        let (sizes, rest) = rest.split_at(count);
        let (found, rest) = rest.split_at(count);
        let (terms, added) = rest.split_at(self.rows);
        let Scalars { alpha, beta } = self.scalars;
        let [alpha, beta] = [alpha, beta].map(|scalar| scalar.value().norm());
        for group in 0..self.groups.count() {
            let of_group = self.groups.cols(group);
            let cols = of_group.len() as f64;
            let of_group = vector[of_group.clone()].iter().zip(&weights[of_group]);
            let total = of_group.clone().map(|(x, _)| x.abs()).sum();
            let reach = of_group.fold(0.0, |reach: f64, (x, weight)| reach.max(weight / x.abs()));
            for (row, &terms) in terms.iter().enumerate() {
                let at = group * self.rows + row;
                let gauge = match added.get(at) {
                    Some(added) => (alpha * sizes[at]).hypot(beta * added.sqrt()),
                    None => alpha * sizes[at],
                };
                let bound = self.find_bound(terms, gauge, total);
                take(Residual {
                    row,
                    group,
                    value: read_element(&residuals[at * parts..(at + 1) * parts]),
                    bound,
                    slack: bound + OWN_ROUNDINGS * f64::EPSILON / 2.0 * gauge,
                    certainly: find_certain_factor(terms),
                    element: find_element_bound::<T>(terms) * gauge / cols.sqrt(),
                    reach,
                    mean: found[at] / cols,
                    terms: cols * self.k as f64 + TERMS_OF_MESSAGES,
                });
            }
        }
        Ok(())
    }

    /// Returns this rank's share of the residuals, given its share of `C·x`. They are rounded after they cancel.
    fn subtract(&self, found: &Totals) -> Vec<f64> {
        let Scalars { alpha, beta } = self.scalars;
        let mut residuals = Totals::zeros(self.sizes.len());
        residuals.add_multiple::<T>(-Complex64::ONE, found, 0);
        residuals.add_multiple::<T>(alpha.value(), &self.products, 0);
        if T::TYPE.is_complex() {
            let turned = self.sizes.len();
            residuals.add_multiple::<T>(Complex64::I * alpha.value(), &self.products, turned);
        }
        if let Some((added, _)) = &self.added {
            residuals.add_multiple::<T>(beta.value(), added, 0);
        }
        residuals.round()
    }

    /// Returns the bound of a residual, given the sum of the magnitudes of the group's numbers of the probe vector.
    fn find_bound(&self, terms: f64, gauge: f64, total: f64) -> f64 {
        let unit = T::EPSILON / 2.0;
        let alpha = self.scalars.alpha.value().l1_norm();
        let underflow = (self.k + 4) as f64 * (1.0 + alpha) * T::SMALLEST_NORMAL;
        ROUNDING * (terms.sqrt() + FEW_ROUNDINGS) * unit * gauge + underflow * total
    }
}

/// Returns the bound of an element's error in units of `g`, by its number of nonzero real terms.
pub(super) fn find_element_bound<T: Scalar>(terms: f64) -> f64 {
    let probable = 64.0 * terms.max(1.0).sqrt() * T::EPSILON / 2.0;
    find_worst_bound::<T>(terms).min(probable)
}

/// Returns the bound that no sum exceeds, whatever its order, in units of `g`.
pub(super) fn find_worst_bound<T: Scalar>(terms: f64) -> f64 {
    // Both parts of a complex number err.
    (terms + 4.0) * (count_parts::<T>() as f64).sqrt() * T::EPSILON / 2.0
}

/// Returns the factor of a residual's bound above which it is wrong for certain. Roundings of equal terms add up in proportion
/// to their number.
fn find_certain_factor(terms: f64) -> f64 {
    let drift = (terms + 4.0) / (ROUNDING * (terms.sqrt() + FEW_ROUNDINGS));
    drift.max(CERTAINLY_WRONG)
}

/// Returns the element that these real numbers are.
pub(super) fn read_element(parts: &[f64]) -> Complex64 {
    match parts {
        [re, im] => Complex64::new(*re, *im),
        real => Complex64::new(real[0], 0.0),
    }
}

/// Adds the values of each element's parts.
pub(super) fn fold(values: &[f64], parts: usize) -> impl Iterator<Item = f64> {
    values.chunks_exact(parts).map(|of_element| of_element.iter().sum())
}

/// Returns a residual in units of its bound; infinite if that is no number, and for a nonzero residual with bound zero.
pub(super) fn divide(residual: f64, bound: f64) -> f64 {
    if residual == 0.0 {
        return 0.0;
    }
    let ratio = residual / bound;
    // An infinite bound would let any result pass.
    if ratio.is_nan() || bound.is_infinite() { f64::INFINITY } else { ratio }
}

impl Comparison {
    fn note(&mut self, residual: &Residual) {
        let Residual { value, bound, .. } = *residual;
        let (size, ratio) = (value.norm(), divide(value.norm(), bound));
        self.overflows |= !bound.is_finite();
        self.residual = self.residual.max(ratio);
        self.certain = self.certain.max(ratio / residual.certainly);
        if residual.mean > 0.0 {
            // Rounding may hide an error of its own size.
            let hidden = (bound + size).max(residual.element);
            self.finds = self.finds.max(hidden * residual.reach / residual.mean);
        }
        // A residual that is no finite number is wrong for certain.
        if ratio > 1.0 && ratio.is_finite() {
            self.terms += residual.terms;
            if self.terms <= MOST_TERMS {
                self.suspects.push(SuspectResidual {
                    row: residual.row,
                    group: residual.group,
                    parts: [value.re, value.im],
                    slack: residual.slack,
                });
            }
        }
    }
}
