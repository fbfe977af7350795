//! Checks of matrices against a plan.

use isochron_devices::Scalar;

use crate::comm::{Settings, add_fields, add_long, add_setting};
use crate::error::Error;
use crate::matrix::{HeldMatrix, Spread};
use crate::plan::Plan;

/// Describes the plan and the type of the elements, as ranks compare them.
pub(crate) fn describe_multiplication<T: Scalar>(plan: &Plan) -> Settings {
    let mut settings = Settings::new();
    add_fields(&mut settings, plan.problem());
    add_long(&mut settings, "plan", "a plan", plan);
    add_setting(&mut settings, "element", &T::TYPE);
    settings
}

/// Checks that the plan is for elements of this type.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn check_element<T: Scalar>(plan: &Plan) -> Result<(), Error> {
    let (planned, found) = (plan.problem().element(), T::TYPE);
    if planned == found {
        return Ok(());
    }
    let reason = format!("the plan is for matrices of {planned}, and these are of {found}");
    Err(Error::Shape(reason))
}

/// Checks that A and B are spread as the plan says.
///
/// # Errors
/// [`Error::Shape`].
pub(super) fn check_factors<T: Scalar>(
    plan: &Plan,
    (a, b): (&HeldMatrix<'_, T>, &HeldMatrix<'_, T>),
    rank: usize,
) -> Result<(), Error> {
    check_part("A", a, &plan.a(), rank)?;
    check_part("B", b, &plan.b(), rank)
}

/// Checks that a matrix is spread as the plan says.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn check_part<T: Scalar>(
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
