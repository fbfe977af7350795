//! Parts of the campaigns that benches and tests use too.
//!
//! * Instances of growing size for the algorithms of `isochron-hierarchy`, which the campaign `algorithms` and the benches of
//!   the same name solve. [`Algorithm`] names them, [`instances`] makes the devices.
//! * [`yardsticks`]: NVIDIA's own copies and products, for the campaign `gpu`.

mod algorithm;
pub mod instances;
#[path = "../../hierarchy/tests/properties/simulated/mod.rs"]
pub mod simulated;
pub mod yardsticks;

pub use algorithm::{Algorithm, Instance};
