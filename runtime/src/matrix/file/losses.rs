//! What a matrix does not hold as its file does.

use isochron_hierarchy::printable::show_path;
use std::ops::{Add, AddAssign};
use std::path::Path;

use isochron_devices::{ElementType, Scalar};
use num_complex::Complex64;

use crate::comm::Comm;
use crate::error::Error;

/// Numbers of a file that are other ones in the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Losses {
    /// Integers that the type of the elements does not hold exactly.
    pub rounded: u64,
    /// Finite numbers beyond the range of the type.
    pub infinite: u64,
    /// Lines for elements that have a line already; they are added up.
    pub added: u64,
}

impl Losses {
    /// Converts a number, and counts it if it becomes infinite.
    pub fn convert<T: Scalar>(&mut self, value: Complex64) -> T {
        let element = T::of(value);
        self.infinite += u64::from(value.is_finite() && !element.value().is_finite());
        element
    }

    /// Counts an integer that no element of `T` equals.
    pub fn note_integer<T: Scalar>(&mut self, integer: i128) {
        let held = T::of(Complex64::new(integer as f64, 0.0)).value().re;
        self.rounded += u64::from(held as i128 != integer);
    }

    /// Returns the larger counts of two readings of the same numbers.
    pub fn max(self, other: Self) -> Self {
        Self {
            rounded: self.rounded.max(other.rounded),
            infinite: self.infinite.max(other.infinite),
            added: self.added.max(other.added),
        }
    }

    /// Returns the sum over all ranks.
    ///
    /// # Errors
    /// See [`Comm::sum_u64`].
    ///
    /// # Collective
    /// All ranks.
    pub fn sum(self, comm: &dyn Comm) -> Result<Self, Error> {
        let mut counts = [self.rounded, self.infinite, self.added];
        comm.sum_u64(&mut counts)?;
        let [rounded, infinite, added] = counts;
        Ok(Self { rounded, infinite, added })
    }

    /// Says what was lost in a matrix of this type.
    pub fn describe(self, path: &Path, element: ElementType) -> Option<String> {
        let path = show_path(path);
        let told: Vec<String> = [
            (
                self.rounded,
                ["integer was", "integers were"],
                "rounded",
                format!("not held by {element}"),
            ),
            (
                self.infinite,
                ["number became", "numbers became"],
                "infinite",
                format!("beyond the range of {element}"),
            ),
            (
                self.added,
                ["line was", "lines were"],
                "added to others",
                "for places that have a line already".to_owned(),
            ),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, [one, several], became, reason)| {
            let what = if count == 1 { one } else { several };
            format!("{count} {what} {became} ({reason})")
        })
        .collect();
        (!told.is_empty()).then(|| format!("{path}: {}", told.join("; ")))
    }
}

impl Add for Losses {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rounded: self.rounded + other.rounded,
            infinite: self.infinite + other.infinite,
            added: self.added + other.added,
        }
    }
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
