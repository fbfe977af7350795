//! Checks of matrices against a plan.

use isochron_devices::Scalar;

use crate::error::Error;
use crate::matrix::{HeldMatrix, Spread};
use crate::plan::Plan;

/// Checks that the plan is for elements of this type.
///
/// # Errors
/// Returns [`Error::Shape`].
pub(super) fn check_element<T: Scalar>(plan: &Plan) -> Result<(), Error> {
    let (planned, found) = (plan.problem().element(), T::TYPE);
    if planned == found {
        return Ok(());
    }
    let reason = format!("the plan is for matrices of {planned}, and these are of {found}");
    Err(Error::Shape(reason))
}

/// Checks that a matrix is spread as the plan says.
///
/// # Errors
/// Returns [`Error::Shape`].
pub(super) fn check_part<T: Scalar>(
    name: &str,
    matrix: &HeldMatrix<'_, T>,
    wanted: &Spread,
    rank: usize,
) -> Result<(), Error> {
    let found = matrix.spread();
    let shape = (found.rows(), found.cols());
    if shape == (wanted.rows(), wanted.cols()) && matrix.part() == wanted.part(rank) {
        return Ok(());
    }
    let reason = format!("matrix {name} is not spread as the plan says");
    Err(Error::Shape(reason))
}
