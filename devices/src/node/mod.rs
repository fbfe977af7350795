//! The devices of this host, for programs that divide work of their own.

pub(crate) mod clock;
pub(crate) mod conditions;
pub(crate) mod discover;
mod gpu_claims;
pub(crate) mod gpus;
mod grouping;
pub(crate) mod heat;
pub(crate) mod host_cores;
pub(crate) mod host_share;
pub(crate) mod load;
pub(crate) mod rank_gpu;
mod reserve;
pub(crate) mod setup;
pub(crate) mod share;
mod slices;
pub(crate) mod spec;
pub(crate) mod workers;

pub use discover::{CoreGroup, GpuHost, RankDevices, host_devices};
pub use grouping::Grouping;

use isochron_hierarchy::model::{PiecewiseFpm, Point};

use crate::blas::{BlasChoice, choose_blas};
use crate::contract::{Depth, DeviceError, DeviceInfo, Scalar};
use crate::measure::{MeasureConfig, UpdateOperands, measure_team, repeat_alone};
use crate::node::host_share::HostScope;
use crate::node::setup::{FoundHost, RankNode};
use crate::node::spec::NodeSpec;
use crate::team::DeviceTeam;

/// All devices of a host that one process may use: groups of its cores, and its GPUs.
///
/// ```
/// use isochron_devices::{BlasChoice, Grouping, MeasureConfig, Node};
///
/// let mut node = Node::discover(Grouping::Auto, &BlasChoice::Embedded)?;
/// let quick = MeasureConfig { max_seconds: 0.05, ..MeasureConfig::default() };
/// // The speed functions of C += A·B with 64 rows and an inner dimension of 32, in columns.
/// let models = node.measure::<f64>(64, 32, &[16, 64], &quick)?;
/// assert_eq!(models.len(), node.devices().len());
/// # Ok::<(), isochron_devices::DeviceError>(())
/// ```
pub struct Node {
    node: RankNode,
}

impl Node {
    /// Finds the devices, with cores grouped by `grouping`. A GPU that cannot be used and a CUDA driver that fails are
    /// [notices](Self::notices).
    ///
    /// # Errors
    /// Fails if hwloc or the BLAS fails, or if cores cannot be bound.
    pub fn discover(grouping: Grouping, blas: &BlasChoice) -> Result<Self, DeviceError> {
        let found = FoundHost::look(NodeSpec::default(), &[])?;
        let rank = 0;
        let facts = found.facts().clone();
        // All cores that this process may use, also those of its sessions.
        let (mut shared, offers) = found.share(&[(rank, facts)], rank, HostScope::Comm, None)?;
        shared.take_gpus(vec![(rank, offers)], rank)?;
        let mut node = shared.open(Some(grouping), &choose_blas(blas)?)?;
        let busy = node.busy_cores();
        node.settle(&[(rank, busy)]);
        Ok(Self { node })
    }

    /// Takes devices that are made already.
    pub fn of_team(team: DeviceTeam) -> Self {
        Self { node: RankNode::of_team(team) }
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        self.node.team.infos()
    }

    /// Returns the devices at work.
    pub fn team(&mut self) -> &mut DeviceTeam {
        &mut self.node.team
    }

    /// Returns unusual findings about the host, one line each.
    pub fn notices(&self) -> &[String] {
        &self.node.notices
    }

