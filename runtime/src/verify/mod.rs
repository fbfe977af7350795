//! Checks of a result that cost a fraction of the multiplication and need no reference.
//!
//! Both checks multiply the result by a random vector, as Freivalds' algorithm does. If `C = alpha·A·B + beta·C0`, then
//! `C·x = alpha·A·(B·x) + beta·(C0·x)`, and the right side takes `O(mk + kn + mn)` operations. [`Probe`] computes in
//! floating point and compares with what rounding reaches. [`Exact`] computes in whole numbers modulo a prime, for matrices
//! with an exact product. A check begins before the multiplication, which overwrites C. Then it is given A and B, whole
//! or in parts of k. It finishes after the multiplication.
//!
//! # References
//! Freivalds, "Probabilistic machines can use less running time", IFIP 1977.

mod exact;
mod probe;

pub use exact::Exact;
pub(crate) use probe::count_bytes;
pub use probe::{Probe, Recall, TakeFactors};

use isochron_devices::Scalar;

use crate::comm::{CollectiveCall, Comm, EnteredCall};
use crate::error::Error;
use crate::matrix::Operand;
use crate::matrix::scalars::Scalars;

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// `Some(true)` if the result passed, and `Some(false)` if it is wrong. `None` if the check cannot tell: treat such a result
    /// as a wrong one.
    pub passed: Option<bool>,
    /// The reason why the check cannot tell.
    pub doubt: Option<String>,
    /// Largest residual in units of its bound, or error of an element where the residual was above it. It is at most 1 if the
    /// result passed, and 0 or infinite for an exact check.
    pub residual: f64,
    /// Smallest error of one element of its row's typical size that a [`Probe`] finds in every row. It is a part of the mean
    /// magnitude of the row's elements, in groups of columns, each scaled by its norm. `None` for an exact check, which finds
    /// any error, and for a result that is not finite.
    pub finds: Option<f64>,
}

/// Seed of the probe vectors, to be mixed with the caller's.
const SEED: u64 = 0x15_0c_48_20;

/// Enters a call that adds factors to a check of a matrix of these rows and columns, with this seed and these scalars.
///
/// # Errors
/// On every rank, returns [`Error::Settings`], and [`Error::Shape`] for factors of another product.
///
/// # Collective
/// All ranks.
fn enter_factors<'c, T: Scalar>(
    comm: &'c dyn Comm,
    name: &'static str,
    seed: u64,
    scalars: Scalars<T>,
    [a, b]: [&Operand<'_, T>; 2],
    rows: usize,
    cols: usize,
) -> Result<EnteredCall<'c>, Error> {
    let call = CollectiveCall::new(comm, name)
        .with("seed", &seed)
        .with_settings(scalars.describe())
        .with("A", &(a.rows(), a.cols()))
        .with("B", &(b.rows(), b.cols()))
        .enter()?;
    if (a.rows(), b.cols()) == (rows, cols) && a.cols() == b.rows() {
        return Ok(call);
    }
    let [a, b] = [a, b].map(|x| format!("{}×{}", x.rows(), x.cols()));
    let reason = format!("op(A) is {a}, op(B) is {b}, and the checked C is {rows}×{cols}");
    Err(Error::Shape(reason))
}
