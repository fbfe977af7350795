//! Instances of growing size for the algorithms of `isochron-hierarchy`: what the campaign `algorithms` and
//! the benches of the same name solve. [`Algorithm`] names them, [`instances`] makes the devices.

#![forbid(unsafe_code)]

mod algorithm;
pub mod instances;
#[path = "../../hierarchy/tests/simulated/mod.rs"]
pub mod simulated;

pub use algorithm::{Algorithm, Instance};
