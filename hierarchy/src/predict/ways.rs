//! The ways to divide a multiplication, their predicted times, and the choice of one.
//!
//! While C stays, nearly square rectangles need the least traffic if C is nearly square. If C is long
//! and thin, slices do: every node receives the short factor, and the long one stays.
//! [`br()`](crate::layout::br()) finds both by itself, since a single column and as many columns as
//! nodes are among its candidates. From 4×4 to 512×4 blocks on 2 to 6 nodes, slices never brought less
//! traffic to the busiest node, as long as every node had a part. They can only be rounded better. So
//! the balanced layout is taken unless another way is predicted to be [clearly faster](choose_way()).
//!
//! # Deviations
//!
//! * **division of C alone**: the paper gives every node a rectangle of C (Clarke et al. 2012, section
//!   3). Here k may be divided instead, because with a long k the panels outweigh C. It is considered if
//!   the sum of C travels in less than half the time of the panels. The shares of k are in proportion to
//!   the nodes' speeds on all of C, and the parts are summed. The candidates are C in rectangles, m in
//!   slices of rows, n in slices of columns, and k in shares if it was measured. The prediction of each
//!   (`candidates` in the report) counts the arithmetic in whole blocks, the cost of hidden messages on
//!   computing cores, and the messages that nothing hides. The fastest is used, but the balanced layout
//!   unless another way is faster by 3 %. Between hosts the default strategy takes shares
//!   of k only if they are faster by a tenth, because it cannot change them in the run. The CMA makes
//!   slices by itself for a long and thin C, as columns of one node each or as one column. The report
//!   names the way (`way`, `split`).
//! * **groups of hosts**: the paper arranges all nodes at once (Clarke et al. 2012, section 3). Here the groups of a network are
//!   arranged first, and the nodes of each in its rectangle, if the run is then predicted to be faster by 3 %, since little passes
//!   between the groups. A caller who has chosen a layout or a split gets no other.

use serde::{Deserialize, Serialize};

use super::subset::{find_messages_s, panels_s};
use super::{Cluster, NodeRate, reduction_phase, wall_s};
use crate::layout::{Layout, LayoutError, Method, Way, arrange_in_groups, slice_cols, slice_rows};
use crate::network::Network;
use crate::partition::apportion;
use crate::problem::Problem;

/// A way to divide a multiplication, and its predicted time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The divided matrix or dimension: `c` is C in rectangles (twice if groups of hosts may have rectangles of their own), `m` C in slices of rows, `n` C in slices of columns,
    /// `k` k in shares.
    pub way: Way,
    /// Predicted seconds in total: arithmetic, and the messages that it does not hide.
    pub wall_s: f64,
}

/// Lists the ways to divide C: in this layout, and with its areas in a rectangle for each group of the network, in slices of rows,
/// and of columns.
///
/// Slices are left out if the layout is such slices itself, or if a node that has a part would get no
/// line of blocks; [`choose_nodes()`](super::choose_nodes()) is the function that leaves nodes out. The
/// speeds were measured with these areas. Slices in proportion to the speeds would be another
/// balancing, by the luck of the last measurement.
///
/// # Errors
/// Returns [`LayoutError`] if there are no nodes, or if C has more blocks than can be counted.
pub fn in_place(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    layout: &Layout,
    nodes: &[NodeRate],
) -> Result<Vec<(Candidate, Layout)>, LayoutError> {
    let (rows, cols) = problem.c_blocks();
    let predict = |layout: &Layout| predict_in_layout(problem, cluster, network, layout, nodes);
    let areas: Vec<f64> = layout.areas().iter().map(|&area| area as f64).collect();
    let slices =
        [slice_rows(cols, &apportion(rows, &areas))?, slice_cols(rows, &apportion(cols, &areas))?];
    let mut ways = vec![(predict(layout), layout.clone())];
    let groups = network.list_groups();
    if !groups.is_empty() {
        let grouped = arrange_in_groups(Method::Br, &groups, &areas, rows, cols)?;
        let mapped = predict(&grouped);
        if have_blocks(&grouped, &areas) {
            ways.push((mapped, grouped));
        }
    }
    for slices in slices {
        let other = predict(&slices);
        // One node with everything is no slice.
        if have_blocks(&slices, &areas) && other.way != Way::C && other.way != ways[0].0.way {
            ways.push((other, slices));
        }
    }
    Ok(ways)
}

/// Returns `true` if every node with an area has blocks.
fn have_blocks(layout: &Layout, areas: &[f64]) -> bool {
    layout.areas().into_iter().zip(areas).all(|(blocks, &area)| blocks > 0 || area == 0.0)
}

