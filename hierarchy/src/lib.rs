//! Performance models, partitioners, layouts and the algorithms that balance work over unlike nodes and
//! devices. The crate is pure: no message passing, no hardware, no clock, no files, no threads. It takes
//! times and returns divisions.
//!
//! * [`times`]: samples of times, and their statistics.
//! * [`model`]: the speed of a device as a function of problem size, from measured
//!   [`Point`](model::Point)s.
//! * [`partition`]: the units of each device.
//! * [`layout`]: the rectangle of each node.
//! * [`predict`]: the cost of a division in messages, and the cheapest way to divide.
//! * [`learn`]: the next division while the work is done, whose steps are the measurements.
//! * [`rebalance`]: the next division of a program's own loop, and whether it pays to change to it.
//! * [`balance`]: the next measurement, and the end of measuring. [`Inpa`](balance::Inpa) balances nodes
//!   and [`Idpa`](balance::Idpa) the devices of a node, both by [`Dpa`](balance::Dpa).
//! * [`decide`]: the division of a multiplication among nodes.
//! * [`health`]: the devices that are slower than those like them, and the likely cause.
//!
//! # Examples
//! From measured points to a partition, in one call:
//! ```
//! use isochron_hierarchy::{SplitOptions, split};
//!
//! let slow: &[(u64, f64)] = &[(100, 1.0), (400, 4.1)]; // units and seconds
//! let fast: &[(u64, f64)] = &[(100, 0.3), (400, 1.2)];
//! let parts = split(1000, &[slow, fast], &SplitOptions::default())?;
//! assert_eq!(parts.units.iter().sum::<u64>(), 1000);
//! assert!(parts.units[1] > 3 * parts.units[0]);
//! # Ok::<(), isochron_hierarchy::partition::PartitionError>(())
//! ```
//!
//! Two devices, of which the second runs out of memory at 600 units. A few measurements lead to equal
//! times, although no constant speed describes the second device:
//! ```
//! use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Dpa};
//! use isochron_hierarchy::times::Sample;
//!
//! fn measure(device: usize, units: u64) -> Sample {
//!     let d = units as f64;
//!     let t_s = match device {
//!         0 => d / 100.0,
//!         _ => d / 400.0 + (d - 600.0).max(0.0) / 20.0,
//!     };
//!     Sample::measured(units, t_s, 3, 0.0)
//! }
//!
//! let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
//! let balanced = loop {
//!     match dpa.step() {
//!         BalanceStep::Done(balanced) => break balanced,
//!         BalanceStep::Measure(units) => {
//!             let times: Vec<_> = (0..).zip(&units).map(|(i, &d)| measure(i, d)).collect();
//!             dpa.observe(&times)?;
//!         }
//!     }
//! };
//! assert!(balanced.converged && balanced.imbalance <= 0.05);
//! assert_eq!(balanced.units.iter().sum::<u64>(), 1000);
//! # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
//! ```
//!
//! # When to use which
//! Notation: `k` points of a model or sizes of a time function, `p` devices or nodes, `D` units.
//!
//! **Models** of measured points. A speed costs `O(log k)` unless the table says otherwise.
//!
//! | model | assumes | when |
//! |---|---|---|
//! | [`Cpm`](model::Cpm) | one speed at every size; costs `O(1)` | there is only one measurement, or sizes hardly change |
//! | [`PiecewiseFpm`](model::PiecewiseFpm) | the speed rises concavely, then falls; points that contradict it are left out | the default: balancing by few and noisy points, cliffs included |
//! | [`PiecewiseTime`](model::PiecewiseTime) | the time increases | speeds with valleys and steps, start-up costs |
//! | [`AkimaFpm`](model::AkimaFpm) | a smooth speed of any shape | [`npa`](partition::npa()), which needs slopes; little noise |
//! | [`Polyline`](model::Polyline) | nothing: a line through every point | to replay, plot and compare |
//! | [`TimeFunction`](model::TimeFunction) | nothing, not even between its sizes; sizes may be missing | load imbalancing |
//! | [`Surface`](model::Surface) | speed is linear along either side of a cell; `O(log k)` on a grid, else `O(k)` | height and width of a rectangle matter, not only its area |
//!
//! **Partitioners.** [`split`] fits models to points and divides by `gpa`, `npa` or `hpopta`, under limits
//! and in granules: the first choice of a program that has measured times. The first five make all devices finish together.
//!
//! | partitioner | input | assumes | cost | when |
//! |---|---|---|---|---|
//! | [`even`](partition::even()) | nothing | like devices | `O(p)` | nothing is known |
//! | [`proportional`](partition::proportional()) | a speed each | constant speeds | `O(p log p)` | speeds hardly depend on the size |
//! | [`gpa`](partition::gpa()) | speed functions | times increase | a few evaluations of every model, `O(p log p)` | the default; the exact optimum of whole units |
//! | [`npa`](partition::npa()) | speed functions with slopes | smooth functions; else `gpa` decides | a few evaluations of every model and of its slope, `O(p log p)` | splines; their times may also fall |
//! | [`continuous`](partition::continuous()) | speed functions | times increase | a few evaluations of every model | real-valued shares: a bound for all others |
//! | [`hpopta`](partition::hpopta()) | time functions, limits | nothing | `O(p k²)` bit operations, 64 at once, if sizes are dense; at worst `O(p k D)`, a few times over | rugged functions: the optimum need not be balanced |
//! | [`popta`](partition::popta()) | one time function | like devices | as `hpopta`, the function sorted once | the same for like devices |
//! | [`hipopta`](partition::hipopta()) | the time functions of one node | like nodes of unlike devices | for the node's own function `O(c k M)`, `c` its devices and `M` its largest load; then as `popta` | the same for like nodes |
//! | [`hpopta_search`](partition::hpopta_search()) | as `hpopta` | nothing | grows exponentially at worst; ends at a limit | only to compare with the published algorithm |
//!
//! **Layouts** of `p` areas, unless the table says otherwise. A layout that communicates less has
//! a smaller sum of half-perimeters.
//!
//! | layout | input | assumes | cost | when |
//! |---|---|---|---|---|
//! | [`br`](layout::br()) | areas | rectangles in columns | `O(p log p)` | the default: the least communication that columns allow |
//! | [`kl`](layout::kl()) | areas, a given grid | the grid is good | `O(p log p)` | nodes have places that must be kept |
//! | [`cartesian`](layout::cartesian()) | areas, a [rule](layout::GridRule) | one neighbour to each side; areas are approximate | `O(p)` a turn for each grid compared | a library that wants a grid |
//! | [`recursive`](layout::recursive()) | areas | rectangles | `O(p log² p)` unless areas fall off fast | areas of unlike sizes, if columns are long and thin |
//! | [`slice_cols`](layout::slice_cols()), [`slice_rows`](layout::slice_rows()) | whole sizes | one dimension | `O(p)` | the devices of a node |
//! | [`fpm_br`](layout::fpm_br()) | speed functions of the area | the shape hardly matters | `gpa` and `br` | models and a matrix, nothing else |
//! | [`fpm_kl`](layout::fpm_kl()) | speed functions of height and width, a given grid | sections as `gpa` wants them; need not settle | a `gpa` for each column in each iteration | speed depends on the shape |
//! | [`repair`](layout::repair()) | a layout in columns, times | nothing | `O(p)` evaluations a block moved | afterwards, if one block more or less matters |
//!
//! # References
//! The papers that the documentation cites:
//! * *The report*, or *Alonso, Reddy and Lastovetsky 2009*: "Experimental Study of Six Different Parallel
//!   Matrix-Matrix Multiplication Applications for Heterogeneous Computational Clusters of Multicore
//!   Processors", University College Dublin, UCD-CSI-2009-2.
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
//!   Optimization of Data Parallel Applications on Homogeneous Multicore Clusters". IEEE Transactions
//!   on Parallel and Distributed Systems 28(4).
//! * *Khaleghzadeh, Reddy and Lastovetsky*: "A Novel Data-Partitioning Algorithm for Performance
//!   Optimization of Data-Parallel Applications on Heterogeneous HPC Platforms", IEEE Transactions on
//!   Parallel and Distributed Systems, and its supplement.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")
)]

pub mod balance;
pub mod decide;
pub mod health;
pub mod layout;
pub mod learn;
pub mod model;
pub mod network;
pub mod partition;
pub mod predict;
pub use isochron_base::printable;
pub mod problem;
pub mod rebalance;
pub mod times;

pub use partition::{SplitOptions, split};
