//! Products for which cuBLAS finds no memory: they are computed in parts.
//!
//! cuBLAS may want a workspace besides the operands, more for larger products, and takes it from what jobs leave free of the
//! GPU's memory. When others have taken that, the call returns `CUBLAS_STATUS_ALLOC_FAILED`: a failed resource
//! allocation (cuBLAS documentation, `cublasStatus_t`), which comes before any kernel is launched. What was queued before may hold such memory too, so it is waited for; then the halves of the product are tried, and theirs:
//! the longer side of C is halved until both are short, and then the inner dimension. A product that cannot be halved any
//! more is an error.

use super::blas::Product;
use super::check::Outcome;
use super::engine::Engine;
use crate::Element;

/// No side is made shorter: there is no smaller workspace to hope for.
const LEAST: usize = 8;

impl Engine {
    /// Queues the product, in parts where cuBLAS finds no memory for the whole.
    ///
    /// # Safety
    /// As [`BlasHandle::multiply`](super::blas::BlasHandle::multiply).
    pub(super) unsafe fn multiply<T: Element>(
        &mut self,
        alpha: T,
        product: &Product,
    ) -> Outcome<()> {
        // SAFETY: by this function's contract.
        let refused = match unsafe { self.blas.multiply(alpha, product) } {
            Err(error) if error.is_out_of_memory() => error,
            done => return done,
        };
        let halves = product.halves::<T>().ok_or(refused)?;
        if !self.multiplies_parts {
            self.multiplies_parts = true;
            tracing::warn!(
                device = self.name,
                error = %refused.on(&self.name),
                m = product.m,
                n = product.n,
                k = product.k,
                "memory was refused: trying smaller products"
            );
        }
        self.lanes.compute.synchronize()?;
        for half in &halves {
            // SAFETY: by this function's contract, which holds for parts of the matrices too.
            unsafe { self.multiply(alpha, half) }?;
        }
        Ok(())
    }
}

impl Product {
    /// Two products that are this one together; `None` when it is too small.
    fn halves<T>(&self) -> Option<[Self; 2]> {
        let Self { m, n, k, a, b, c } = *self;
        let half = |whole: usize| (whole / 2, whole - whole / 2);
        if m >= n && m >= 2 * LEAST {
            let (first, rest) = half(m);
            let behind = Self {
                m: rest,
                a: a.at::<T>(first, 0),
                c: c.at::<T>(first, 0),
                ..*self
            };
            return Some([Self { m: first, ..*self }, behind]);
        }
        if n >= 2 * LEAST {
            let (first, rest) = half(n);
            let behind = Self {
                n: rest,
                b: b.at::<T>(0, first),
                c: c.at::<T>(0, first),
                ..*self
            };
            return Some([Self { n: first, ..*self }, behind]);
        }
        if k >= 2 * LEAST {
            let (first, rest) = half(k);
            let behind = Self {
                k: rest,
                a: a.at::<T>(0, first),
                b: b.at::<T>(first, 0),
                ..*self
            };
            return Some([Self { k: first, ..*self }, behind]);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::staging::Place;
    use super::*;
    use proptest::prelude::*;

    /// The parts that cannot be halved.
    fn parts(product: Product) -> Vec<Product> {
        match product.halves::<f32>() {
            None => vec![product],
            Some(halves) => halves.into_iter().flat_map(parts).collect(),
        }
    }

    /// Row and column of a place in a matrix at address 0.
    fn element(place: Place) -> (usize, usize) {
        let at = place.address as usize / size_of::<f32>();
        (at % place.ld, at / place.ld)
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(m in 1usize..80, n in 1usize..80, k in 1usize..80) {
            let place = |ld| Place { address: 0, ld };
            let whole = Product { m, n, k, a: place(m + 1), b: place(k + 2), c: place(m) };
            let mut seen = vec![0; m * n * k];
            for part in parts(whole) {
                for (side, all) in [(part.m, m), (part.n, n), (part.k, k)] {
                    prop_assert!((LEAST.min(all)..2 * LEAST).contains(&side));
                }
                let ((i, p), (row, j)) = (element(part.a), element(part.c));
                prop_assert_eq!((i, element(part.b)), (row, (p, j)));
                for j in j..j + part.n {
                    for i in i..i + part.m {
                        for p in p..p + part.k {
                            seen[(j * m + i) * k + p] += 1;
                        }
                    }
                }
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
        }
    }
}
