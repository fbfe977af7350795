//! Ranks for programs that give all ranks equal parts, as ScaLAPACK does: faster hosts have more of them.

use std::collections::BTreeSet;

use crate::layout::Grid;
use crate::model::SpeedModel;
use crate::network::{Network, count_rounds};
use crate::partition::{Limits, PartitionError, SplitOptions};
use crate::predict::choose_fewest;
use crate::problem::Problem;

/// A host that may have several ranks.
#[derive(Debug)]
pub struct EqualHost<'m> {
    /// Its speed over the units of C that all its ranks have, by its whole memory and all its cores.
    pub speed: &'m dyn SpeedModel,
    /// The most ranks that it may have: its cores.
    pub cores: usize,
}

/// Ranks of equal parts of a multiplication, in a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualRanks {
    /// The ranks of each host. They are numbered host by host, and fill the grid row by row.
    pub ranks: Vec<usize>,
    /// The grid.
    pub grid: Grid,
    /// Predicted seconds of the arithmetic of the slowest host.
    pub compute_s: f64,
    /// Predicted seconds of the messages of the busiest link, which no arithmetic hides.
    pub travel_s: f64,
}

/// Most ranks for each host, in the mean over all hosts.
const MOST_RANKS: usize = 8;

/// Most numbers of ranks that are compared.
const COMPARED: usize = 256;

impl EqualRanks {
    /// Predicted seconds of the whole.
    pub fn wall_s(&self) -> f64 {
        self.compute_s + self.travel_s
    }

