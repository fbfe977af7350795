//! The sum of the ranks' contributions to the same C.
//!
//! Every rank that holds a rectangle of C receives it directly from each rank that computed, so each element travels once
//! from every rank but its holder. The holder adds the contributions in the order of the ranks, not of arrival, so every
//! run gives the same result. The elements travel in rounds, which bounds the memory under way.

use isochron_devices::Scalar;

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::redistribute::{Moved, Movement};
use crate::matrix::{HeldMatrix, Order};
use crate::plan::Plan;
use crate::plan::reduction::plan_sum;

/// Adds all ranks' contributions to C to the rectangles in `c`. `partial` is this rank's contribution: all of C, or empty
/// if it computed nothing.
///
/// # Errors
/// Returns [`Error::Allocation`] on every rank.
///
/// # Collective
/// All ranks, with the same plan, which splits k.
pub(super) fn sum_c<T: Scalar>(
    comm: &dyn Comm,
    plan: &Plan,
    partial: &HeldMatrix<'_, T>,
    c: &mut HeldMatrix<'_, T>,
) -> Result<Moved, Error> {
    let (contributions, spread, rounds) = plan_sum(plan);
    let movement = Movement::in_rounds(comm, &contributions, &spread, Order::Columns, rounds);
    let mut movement = agree(comm, movement)?;
    movement.run(comm, partial.local(), c.local_mut(), &|sum, value| {
        *sum = *sum + value;
    })
}
