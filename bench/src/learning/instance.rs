//! Made-up clusters: nodes with known times, and the best that any division can do with them.

use std::collections::BTreeMap;

use isochron_hierarchy::times::find_median;
use isochron_support::simulated::SplitMix;

/// Speeds of two processors on each of 32 nominally alike nodes, by day. Four nodes had a fault of their cooling.
const NOMINAL: &str = include_str!("../../../cluster-configs/data/dahu-dgemm.csv");

/// Rows and columns of a block of C, in elements.
pub const BLOCK: f64 = 128.0;

/// Width of the panel of a step, in elements.
const PANEL: f64 = 256.0;

/// Bytes of an element.
pub const ELEMENT_BYTES: usize = 8;

/// Rows and columns of an even share, in blocks: 1 GiB of C on each node.
const SIDE_EACH: f64 = 90.0;

/// Operations a second of a node that is like all others, and of the slowest and the fastest of unlike ones.
const ALIKE_FLOPS: f64 = 50e9;
const SLOWEST_FLOPS: f64 = 20e9;
const FASTEST_FLOPS: f64 = 160e9;

/// The part of the nodes with a start-up cost, and with a cliff.
const AFFECTED: f64 = 0.3;

/// The part of the steps of a node that another program disturbs.
const DISTURBED: f64 = 0.1;

/// Largest factor of a first step.
const COLD: f64 = 1.25;

/// A kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Setting {
    /// Nodes of one constant speed.
    Alike,
    /// Nodes of constant speeds that differ by a factor of up to 8.
    Unlike,
    /// Unlike nodes; three tenths have a fixed cost of up to a tenth of an even share.
    StartUp,
    /// Unlike nodes; three tenths have a fixed cost of up to two even shares.
    LongStartUp,
    /// Unlike nodes whose speeds rise to their peaks over up to an even share.
    Saturating,
    /// Unlike nodes; three tenths have memory for 0.3 to 1.5 even shares. Each block beyond takes 4 to 29 times as
    /// long.
    Cliff,
    /// Unlike nodes; another program has the cores of a node in each tenth step, and its clock says so.
    Disturbed,
    /// Nominally alike nodes of one site: an instance is a day of its published speeds.
    Nominal,
    /// Unlike nodes whose first step with a division takes up to 1.25 times as long as later ones.
    Cold,
}

/// A node that takes `(fixed + d·(d + half) / (d + floor·half) + steeper·max(0, d - memory)) / speed` seconds for `d`
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownNode {
    /// Peak, in blocks a second.
    speed: f64,
    /// Start-up cost in blocks.
    fixed: f64,
    /// Blocks at which half of the way from the lowest speed to the peak is made.
    half: f64,
    /// The lowest speed, as a part of the peak.
    floor: f64,
    /// Blocks that fit the memory.
    memory: f64,
    /// Extra cost of a block beyond the memory, in blocks.
    steeper: f64,
}

impl KnownNode {
    fn draw(setting: Setting, share: f64, random: &mut SplitMix) -> Self {
        let flops = match setting {
            Setting::Alike | Setting::Nominal => ALIKE_FLOPS,
            _ => random.log_uniform(SLOWEST_FLOPS, FASTEST_FLOPS),
        };
        let straight = Self {
            speed: flops / (2.0 * BLOCK * BLOCK * PANEL),
            fixed: 0.0,
            half: 0.0,
            floor: 1.0,
            memory: f64::INFINITY,
            steeper: 0.0,
        };
        let is_affected = random.uniform(0.0, 1.0) < AFFECTED;
        let (part, other) = (random.uniform(0.0, 1.0), random.uniform(0.0, 1.0));
        match setting {
            Setting::StartUp if is_affected => Self { fixed: 0.1 * part * share, ..straight },
            Setting::LongStartUp if is_affected => Self { fixed: 2.0 * part * share, ..straight },
            Setting::Saturating => {
                Self { half: part * share, floor: 0.1 + 0.4 * other, ..straight }
            }
            Setting::Cliff if is_affected => {
                Self { memory: (0.3 + 1.2 * part) * share, steeper: 3.0 + 25.0 * other, ..straight }
            }
            _ => straight,
        }
    }