/// Predicts the time if C stays in this layout.
fn predict_in_layout(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    layout: &Layout,
    nodes: &[NodeRate],
) -> Candidate {
    let messages = find_messages_s(problem, cluster, layout, nodes);
    let busy =
        layout.areas().into_iter().zip(nodes).zip(messages).filter(|((area, _), _)| *area > 0);
    let times =
        busy.map(|((area, node), messages_s)| area as f64 / node.speed + node.fixed_s + messages_s);
    let compute_s = times.fold(0.0, f64::max);
    let travel_s = panels_s(problem, cluster, network, layout);
    Candidate { way: Way::of(layout), wall_s: wall_s(compute_s, travel_s, cluster.hidden) }
}

/// Predicts the time if k is divided in proportion to the nodes' `speeds` on all of C, in blocks of C
/// per second over all of k.
///
/// The parts are summed at the holders of C in `held`. No arithmetic hides that, so its cost on the
/// cores is contained in the travel time.
///
/// # Panics
/// If there is not one speed for each node of the layout.
pub fn along_k(problem: &Problem, network: &Network, held: &Layout, speeds: &[f64]) -> Candidate {
    let (rows, cols) = problem.c_blocks();
    let blocks = problem.k_blocks();
    let shares = apportion(blocks, speeds);
    let all_of_c = rows as f64 * cols as f64;
    let compute_s = shares
        .iter()
        .zip(speeds)
        .filter(|(share, _)| **share > 0)
        .map(|(&share, &speed)| share as f64 / blocks as f64 * all_of_c / speed)
        .fold(0.0, f64::max);
    let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
    let sum = reduction_phase(network, held, problem.block(), &computes);
    let travel_s = network.phase_s(&sum, problem.element().bytes());
    Candidate { way: Way::K, wall_s: wall_s(compute_s, travel_s, 0.0) }
}

/// Limit of the predicted time of another way, relative to the first, below which it is chosen.
///
/// The other way's rectangles have other shapes than the measured ones, and a node's speed depends on
/// the shape by about as much. INPA keeps its measured columns for the same reason and within the same
/// bounds.
const CLEARLY_FASTER: f64 = 0.97;

