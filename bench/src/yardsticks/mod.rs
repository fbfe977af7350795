//! Yardsticks of the campaigns of a GPU: NVIDIA's own copies of pinned memory, and its own product of matrices in host
//! memory.
//!
//! Nothing of Isochron computes with them. They call the CUDA driver and cuBLAS directly, through the libraries that
//! `isochron-devices` opens at run time.

mod copies;
mod foreign;
mod pinned;
mod xt;

pub use copies::{PinnedCopies, time_pinned_copies};
pub use pinned::{BoundContext, PinnedVec};
pub use xt::BlasXt;
