//! What most programs need, for `use isochron::prelude::*`.

#[doc(inline)]
pub use isochron_core::prelude::*;

pub use crate::comm::connect;
#[cfg(feature = "mpi")]
pub use crate::comm::mpi::MpiComm;
