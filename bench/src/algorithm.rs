//! The timed algorithms with their instances.

use std::hint::black_box;

use isochron_hierarchy::layout::br;
use isochron_hierarchy::model::{AkimaFpm, PiecewiseFpm, SpeedModel, TimeFunction};
use isochron_hierarchy::partition::{
    Partition, PartitionError, SearchOutcome, gpa, hpopta, hpopta_search, npa,
};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use crate::instances::{self, POINTS, make_models};
use isochron_support::simulated::SimulatedCluster;

/// Units of each device on average, where the models have no end.
const UNITS_EACH: u64 = 10_000;

/// Sizes of each time function in the load imbalancing, and its largest instance: devices and units.
const SIZES: u64 = 1000;
const DEVICES: usize = 768;
const UNITS: u64 = 100_000;

/// Kinds of devices in the instances with few kinds.
const KINDS: usize = 4;

/// Steps after which the published search gives up.
const WORK_LIMIT: u64 = 20_000_000;

/// Devices of each node in the simulation.
const DEVICES_EACH: usize = 5;

/// An algorithm with its kind of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Algorithm {
    /// The geometric partitioning algorithm, on piecewise linear speed functions.
    Gpa,
    /// The numerical partitioning algorithm, on splines.
    Npa,
    /// The arrangement in columns.
    Br,
    /// Exact load imbalancing of rugged functions, all different.
    Hpopta,
    /// Exact load imbalancing of devices of four kinds.
    HpoptaKinds,
    /// The published search, on the same functions, all different.
    HpoptaSearch,
    /// INPA over IDPA on a simulated cluster, the simulation included.
    Inpa,
}

/// Solves a problem once, and can do it again. It returns `false` if the algorithm gave up: at the work limit, or
/// without a balance.
pub type Instance = Box<dyn Fn() -> anyhow::Result<bool>>;

impl Algorithm {
    /// Describes the instances for readers of the results.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Gpa => {
                format!(
                    "GPA: {POINTS} points a device, piecewise linear, {UNITS_EACH} units a device"
                )
            }
            Self::Npa => {
                format!("NPA: {POINTS} points a device, Akima splines, {UNITS_EACH} units a device")
            }
            Self::Br => "BR: areas that differ by up to 100".to_owned(),
            Self::Hpopta => format!(
                "HPOPTA, exact: {SIZES} sizes a device, rugged, all different, {UNITS} units at {DEVICES} devices"
            ),
            Self::HpoptaKinds => format!("HPOPTA, exact: the same of {KINDS} kinds"),
            Self::HpoptaSearch => {
                format!("HPOPTA, published search: all different, at most {WORK_LIMIT} steps")
            }
            Self::Inpa => format!(
                "INPA over IDPA: nodes of {DEVICES_EACH} devices, cliffs and noise, the simulation included"
            ),
        }
    }

    /// Returns the sizes of its instances, ascending: devices, or nodes for [`Br`](Self::Br) and [`Inpa`](Self::Inpa).
    #[must_use]
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Self::Gpa | Self::Npa | Self::Br => &[10, 100, 1_000, 10_000, 100_000],
            Self::Hpopta | Self::HpoptaKinds => &[3, 6, 12, 24, 48, 96, 192, 384, DEVICES],
            Self::HpoptaSearch => &[3, 6, 12, 24, 48, 96, 192],
            Self::Inpa => &[10, 100, 1_000, 10_000],
        }
    }

    /// Makes the instance of one size.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn instance(self, size: usize) -> anyhow::Result<Instance> {
        Ok(match self {
            Self::Gpa => divide_by_speed(make_models(size, PiecewiseFpm::from_points)?, gpa),
            Self::Npa => divide_by_speed(
                make_models(size, AkimaFpm::from_points)?,
                |models, total| npa(models, total).map(|solution| solution.partition),
            ),
            Self::Br => {
                let (areas, side) = (instances::make_areas(size), matrix_side(size));
                Box::new(move || {
                    black_box(br(&areas, side, side)?);
                    Ok(true)
                })
            }
            Self::Hpopta | Self::HpoptaKinds => {
                let (functions, total) = self.make_functions(size)?;
                Box::new(move || {
                    black_box(hpopta(&functions, &[], total)?);
                    Ok(true)
                })
            }
            Self::HpoptaSearch => {
                let (functions, total) = self.make_functions(size)?;
                Box::new(move || {
                    let search = black_box(hpopta_search(&functions, &[], total, WORK_LIMIT)?);
                    Ok(matches!(search, SearchOutcome::Optimal(_)))
                })
            }
            Self::Inpa => {
                let cluster = SimulatedCluster::new(size, DEVICES_EACH, matrix_side(size), 1);
                Box::new(move || {
                    Ok(black_box(cluster.clone().balance_nodes()?)
                        .outcome
                        .converged)
                })
            }
        })
    }

    /// Makes rugged functions for `n` devices; returns them with the units to divide.
    fn make_functions(self, n: usize) -> anyhow::Result<(Vec<TimeFunction>, u64)> {
        let kinds = if self == Self::HpoptaKinds { KINDS } else { n };
        let total = UNITS * n as u64 / DEVICES as u64;
        Ok((instances::make_rugged(n, kinds, SIZES)?, total))
    }
}

/// Makes the division of [`UNITS_EACH`] units for each of `models` by `partitioner`.
fn divide_by_speed<M: SpeedModel + 'static>(
    models: Vec<M>,
    partitioner: fn(&[&dyn SpeedModel], u64) -> Result<Partition, PartitionError>,
) -> Instance {
    let total = models.len() as u64 * UNITS_EACH;
    Box::new(move || {
        let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
        black_box(partitioner(&models, total)?);
        Ok(true)
    })
}

/// Returns the side of a square matrix in blocks, 300 × 300 for each of `n` nodes on average.
fn matrix_side(n: usize) -> u64 {
    (300.0 * (n as f64).sqrt()) as u64
}