    /// Returns the seconds of a step with `d` blocks; 0 without any.
    pub fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 {
            return 0.0;
        }
        let rising = d * (d + self.half) / (d + self.floor * self.half);
        let beyond = (d - self.memory).max(0.0);
        (self.fixed + rising + self.steeper * beyond) / self.speed
    }

    /// Returns the most blocks that take at most `t_s`.
    fn blocks_within(&self, t_s: f64) -> f64 {
        // A block takes at least 1 / speed.
        bisect(0.0, t_s * self.speed, |d| self.time_s(d) <= t_s)
    }
}

/// Returns the largest number from `low` up to `high` that is accepted, where all smaller ones are, too.
fn bisect(mut low: f64, mut high: f64, accepts: impl Fn(f64) -> bool) -> f64 {
    if accepts(high) {
        return high;
    }
    // 50 bits are more than the sums over the nodes keep.
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if accepts(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// A cluster with a square C.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCluster {
    /// Its nodes.
    pub nodes: Vec<KnownNode>,
    /// Rows and columns of C in blocks.
    pub side: u64,
    /// Probability that a step of a node is disturbed.
    pub disturbed: f64,
    /// Largest factor of the first step with a division.
    pub cold: f64,
    /// `true` if a contender knows that the nodes are of one kind, and that all of C fits the memory of each.
    pub is_one_kind: bool,
}

impl KnownCluster {
    /// Draws the cluster of this number, the same one in every run.
    pub fn draw(setting: Setting, n_nodes: usize, number: u64) -> Self {
        let side = (SIDE_EACH * (n_nodes as f64).sqrt()).round();
        let share = side * side / n_nodes as f64;
        let mut random = SplitMix::new((n_nodes as u64) << 32 | number);
        let mut nodes: Vec<KnownNode> =
            (0..n_nodes).map(|_| KnownNode::draw(setting, share, &mut random)).collect();
        if setting == Setting::Nominal {
            let speeds = read_nominal(number as usize);
            for (index, node) in nodes.iter_mut().enumerate() {
                let drawn = random.uniform(0.0, speeds.len() as f64) as usize;
                // All nodes of the site, or some of them.
                let is_own = index < speeds.len() && speeds.len() <= n_nodes;
                node.speed *= speeds[if is_own { index } else { drawn }];
            }
        }
        Self {
            nodes,
            side: side as u64,
            cold: if setting == Setting::Cold { COLD } else { 1.0 },
            is_one_kind: setting == Setting::Nominal,
            disturbed: if setting == Setting::Disturbed { DISTURBED } else { 0.0 },
        }
    }

    /// Returns the blocks of an even share.
    pub fn even_share(&self) -> f64 {
        (self.side * self.side) as f64 / self.nodes.len() as f64
    }

    /// Returns the seconds of a step with even shares.
    pub fn even_s(&self) -> f64 {
        let share = self.even_share();
        self.nodes.iter().map(|node| node.time_s(share)).fold(0.0, f64::max)
    }

    /// Returns the true seconds of a step of each node.
    pub fn times_s(&self, blocks: &[u64]) -> Vec<f64> {
        self.nodes.iter().zip(blocks).map(|(node, &d)| node.time_s(d as f64)).collect()
    }

    /// Returns the seconds of a step that no division undercuts: the least time within which the nodes complete all
    /// blocks. A node that starts up for longer has none.
    pub fn ideal_s(&self) -> f64 {
        let all = (self.side * self.side) as f64;
        let alone_s = self.nodes.iter().map(|node| node.time_s(all));
        bisect(0.0, alone_s.fold(f64::INFINITY, f64::min), |t_s| {
            self.nodes.iter().map(|node| node.blocks_within(t_s)).sum::<f64>() < all
        })
    }
}

/// Reads the relative speed of each node on a day: the mean of its processors. A node that was not measured then has its speed of the last
/// day before, or of the first.
fn read_nominal(day: usize) -> Vec<f64> {
    let mut days: Vec<&str> = Vec::new();
    let mut nodes: BTreeMap<&str, (usize, Vec<f64>)> = BTreeMap::new();
    for row in NOMINAL.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let [date, node, _, rate, ..] = row.split(',').collect::<Vec<_>>()[..] else { continue };
        if days.last() != Some(&date) {
            days.push(date);
        }
        let today = days.len() - 1;
        let (of_day, rates) = nodes.entry(node).or_insert((today, Vec::new()));
        if *of_day < today && today <= day {
            (*of_day, *rates) = (today, Vec::new());
        }
        if *of_day == today {
            rates.extend(rate.parse::<f64>());
        }
    }
    let means = nodes.values().map(|(_, rates)| rates.iter().sum::<f64>() / rates.len() as f64);
    let means: Vec<f64> = means.collect();
    let usual = find_median(&means);
    means.iter().map(|mean| mean / usual).collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    /// Returns the seconds of the slowest node when the blocks are divided by chance.
    fn divide_by_chance(cluster: &KnownCluster, random: &mut SplitMix) -> f64 {
        let weights = cluster.nodes.iter().map(|_| random.uniform(0.0, 1.0).powi(3));
        let weights: Vec<f64> = weights.collect();
        let all = (cluster.side * cluster.side) as f64 / weights.iter().sum::<f64>();
        let times_s =
            (cluster.nodes.iter().zip(&weights)).map(|(node, part)| node.time_s(part * all));
        times_s.fold(0.0, f64::max)
    }

    #[test]
    fn the_ideal_is_reached_and_not_undercut() {
        let mut random = SplitMix::new(1);
        for &setting in Setting::value_variants() {
            for number in 0..20 {
                let cluster = KnownCluster::draw(setting, 4, number);
                let ideal_s = cluster.ideal_s();
                let found_s = (0..200).map(|_| divide_by_chance(&cluster, &mut random));
                assert!(found_s.fold(f64::INFINITY, f64::min) >= ideal_s * (1.0 - 1e-9));
                let all = (cluster.side * cluster.side) as f64;
                let shares = cluster.nodes.iter().map(|node| node.blocks_within(ideal_s));
                assert!((shares.sum::<f64>() / all - 1.0).abs() < 1e-9, "{setting:?} {number}");
            }
        }
    }

    #[test]
    fn a_node_that_starts_up_for_too_long_has_no_part_in_the_ideal() {
        let [fast, slow] = [0.0, 1e9].map(|fixed| KnownNode {
            speed: 100.0,
            fixed,
            half: 0.0,
            floor: 1.0,
            memory: f64::INFINITY,
            steeper: 0.0,
        });
        let nodes = vec![fast, slow];
        let cluster =
            KnownCluster { nodes, side: 10, disturbed: 0.0, cold: 1.0, is_one_kind: false };
        assert!((cluster.ideal_s() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn times_follow_their_formula() {
        let node = KnownNode {
            speed: 10.0,
            fixed: 5.0,
            half: 100.0,
            floor: 0.5,
            memory: 60.0,
            steeper: 3.0,
        };
        assert_eq!(node.time_s(0.0), 0.0);
        // 50 · 150 / 100, and the start.
        assert!((node.time_s(50.0) - 8.0).abs() < 1e-12);
        // 100 · 200 / 150, the start, and 40 blocks beyond.
        assert!((node.time_s(100.0) - (400.0 / 3.0 + 5.0 + 120.0) / 10.0).abs() < 1e-12);
        assert!((node.blocks_within(node.time_s(100.0)) - 100.0).abs() < 1e-9);
    }
}
