//! Which nodes to leave out: those whose help costs more in messages than it saves in arithmetic.

use super::{Links, count_exchanged, panel_traffic, wall_s};
use crate::layout::{Layout, LayoutError, Rect, br};

/// A multiplication whose nodes are to be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Multiplication {
    /// Height and width of C in blocks.
    pub blocks: (u64, u64),
    /// Elements on the side of a block.
    pub block: usize,
    /// Inner dimension in elements.
    pub k: usize,
    /// Width of the panels in elements.
    pub panel: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// What the links carry.
    pub links: Links,
    /// The part of the messages that travels while something is computed, from 0 to 1.
    pub hidden: f64,
}

impl Multiplication {
    /// Seconds that the messages of each node keep it from computing, in this layout. What is not hidden, since the cores that
    /// compute carry it, counts as travelling.
    pub(super) fn messages_s(&self, layout: &Layout, nodes: &[NodeRate]) -> Vec<f64> {
        let elements = |blocks: u64| blocks as usize * self.block;
        let c = (elements(self.blocks.0), elements(self.blocks.1));
        let busy = layout
            .rects()
            .iter()
            .filter(|rect| !rect.is_empty())
            .count();
        let of_node = |(rect, node): (&Rect, &NodeRate)| {
            let part = (elements(rect.rows), elements(rect.cols));
            self.hidden * node.element_s * self.k as f64 * count_exchanged(part, c, busy)
        };
        layout.rects().iter().zip(nodes).map(of_node).collect()
    }
}

/// What a node does in how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeRate {
    /// Its speed in blocks of C per second, over all of k, about the size that it would have, without messages.
    pub speed: f64,
    /// Seconds for which each element of A or B that it sends or receives keeps it from computing.
    pub element_s: f64,
}

impl From<f64> for NodeRate {
    /// A node of this speed that messages keep from nothing.
    fn from(speed: f64) -> Self {
        Self {
            speed,
            element_s: 0.0,
        }
    }
}

/// The nodes that are predicted to be the fastest together.
#[derive(Debug, Clone, PartialEq)]
pub struct Subset {
    /// Their numbers, ascending.
    pub nodes: Vec<usize>,
    /// Predicted seconds with them.
    pub wall_s: f64,
    /// Predicted seconds with every node that has a speed.
    pub all_s: f64,
}

/// The fastest of: the fastest node alone, the two fastest ones, and so on to all of them.
///
/// A node that is left out has nothing to send either: the matrices are spread over the others.
///
/// # Errors
/// [`LayoutError`] when C has more blocks than can be counted.
///
/// # Panics
/// When no node has a speed.
///
/// # Example
/// ```
/// use isochron_hierarchy::predict::{Links, Multiplication, NodeRate, choose_nodes};
///
/// let mut work = Multiplication {
///     blocks: (40, 40),
///     block: 100,
///     k: 4000,
///     panel: 100,
///     element_bytes: 8,
///     links: Links { latency_s: 1e-5, bytes_per_s: 1e10 },
///     hidden: 1.0,
/// };
/// let nodes = [100.0, 10.0].map(NodeRate::from);
/// assert_eq!(choose_nodes(&work, &nodes)?.nodes, [0, 1]);
/// // On a slow network the second node's share takes longer to get there than it saves.
/// work.links.bytes_per_s = 1e6;
/// let alone = choose_nodes(&work, &nodes)?;
/// assert_eq!((alone.nodes, alone.wall_s), (vec![0], 16.0));
/// assert!(alone.all_s > 100.0);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn choose_nodes(work: &Multiplication, nodes: &[NodeRate]) -> Result<Subset, LayoutError> {
    let speed = |node: usize| nodes[node].speed;
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&node| speed(node) > 0.0).collect();
    assert!(
        !order.is_empty(),
        "nodes without any speed cannot be chosen from"
    );
    order.sort_by(|&a, &b| speed(b).total_cmp(&speed(a)));
    let mut best: Option<(usize, f64)> = None;
    let mut all_s = f64::INFINITY;
    for count in counts(order.len()) {
        let some: Vec<NodeRate> = order[..count].iter().map(|&node| nodes[node]).collect();
        all_s = predicted_s(work, &some)?;
        // Of equals the larger one: its nodes have less to do each.
        if best.is_none_or(|(_, least_s)| all_s <= least_s) {
            best = Some((count, all_s));
        }
    }
    let (count, wall_s) = best.unwrap_or((order.len(), all_s));
    order.truncate(count);
    order.sort_unstable();
    Ok(Subset {
        nodes: order,
        wall_s,
        all_s,
    })
}

