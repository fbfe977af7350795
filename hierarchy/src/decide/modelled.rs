//! Answers about times from models, without a measurement.

use super::devices::count_rows;
use super::{Division, NodeDevices};
use crate::balance::{BalanceConfig, BalanceError, BalanceStep, Extent, Rule};
use crate::model::{ModelError, Point, SpeedModel};
use crate::problem::Problem;
use crate::times::Sample;

/// Models of every node's devices, which answer a [`Planner`](super::Planner) without measuring.
#[derive(Debug)]
pub struct Modelled {
    problem: Problem,
    config: BalanceConfig,
    nodes: Vec<ModelledNode>,
    measuring_s: f64,
}

#[derive(Debug)]
struct ModelledNode {
    devices: NodeDevices,
    models: Vec<Box<dyn SpeedModel>>,
    /// `true` if times of a device fall with the size, and the partitioner needs times that grow.
    falls: bool,
}

impl Modelled {
    /// Makes the models of every node's devices, by these points of an update of a number of elements of C.
    ///
    /// # Errors
    /// Returns [`ModelError`] if the points of a device make no model.
    pub fn new(
        problem: Problem,
        config: BalanceConfig,
        nodes: Vec<Vec<Vec<Point>>>,
    ) -> Result<Self, ModelError> {
        let nodes = nodes
            .into_iter()
            .map(|points| ModelledNode::new(config, points))
            .collect::<Result<_, _>>()?;
        Ok(Self { problem, config, nodes, measuring_s: 0.0 })
    }

    /// Balances devices as if nothing was known of them: the models are only the clock.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        for node in &mut self.nodes {
            node.devices = NodeDevices::new(self.config, node.models.len());
        }
        self
    }

    /// Returns the seconds that measuring all predictions so far would take: of all nodes at once, with the configured repetitions.
    pub fn measuring_s(&self) -> f64 {
        self.measuring_s
    }

    /// Predicts the time of every node for an update of a part of C, with its devices balanced.
    ///
    /// # Errors
    /// Returns [`BalanceError::InvalidTime`] if a model gives no finite positive time; [`BalanceError::Partition`] if
    /// the models do not admit a division.
    pub fn predict(
        &mut self,
        parts: &[Extent],
        along_k: bool,
    ) -> Result<Vec<Sample>, BalanceError> {
        let (problem, config) = (self.problem, self.config);
        let (mut samples, mut longest_s) = (Vec::new(), 0.0_f64);
        for (node, &part) in self.nodes.iter_mut().zip(parts) {
            let (rows, cols) = problem.size_in_elements(part.rows, part.cols);
            let (sample, measuring_s) = node.predict(&config, part, rows, cols, along_k)?;
            samples.push(sample);
            longest_s = longest_s.max(measuring_s);
        }
        self.measuring_s += longest_s;
        Ok(samples)
    }

    /// Predicts the seconds of every node for an update of its part with these columns for its devices; for its share of one if k is divided.
    pub fn predict_slices(&self, division: &Division, slices: &[Vec<usize>]) -> Vec<f64> {
        let nodes = self.nodes.iter().zip(slices).enumerate();
        let blocks = self.problem.k_blocks().max(1) as f64;
        let times = nodes.map(|(rank, (node, slices))| {
            let rows = count_rows(&self.problem, division, rank);
            let busy = node.models.iter().zip(slices).filter(|(_, cols)| **cols > 0);
            let whole_s =
                busy.map(|(model, &cols)| model.time_s((rows * cols) as f64)).fold(0.0, f64::max);
            whole_s * division.shares().map_or(1.0, |shares| shares[rank] as f64 / blocks)
        });
        times.collect()
    }

    /// Divides the columns of every node's part among its devices.
    pub fn slice(&self, division: &Division) -> Vec<Vec<usize>> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(rank, node)| node.devices.slice_part(&self.problem, division, rank))
            .collect()
    }

    /// Returns, for each node, whether times of its devices fall with the size, and the partitioner needs times that grow.
    pub fn falling(&self) -> Vec<bool> {
        self.nodes.iter().map(|node| node.falls).collect()
    }
}

