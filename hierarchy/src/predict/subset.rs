//! The choice of nodes: a node that costs more in messages than it saves in arithmetic is left out.
//!
//! # Deviations
//!
//! * **every node takes part**: the paper uses all nodes (Clarke et al. 2012, section 3). Here some may
//!   be left out, because a node's messages, or its fixed cost, can cost more than it helps. The fastest node alone, the two fastest, and so on, and each group of the network, are
//!   predicted with their messages over the measured network. Messages
//!   between hosts are hidden behind the arithmetic as long as that lasts. Messages within a host are
//!   added to it. If fewer nodes are faster by 5 %, they are balanced again and the others get nothing
//!   (`left_out` in the report).
//! * **search for the nodes**: HeteroMPI tries all computers first, then one fewer, and its search as printed ends at the first
//!   number that brings nothing better (Alonso, Reddy and Lastovetsky 2009, section 4.1.2). Here all numbers are predicted, because
//!   a still smaller one may be faster again.

use super::{Cluster, count_exchanged, panel_phase, wall_s};
use crate::layout::{Layout, LayoutError, Method, arrange_in_groups, br};
use crate::network::Network;
use crate::problem::Problem;

/// The speed of a node, and the cost of its messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeRate {
    /// Its speed without messages in blocks of C per second, over all of k, near the size that it would
    /// have.
    pub speed: f64,
    /// Seconds over all of k that it takes however small its part; 0 if there are none or they are unknown.
    pub fixed_s: f64,
    /// Seconds that each element of A or B, sent or received, takes from its arithmetic.
    pub element_s: f64,
}

/// The nodes that are predicted to be the fastest together.
#[derive(Debug, Clone, PartialEq)]
pub struct Subset {
    /// Their numbers, ascending.
    pub nodes: Vec<usize>,
    /// Predicted seconds with them.
    pub wall_s: f64,
    /// Predicted seconds if every node that has a speed has a part.
    pub all_s: f64,
}

/// Chooses the nodes that are fastest together: the most helpful node alone, the two most helpful, and so on
/// to all of them; and each group of the network alone. A node helps by the blocks that it completes in the time of all without messages; a node
/// whose fixed cost exceeds that time does not take part. The node that is fastest alone is tried too.
///
/// A node that is left out has nothing to send either, because the matrices are spread over the others.
///
/// # Errors
/// Returns [`LayoutError`] if C has more blocks than can be counted.
///
/// # Panics
/// If no node has a speed.
///
/// # Example
/// ```
/// use isochron_hierarchy::network::Network;
/// use isochron_hierarchy::predict::{Cluster, NodeRate, choose_nodes};
/// use isochron_hierarchy::problem::Problem;
///
/// let problem = Problem::new(4000, 4000, 4000, 100)?.with_panel(100)?;
/// let cluster = Cluster { nodes: 2, hidden: 1.0 };
/// let nodes = [100.0, 10.0].map(|speed| NodeRate { speed, fixed_s: 0.0, element_s: 0.0 });
/// let fast = Network::flat(1e-5, 1e10);
/// assert_eq!(choose_nodes(&problem, cluster, &fast, &nodes)?.nodes, [0, 1]);
/// // On a slow network the second node's share takes longer to get there than it saves.
/// let slow = Network::flat(1e-5, 1e6);
/// let alone = choose_nodes(&problem, cluster, &slow, &nodes)?;
/// assert_eq!((alone.nodes, alone.wall_s), (vec![0], 16.0));
/// assert!(alone.all_s > 100.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn choose_nodes(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    nodes: &[NodeRate],
) -> Result<Subset, LayoutError> {
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].speed > 0.0).collect();
    assert!(!order.is_empty(), "nodes without any speed cannot be chosen from");
    let (rows, cols) = problem.c_blocks();
    let blocks = rows as f64 * cols as f64;
    let terms: Vec<(f64, f64)> =
        order.iter().map(|&node| (nodes[node].fixed_s, nodes[node].speed)).collect();
    let together_s = time_together(blocks, &terms);
    order.sort_by(|&a, &b| {
        let [a, b] = [a, b].map(|node| nodes[node].blocks_within(together_s));
        b.total_cmp(&a)
    });
    let latest_s = order.iter().map(|&node| nodes[node].fixed_s).fold(0.0, f64::max);
    order.retain(|&node| nodes[node].blocks_within(together_s) > 0.0);
    let mut best: Option<(&[usize], f64)> = None;
    let mut all_s = f64::INFINITY;
    let alone = order.iter().min_by(|&&a, &&b| {
        let [a, b] = [a, b].map(|node| nodes[node].fixed_s + blocks / nodes[node].speed);
        a.total_cmp(&b)
    });
    let of_groups: Vec<Vec<usize>> = network
        .list_groups()
        .into_iter()
        .map(|group| order.iter().copied().filter(|node| group.contains(node)).collect())
        .filter(|group: &Vec<usize>| !group.is_empty())
        .collect();
    let counts = list_counts(order.len());
    for some in alone
        .map(std::slice::from_ref)
        .into_iter()
        .chain(of_groups.iter().map(Vec::as_slice))
        .chain(counts.into_iter().map(|count| &order[..count]))
    {
        let rates: Vec<NodeRate> = some.iter().map(|&node| nodes[node]).collect();
        all_s = predict_s(problem, cluster, &network.among(some), &rates)?;
        // Of equals the larger one: each of its nodes has less to do.
        if best.is_none_or(|(_, least_s)| all_s <= least_s) {
            best = Some((some, all_s));
        }
    }
    let (some, wall_s) = best.unwrap_or((&order, all_s));
    let mut chosen: Vec<usize> = some.to_vec();
    chosen.sort_unstable();
    Ok(Subset { nodes: chosen, wall_s, all_s: all_s.max(latest_s) })
}