/// Up to 64 every number is tried; beyond, where one node more is a small part, each a sixteenth larger than the one before.
fn counts(most: usize) -> Vec<usize> {
    let next = |&count: &usize| (count < most).then(|| (count + (count / 64 * 4).max(1)).min(most));
    std::iter::successors(Some(1), next).collect()
}

/// Seconds with these nodes.
fn predicted_s(work: &Multiplication, nodes: &[NodeRate]) -> Result<f64, LayoutError> {
    let speeds: Vec<f64> = nodes.iter().map(|node| node.speed).collect();
    let (rows, cols) = work.blocks;
    let layout = br(&speeds, rows, cols)?;
    // What a node could compute while it handles messages is done by all of them.
    let messages = work.messages_s(&layout, nodes).into_iter().zip(&speeds);
    let missed: f64 = messages.map(|(messages_s, speed)| messages_s * speed).sum();
    let compute_s = (rows as f64 * cols as f64 + missed) / speeds.iter().sum::<f64>();
    let received = panel_traffic(&layout, work.block, work.k, work.panel);
    let travel_s = work.links.longest_s(&received, work.element_bytes);
    Ok(wall_s(compute_s, travel_s, work.hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Multiplication = Multiplication {
        blocks: (64, 64),
        block: 128,
        k: 8192,
        panel: 256,
        element_bytes: 8,
        links: Links {
            latency_s: 2e-6,
            bytes_per_s: 1e10,
        },
        hidden: 1.0,
    };

    #[test]
    fn on_a_fast_network_everybody_helps() {
        let found = choose_nodes(&FAST, &[5.0, 1.0, 0.0, 3.0].map(NodeRate::from)).unwrap();
        assert_eq!(found.nodes, [0, 1, 3]);
        assert_eq!(found.wall_s, found.all_s);
    }

    #[test]
    fn messages_that_keep_nodes_from_computing_cost_what_these_would_have_computed() {
        // Two of four blocks of C for each: an update's column of A comes and goes by halves.
        let work = Multiplication {
            blocks: (2, 2),
            ..FAST
        };
        let node = |element_s| NodeRate {
            speed: 1.0,
            element_s,
        };
        let seconds = |element_s| choose_nodes(&work, &[node(element_s); 2]).unwrap().all_s;
        let layout = br(&[1.0, 1.0], 2, 2).unwrap();
        let each = count_exchanged((256, 128), (256, 256), 2) * work.k as f64;
        let cost_s = work.messages_s(&layout, &[node(1e-9); 2]);
        assert!(
            cost_s
                .iter()
                .all(|cost_s| (cost_s - 1e-9 * each).abs() < 1e-12)
        );
        assert!((seconds(1e-9) - seconds(0.0) - 1e-9 * each).abs() < 1e-9);
        // Alone nobody has messages to handle.
        let alone = choose_nodes(&work, &[node(1e3), node(1e3)]).unwrap();
        assert_eq!((alone.nodes, alone.wall_s), (vec![0], 4.0));
    }

    #[test]
    fn all_numbers_are_tried_where_they_are_few() {
        assert_eq!(counts(3), [1, 2, 3]);
        let many = counts(10_000);
        assert!(many.len() < 400 && many.last() == Some(&10_000));
        assert!(
            many.windows(2)
                .all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] * 2)
        );
    }

    #[test]
    fn the_best_of_all_is_never_slower_than_the_fastest_alone() {
        for bytes_per_s in [1e4, 1e6, 1e8, 1e10] {
            let links = Links {
                latency_s: 1e-4,
                bytes_per_s,
            };
            let work = Multiplication {
                links,
                hidden: 0.5,
                ..FAST
            };
            let nodes = [50.0, 40.0, 4.0, 1.0].map(NodeRate::from);
            let found = choose_nodes(&work, &nodes).unwrap();
            assert!(found.wall_s <= 64.0 * 64.0 / 50.0 && found.wall_s <= found.all_s);
        }
    }
}