    /// Chooses the ranks of each host and their grid, by the least predicted seconds; within 1 % of these, fewest ranks. C lies block-cyclically over the grid, and its
    /// blocks are those of the problem. A slow host may get no rank.
    ///
    /// A unit of the speeds is the update of a block of C of `side` rows and columns by as much of k. In each of the steps of a block, a panel
    /// of A passes along the rows of the grid and one of B along its columns, once to each host.
    ///
    /// # Errors
    /// Returns [`PartitionError`] if there are no hosts, or their models do not admit a division.
    ///
    /// # References
    /// Alonso, Reddy and Lastovetsky 2009, sections 3 and 4: applications of equal parts with the best combination of processes and threads, and
    /// Heterogeneous ScaLAPACK.
    pub fn choose(
        problem: &Problem,
        side: usize,
        hosts: &[EqualHost<'_>],
        network: &Network,
    ) -> Result<Self, PartitionError> {
        let cores = hosts.iter().map(|host| host.cores).fold(0, usize::saturating_add);
        let most = cores.min(MOST_RANKS * hosts.len());
        let [units, updates] =
            [problem.m() as f64 * problem.n() as f64 / side as f64, problem.k() as f64]
                .map(|elements| elements / side as f64);
        let mut found: Vec<Self> = Vec::new();
        // For many hosts, every few totals, and the ones of equally many ranks on each host.
        let step = most.div_ceil(COMPARED).max(1);
        let totals = (1..=most)
            .filter(|total| total.is_multiple_of(step) || total.is_multiple_of(hosts.len()));
        for total in totals {
            let part = units / total as f64;
            let share = (part.ceil() as u64).max(1);
            let caps = hosts.iter().map(|host| (host.cores as u64).saturating_mul(share));
            let limits = caps.map(|cap| Limits { cap: Some(cap), ..Limits::default() });
            let how = SplitOptions {
                granule: share,
                limits: limits.collect(),
                ..SplitOptions::default()
            };
            let models: Vec<&dyn SpeedModel> = hosts.iter().map(|host| host.speed).collect();
            let parts = how.divide(&models, total as u64 * share)?;
            let ranks: Vec<usize> =
                parts.units.iter().map(|units| (units / share) as usize).collect();
            let times_s = hosts.iter().zip(&ranks);
            let times_s = times_s.map(|(host, &ranks)| host.speed.time_s(ranks as f64 * part));
            let slowest_s = updates * times_s.fold(0.0, f64::max);
            for rows in (1..=total).filter(|rows| total.is_multiple_of(*rows)) {
                let grid = Grid { rows, cols: total / rows };
                found.push(Self {
                    compute_s: slowest_s * fullest_part(problem, grid),
                    travel_s: travel_s(problem, &ranks, grid, network),
                    ranks: ranks.clone(),
                    grid,
                });
            }
        }
        let sizes: Vec<(f64, usize)> =
            found.iter().map(|it| (it.wall_s(), it.ranks.iter().sum())).collect();
        let best = choose_fewest(&sizes).ok_or(PartitionError::NoDevices { total: 1 })?;
        Ok(found.swap_remove(best))
    }
}

/// Returns the largest part of a rank over an equal one: whole blocks are dealt out.
fn fullest_part(problem: &Problem, grid: Grid) -> f64 {
    let (rows, cols) = problem.c_blocks();
    let fullest = |blocks: u64, ranks: usize| {
        blocks.div_ceil(ranks as u64) as f64 * ranks as f64 / blocks.max(1) as f64
    };
    fullest(rows, grid.rows) * fullest(cols, grid.cols)
}

/// Returns the seconds of the messages of the busiest host or uplink.
fn travel_s(problem: &Problem, ranks: &[usize], grid: Grid, network: &Network) -> f64 {
    let [m, n, k] = [problem.m(), problem.n(), problem.k()].map(|side| side as f64);
    let all = (grid.rows * grid.cols) as f64;
    let first: Vec<usize> =
        ranks.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count))).collect();
    let bytes_into = |hosts: &[usize]| {
        let of_hosts = hosts.iter().flat_map(|&host| first[host]..first[host] + ranks[host]);
        let places: Vec<usize> = of_hosts.collect();
        let count_lines = |of: fn(usize, usize) -> usize| {
            places.iter().map(|&rank| of(rank, grid.cols)).collect::<BTreeSet<_>>().len() as f64
        };
        let rows = count_lines(|rank, cols| rank / cols) * m / grid.rows as f64;
        let cols = count_lines(|rank, cols| rank % cols) * n / grid.cols as f64;
        let held = places.len() as f64 * (m + n) / all;
        (rows + cols - held).max(0.0) * k * problem.element().bytes() as f64
    };
    let level = network.level(0);
    let rounds = count_rounds(grid.rows - 1) + count_rounds(grid.cols - 1);
    let latency_s = problem.k_blocks() as f64 * f64::from(rounds) * level.latency_s();
    let of_hosts = (0..ranks.len())
        .map(|host| bytes_into(&[host]) / level.bytes_per_s().min(network.adapter(host)));
    let of_uplinks =
        network.uplinks().iter().map(|uplink| bytes_into(&uplink.ranks) / uplink.bytes_per_s);
    let busiest_s = of_hosts.chain(of_uplinks).fold(0.0, f64::max);
    if busiest_s > 0.0 { busiest_s + latency_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, Point};

    const FAST: f64 = 1e12;

    /// Chooses the ranks for a product of this side on hosts of these speeds, in elements of C per second, and cores.
    fn choose(side: usize, hosts: &[(f64, usize)], bytes_per_s: f64) -> EqualRanks {
        let constant = |speed: f64| {
            let point = Point { d: speed as u64, t_s: 1.0, reps: 1, ci_s: 0.0 };
            Cpm::from_points(&[point]).unwrap()
        };
        let speeds: Vec<Cpm> = hosts.iter().map(|(speed, _)| constant(*speed)).collect();
        let hosts: Vec<EqualHost<'_>> = (speeds.iter().zip(hosts))
            .map(|(speed, &(_, cores))| EqualHost { speed, cores })
            .collect();
        let problem = Problem::new(side, side, side, 64).unwrap();
        let network = Network::flat(1e-5, bytes_per_s);
        EqualRanks::choose(&problem, 1, &hosts, &network).unwrap()
    }

    #[test]
    fn faster_hosts_have_more_ranks_as_far_as_they_have_cores() {
        let speeds = [8e9, 4e9, 2e9, 1e9];
        let free = choose(15 * 640, &speeds.map(|speed| (speed, 64)), FAST);
        assert_eq!((&free.ranks[..], free.grid.rows * free.grid.cols), (&[8, 4, 2, 1][..], 15));
        let one_each = choose(9600, &[8e9, 5e9, 2e9, 1e9].map(|speed| (speed, 1)), FAST);
        // The slowest host would make all others wait.
        assert_eq!(one_each.ranks, [1, 1, 0, 0]);
        let alike = choose(9600, &[(1e9, 1); 4], FAST);
        assert_eq!((alike.ranks, alike.grid), (vec![1; 4], Grid { rows: 2, cols: 2 }));
        let many = choose(9600, &[(1e9, 1); 40], FAST);
        assert_eq!(many.ranks, vec![1; 40]);
    }

    #[test]
    fn messages_between_hosts_choose_the_grid_and_how_many_work() {
        let alike = [(1e9, 4); 4];
        let [fast, slow] = [FAST, 1e5].map(|bytes_per_s| choose(9600, &alike, bytes_per_s));
        assert_eq!(fast.ranks.iter().filter(|ranks| **ranks > 0).count(), 4);
        assert_eq!(slow.ranks.iter().filter(|ranks| **ranks > 0).count(), 1, "{slow:?}");
        assert_eq!(slow.travel_s, 0.0);
        // Two hosts exchange half of one factor.
        let two = choose(6400, &[(1e9, 1); 2], 1e9);
        let half = 6400.0 * 6400.0 / 2.0 * 8.0;
        assert!((two.travel_s - half / 1e9 - 100.0 * 1e-5).abs() < 1e-6, "{two:?}");
    }
}
