//! Parts of the campaigns that stand on their own.
//!
//! * Instances of growing size for the algorithms of `isochron-hierarchy`, which the campaign `algorithms` solves.
//!   [`Algorithm`] names them, [`instances`] makes the devices.
//! * [`yardsticks`]: NVIDIA's own copies and products, for the campaign `gpu` and for tests.

mod algorithm;
pub mod instances;
pub mod yardsticks;

pub use algorithm::{Algorithm, Instance};