/// Returns the index of the way to use: the fastest, or the first if that is slower by at most 3 %.
/// Returns 0 if there is none.
pub fn choose_way(ways: &[Candidate]) -> usize {
    let fastest = (0..ways.len()).min_by(|&a, &b| ways[a].wall_s.total_cmp(&ways[b].wall_s));
    fastest.filter(|&fastest| ways[fastest].wall_s < CLEARLY_FASTER * ways[0].wall_s).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{br, kl};
    use crate::predict::panel_traffic;

    /// A slow network, over which no message is hidden.
    fn slow() -> Network {
        Network::flat(1e-4, 117e6)
    }

    /// C of blocks of 128 elements a side.
    fn of_blocks((rows, cols): (u64, u64), k: usize) -> Problem {
        Problem::new(128 * rows as usize, 128 * cols as usize, k, 128)
            .unwrap()
            .with_panel(256)
            .unwrap()
    }

    /// Lists the ways to divide C over the slow network.
    fn list_ways(problem: &Problem, layout: &Layout, speeds: &[f64]) -> Vec<(Candidate, Layout)> {
        let cluster = Cluster { nodes: speeds.len(), hidden: 0.0 };
        in_place(problem, cluster, &slow(), layout, &to_rates(speeds)).unwrap()
    }

    fn to_rates(speeds: &[f64]) -> Vec<NodeRate> {
        (speeds.iter()).map(|&speed| NodeRate { speed, fixed_s: 0.0, element_s: 0.0 }).collect()
    }

    /// Lists speeds of nodes, alike and unlike.
    fn list_speeds() -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = [2, 3, 4, 6].map(|nodes| vec![1e4; nodes]).into();
        for speeds in [&[1e4, 2e4][..], &[1e4, 2e4, 4e4], &[1e4, 2e4, 4e4, 8e4]] {
            all.push(speeds.to_vec());
        }
        all.push(vec![1e4, 1e4, 2e4, 2e4, 4e4, 8e4]);
        all
    }

    fn to_way(wall_s: f64) -> Candidate {
        Candidate { way: Way::M, wall_s }
    }

    #[test]
    fn another_way_must_be_clearly_faster() {
        let [measured, close, faster, fastest] = [1.0, 0.98, 0.96, 0.95].map(to_way);
        assert_eq!(choose_way(&[measured, close]), 0);
        assert_eq!(choose_way(&[measured, faster, fastest]), 2);
    }

    #[test]
    fn a_long_and_thin_matrix_is_laid_out_in_slices_already() {
        for (blocks, way) in [((512, 4), Way::M), ((4, 512), Way::N)] {
            let problem = of_blocks(blocks, 512);
            for speeds in list_speeds() {
                let layout = br(&speeds, blocks.0, blocks.1).unwrap();
                assert_eq!(Way::of(&layout), way, "{speeds:?}");
                let ways = list_ways(&problem, &layout, &speeds);
                let slower = ways[1..].iter().all(|(other, _)| {
                    // Slices of the other kind: the long factor travels.
                    other.way != way && other.wall_s > 10.0 * ways[0].0.wall_s
                });
                // The short side has four lines: more nodes, or slow ones, would get none.
                let others = usize::from(apportion(4, &speeds).iter().all(|&lines| lines > 0));
                assert!(ways.len() == 1 + others && slower, "{speeds:?}: {ways:?}");
            }
        }
    }

    /// Returns the elements that the busiest node receives.
    fn most_received(problem: &Problem, layout: &Layout) -> f64 {
        panel_traffic(layout, problem.block(), problem.k(), problem.panel(2))
            .iter()
            .map(|node| node.elements)
            .fold(0.0, f64::max)
    }

    #[test]
    fn slices_bring_the_busiest_node_no_less_if_all_have_a_part() {
        for blocks in [(64, 64), (128, 64), (64, 128), (32, 16), (256, 64), (16, 4)] {
            let problem = of_blocks(blocks, 1024);
            for speeds in list_speeds() {
                let layout = br(&speeds, blocks.0, blocks.1).unwrap();
                let ways = list_ways(&problem, &layout, &speeds);
                for (other, slices) in &ways[1..] {
                    if slices.areas().contains(&0) {
                        continue;
                    }
                    let [least, found] =
                        [&layout, slices].map(|layout| most_received(&problem, layout));
                    assert!(found >= least * (1.0 - 1e-12), "{other:?} {speeds:?}");
                }
            }
        }
    }

    #[test]
    fn a_layout_that_does_not_suit_gives_way_to_slices_of_its_areas() {
        // 8192×512 in two rows and two columns: half of the long A would travel.
        let problem = of_blocks((64, 4), 512);
        let grid = kl(&[1.0; 4], &[vec![0, 1], vec![2, 3]], 64, 4).unwrap();
        // The last speed of a node does not change its area.
        let speeds = [1000.0, 1000.0, 1010.0, 990.0];
        let ways = list_ways(&problem, &grid, &speeds);
        let candidates: Vec<Candidate> = ways.iter().map(|(way, _)| *way).collect();
        let order: Vec<Way> = candidates.iter().map(|way| way.way).collect();
        assert_eq!(order, [Way::C, Way::M, Way::N]);
        assert_eq!(choose_way(&candidates), 1);
        assert!(ways.iter().all(|(_, layout)| layout.areas() == [64; 4]));
        assert!(
            candidates[1].wall_s < candidates[0].wall_s
                && candidates[0].wall_s < candidates[2].wall_s
        );
    }

    /// Returns the seconds if C stays, and if k is divided.
    fn compare_k(k: usize) -> (f64, f64) {
        let speeds = [300.0, 100.0];
        let problem = of_blocks((8, 8), k);
        let layout = br(&speeds, 8, 8).unwrap();
        let held = br(&[1.0, 1.0], 8, 8).unwrap();
        let ways = list_ways(&problem, &layout, &speeds);
        (ways[0].0.wall_s, along_k(&problem, &slow(), &held, &speeds).wall_s)
    }

    #[test]
    fn a_long_k_is_cheaper_to_divide_and_a_short_one_is_not() {
        let (stays, summed) = compare_k(65536);
        // The arithmetic is the same: 64 blocks by 400 a second. Then half of C travels either way.
        let sum_s = 1e-4 + 512.0 * 1024.0 * 8.0 / 117e6;
        assert!((summed - (0.16 + sum_s)).abs() < 1e-9, "{summed}");
        assert!(stays > 10.0 * summed);
        let (stays, summed) = compare_k(512);
        assert!(stays < summed);
    }

    #[test]
    fn whole_blocks_of_k_make_the_slowest_node_slower() {
        let problem = of_blocks((8, 8), 3 * 128);
        let free = Network::flat(0.0, f64::INFINITY);
        let held = br(&[1.0, 1.0], 8, 8).unwrap();
        // Two of three blocks for one of two alike nodes.
        let found = along_k(&problem, &free, &held, &[64.0, 64.0]).wall_s;
        assert!((found - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_node_without_speed_gets_nothing() {
        let problem = of_blocks((8, 8), 1024);
        let speeds = [0.0, 64.0, 0.0];
        let layout = br(&speeds, 8, 8).unwrap();
        let ways = list_ways(&problem, &layout, &speeds);
        // All of it on one node: there are no other ways, and nothing travels.
        assert_eq!(ways.len(), 1);
        assert_eq!((ways[0].0.way, ways[0].0.wall_s), (Way::C, 1.0));
        assert!(along_k(&problem, &slow(), &layout, &speeds).wall_s.is_finite());
    }
}
