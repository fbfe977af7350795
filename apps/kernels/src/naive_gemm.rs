//! A product of matrices as everybody first writes it.

use crate::Multiply;
use isochron_devices::{View, ViewMut};
use isochron_kernel::{Interrupt, KernelError};

/// Three loops over all elements, without blocks for the caches: its speed falls where the matrices leave a cache.
///
/// # References
/// Clarke's thesis, figure 3.1 (the speed of the Netlib BLAS, which was not optimised).
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
            for (i, element) in c.col_mut(j).iter_mut().enumerate() {
                for (l, b) in b.col(j).iter().enumerate() {
                    *element += a.col(l)[i] * b;
                }
            }
        }
        Ok(())
    }
}
