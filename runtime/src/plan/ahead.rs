//! Plans without ranks: by models of all devices, and of the network between their nodes.

use std::path::Path;

use isochron_devices::{DeviceKind, MeasureConfig};
use isochron_hierarchy::balance::{BalanceConfig, BalanceError, BalanceStep, Extent, Strategy};
use isochron_hierarchy::decide::{Decision, Modelled, PlanAnswer, PlanRequest, Planner};
use isochron_hierarchy::layout::Arrangement;
use isochron_hierarchy::model::Point;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::predict::{
    self, Cluster, EqualHost, EqualRanks, find_bounds, panel_sends, wall_s,
};
use serde::Serialize;

use super::measuring::{count_fewest_steps, note_prediction};
use super::{
    Making, Plan, PlannedDevice, PlannedNode, PredictedNode, Prediction, Problem, refuse_hpopta,
};
use crate::error::Error;
use crate::input::platform::PlatformSpec;
use crate::predict::join_devices;
use crate::store::GivenModels;

/// The nodes of a platform file with a model of every device, and the network between them: for plans of a cluster that is
/// somewhere else.
#[derive(Clone)]
pub struct ModelledCluster {
    pub(super) nodes: Vec<PlannedNode>,
    models: GivenModels,
    network: Network,
}

/// A plan without ranks, and its predicted seconds.
#[derive(Debug, Clone)]
pub struct PlanAhead {
    /// The plan.
    pub plan: Plan,
    /// Seconds of the whole multiplication.
    pub wall_s: f64,
    /// The seconds that nine of ten runs take: the least and the most.
    pub bounds_s: [f64; 2],
    /// Seconds of the arithmetic of the slowest node.
    pub compute_s: f64,
    /// Seconds of the messages of the busiest link.
    pub travel_s: f64,
}

/// A change of the cluster, and its predicted seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// The change, in words.
    pub change: String,
    /// Predicted seconds of the whole with it.
    pub wall_s: f64,
}

impl ModelledCluster {
    /// Reads a platform file with a network. Each device is modelled by its file in `folder`, as `isochron measure mxm` writes
    /// it, or without a folder by the points file that the platform names.
    ///
    /// # Errors
    /// Returns [`Error::File`] with the reason for a file that is missing, cannot be read, or lacks what is needed.
    pub fn load(path: &Path, folder: Option<&Path>) -> Result<Self, Error> {
        let platform = PlatformSpec::read(path)?;
        let refuse = |reason: String| Error::file(path, reason);
        let network = platform.network.clone();
        let network = network.ok_or_else(|| {
            refuse("has no [network]: `isochron config --network` writes one".to_owned())
        })?;
        let nodes: Vec<PlannedNode> = (platform.nodes().iter().enumerate())
            .map(|(rank, node)| PlannedNode {
                rank,
                host: node.host().to_owned(),
                name: node.name().to_owned(),
                devices: node.devices().iter().map(PlannedDevice::of_spec).collect(),
                ..PlannedNode::default()
            })
            .collect();
        if let Some(node) = nodes.iter().find(|node| node.devices.is_empty()) {
            return Err(refuse(format!("node {} has no devices: name them", node.rank)));
        }
        let models = match folder {
            Some(folder) => {
                let names = nodes
                    .iter()
                    .map(|node| node.devices.iter().map(|device| device.name.clone()).collect());
                GivenModels::load(folder, &names.collect::<Vec<_>>())?
            }
            None => GivenModels::of_platform(path, platform.nodes())?,
        };
        if nodes.is_empty() {
            return Err(refuse("has no nodes".to_owned()));
        }
        Ok(Self { nodes, models, network })
    }

    /// Returns the cluster of some of the nodes, in this order; a node that comes again is another one like it.
    #[must_use]
    pub fn among(&self, nodes: &[usize]) -> Self {
        let chosen = nodes.iter().enumerate();
        let chosen = chosen.map(|(rank, &node)| PlannedNode { rank, ..self.nodes[node].clone() });
        Self {
            nodes: chosen.collect(),
            models: self.models.among(nodes),
            network: self.network.among(nodes),
        }
    }