    /// Measures the update `C += A·B` with `A: rows×k` on all devices together, for each of these numbers of columns, in
    /// ascending order. Returns the speed function of each device, in columns.
    ///
    /// A device that is hopelessly slow at some size gets a bound there, and is not measured at larger ones. Under a CPU quota
    /// the times are those of a long run.
    ///
    /// # Errors
    /// Returns [`DeviceError::Measure`] for a configuration or a size out of range; the errors of [`measure_team`].
    pub fn measure<T: Scalar>(
        &mut self,
        rows: usize,
        k: usize,
        cols: &[usize],
        config: &MeasureConfig,
    ) -> Result<Vec<PiecewiseFpm>, DeviceError> {
        config.validate()?;
        check_sizes(rows, k, cols)?;
        let mut sizes = cols.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let mut points = vec![Vec::new(); self.node.team.len()];
        let mut is_hopeless = vec![false; self.node.team.len()];
        let mut operands = UpdateOperands::<T>::default();
        for size in sizes {
            let slices = is_hopeless.iter().map(|&hopeless| if hopeless { 0 } else { size });
            let (slices, depth): (Vec<usize>, _) = (slices.collect(), Depth::endless(k));
            let team = &mut self.node.team;
            let step = &mut repeat_alone;
            let measured = measure_team(team, rows, &slices, depth, config, &mut operands, step)?;
            let measured = measured.iter().enumerate();
            for (index, measured) in measured.filter(|(index, _)| slices[*index] > 0) {
                is_hopeless[index] = measured.sample.is_bound();
                points[index].push(Point {
                    d: size as u64,
                    t_s: measured.sample.seconds,
                    reps: measured.sample.reps,
                    ci_s: measured.ci_s,
                });
            }
        }
        points.into_iter().map(fit_points).collect()
    }
}

/// Refuses sizes of nothing.
fn check_sizes(rows: usize, k: usize, cols: &[usize]) -> Result<(), DeviceError> {
    let least = cols.iter().copied().min().unwrap_or(0);
    match [("rows", rows), ("k", k), ("cols", least)].into_iter().find(|&(_, size)| size == 0) {
        None => Ok(()),
        Some((field, _)) => Err(DeviceError::Measure { field, value: 0.0, must_be: "at least 1" }),
    }
}

fn fit_points(points: Vec<Point>) -> Result<PiecewiseFpm, DeviceError> {
    let first = points.first().map_or(0.0, |point| point.t_s);
    // A clock too coarse to see an update makes no model.
    PiecewiseFpm::from_points(points).map_err(|_| DeviceError::Measure {
        field: "seconds of an update",
        value: first,
        must_be: "what the clock can tell from 0: measure more columns",
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isochron_hierarchy::model::SpeedModel;

    use super::*;
    use crate::blas::EmbeddedBlas;
    use crate::contract::Worker;
    use crate::cpu::CpuWorker;
    use crate::host::topology::Topology;
    use crate::paced::{Pace, PacedWorker};

    fn worker(name: &str, pace: f64) -> Box<dyn Worker> {
        let topology = Arc::new(Topology::discover().unwrap());
        let core = topology.cores()[0].clone();
        let blas = Arc::new(EmbeddedBlas);
        let worker = CpuWorker::new(topology, name, vec![core], false, blas).unwrap();
        PacedWorker::new(worker.into(), Pace::Slowdown(pace)).unwrap().into()
    }

    #[test]
    fn every_device_gets_a_model_of_its_own_over_the_sizes() {
        let team = DeviceTeam::new(vec![worker("a", 1.0), worker("b", 8.0)]).unwrap();
        let mut node = Node::of_team(team);
        let config = MeasureConfig::default();
        let models = node.measure::<f64>(96, 32, &[64, 32, 64], &config).unwrap();
        assert_eq!(models.len(), 2);
        for model in &models {
            let sizes: Vec<u64> = model.points().iter().map(|point| point.d).collect();
            assert_eq!(sizes, [32, 64]);
            assert!(model.speed(64.0) > 0.0);
        }
    }

    #[test]
    fn sizes_of_nothing_are_refused_by_name() {
        let mut node = Node::of_team(DeviceTeam::new(vec![worker("a", 1.0)]).unwrap());
        let config = MeasureConfig::default();
        for (rows, k, cols, field) in [
            (0, 1, &[1][..], "rows"),
            (1, 0, &[1], "k"),
            (1, 1, &[], "cols"),
            (1, 1, &[3, 0], "cols"),
        ] {
            let text = node.measure::<f32>(rows, k, cols, &config);
            let text = text.unwrap_err().to_string();
            assert!(text.contains(&format!("{field} = 0")), "{text}");
        }
    }
}
