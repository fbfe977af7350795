//! A made-up cluster of unlike nodes and devices, and INPA over IDPA on it, driven as a session does.

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceError, BalanceStep, DeviceModels, Extent, Idpa, Inpa, NodeBalance,
};
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::partition::apportion;
use isochron_hierarchy::times::Sample;

/// Columns of the matrix in one block.
const BLOCK: u64 = 64;

/// Every measured time is wrong by up to this part of it, in either direction.
const NOISE: f64 = 0.02;

/// Repetitions that a measured time stands for.
const REPS: u32 = 3;

/// Standard error, as a part of the time: the standard deviation of uniform noise.
const ERROR: f64 = NOISE * 0.577;

/// Imbalance to which the nodes are balanced.
const NODES_EPSILON: f64 = 0.1;

/// Divisions measured at most, on either level. Beyond a cliff, balancing approaches from one side only.
const MAX_ITERATIONS: u32 = 20;

/// Number of devices of which one runs out of memory.
const CLIFFS: f64 = 5.0;

/// Numbers that look random and are the same in every run: `SplitMix64`.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` up to `high`, uniformly.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next_bits() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// Returns a number from `low` up to `high`, the logarithm uniformly.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.uniform(0.0, 1.0))
    }
}

/// A device that takes `(d + half) / peak` seconds for `d` blocks, as long as they fit its memory. Each
/// block beyond takes ten times as long.
#[derive(Debug, Clone, Copy)]
struct SimulatedDevice {
    peak: f64,
    half: f64,
    /// In blocks.
    memory: f64,
}

impl SimulatedDevice {
    /// Draws a start-up time and a memory for a device with this share of the matrix.
    fn draw(random: &mut SplitMix, peak: f64, share: f64) -> Self {
        let memory = random.uniform(0.3, 1.5) * share;
        Self {
            peak,
            half: random.uniform(0.0, 0.05) * share,
            memory: if random.uniform(0.0, CLIFFS) < 1.0 { memory } else { f64::INFINITY },
        }
    }

    fn time_s(&self, blocks: f64) -> f64 {
        if blocks > 0.0 {
            (blocks + self.half + 9.0 * (blocks - self.memory).max(0.0)) / self.peak
        } else {
            0.0
        }
    }

    /// Returns the most blocks that take at most `t_s`.
    fn blocks_within(&self, t_s: f64) -> f64 {
        let in_memory = (t_s * self.peak - self.half).max(0.0);
        if in_memory <= self.memory {
            in_memory
        } else {
            self.memory + (in_memory - self.memory) / 10.0
        }
    }
}

/// A node's devices, and the findings of its IDPA.
#[derive(Debug, Clone)]
struct SimulatedNode {
    devices: Vec<SimulatedDevice>,
    random: SplitMix,
    /// The models of the devices after the last sub-matrix.
    known: Option<DeviceModels>,
    /// The slices that IDPA found for each sub-matrix.
    found: Vec<(Extent, Vec<u64>)>,
}

impl SimulatedNode {
    /// Divides a sub-matrix by IDPA and returns its time.
    fn balance_devices(
        &mut self,
        config: BalanceConfig,
        extent: Extent,
    ) -> Result<Sample, BalanceError> {
        let (rows, columns) = (extent.rows * BLOCK, extent.cols * BLOCK);
        let mut idpa = Idpa::new(config, self.devices.len(), rows, columns, self.known.as_ref());
        loop {
            match idpa.step() {
                BalanceStep::Measure(slices) => {
                    let times = self.measure_slices(extent.rows, &slices);
                    idpa.observe(&times)?;
                }
                BalanceStep::Done(balance) => {
                    let observed = balance.to_sample();
                    if columns > 0 {
                        self.known = Some(balance.models);
                        self.found.push((extent, balance.slices));
                    }
                    return Ok(observed);
                }
            }
        }
    }

    fn measure_slices(&mut self, rows: u64, slices: &[u64]) -> Vec<Sample> {
        let mut times = Vec::with_capacity(slices.len());
        for (device, &columns) in self.devices.iter().zip(slices) {
            let noise = self.random.uniform(1.0 - NOISE, 1.0 + NOISE);
            let t_s = device.time_s(to_blocks(rows, columns)) * noise;
            times.push(Sample::measured(columns, t_s, REPS, ERROR * t_s));
        }
        times
    }