    /// Returns the part of the messages that travels during the arithmetic: none within one host.
    fn hidden(&self) -> f64 {
        let first = self.nodes.first().map_or("", |node| &node.host);
        let is_one_host = !first.is_empty() && self.nodes.iter().all(|node| node.host == first);
        if is_one_host { 0.0 } else { 1.0 }
    }

    /// Lists the nodes by falling speed at equal parts of C.
    ///
    /// # Errors
    /// Returns [`Error::File`] for models of another element type; [`Error::Decide`] if the models do not admit a division.
    pub(super) fn list_by_speed(&self, problem: Problem) -> Result<Vec<usize>, Error> {
        let config = BalanceConfig { strategy: Strategy::Fpm, ..BalanceConfig::default() };
        let (mut modelled, _, _) = self.make_models(problem, &config)?;
        let (rows, cols) = problem.c_blocks();
        let part = Extent { rows: rows.div_ceil(self.nodes.len() as u64), cols };
        let times = modelled.predict(&vec![part; self.nodes.len()], false)?;
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|&a, &b| times[a].seconds.total_cmp(&times[b].seconds));
        Ok(order)
    }

    /// Makes the platform of predictions of any [`Algorithm`](predict::Algorithm), without ranks. Its places are the nodes, each as fast
    /// as its devices together. Work counts in the units of the points files; for the multiplication these are updates of a block.
    ///
    /// # Errors
    /// Returns [`Error::File`] for devices with blocks of different sizes; [`Error::Model`] if the points of a device make no model.
    pub fn to_platform(&self) -> Result<predict::Platform, Error> {
        let nodes = self.models.list_points()?;
        let speeds = nodes.iter().map(|devices| join_devices(devices));
        Ok(predict::Platform {
            speeds: speeds.collect::<Result<_, _>>()?,
            network: self.network.clone(),
            noise: self.models.noise(),
        })
    }

    /// Chooses the ranks of each node for a program that gives all ranks equal parts of C, such as ScaLAPACK: a node of unknown cores may have any
    /// number. The blocks are those of the problem.
    ///
    /// # Errors
    /// Returns the errors of [`to_platform`](Self::to_platform); [`Error::Parameter`] for a node with a GPU, which such programs do not use;
    /// [`Error::Decide`] if the models do not admit a division.
    pub(super) fn choose_ranks(&self, problem: &Problem) -> Result<EqualRanks, Error> {
        let mut devices = self.nodes.iter().flat_map(|node| &node.devices);
        if let Some(gpu) = devices.find(|device| device.kind != DeviceKind::Cpu) {
            let reason = "is a GPU, which programs of equal parts on all ranks do not use";
            return Err(Error::parameter("device", &gpu.name, reason));
        }
        let platform = self.to_platform()?;
        let hosts = platform.speeds.iter().zip(&self.nodes).map(|(speed, node)| {
            let cores = node.count_cores();
            EqualHost { speed: &**speed, cores: if cores == 0 { usize::MAX } else { cores } }
        });
        let hosts: Vec<EqualHost<'_>> = hosts.collect();
        EqualRanks::choose(problem, self.models.block(), &hosts, &self.network)
            .map_err(|error| Error::from(BalanceError::Partition(error)))
    }

    /// Plans a multiplication by the models, with the strategy [`Strategy::Fpm`] unless the nodes are to have even parts, and
    /// predicts its seconds.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for HPOPTA; [`Error::File`] for models of another element type; [`Error::Decide`] if the models do not admit a division, or
    /// the configured grid does not fit the nodes.
    pub fn plan(&self, problem: Problem, config: &BalanceConfig) -> Result<PlanAhead, Error> {
        refuse_hpopta(config.partitioner)?;
        let (mut modelled, config, width) = self.make_models(problem, config)?;
        let cluster = Cluster { nodes: self.nodes.len(), hidden: self.hidden() };
        let mut planner = Planner::new(problem, cluster, config, width)?;
        let mut decision = self.answer(&mut planner, &mut modelled)?;
        note_prediction(&mut decision, 0);
        let slices = modelled.slice(&decision.division);
        if let Some(balance) =
            decision.balance.as_mut().filter(|_| config.strategy == Strategy::Homogeneous)
        {
            balance.times_s = modelled.predict_slices(&decision.division, &slices);
        }
        let planned = self.nodes.iter().zip(&slices).map(|(node, slices)| node.with_slices(slices));
        let plan = Plan::new(
            problem,
            decision,
            Some(self.network.clone()),
            planned.collect(),
            Making::default(),
        );
        Ok(self.predict(plan))
    }

    /// Makes the models of all nodes. Returns them with the completed configuration, and the width of the update that they are of.
    fn make_models(
        &self,
        problem: Problem,
        config: &BalanceConfig,
    ) -> Result<(Modelled, BalanceConfig, usize), Error> {
        let reps = MeasureConfig::default().min_reps;
        let width = problem.kernel_width(count_fewest_steps(reps), self.nodes.len());
        let strategy = match config.strategy {
            Strategy::Homogeneous => Strategy::Homogeneous,
            _ => Strategy::Fpm,
        };
        let steps = problem.k().div_ceil(width.max(1)) as u64;
        let config = BalanceConfig { strategy, steps, reps, ..*config };
        let points = self.models.find_devices(problem.element(), width)?.into_iter();
        let points: Vec<Vec<Vec<Point>>> =
            points.map(|devices| devices.into_iter().map(|known| known.points).collect()).collect();
        let modelled = Modelled::new(problem, config, points)
            .map_err(|error| Error::parameter("fit", config.fit, error.to_string()))?;
        Ok((modelled, config, width))
    }

    /// Predicts the seconds with one more node like the one with the largest part, with links twice as fast, and with twice the
    /// memory everywhere.
    ///
    /// # Errors
    /// Returns the errors of [`plan`](Self::plan).
    pub(super) fn explain(
        &self,
        ahead: &PlanAhead,
        config: &BalanceConfig,
    ) -> Result<Vec<WhatIf>, Error> {
        let ranks = self.nodes.len();
        let areas = ahead.plan.layout().areas();
        let largest = (0..ranks).max_by_key(|&rank| areas[rank]).unwrap_or(0);
        let one_more = self.among(&(0..ranks).chain([largest]).collect::<Vec<_>>());
        let faster = Self { network: self.network.sped_up(2.0), ..self.clone() };
        let roomy = Self { models: self.models.with_twice_the_memory()?, ..self.clone() };
        // A grid has no place for one more.
        let free = match config.layout.grid {
            Some(_) => BalanceConfig { layout: Arrangement::default(), ..*config },
            None => *config,
        };
        let node = &self.nodes[largest];
        let name =
            if node.name.is_empty() { format!("node {}", node.rank) } else { node.name.clone() };
        let changes = [
            (format!("one more node like {name}"), one_more, free),
            ("links twice as fast".to_owned(), faster, *config),
            ("twice the memory everywhere".to_owned(), roomy, *config),
        ];
        let problem = *ahead.plan.problem();
        let found = changes.into_iter().map(|(change, cluster, config)| {
            Ok(WhatIf { change, wall_s: cluster.plan(problem, &config)?.wall_s })
        });
        found.collect()
    }

    /// Answers the planner until it has decided.
    fn answer(&self, planner: &mut Planner, modelled: &mut Modelled) -> Result<Decision, Error> {
        loop {
            let request = match planner.step() {
                BalanceStep::Done(decision) => return Ok(decision),
                BalanceStep::Measure(request) => request,
            };
            planner.observe(match request {
                PlanRequest::MessageCosts => {
                    let byte_s = (0..self.nodes.len()).map(|rank| self.network.byte_s(rank));
                    PlanAnswer::MessageCosts(byte_s.collect())
                }
                PlanRequest::Network { .. } => PlanAnswer::Network(self.network.clone()),
                // The memory of hosts is not in a platform file: the prediction says what each node needs.
                PlanRequest::Room(_) => PlanAnswer::Room(true),
                PlanRequest::Times { extents, along_k } => {
                    PlanAnswer::Times(modelled.predict(&extents, along_k)?)
                }
            })?;
        }
    }

    /// Adds the predictions to a plan, and the seconds of the whole: the panels of the first step travel before anything is
    /// computed.
    fn predict(&self, plan: Plan) -> PlanAhead {
        let compute_s = plan.predicted_s().unwrap_or(0.0);
        let bytes = plan.problem().element().bytes();
        let received_s = self.network.phase_s(&plan.phase(&self.network), bytes);
        let is_summed = plan.division().shares().is_some();
        let parts = match self.network.uplinks() {
            [] if !is_summed => {
                let problem = plan.problem();
                panel_sends(plan.layout(), problem.block(), problem.k())
            }
            // What goes to a group goes there once.
            _ => vec![(1.0, 0.0)],
        };
        // Panels travel a few steps ahead: where one node sends much, all wait for it.
        let rate = self.network.level(0).bytes_per_s();
        let of_part = |(share, elements): (f64, f64)| {
            (share, (elements * bytes as f64 / rate).max(share * received_s))
        };
        let parts: Vec<(f64, f64)> = parts.into_iter().map(of_part).collect();
        let travel_s = parts.iter().map(|(_, travel_s)| travel_s).sum::<f64>();
        let hidden = self.hidden();
        let whole_s = |[work, messages]: [f64; 2]| {
            let (compute_s, travel_s) = (work * compute_s, messages * travel_s);
            if is_summed {
                return compute_s + travel_s;
            }
            let first = 1.0 / plan.steps(0).max(1) as f64;
            let step_s = hidden * first * compute_s;
            // What is sent for during the steps before a part does not delay it.
            let ahead_s = plan.lookahead() as f64 * step_s;
            let rest = parts.iter().enumerate().map(|(place, &(share, travel_s))| {
                let later_s = (1.0 - first) * messages * travel_s - ahead_s;
                let later_s = later_s.max((1.0 - first) * messages * share * received_s);
                // The last step is computed once its panels are there.
                let last_s = if place + 1 == parts.len() { step_s } else { 0.0 };
                wall_s(share * compute_s, later_s + last_s, hidden)
            });
            first * travel_s + rest.sum::<f64>()
        };
        let noise = [self.models.noise(), self.network.noise()];
        let (wall_s, bounds_s) = (whole_s([1.0; 2]), find_bounds(noise, whole_s));
        let nodes = plan
            .nodes()
            .iter()
            .map(|node| PredictedNode::new(&plan, node.rank, 0, &vec![0; node.devices.len()]));
        let prediction = Prediction::new(&plan, nodes.collect());
        let plan = plan.with_prediction(prediction);
        PlanAhead { plan, wall_s, bounds_s, compute_s, travel_s }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use isochron_hierarchy::layout::{Grid, Method};
    use isochron_hierarchy::problem::Split;
    use tempfile::TempDir;

    use super::*;

    const GIGABIT: &str = "[network]\nlevels = [{ points = [{ bytes = 0, time_s = 5e-5 }, { bytes = 1000000, time_s = 8.1e-3 }] }]\n";

    /// Writes a platform of nodes of these speeds, in GFLOP/s for blocks of 64; the ones that page do beyond 60,000 blocks.
    fn write_platform(nodes: &[(f64, bool)], network: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "schema = 1\n".to_owned();
        for (number, &(gflops, pages)) in nodes.iter().enumerate() {
            let time_s = |d: f64| {
                let paged = if pages { (d - 60_000.0).max(0.0) } else { 0.0 };
                (d + 20.0 * paged) * 2.0 * 64.0_f64.powi(3) / (gflops * 1e9)
            };
            let sizes = [1, 100, 10_000, 60_000, 100_000, 400_000]
                .map(|d| format!("{d} {}\n", time_s(f64::from(d))));
            let points = format!("# block: 64\n{}", sizes.concat());
            std::fs::write(folder.path().join(format!("{number}.points")), points).unwrap();
            text += &format!(
                "[[node]]\nhost = \"h{number}\"\n[[node.device]]\nname = \"cpu0\"\npoints = \"{number}.points\"\n"
            );
        }
        let path = folder.path().join("platform.toml");
        std::fs::write(&path, text + network).unwrap();
        (folder, path)
    }

    fn plan_of(
        nodes: &[(f64, bool)],
        network: &str,
        side: usize,
        config: &BalanceConfig,
    ) -> PlanAhead {
        let (_folder, path) = write_platform(nodes, network);
        let cluster = ModelledCluster::load(&path, None).unwrap();
        cluster.plan(Problem::new(side, side, side, 64).unwrap(), config).unwrap()
    }

    fn even() -> BalanceConfig {
        BalanceConfig { strategy: Strategy::Homogeneous, ..BalanceConfig::default() }
    }

    #[test]
    fn parts_by_models_are_faster_than_equal_ones_by_as_much_as_the_slowest_node_is_slower() {
        let nodes = [(40.0, false), (40.0, false), (10.0, false)];
        let [models, equal] = [BalanceConfig::default(), even()]
            .map(|config| plan_of(&nodes, GIGABIT, 8192, &config));
        let flop = 2.0 * 8192.0_f64.powi(3);
        assert!((models.compute_s / (flop / 90e9) - 1.0).abs() < 0.05, "{}", models.compute_s);
        assert!((equal.compute_s / (flop / 3.0 / 10e9) - 1.0).abs() < 0.05, "{}", equal.compute_s);
        assert!(models.wall_s < equal.wall_s && models.wall_s > models.compute_s);
        let predicted = models.plan.predicted().unwrap();
        let bytes: u64 = predicted.nodes.iter().map(|node| node.bytes).sum();
        assert!(bytes > 0 && predicted.nodes.iter().all(|node| node.memory_bytes > 8192 * 8192));
    }

    #[test]
    fn equal_shares_of_k_take_as_long_as_equal_parts_of_c() {
        let (_folder, path) = write_platform(&[(40.0, false), (10.0, false)], GIGABIT);
        let cluster = ModelledCluster::load(&path, None).unwrap();
        let problem = Problem::new(1024, 1024, 16_384, 64).unwrap();
        let split = |split| cluster.plan(problem.with_split(split), &even()).unwrap();
        let [of_k, of_c] = [Split::K, Split::C].map(split);
        assert!(of_k.plan.division().shares().is_some() && of_c.plan.division().shares().is_none());
        assert!((of_k.compute_s / of_c.compute_s - 1.0).abs() < 0.01, "{}", of_k.compute_s);
    }

    #[test]
    fn a_node_that_would_page_gets_what_fits_its_memory() {
        let nodes = [(40.0, false), (40.0, true)];
        let found = plan_of(&nodes, GIGABIT, 26_624, &BalanceConfig::default());
        let areas = found.plan.layout().areas();
        assert_eq!(areas.iter().sum::<u64>(), 416 * 416);
        assert!((60_000..75_000).contains(&areas[1]), "{areas:?}");
    }

    #[test]
    fn over_a_slow_network_fewer_nodes_work_and_a_grid_that_is_given_has_all() {
        let slow = GIGABIT.replace("8.1e-3", "8.1");
        let nodes = [(40.0, false), (40.0, false), (40.0, false), (40.0, false)];
        let busy = |config: &BalanceConfig| {
            let plan = plan_of(&nodes, &slow, 2048, config).plan;
            (0..4).filter(|&rank| !plan.computed(rank).is_empty()).count()
        };
        assert_eq!(busy(&BalanceConfig::default()), 1);
        let layout = Arrangement { method: Method::Kl, grid: Some(Grid { rows: 2, cols: 2 }) };
        assert_eq!(busy(&BalanceConfig { layout, ..BalanceConfig::default() }), 4);
    }

    #[test]
    fn what_binds_is_what_helps() {
        let explain = |nodes: &[(f64, bool)], network: &str, side: usize| {
            let (_folder, path) = write_platform(nodes, network);
            let cluster = ModelledCluster::load(&path, None).unwrap();
            let problem = Problem::new(side, side, side, 64).unwrap();
            let ahead = cluster.plan(problem, &BalanceConfig::default()).unwrap();
            let found = cluster.explain(&ahead, &BalanceConfig::default()).unwrap();
            found.into_iter().map(|found| found.wall_s / ahead.wall_s).collect::<Vec<f64>>()
        };
        let alike = [(40.0, false), (40.0, false)];
        let [node, links, memory] = explain(&alike, GIGABIT, 16_384)[..] else { panic!("three") };
        assert!(node < 0.75 && links > 0.95 && memory > 0.99, "{node} {links} {memory}");
        let slow = GIGABIT.replace("8.1e-3", "8.1e-2");
        let [_, links, _] = explain(&alike, &slow, 8192)[..] else { panic!("three") };
        assert!(links < 0.8, "{links}");
        let paging = [(40.0, true), (40.0, true)];
        let [_, _, memory] = explain(&paging, GIGABIT, 26_624)[..] else { panic!("three") };
        assert!(memory < 0.8, "{memory}");
    }

    #[test]
    fn an_algorithm_is_predicted_on_the_nodes_of_a_file() {
        use isochron_hierarchy::predict::{ReductionTree, timeof};
        let (folder, path) = write_platform(&[(40.0, false), (10.0, false)], GIGABIT);
        let platform = ModelledCluster::load(&path, None).unwrap().to_platform().unwrap();
        let tree = ReductionTree { volumes: vec![4000.0, 1000.0], bytes: 1e6 };
        let block_s = 2.0 * 64.0_f64.powi(3) / 40e9;
        let run = timeof(&tree, &platform, &[0, 1]).unwrap();
        assert!((run.seconds - (4000.0 * block_s + 8.1e-3)).abs() < 1e-9, "{run:?}");
        let run = timeof(&tree, &platform, &[1, 0]).unwrap();
        assert!((run.seconds - (16_000.0 * block_s + 8.1e-3)).abs() < 1e-9, "{run:?}");
        std::fs::write(folder.path().join("1.points"), "# block: 32\n1 1\n").unwrap();
        let other = ModelledCluster::load(&path, None).unwrap().to_platform().unwrap_err();
        assert!(
            other.to_string().ends_with("has blocks of 32 elements a side, and others of 64"),
            "{other}"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let nodes = [(40.0, false), (10.0, false)];
        let refuse = |network: &str, words: &str| {
            let (_folder, path) = write_platform(&nodes, network);
            let Err(error) = ModelledCluster::load(&path, None) else { panic!("{words}") };
            assert!(error.to_string().contains(words), "{error}");
        };
        refuse("", "has no [network]");
        refuse("[network]\nlevels = []\n", "network: ");
        refuse(&GIGABIT.replace("8.1e-3", "-1.0"), "times that fall");
        refuse(&format!("{GIGABIT}adapters = [1e8]\n"), "1 adapters for 2 ranks");
        refuse(
            &format!(
                "[[node]]\nname = \"c\"\nhost = \"h2\"\n[[node.device]]\nname = \"cpu0\"\n{GIGABIT}"
            ),
            "device cpu0 of node 2 has no points",
        );
        let (_folder, path) = write_platform(&nodes, GIGABIT);
        let cluster = ModelledCluster::load(&path, None).unwrap();
        let layout = Arrangement { method: Method::Kl, grid: Some(Grid { rows: 2, cols: 2 }) };
        let refused = cluster.plan(
            Problem::new(512, 512, 512, 64).unwrap(),
            &BalanceConfig { layout, ..BalanceConfig::default() },
        );
        let text = refused.err().map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("a grid of 2x2 has 4 places, and there are 2 nodes"));
    }
}
