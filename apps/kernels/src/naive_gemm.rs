//! A product of matrices by three loops, as the reference BLAS has it.

use crate::Multiply;
use isochron_devices::{View, ViewMut};
use isochron_kernel::{Interrupt, KernelError};

/// Adds a multiple of a column of A to a column of C, without blocks for the caches: its speed falls where A leaves a cache.
///
/// # References
/// Clarke's thesis, figure 3.1 (the speed of the Netlib BLAS, which is not optimised).
#[derive(Debug, Clone, Copy, Default)]
pub struct NaiveGemm;

impl Multiply for NaiveGemm {
    fn multiply(
        &self,
        a: View<'_, f64>,
        b: View<'_, f64>,
        mut c: ViewMut<'_, f64>,
        interrupt: &Interrupt,
    ) -> Result<(), KernelError> {
        for j in 0..c.cols() {
            interrupt.check()?;
            for (l, b) in b.col(j).iter().enumerate() {
                for (element, a) in c.col_mut(j).iter_mut().zip(a.col(l)) {
                    *element += a * b;
                }
            }
        }
        Ok(())
    }
}