    /// Returns the true seconds of a sub-matrix with the slices last found for it. If it was never measured,
    /// the slices follow the devices' models.
    fn time_s(&self, extent: Extent) -> f64 {
        let known = self.found.iter().rev().find(|(found, _)| *found == extent);
        let (rows, columns) = (extent.rows * BLOCK, extent.cols * BLOCK);
        let slices = match (known, &self.known) {
            (Some((_, slices)), _) => slices.clone(),
            (None, Some(models)) => {
                models.divide(balance_to(NODES_EPSILON).for_devices(), rows, columns)
            }
            (None, None) => apportion(columns, &vec![1.0; self.devices.len()]),
        };
        self.devices
            .iter()
            .zip(&slices)
            .map(|(device, &columns)| device.time_s(to_blocks(extent.rows, columns)))
            .fold(0.0, f64::max)
    }
}

/// Returns the blocks of a slice of `columns` matrix columns, `rows` blocks high.
fn to_blocks(rows: u64, columns: u64) -> f64 {
    rows as f64 * columns as f64 / BLOCK as f64
}

fn balance_to(epsilon: f64) -> BalanceConfig {
    BalanceConfig { epsilon, max_iterations: MAX_ITERATIONS, ..BalanceConfig::default() }
}

/// Nodes of unlike devices, and a square matrix for them.
#[derive(Debug, Clone)]
pub struct SimulatedCluster {
    nodes: Vec<SimulatedNode>,
    side: u64,
}

impl SimulatedCluster {
    /// Makes `n_nodes` nodes of `n_devices` devices each, and a matrix of `side × side` blocks.
    ///
    /// The devices' peak speeds differ by a factor of up to 20. Each starts up for up to a twentieth of the
    /// time that all of them take for the matrix. A fifth of them run out of memory somewhere between three
    /// tenths and one and a half of their share.
    #[must_use]
    pub fn new(n_nodes: usize, n_devices: usize, side: u64, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let n = n_nodes * n_devices;
        let peaks: Vec<f64> = (0..n).map(|_| random.log_uniform(1.0, 20.0)).collect();
        let even_s = (side * side) as f64 / peaks.iter().sum::<f64>();
        let devices: Vec<SimulatedDevice> = peaks
            .iter()
            .map(|&peak| SimulatedDevice::draw(&mut random, peak, peak * even_s))
            .collect();
        let mut nodes = Vec::with_capacity(n_nodes);
        for devices in devices.chunks(n_devices) {
            nodes.push(SimulatedNode {
                devices: devices.to_vec(),
                random: SplitMix::new(random.next_bits()),
                known: None,
                found: Vec::new(),
            });
        }
        Self { nodes, side }
    }

    /// Balances the matrix over the nodes, and each node's part over its devices.
    ///
    /// The devices' tolerance is the smaller one. A node's time depends on the balance of its devices, and
    /// many nodes differ by as much as that tolerance permits.
    ///
    /// # Errors
    /// Fails as [`Inpa::observe`] or [`Idpa::observe`].
    pub fn balance_nodes(&mut self) -> Result<NodeBalance, BalanceError> {
        let config = balance_to(NODES_EPSILON);
        let mut inpa = Inpa::new(config, self.nodes.len(), self.side, self.side);
        loop {
            match inpa.step() {
                BalanceStep::Done(balance) => return Ok(balance),
                BalanceStep::Measure(extents) => {
                    let times: Result<Vec<_>, _> = self
                        .nodes
                        .iter_mut()
                        .zip(extents)
                        .map(|(node, extent)| {
                            node.balance_devices(balance_to(NODES_EPSILON).for_devices(), extent)
                        })
                        .collect();
                    inpa.observe(&times?)?;
                }
            }
        }
    }

    /// Returns the seconds that each node really takes with its rectangle, without noise.
    #[must_use]
    pub fn times_s(&self, layout: &Layout) -> Vec<f64> {
        self.nodes
            .iter()
            .zip(layout.rects())
            .map(|(node, rect)| node.time_s(Extent::from(rect)))
            .collect()
    }

    /// Returns the seconds that the matrix takes if all devices of all nodes finish together.
    #[must_use]
    pub fn ideal_s(&self) -> f64 {
        let blocks = (self.side * self.side) as f64;
        let devices: Vec<SimulatedDevice> =
            self.nodes.iter().flat_map(|n| n.devices.clone()).collect();
        let slowest = devices.iter().map(|device| device.peak).fold(f64::INFINITY, f64::min);
        // Even the slowest device could do everything in the higher of these times.
        let (mut low, mut high) = (0.0, 11.0 * blocks / slowest);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            let done: f64 = devices.iter().map(|d| d.blocks_within(middle)).sum();
            if done <= blocks {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}
