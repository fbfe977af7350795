//! The multiplications of the thesis on Grid'5000, simulated: what each strategy knows divides, and the platform's models are the clock.
//!
//! Nothing overlaps, as in the papers: in each step the panels travel, and then all nodes compute.
//!
//! # References
//! Clarke's thesis, sections 4.3.1, 5.1.5 and 5.2.3; Clarke et al. 2012, section 4.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use isochron_core::session::PlatformSpec;
use isochron_hierarchy::balance::{BalanceConfig, BalanceStart, BalanceStep, Inpa, Strategy};
use isochron_hierarchy::decide::{Division, Modelled};
use isochron_hierarchy::layout::{Grid, Layout, Method, by_models, fpm_br};
use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel};
use isochron_hierarchy::network::Network;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::predict::panel_phase;
use isochron_hierarchy::problem::Problem;
use serde::Serialize;

/// The multiplication, and the way to divide it.
#[derive(clap::Args)]
pub struct Grid5000Arguments {
    /// Platform file with models and a network
    platform: PathBuf,
    /// homogeneous, single-cpm, multi-cpm or fpm
    strategy: Strategy,
    /// Rows and columns of the matrices
    size: usize,
    /// Block size
    block: usize,
    /// Divide by full models, without measuring: FPM-BR
    #[arg(long)]
    full: bool,
    /// Divide by full models in this grid: FPM-KL
    #[arg(long, value_name = "PxQ", requires = "full")]
    grid: Option<Grid>,
}

/// The seconds of a multiplication.
#[derive(Debug, Serialize)]
struct SimulatedProduct {
    /// Of the multiplication: `compute_s + travel_s`.
    run_s: f64,
    /// With the measuring.
    total_s: f64,
    /// Of measuring before it.
    measuring_s: f64,
    /// Of the arithmetic of the slowest node.
    compute_s: f64,
    /// Of the messages of the busiest node.
    travel_s: f64,
    /// The part of the multiplication in which the average node does not compute.
    idle: f64,
    /// Sum of the half-perimeters over the side of C.
    volume: f64,
    /// The slowest node.
    slowest: String,
}

/// A cluster whose models are the clock.
struct SimulatedCluster {
    problem: Problem,
    names: Vec<String>,
    /// The points of each node's devices, in elements of C.
    points: Vec<Vec<Vec<Point>>>,
    network: Network,
}

/// Simulates a multiplication and prints its seconds as JSON.
///
/// # Errors
/// Fails for a platform file without models or a network, and with the errors of balancing.
pub fn run(arguments: &Grid5000Arguments) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&arguments.simulate()?)?);
    Ok(())
}

impl Grid5000Arguments {
    fn simulate(&self) -> anyhow::Result<SimulatedProduct> {
        let Self { size, block, .. } = *self;
        // As in the papers: no thought of what measuring costs, and the even division first.
        let config = BalanceConfig {
            strategy: self.strategy,
            start: BalanceStart::Even,
            ..BalanceConfig::default()
        };
        let cluster =
            SimulatedCluster::read(&self.platform, Problem::new(size, size, size, block)?)?;
        let mut modelled =
            Modelled::new(cluster.problem, config, cluster.points.clone())?.unknown();
        let layout = if self.full {
            cluster.divide(self.grid)?
        } else {
            balance(&cluster.problem, config, cluster.names.len(), &mut modelled)?
        };
        cluster.multiply(&modelled, layout)
    }
}

/// Balances the nodes by INPA, and their devices by IDPA.
fn balance(
    problem: &Problem,
    config: BalanceConfig,
    nodes: usize,
    modelled: &mut Modelled,
) -> anyhow::Result<Layout> {
    let (rows, cols) = problem.c_blocks();
    let mut inpa = Inpa::new(config, nodes, rows, cols);
    loop {
        match inpa.step() {
            BalanceStep::Done(balance) => return Ok(balance.layout),
            BalanceStep::Measure(parts) => inpa.observe(&modelled.predict(&parts, false)?)?,
        }
    }
}