impl ModelledNode {
    fn new(config: BalanceConfig, points: Vec<Vec<Point>>) -> Result<Self, ModelError> {
        let models = points.iter().map(|points| config.fit.model(points));
        Ok(Self {
            models: models.collect::<Result<_, _>>()?,
            devices: NodeDevices::new(config, points.len()).with_points(points),
            falls: false,
        })
    }

    fn predict(
        &mut self,
        config: &BalanceConfig,
        part: Extent,
        rows: usize,
        cols: usize,
        along_k: bool,
    ) -> Result<(Sample, f64), BalanceError> {
        let models = &self.models;
        let times = |columns: &[u64]| -> Vec<Sample> {
            columns
                .iter()
                .zip(models)
                .map(|(&columns, model)| match columns * rows as u64 {
                    0 => Sample::default(),
                    units => Sample::measured(units, model.time_s(units as f64), config.reps, 0.0),
                })
                .collect()
        };
        let mut machine = self.devices.begin(rows, cols, along_k);
        let mut measuring_s = 0.0;
        let mut balance = loop {
            match machine.step() {
                BalanceStep::Done(balance) => break balance,
                BalanceStep::Measure(columns) => {
                    let samples = times(&columns);
                    measuring_s += find_longest(&samples);
                    machine.observe(&samples)?;
                }
            }
        };
        if rows == 0 || cols == 0 {
            return Ok((balance.to_sample(), measuring_s));
        }
        if config.rule() != Rule::Even {
            let of_slices = times(&balance.slices);
            if !balance.measured {
                measuring_s += find_longest(&of_slices);
            }
            balance = balance.refine_times(&of_slices);
        }
        let sample = balance.to_sample();
        self.falls |= !balance.falling.is_empty();
        self.devices.keep(part, along_k, balance);
        Ok((sample, measuring_s))
    }
}

/// Returns the seconds of the repetitions on the device that takes longest.
fn find_longest(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| f64::from(sample.reps) * sample.seconds).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::Strategy;
    use crate::layout::slice_cols;

    /// Returns points of a device of this constant speed, in elements per second.
    fn points(speed: f64) -> Vec<Point> {
        [1000_u64, 100_000]
            .map(|d| Sample::measured(d, d as f64 / speed, 3, 0.0).to_point())
            .to_vec()
    }

    #[test]
    fn a_node_is_as_fast_as_its_devices_together_and_divides_by_their_speeds() {
        let problem = Problem::new(128, 128, 64, 1).unwrap();
        let config = BalanceConfig { strategy: Strategy::Fpm, ..BalanceConfig::default() };
        let nodes = vec![vec![points(1e6), points(3e6)], vec![points(2e6)]];
        let mut modelled = Modelled::new(problem, config, nodes).unwrap();
        let part = Extent { rows: 128, cols: 64 };
        let times = modelled.predict(&[part, part], false).unwrap();
        let elements = 64.0 * 128.0;
        assert!((times[0].seconds / (elements / 4e6) - 1.0).abs() < 0.02);
        assert!((times[1].seconds / (elements / 2e6) - 1.0).abs() < 1e-9);
        let halves = Division::C(slice_cols(128, &[64, 64]).unwrap());
        assert_eq!(modelled.slice(&halves), [vec![16, 48], vec![64]]);
        assert_eq!(modelled.falling(), [false, false]);
        // The first node alone: what is known of its devices saves their first points.
        let alone = [part, Extent { rows: 0, cols: 0 }];
        let measure = |modelled: &mut Modelled| {
            let before_s = modelled.measuring_s();
            modelled.predict(&alone, false).unwrap();
            modelled.measuring_s() - before_s
        };
        let known_s = measure(&mut modelled);
        let unknown_s = measure(&mut modelled.unknown());
        assert!((known_s / (3.0 * times[0].seconds) - 1.0).abs() < 0.02, "{known_s}");
        assert!(unknown_s > known_s && unknown_s < 2.0 * known_s, "{unknown_s}");
    }

    #[test]
    fn an_empty_part_takes_no_time() {
        let problem = Problem::new(8, 8, 8, 1).unwrap();
        let nodes = vec![vec![points(1e6)]];
        let mut modelled = Modelled::new(problem, BalanceConfig::default(), nodes).unwrap();
        let nothing = Extent { rows: 0, cols: 0 };
        let times = modelled.predict(&[nothing], true).unwrap();
        assert_eq!(times[0].seconds, 0.0);
    }
}