impl NodeRate {
    /// Returns the blocks of C that it completes in this time, without messages.
    fn blocks_within(&self, time_s: f64) -> f64 {
        self.speed * (time_s - self.fixed_s).max(0.0)
    }
}

/// Returns the seconds in which nodes of these fixed costs and speeds complete the blocks together. A node
/// that cannot begin by then does nothing.
fn time_together(blocks: f64, terms: &[(f64, f64)]) -> f64 {
    let mut terms = terms.to_vec();
    terms.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut speed, mut missed) = (0.0, 0.0);
    let mut time_s = f64::INFINITY;
    for (fixed_s, own) in terms {
        if fixed_s >= time_s {
            break;
        }
        speed += own;
        missed += own * fixed_s;
        time_s = (blocks + missed) / speed;
    }
    time_s
}

/// Lists the numbers of nodes to try: every number up to 64, and larger ones in steps of about
/// a sixteenth. One node more is a small part of many.
fn list_counts(most: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |&count| {
        (count < most).then(|| (count + (count / 64 * 4).max(1)).min(most))
    })
    .collect()
}

/// Returns the seconds that each node's messages take from its arithmetic, in this layout.
///
/// Only hidden messages count. The others, which the computing cores carry, count as travel time.
pub(super) fn find_messages_s(
    problem: &Problem,
    cluster: Cluster,
    layout: &Layout,
    nodes: &[NodeRate],
) -> Vec<f64> {
    // Whole blocks, as the areas of the rates.
    let to_elements = |blocks: u64| blocks as usize * problem.block();
    let (rows, cols) = problem.c_blocks();
    let [m, n] = [rows, cols].map(to_elements);
    let rects = layout.rects().iter();
    let busy = rects.clone().filter(|rect| !rect.is_empty()).count();
    rects
        .zip(nodes)
        .map(|(rect, node)| {
            let [rows, cols] = [rect.rows, rect.cols].map(to_elements);
            let exchanged = count_exchanged(rows, cols, m, n, busy);
            cluster.hidden * node.element_s * problem.k() as f64 * exchanged
        })
        .collect()
}

/// Predicts the seconds with these nodes.
fn predict_s(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    nodes: &[NodeRate],
) -> Result<f64, LayoutError> {
    let (rows, cols) = problem.c_blocks();
    let blocks = rows as f64 * cols as f64;
    let terms: Vec<(f64, f64)> = nodes.iter().map(|node| (node.fixed_s, node.speed)).collect();
    let together_s = time_together(blocks, &terms);
    let areas: Vec<f64> = nodes.iter().map(|node| node.blocks_within(together_s)).collect();
    let (layout, travel_s) = lay_out(problem, cluster, network, &areas)?;
    // All nodes share the arithmetic that one misses while it handles messages.
    let messages = find_messages_s(problem, cluster, &layout, nodes);
    let busy: Vec<(f64, f64)> = (terms.iter().zip(messages))
        .map(|(&(fixed_s, speed), messages_s)| (fixed_s + messages_s, speed))
        .collect();
    // A node with a part handles its messages even where they take longer than all of the arithmetic.
    let longest_s = (busy.iter().zip(&areas))
        .filter(|&(_, &area)| area > 0.0)
        .map(|(&(busy_s, _), _)| busy_s)
        .fold(0.0, f64::max);
    let compute_s = time_together(blocks, &busy).max(longest_s);
    Ok(wall_s(compute_s, travel_s, cluster.hidden))
}

/// Lays these areas out in columns, or with each group of the network in a rectangle if panels travel in less time. Returns also
/// the seconds that they travel.
fn lay_out(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    areas: &[f64],
) -> Result<(Layout, f64), LayoutError> {
    let (rows, cols) = problem.c_blocks();
    let layout = br(areas, rows, cols)?;
    let in_columns_s = panels_s(problem, cluster, network, &layout);
    let groups = network.list_groups();
    if groups.is_empty() {
        return Ok((layout, in_columns_s));
    }
    let grouped = arrange_in_groups(Method::Br, &groups, areas, rows, cols)?;
    let grouped_s = panels_s(problem, cluster, network, &grouped);
    Ok(if grouped_s < in_columns_s { (grouped, grouped_s) } else { (layout, in_columns_s) })
}

