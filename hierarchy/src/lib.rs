//! Performance models, partitioners, layouts and the algorithms that balance work over unlike nodes
//! and devices. Everything here is pure: no message passing, no hardware, no clock, no files, no
//! threads. Times go in, divisions come out.
//!
//! * [`model`]: how fast a device is. [`PiecewiseFpm`](model::PiecewiseFpm) learns speed as
//!   a function of problem size from measured [`Point`](model::Point)s, [`Cpm`](model::Cpm) is the
//!   constant it replaces, [`ModelFile`](model::ModelFile) the text they are kept in;
//!   [`Fit`](model::Fit) chooses among the models.
//! * [`partition`]: how many units each device gets. [`gpa`](partition::gpa()) equalises the times of
//!   [`SpeedModel`](model::SpeedModel)s, [`npa`](partition::npa()) does so numerically,
//!   [`proportional`](partition::proportional()) equalises those of constant speeds;
//!   [`hpopta`](partition::hpopta()) minimises the largest time of
//!   [`TimeFunction`](model::TimeFunction)s of any shape.
//! * [`layout`]: where each node's rectangle lies. [`br`](layout::br()) arranges areas into
//!   a [`Layout`](layout::Layout) of little communication; [`Method`](layout::Method) names the other
//!   ways, of which [`corner`](layout::corner()) makes [`Zones`](layout::Zones) that may be L-shaped.
//! * [`balance`]: what to measure next, and when to stop. [`Inpa`](balance::Inpa) balances nodes,
//!   [`Idpa`](balance::Idpa) the devices of a node, both by way of [`Dpa`](balance::Dpa).
//!
//! # Example
//! Two devices, of which the second runs out of memory at 600 units. Equal times come out after
//! a few measurements, although no constant describes it:
//! ```
//! use isochron_hierarchy::balance::{BalanceConfig, Dpa, Observation, Step};
//!
//! fn measure(device: usize, units: u64) -> Observation {
//!     let d = units as f64;
//!     let t_s = match device {
//!         0 => d / 100.0,
//!         _ => d / 400.0 + (d - 600.0).max(0.0) / 20.0,
//!     };
//!     Observation { t_s, reps: 3, ci_s: 0.0 }
//! }
//!
//! let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
//! let balanced = loop {
//!     match dpa.step() {
//!         Step::Done(balanced) => break balanced,
//!         Step::Measure(units) => {
//!             let times: Vec<_> = (0..).zip(&units).map(|(i, &d)| measure(i, d)).collect();
//!             dpa.observe(&units, &times)?;
//!         }
//!     }
//! };
//! assert!(balanced.converged && balanced.imbalance <= 0.05);
//! assert_eq!(balanced.units.iter().sum::<u64>(), 1000);
//! # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
//! ```
//!
//! # References
//! The papers that the documentation cites:
//! * *Clarke's thesis*: D. Clarke, "Design and Implementation of Parallel Algorithms for Modern
//!   Heterogeneous Platforms Based on the Functional Performance Model", University College Dublin.
//! * *Clarke et al. 2012*: D. Clarke, A. Ilic, A. Lastovetsky, L. Sousa, "Hierarchical Partitioning
//!   Algorithm for Scientific Computing on Highly Heterogeneous CPU + GPU Clusters", Euro-Par.
//! * *Beaumont, Boudet, Rastello and Robert 2001*: "Matrix Multiplication on Heterogeneous Platforms",
//!   IEEE Transactions on Parallel and Distributed Systems 12(10).
//! * *Lastovetsky and Reddy 2007*: "Data Partitioning with a Functional Performance Model of
//!   Heterogeneous Processors", International Journal of High Performance Computing Applications
//!   21(1).
//! * *Lastovetsky and Reddy 2017*: "New Model-Based Methods and Algorithms for Performance and Energy
//!   Optimization of Data Parallel Applications on Homogeneous Multicore Clusters", IEEE Transactions
//!   on Parallel and Distributed Systems 28(4).
//! * *Khaleghzadeh, Reddy and Lastovetsky*: "A Novel Data-Partitioning Algorithm for Performance
//!   Optimization of Data-Parallel Applications on Heterogeneous HPC Platforms", IEEE Transactions on
//!   Parallel and Distributed Systems, and its supplement.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test that cannot go on panics"
    )
)]

pub mod balance;
pub mod layout;
pub mod model;
pub mod partition;
