//! Costs of a multiplication in messages: bytes by node, and the seconds that a network takes for them.
//!
//! There are two kinds of division of `C = A·B` (`A: m×k`, `B: k×n`):
//!
//! * **C stays** ([`panel_traffic()`]): a node with an `r×c` rectangle of C needs `r` rows of A and `c`
//!   columns of B over all of k. It holds `c/n` of these rows and `r/m` of these columns itself. So it
//!   receives `k·(r·(1 - c/n) + c·(1 - r/m))` elements, in panels that travel while others are
//!   computed.
//! * **k is split** ([`reduction_phase()`]): every node computes all of C over its share of k, and
//!   nothing travels until the end. Then every holder of a rectangle of C receives it from every other
//!   node that has a share.
//!
//! If the cores that compute also handle messages, each element that a node sends or receives takes time
//! from its arithmetic ([`NodeRate`]).
//!
//! [`choose_way()`] chooses the division of the least predicted seconds, and [`choose_nodes()`] leaves
//! out nodes that cost more than they help.
//!
//! # References
//! van de Geijn and Watts 1997 (SUMMA); Clarke et al. 2012, section 3 (the volume is the sum of
//! half-perimeters); Hockney 1994 (a message takes a latency and its bytes over the bandwidth).

mod algorithm;
mod algorithms;
mod equal;
mod phase;
mod subset;
mod ways;

pub use algorithm::{
    Algorithm, AlgorithmError, Binding, Choice, Platform, PredictedRun, Scheme, choose, timeof,
};
pub use algorithms::{GridProduct, ReductionTree, Stencil};
pub use equal::{EqualHost, EqualRanks};
pub use phase::{panel_phase, panel_sends, reduction_phase};
pub use subset::{NodeRate, Subset, choose_nodes};
pub use ways::{Candidate, along_k, choose_way, in_place};

use crate::balance::{DRIFT, Extent};
use crate::layout::Layout;
use crate::network::Traffic;
use crate::problem::Problem;

/// The number of nodes of a job, and the part of their messages that the arithmetic hides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Number of nodes.
    pub nodes: usize,
    /// The part of the messages that travels during the arithmetic, from 0 to 1. Between hosts the network moves
    /// messages; on one host the computing cores copy them.
    pub hidden: f64,
}

/// Returns the seconds that the messages of an update of this width take from the arithmetic of a node, if a byte takes
/// `byte_s`. The node holds `part` of C, one of `nodes` parts.
pub fn messages_s(problem: &Problem, width: usize, part: Extent, nodes: usize, byte_s: f64) -> f64 {
    let (rows, cols) = problem.size_in_elements(part.rows, part.cols);
    let exchanged = count_exchanged(rows, cols, problem.m(), problem.n(), nodes);
    exchanged * width as f64 * problem.element().bytes() as f64 * byte_s
}

/// Returns the traffic of every node while C stays in place: `layout` in blocks of `block` elements a
/// side, `k` elements in panels of `panel`.
///
/// The result is exact if the blocks divide the matrix and the nodes hold whole panels. Otherwise each
/// number can be off by a piece. One or two nodes hold a panel, so each panel counts as `1 - c/n`
/// messages for A and `1 - r/m` for B.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::slice_cols;
/// use isochron_hierarchy::network::Traffic;
/// use isochron_hierarchy::predict::panel_traffic;
///
/// // Two nodes with half of the columns each: all of A travels once, half of it to either side.
/// let layout = slice_cols(4, &[2, 2])?;
/// let received = panel_traffic(&layout, 100, 1000, 100);
/// assert_eq!(received[0].elements, 1000.0 * 400.0 * 0.5);
/// assert_eq!(Traffic::total(&received).elements, 1000.0 * 400.0);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn panel_traffic(layout: &Layout, block: usize, k: usize, panel: usize) -> Vec<Traffic> {
    let (m, n) = (layout.rows() as f64, layout.cols() as f64);
    let steps = k.div_ceil(panel.max(1)) as f64;
    let mut nodes = vec![Traffic::default(); layout.rects().len()];
    for (node, rect) in nodes.iter_mut().zip(layout.rects()) {
        if !rect.is_empty() {
            let (rows, cols) = (rect.rows as f64, rect.cols as f64);
            let lines = rows * (1.0 - cols / n) + cols * (1.0 - rows / m);
            // Of the nodes that share rows or columns, one or two hold a panel.
            let absent = (1.0 - cols / n) + (1.0 - rows / m);
            node.elements = k as f64 * block as f64 * lines;
            node.messages = steps * absent;
        }
    }
    nodes
}

/// Returns the elements that a node sends and receives for each index along k while C stays in place.
///
/// A node holds `rows × cols` of the `m × n` elements of C, one of `nodes` parts whose layout is not known yet. The node
/// receives the elements that it needs and does not hold, as in [`panel_traffic()`], and sends its own elements to the nodes
/// that share its rows or its columns. Their number follows from a grid of about square parts: `√(nodes·n/m)`
/// across, at least 1 and at most all.
pub fn count_exchanged(rows: usize, cols: usize, m: usize, n: usize, nodes: usize) -> f64 {
    let (rows, cols) = (rows as f64, cols as f64);
    // An empty C has no elements to exchange.
    let [m, n] = [m, n].map(|lines| lines.max(1) as f64);
    let [of_rows, of_cols] = [rows / m, cols / n];
    let nodes = nodes.max(1) as f64;
    let across = (nodes * n / m).sqrt().clamp(1.0, nodes);
    let received = rows * (1.0 - of_cols) + cols * (1.0 - of_rows);
    received + rows * of_cols * (across - 1.0) + cols * of_rows * (nodes / across - 1.0)
}

