//! The types of elements that are multiplied.

use isochron_devices::{DeviceTeam, Scalar};
use num_complex::{Complex32, Complex64};

use super::director::TimedDirector;
use super::summa::Summa;
use super::{Execution, RunMemory};
use crate::error::Error;
use crate::matrix::HeldMatrix;
use crate::plan::Plan;

/// A type of elements that are multiplied: `f32`, `f64`, and complex numbers of them.
///
/// The multiplication is compiled for each of them in this crate, and not again in every program that uses it.
pub trait Element: Scalar + Compiled {}

/// Functions that this crate compiles for each type of elements. No other crate can name the trait.
pub trait Compiled: Sized + 'static {
    /// Calls [`RunMemory::make`].
    fn make(
        memory: &mut RunMemory<Self>,
        team: &mut DeviceTeam,
        plan: &Plan,
        rank: usize,
    ) -> Result<(), Error>;

    /// Calls [`RunMemory::renew`].
    fn renew(
        memory: &mut RunMemory<Self>,
        team: &mut DeviceTeam,
        plan: &Plan,
        rank: usize,
    ) -> Result<(), Error>;

    /// Calls [`Summa::multiply`].
    fn multiply<'a>(
        summa: Summa<'a, '_, '_, Self>,
        timed: Option<TimedDirector<'a>>,
        is_in_step: bool,
        memory: &mut RunMemory<Self>,
        c: &mut HeldMatrix<'_, Self>,
    ) -> Result<Execution, Error>;
}

macro_rules! compile {
    ($($element:ty)*) => {
        $(
            impl Element for $element {}

            impl Compiled for $element {
                fn make(
                    memory: &mut RunMemory<Self>,
                    team: &mut DeviceTeam,
                    plan: &Plan,
                    rank: usize,
                ) -> Result<(), Error> {
                    memory.make(team, plan, rank)
                }

                fn renew(
                    memory: &mut RunMemory<Self>,
                    team: &mut DeviceTeam,
                    plan: &Plan,
                    rank: usize,
                ) -> Result<(), Error> {
                    memory.renew(team, plan, rank)
                }

                fn multiply<'a>(
                    summa: Summa<'a, '_, '_, Self>,
                    timed: Option<TimedDirector<'a>>,
                    is_in_step: bool,
                    memory: &mut RunMemory<Self>,
                    c: &mut HeldMatrix<'_, Self>,
                ) -> Result<Execution, Error> {
                    summa.multiply(timed, is_in_step, memory, c)
                }
            }
        )*
    };
}

compile!(f32 f64 Complex32 Complex64);