impl SimulatedCluster {
    fn read(path: &Path, problem: Problem) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let platform = PlatformSpec::from_toml(&text, path.parent().unwrap_or(Path::new(".")))?;
        let mut points = Vec::new();
        for node in platform.nodes() {
            let devices = node.devices().iter().map(|device| {
                let saved = device.saved_model().with_context(|| node.name().to_owned())?;
                let (area, factor) =
                    (saved.block * saved.block, problem.block() as f64 / saved.block as f64);
                let points = saved.points.iter();
                let points = points.map(|it| Point { d: it.d * area, ..it.scale_time(factor) });
                anyhow::Ok(points.collect())
            });
            points.push(devices.collect::<anyhow::Result<_>>()?);
        }
        let names = platform.nodes().iter().map(|node| node.name().to_owned()).collect();
        let network = platform.network().context("no [network]")?.clone();
        Ok(Self { problem, names, points, network })
    }

    /// Divides C by the models themselves, in a grid by FPM-KL and else by FPM-BR.
    fn divide(&self, grid: Option<Grid>) -> anyhow::Result<Layout> {
        let area = self.problem.block().pow(2) as u64;
        let models = self.points.iter().map(|devices| {
            let [points] = &devices[..] else { anyhow::bail!("full models are of single devices") };
            let blocks = points.iter().map(|it| Point { d: (it.d / area).max(1), ..*it });
            Ok(PiecewiseFpm::from_points(blocks.collect())?)
        });
        let models: Vec<PiecewiseFpm> = models.collect::<anyhow::Result<_>>()?;
        let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
        let (rows, cols) = self.problem.c_blocks();
        let Some(grid) = grid else { return Ok(fpm_br(&models, rows, cols)?) };
        let even = (rows * cols) as f64 / models.len() as f64;
        let speeds: Vec<f64> = models.iter().map(|model| model.speed(even)).collect();
        let columns = grid.columns(&speeds)?;
        Ok(by_models(Method::FpmKl, Some(&columns), Partitioner::Gpa, &models, rows, cols)?)
    }

    fn multiply(&self, modelled: &Modelled, layout: Layout) -> anyhow::Result<SimulatedProduct> {
        let (size, block) = (self.problem.k(), self.problem.block());
        ensure!(size.is_multiple_of(block), "the size is no multiple of {block}");
        let phase = panel_phase(&self.network, &layout, block, size, block);
        let travel_s = self.network.phase_s(&phase, self.problem.element().bytes());
        let volume = layout.half_perimeter_sum() as f64 / layout.rows() as f64;
        let division = Division::C(layout);
        let times_s = modelled.predict_slices(&division, &modelled.slice(&division));
        let last = (0..times_s.len()).max_by(|&a, &b| times_s[a].total_cmp(&times_s[b]));
        let last = last.context("no nodes")?;
        let steps = (size / block) as f64;
        let compute_s = steps * times_s[last];
        let run_s = compute_s + travel_s;
        let measuring_s = modelled.measuring_s();
        let mean_s = steps * times_s.iter().sum::<f64>() / times_s.len() as f64;
        Ok(SimulatedProduct {
            run_s,
            total_s: run_s + measuring_s,
            measuring_s,
            compute_s,
            travel_s,
            idle: 1.0 - mean_s / run_s,
            volume,
            slowest: self.names[last].clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_platform(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster-configs");
        folder.join(name).with_extension("toml")
    }

    fn simulate(strategy: Strategy, size: usize) -> anyhow::Result<SimulatedProduct> {
        let platform = find_platform("grid5000-grenoble-90");
        Grid5000Arguments { platform, strategy, size, block: 128, full: false, grid: None }
            .simulate()
    }

    #[test]
    fn a_node_of_one_core_governs_the_even_division() -> anyhow::Result<()> {
        let [even, fpm] = [Strategy::Homogeneous, Strategy::Fpm].map(|by| simulate(by, 45_056));
        let (even, fpm) = (even?, fpm?);
        assert_eq!(even.slowest, "edel-1");
        // An even share of the product at 8.2 GFLOP/s, to whole blocks.
        let share_s = 2.0 * 45_056f64.powi(3) / 90.0 / 8.2e9;
        assert!((even.compute_s / share_s - 1.0).abs() < 0.05, "{even:?}");
        assert!(even.measuring_s == 0.0 && fpm.measuring_s > 0.0);
        assert!(fpm.total_s < 0.5 * even.total_s, "{fpm:?}");
        Ok(())
    }

    #[test]
    fn two_columns_of_seven_have_the_volume_nine() -> anyhow::Result<()> {
        let problem = Problem::new(13_440, 13_440, 13_440, 16)?;
        let path = find_platform("grid5000-lille-64");
        let mut cluster = SimulatedCluster::read(&path, problem)?;
        // Unlike nodes: seven of each of two kinds.
        cluster.points = cluster.points.drain(13..27).collect();
        let grid = cluster.divide(Some(Grid { rows: 7, cols: 2 }))?;
        assert_eq!(grid.half_perimeter_sum(), (2 + 7) * 840);
        assert!(cluster.divide(None)?.half_perimeter_sum() < 8 * 840);
        Ok(())
    }
}