/// Returns the seconds in which the panels of all steps travel while C stays in this layout.
pub(super) fn panels_s(
    problem: &Problem,
    cluster: Cluster,
    network: &Network,
    layout: &Layout,
) -> f64 {
    let panel = problem.panel(cluster.nodes);
    let panels = panel_phase(network, layout, problem.block(), problem.k(), panel);
    network.phase_s(&panels, problem.element().bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_rate(speed: f64) -> NodeRate {
        NodeRate { speed, fixed_s: 0.0, element_s: 0.0 }
    }

    fn fast() -> Network {
        Network::flat(2e-6, 1e10)
    }

    const HIDING: Cluster = Cluster { nodes: 4, hidden: 1.0 };

    /// C of `blocks × blocks` blocks.
    fn square(blocks: usize) -> Problem {
        Problem::new(128 * blocks, 128 * blocks, 8192, 128).unwrap().with_panel(256).unwrap()
    }

    fn choose_fast(blocks: usize, nodes: &[NodeRate]) -> Subset {
        choose_nodes(&square(blocks), HIDING, &fast(), nodes).unwrap()
    }

    #[test]
    fn on_a_fast_network_all_nodes_help() {
        let found = choose_fast(64, &[5.0, 1.0, 0.0, 3.0].map(to_rate));
        assert_eq!(found.nodes, [0, 1, 3]);
        assert_eq!(found.wall_s, found.all_s);
    }

    /// Two nodes of one block per second.
    fn twins(element_s: f64) -> [NodeRate; 2] {
        [NodeRate { speed: 1.0, fixed_s: 0.0, element_s }; 2]
    }

    /// Lists the nodes whose bit is set.
    fn pick(nodes: &[NodeRate], bits: usize) -> Vec<NodeRate> {
        nodes
            .iter()
            .enumerate()
            .filter(|(node, _)| bits >> node & 1 == 1)
            .map(|(_, rate)| *rate)
            .collect()
    }

    #[test]
    fn a_node_that_starts_too_late_is_left_out_and_no_subset_is_faster() {
        let (speeds, fixed) = ([40.0, 30.0, 90.0, 5.0, 60.0], [0.0, 10.0, 60.0, 1.0, 25.0]);
        let nodes: Vec<NodeRate> = (speeds.into_iter().zip(fixed))
            .map(|(speed, fixed_s)| NodeRate { fixed_s, ..to_rate(speed) })
            .collect();
        let found = choose_fast(64, &nodes);
        // The third, the fastest by speed alone, begins when the others have finished.
        assert_eq!(found.nodes, [0, 1, 3, 4]);
        assert!(found.wall_s < 50.0 && found.all_s >= 60.0, "{found:?}");
        for bits in 1..1 << nodes.len() {
            let some_s = predict_s(&square(64), HIDING, &fast(), &pick(&nodes, bits)).unwrap();
            assert!(found.wall_s <= some_s * (1.0 + 1e-9), "{bits:b}: {some_s}");
        }
    }

    #[test]
    fn messages_cost_the_arithmetic_that_they_displace() {
        // Each has two of four blocks of C, and exchanges half of an update's column of A.
        let layout = br(&[1.0, 1.0], 2, 2).unwrap();
        let each = count_exchanged(256, 128, 256, 256, 2) * 8192.0;
        for cost_s in find_messages_s(&square(2), HIDING, &layout, &twins(1e-9)) {
            assert!((cost_s - 1e-9 * each).abs() < 1e-12);
        }
        let [free_s, busy_s] = [0.0, 1e-9].map(|element_s| choose_fast(2, &twins(element_s)).all_s);
        assert!((busy_s - free_s - 1e-9 * each).abs() < 1e-9);
        // A single node has no messages to handle.
        let alone = choose_fast(2, &twins(1e3));
        assert_eq!((alone.nodes, alone.wall_s), (vec![0], 4.0));
    }

    #[test]
    fn a_node_that_only_handles_messages_holds_the_others_up() {
        let mut nodes = twins(0.0);
        nodes[1].element_s = 1e3;
        let found = choose_fast(2, &nodes);
        assert!(found.all_s > 1e9, "{found:?}");
        assert_eq!((found.nodes.len(), found.wall_s), (1, 4.0));
    }

    #[test]
    fn all_numbers_are_tried_if_they_are_few() {
        assert_eq!(list_counts(3), [1, 2, 3]);
        let many = list_counts(10_000);
        assert!(many.len() < 400 && many.last() == Some(&10_000));
        assert!(many.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] * 2));
    }

    #[test]
    fn the_best_of_all_is_never_slower_than_the_fastest_alone() {
        for bytes_per_s in [1e4, 1e6, 1e8, 1e10] {
            let network = Network::flat(1e-4, bytes_per_s);
            let cluster = Cluster { hidden: 0.5, ..HIDING };
            let nodes = [50.0, 40.0, 4.0, 1.0].map(to_rate);
            let found = choose_nodes(&square(64), cluster, &network, &nodes).unwrap();
            assert!(found.wall_s <= 64.0 * 64.0 / 50.0 && found.wall_s <= found.all_s);
        }
    }
}