/// Returns the seconds of a multiplication with `compute_s` of arithmetic on the slowest node and
/// `travel_s` of messages on the busiest link.
///
/// The part `hidden` of the messages, from 0 to 1, travels during the arithmetic. It costs nothing as
/// long as the arithmetic is longer.
pub fn wall_s(compute_s: f64, travel_s: f64, hidden: f64) -> f64 {
    compute_s.max(travel_s * hidden) + travel_s * (1.0 - hidden)
}

/// Part of the least predicted seconds within which fewer processors win.
pub const TIE: f64 = 0.01;

/// Returns the number of the candidate of least seconds, or of fewer processors within [`TIE`] of it. Each candidate has its seconds
/// and its processors.
pub fn choose_fewest(candidates: &[(f64, usize)]) -> Option<usize> {
    let least_s = candidates.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    let tied = (0..candidates.len()).filter(|&it| candidates[it].0 <= (1.0 + TIE) * least_s);
    tied.min_by(|&a, &b| {
        let [(one_s, one), (other_s, other)] = [candidates[a], candidates[b]];
        one.cmp(&other).then(one_s.total_cmp(&other_s))
    })
}

/// Quantile of the normal distribution that leaves a twentieth on either side.
const NINE_OF_TEN: f64 = 1.645;

/// Returns the least and the most of the seconds that nine of ten runs are expected to take, by the relative standard errors of the times of
/// arithmetic and of messages. `predict` gives the seconds of a run in which these take this many times as long.
///
/// Whatever is measured differs from run to run by 1 % at least. A deviation lasts for a whole run: one that changes from step to step
/// would be less in their sum.
pub fn find_bounds(noise: [f64; 2], predict: impl Fn([f64; 2]) -> f64) -> [f64; 2] {
    [-NINE_OF_TEN, NINE_OF_TEN]
        .map(|quantile| predict(noise.map(|noise| (quantile * noise.hypot(DRIFT)).exp())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Rect, br};
    use crate::network::Network;

    #[test]
    fn nodes_exchange_what_they_do_not_hold() {
        // One of four on a square grid receives half of 10 rows of A and of 10 columns of B, and sends
        // the other halves.
        assert_eq!(count_exchanged(10, 10, 20, 20, 4), 10.0 + 10.0);
        assert_eq!(count_exchanged(20, 20, 20, 20, 1), 0.0);
        // Slices of a long C: three quarters of B come, and a quarter of it goes to three others.
        let sliced = count_exchanged(2500, 100, 10_000, 100, 4);
        assert_eq!(sliced, 75.0 + 75.0);
    }

    #[test]
    fn a_node_alone_receives_nothing() {
        let layout = br(&[1.0], 8, 8).unwrap();
        assert_eq!(panel_traffic(&layout, 10, 1000, 10), [Traffic::default()]);
    }

    #[test]
    fn a_grid_receives_what_summa_does() {
        // On a p×p grid every node receives (p-1)/p of its rows of A and its columns of B.
        let layout = br(&[1.0; 16], 64, 64).unwrap();
        let received = panel_traffic(&layout, 1, 64, 16);
        let each = 64.0 * 16.0 * 2.0 * 0.75;
        assert!(received.iter().all(|node| (node.elements - each).abs() < 1e-9));
    }

    #[test]
    fn on_a_grid_of_two_by_two_as_much_is_exchanged_as_received_and_sent() {
        let rects = [
            Rect::new(0, 0, 6, 7),
            Rect::new(6, 0, 4, 7),
            Rect::new(0, 7, 6, 3),
            Rect::new(6, 7, 4, 3),
        ];
        let layout = Layout::new(10, 10, rects.to_vec()).unwrap();
        let received = Traffic::total(&panel_traffic(&layout, 1, 7, 1)).elements;
        let exchanged: f64 = rects
            .iter()
            .map(|rect| 7.0 * count_exchanged(rect.rows as usize, rect.cols as usize, 10, 10, 4))
            .sum();
        assert!((exchanged - 2.0 * received).abs() < 1e-9);
    }

    #[test]
    fn ten_thousand_nodes_receive_less_than_the_half_perimeters() {
        let layout = br(&vec![1.0; 10_000], 1000, 1000).unwrap();
        let received = Traffic::total(&panel_traffic(&layout, 1, 1000, 10)).elements;
        let most = 1000.0 * layout.half_perimeter_sum() as f64;
        assert!(received < most && received > 0.97 * most);
    }

    #[test]
    fn a_node_without_a_share_receives_its_part_from_all_others() {
        let layout = br(&[1.0; 4], 8, 8).unwrap();
        let network = Network::flat(0.0, 1.0);
        let phase = reduction_phase(&network, &layout, 1, &[true, true, false, true]);
        let messages: Vec<f64> = phase.received.iter().map(|levels| levels[0].messages).collect();
        assert_eq!(messages, [2.0, 2.0, 3.0, 2.0]);
    }

    #[test]
    fn hidden_messages_count_only_if_they_are_longer() {
        assert_eq!(wall_s(10.0, 4.0, 1.0), 10.0);
        assert_eq!(wall_s(10.0, 4.0, 0.0), 14.0);
        assert_eq!(wall_s(10.0, 40.0, 1.0), 40.0);
        assert_eq!(wall_s(10.0, 4.0, 0.5), 12.0);
    }
}
