//! The contracts of devices and libraries, and the plain data that they speak of.
//!
//! [`Worker`] and [`Updates`] are a device; [`Blas`] multiplies under one. [`View`]s are the matrices, [`Scalar`]s their
//! elements. Implementations lie in the modules of their hardware, and pass the tests of `conformance`.

mod blas;
mod clock;
pub mod conformance;
mod element;
mod error;
mod view;
mod worker;

pub use blas::{Blas, BlasGemm, ReservedThreads};
pub use clock::DeviceClock;
pub use element::Scalar;
pub use error::{DeviceError, ForkedChild};
pub use isochron_hierarchy::problem::ElementType;
pub use view::{MatrixView, View, ViewMut, leading_dimension};
pub use worker::{
    Depth, DeviceInfo, DeviceKind, JobCheck, JobNeeds, JobShape, PanelPair, ThreadPlace,
    UpdateTime, Updates, Worker,
};

pub(crate) use view::even_widths;
pub(crate) use worker::check_size;
