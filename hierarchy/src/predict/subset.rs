//! Which nodes to leave out: those whose help costs more in messages than it saves in arithmetic.

use super::{Links, panels, wall_s};
use crate::layout::{LayoutError, br};

/// A multiplication whose nodes are to be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Work {
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

/// The fastest of: the fastest node alone, the two fastest ones, and so on to all of them. `speeds` are those of the nodes
/// in blocks of C per second, over all of k, about the sizes that they would have.
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
/// use isochron_hierarchy::predict::{Links, Work, subset};
///
/// let mut work = Work {
///     blocks: (40, 40),
///     block: 100,
///     k: 4000,
///     panel: 100,
///     element_bytes: 8,
///     links: Links { latency_s: 1e-5, bytes_per_s: 1e10 },
///     hidden: 1.0,
/// };
/// let speeds = [100.0, 10.0];
/// assert_eq!(subset(&work, &speeds)?.nodes, [0, 1]);
/// // On a slow network the second node's share takes longer to get there than it saves.
/// work.links.bytes_per_s = 1e6;
/// let alone = subset(&work, &speeds)?;
/// assert_eq!((alone.nodes, alone.wall_s), (vec![0], 16.0));
/// assert!(alone.all_s > 100.0);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn subset(work: &Work, speeds: &[f64]) -> Result<Subset, LayoutError> {
    let mut order: Vec<usize> = (0..speeds.len())
        .filter(|&node| speeds[node] > 0.0)
        .collect();
    assert!(
        !order.is_empty(),
        "nodes without any speed cannot be chosen from"
    );
    order.sort_by(|&a, &b| speeds[b].total_cmp(&speeds[a]));
    let mut best: Option<(usize, f64)> = None;
    let mut all_s = f64::INFINITY;
    for count in counts(order.len()) {
        all_s = predicted_s(work, &order[..count], speeds)?;
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
fn predicted_s(work: &Work, nodes: &[usize], speeds: &[f64]) -> Result<f64, LayoutError> {
    let areas: Vec<f64> = nodes.iter().map(|&node| speeds[node]).collect();
    let (rows, cols) = work.blocks;
    let layout = br(&areas, rows, cols)?;
    let compute_s = (rows as f64 * cols as f64) / areas.iter().sum::<f64>();
    let received = panels(&layout, work.block, work.k, work.panel);
    let travel_s = work.links.longest_s(&received, work.element_bytes);
    Ok(wall_s(compute_s, travel_s, work.hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Work = Work {
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
        let found = subset(&FAST, &[5.0, 1.0, 0.0, 3.0]).unwrap();
        assert_eq!(found.nodes, [0, 1, 3]);
        assert_eq!(found.wall_s, found.all_s);
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
            let work = Work {
                links,
                hidden: 0.5,
                ..FAST
            };
            let speeds = [50.0, 40.0, 4.0, 1.0];
            let found = subset(&work, &speeds).unwrap();
            assert!(found.wall_s <= 64.0 * 64.0 / 50.0 && found.wall_s <= found.all_s);
        }
    }
}
