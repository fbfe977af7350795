//! Properties of the models, partitioners, layouts and balancing machines.
//!
//! One test program, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

mod balance;
mod claims;
mod dahu;
mod endings;
mod fits;
mod golden;
mod health;
mod hpopta;
mod layouts;
mod learn;
mod learning;
mod model;
mod network;
mod npa;
mod partition;
mod points_file;
mod rebalance;
mod simulation;
mod surface_file;
