//! Products for which cuBLAS finds no memory: they are computed in parts.
//!
//! cuBLAS may take a workspace in addition to the operands, larger for larger products, from the GPU memory that jobs
//! leave free. If other programs have taken that memory, the call returns `CUBLAS_STATUS_ALLOC_FAILED`: a failed
//! resource allocation (cuBLAS documentation, `cublasStatus_t`), before any kernel is launched. Queued work may hold
//! such memory too, so it is waited for. Then the two halves of the product are tried, and their halves: the longer
//! side of C is halved until both sides are short, and then the inner dimension. A product that cannot be halved any
//! more is an error.

use super::blas::GemmProduct;
use super::check::CallResult;
use super::gpu::OpenGpu;
use crate::contract::Scalar;

/// The shortest side of a part: the workspace of a smaller product would hardly be smaller.
const LEAST: usize = 8;

impl OpenGpu {
    /// Queues the product, in parts if cuBLAS finds no memory for the whole.
    ///
    /// # Safety
    /// As [`BlasHandle::multiply`](super::blas::BlasHandle::multiply).
    pub unsafe fn multiply<T: Scalar>(
        &mut self,
        alpha: T,
        product: &GemmProduct,
    ) -> CallResult<()> {
        // SAFETY: by this function's contract.
        let refused = match unsafe { self.blas.multiply(alpha, product) } {
            Err(error) if error.is_out_of_memory() => error,
            done => return done,
        };
        let halves = product.split_in_half::<T>().ok_or(refused)?;
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

impl GemmProduct {
    /// Cuts the product into two that compute it together; `None` if it is too small.
    fn split_in_half<T>(&self) -> Option<[Self; 2]> {
        let [mut first, mut behind] = [*self; 2];
        if self.m >= self.n && self.m >= 2 * LEAST {
            first.m /= 2;
            behind.m -= first.m;
            behind.a = self.a.at::<T>(first.m, 0);
            behind.c = self.c.at::<T>(first.m, 0);
        } else if self.n >= 2 * LEAST {
            first.n /= 2;
            behind.n -= first.n;
            behind.b = self.b.at::<T>(0, first.n);
            behind.c = self.c.at::<T>(0, first.n);
        } else if self.k >= 2 * LEAST {
            first.k /= 2;
            behind.k -= first.k;
            behind.a = self.a.at::<T>(0, first.k);
            behind.b = self.b.at::<T>(first.k, 0);
        } else {
            return None;
        }
        Some([first, behind])
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::DevicePlace;
    use super::*;
    use proptest::prelude::*;

    /// Returns the parts that cannot be halved.
    fn split_fully(product: GemmProduct) -> Vec<GemmProduct> {
        match product.split_in_half::<f32>() {
            None => vec![product],
            Some(halves) => halves.into_iter().flat_map(split_fully).collect(),
        }
    }

    /// Returns row and column of a place in a matrix at address 0.
    fn element_at(place: DevicePlace) -> (usize, usize) {
        let at = place.address as usize / size_of::<f32>();
        (at % place.ld, at / place.ld)
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(m in 1usize..80, n in 1usize..80, k in 1usize..80) {
            let [a, b, c] = [m + 1, k + 2, m].map(|ld| DevicePlace { address: 0, ld });
            let whole = GemmProduct { m, n, k, a, b, c };
            let mut seen = vec![0; m * n * k];
            for part in split_fully(whole) {
                for (side, all) in [(part.m, m), (part.n, n), (part.k, k)] {
                    prop_assert!((LEAST.min(all)..2 * LEAST).contains(&side));
                }
                let ((i, p), (row, j)) = (element_at(part.a), element_at(part.c));
                prop_assert_eq!((i, element_at(part.b)), (row, (p, j)));
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
