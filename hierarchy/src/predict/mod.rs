//! What a multiplication costs beside its arithmetic: bytes and messages by node, and the seconds that links take for them.
//!
//! Two ways to divide `C = A·B` (`A: m×k`, `B: k×n`) are compared:
//!
//! * **C stays** ([`panel_traffic()`]): a node with an `r×c` rectangle of C needs `r` rows of A and `c` columns of B over all of k.
//!   It holds `c/n` of these rows and `r/m` of these columns itself, so that it receives
//!   `k·(r·(1 - c/n) + c·(1 - r/m))` elements, in panels that travel while others are computed.
//! * **k is split** ([`reduction_traffic()`]): every node computes all of C over its share of k, and nothing travels until the
//!   end. Then whoever holds a rectangle of C receives it from every other node that has a share.
//!
//! Where messages are handled by cores that compute, each element that a node sends or receives ([`count_exchanged()`]) keeps it from
//! computing for a while ([`NodeRate`]).
//!
//! [`in_place()`] and [`along_k()`] say what each [`Way`] takes in seconds, and [`choose_way()`] takes one; [`choose_nodes()`] leaves out
//! the nodes whose help does not pay.
//!
//! # References
//! van de Geijn and Watts 1997 (SUMMA); Clarke et al. 2012, section 3 (the volume is the sum of half-perimeters); Hockney
//! 1994 (a message takes a latency and its bytes over the bandwidth).

mod subset;
mod ways;

pub use subset::{Multiplication, NodeRate, Subset, choose_nodes};
pub use ways::{Candidate, Way, along_k, choose_way, in_place};

use crate::layout::{Layout, Rect};
use serde::{Deserialize, Serialize};

/// What the links between nodes carry: a message of `v` bytes takes `latency_s + v / bytes_per_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Seconds that a message takes however short it is.
    pub latency_s: f64,
    /// Bytes per second that a node sends or receives.
    pub bytes_per_s: f64,
}

impl Links {
    /// Whether these are numbers that links can have.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.latency_s.is_finite() && self.latency_s >= 0.0 && self.bytes_per_s > 0.0
    }

    /// Seconds that a node takes to receive this much.
    ///
    /// # Example
    /// ```
    /// use isochron_hierarchy::predict::{Links, Traffic};
    ///
    /// let gigabit = Links { latency_s: 100e-6, bytes_per_s: 117e6 };
    /// let traffic = Traffic { elements: 1e6, messages: 10.0 };
    /// assert!((gigabit.time_s(&traffic, 8) - (8e6 / 117e6 + 1e-3)).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn time_s(&self, traffic: &Traffic, element_bytes: usize) -> f64 {
        traffic.messages * self.latency_s
            + traffic.elements * element_bytes as f64 / self.bytes_per_s
    }

    /// Seconds until all nodes have received what each is to: those of the one that takes longest, 0 of none.
    #[must_use]
    pub fn longest_s(&self, nodes: &[Traffic], element_bytes: usize) -> f64 {
        let times = nodes.iter().map(|node| self.time_s(node, element_bytes));
        times.fold(0.0, f64::max)
    }

    /// Whether `receivers` who want the same `bytes` have them sooner when they pass them on in a [tree](count_rounds) than when
    /// their holder sends them to one after the other: `rounds·(latency + v/W) < latency + receivers·v/W`.
    ///
    /// # Example
    /// ```
    /// use isochron_hierarchy::predict::Links;
    ///
    /// let gigabit = Links { latency_s: 100e-6, bytes_per_s: 117e6 };
    /// assert!(gigabit.favour_relays(1e6, 7) && !gigabit.favour_relays(1e6, 2));
    /// assert!(!gigabit.favour_relays(10.0, 7));
    /// ```
    #[must_use]
    pub fn favour_relays(&self, bytes: f64, receivers: usize) -> bool {
        let each_s = bytes / self.bytes_per_s;
        let relayed_s = f64::from(count_rounds(receivers)) * (self.latency_s + each_s);
        relayed_s < self.latency_s + receivers as f64 * each_s
    }

    /// How many steps ahead panels have to be sent so that they are there in time: one step that has arrived, and as many on
    /// their way as pass while a step's panels travel, with three quarters of a step in reserve, since messages are slower
    /// beside the arithmetic and some steps need more of them than others. A step takes `step_s` of arithmetic, but no less
    /// than the links need for its bytes: where these are the bound, more steps on their way would wait for each other.
    ///
    /// # Example
    /// ```
    /// use isochron_hierarchy::predict::{Links, Traffic};
    ///
    /// let far = Links { latency_s: 10e-3, bytes_per_s: 1e9 };
    /// let step = Traffic { elements: 1e5, messages: 2.0 };
    /// // 20.8 ms on the way, 5 ms a step.
    /// assert_eq!(far.lookahead(&step, 8, 5e-3), 1 + 5);
    /// assert_eq!(far.lookahead(&step, 8, 50e-3), 1 + 2);
    /// assert_eq!(far.lookahead(&step, 8, 1.0), 2);
    /// ```
    #[must_use]
    pub fn lookahead(&self, step: &Traffic, element_bytes: usize, step_s: f64) -> usize {
        let bytes_s = step.elements * element_bytes as f64 / self.bytes_per_s;
        let passed = self.time_s(step, element_bytes) / step_s.max(bytes_s) + RESERVE;
        // Nothing travels, or nothing takes any time.
        let passed = if passed.is_finite() {
            passed.ceil()
        } else {
            1.0
        };
        (passed as usize).max(1).saturating_add(1)
    }
}

/// What is on its way beyond what passes meanwhile, in steps.
const RESERVE: f64 = 0.75;

/// Rounds in which a message reaches so many receivers when everybody who has it passes it on: `⌈log₂(receivers + 1)⌉`.
#[must_use]
pub fn count_rounds(receivers: usize) -> u32 {
    (receivers + 1).next_power_of_two().ilog2()
}

/// What one node receives during a multiplication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Elements.
    pub elements: f64,
    /// Messages.
    pub messages: f64,
}

impl Traffic {
    /// The sum over nodes.
    #[must_use]
    pub fn total(nodes: &[Self]) -> Self {
        let sum = |part: fn(&Self) -> f64| nodes.iter().map(part).sum();
        Self {
            elements: sum(|node| node.elements),
            messages: sum(|node| node.messages),
        }
    }
}

/// What every node receives while C stays in place: `layout` in blocks of `block` elements a side, `k` elements in panels of
/// `panel`.
///
/// Exact where the blocks divide the matrix and the pieces that nodes hold are whole panels; otherwise a piece more or less
/// of each. Messages are counted as one for each panel and each other node whose rectangle shares rows (for A) or columns
/// (for B).
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::slice_cols;
/// use isochron_hierarchy::predict::{Traffic, panel_traffic};
///
/// // Two nodes with half of the columns each: all of A travels once, half of it to either side.
/// let layout = slice_cols(4, &[2, 2])?;
/// let received = panel_traffic(&layout, 100, 1000, 100);
/// assert_eq!(received[0].elements, 1000.0 * 400.0 * 0.5);
/// assert_eq!(Traffic::total(&received).elements, 1000.0 * 400.0);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
#[must_use]
pub fn panel_traffic(layout: &Layout, block: usize, k: usize, panel: usize) -> Vec<Traffic> {
    let (m, n) = (layout.rows() as f64, layout.cols() as f64);
    let steps = k.div_ceil(panel.max(1)) as f64;
    let rects = layout.rects();
    let of_node = |rect: &Rect| {
        if rect.is_empty() {
            return Traffic::default();
        }
        let (rows, cols) = (rect.rows as f64, rect.cols as f64);
        let lines = rows * (1.0 - cols / n) + cols * (1.0 - rows / m);
        // A panel comes from few of those who share rows or columns: what it is made of lies with one or two of them.
        let absent = (1.0 - cols / n) + (1.0 - rows / m);
        Traffic {
            elements: k as f64 * block as f64 * lines,
            messages: steps * absent,
        }
    };
    rects.iter().map(of_node).collect()
}

/// Elements that a node sends and receives for each index along k while C stays in place, when it has `part` (rows and
/// columns) of `c`, one of so many `nodes`, on a layout that is not known yet.
///
/// It receives what it needs and does not hold, as in [`panel_traffic()`]. What it holds it sends to those that share its rows or
/// its columns, as many as on a grid of about square parts: `√(nodes·n/m)` across, at least 1 and at most all.
///
/// # Example
/// ```
/// use isochron_hierarchy::predict::count_exchanged;
///
/// // One of four on a square grid receives half of 10 rows of A and of 10 columns of B, and sends the other halves.
/// assert_eq!(count_exchanged((10, 10), (20, 20), 4), 10.0 + 10.0);
/// assert_eq!(count_exchanged((20, 20), (20, 20), 1), 0.0);
/// // Slices of a long C: three quarters of B come, and a quarter of it goes to three others.
/// assert_eq!(count_exchanged((2500, 100), (10_000, 100), 4), 75.0 + 75.0);
/// ```
#[must_use]
pub fn count_exchanged(part: (usize, usize), c: (usize, usize), nodes: usize) -> f64 {
    let (rows, cols) = (part.0 as f64, part.1 as f64);
    // Nothing of nothing.
    let [m, n] = [c.0, c.1].map(|lines| lines.max(1) as f64);
    let [of_rows, of_cols] = [rows / m, cols / n];
    let nodes = nodes.max(1) as f64;
    let across = (nodes * n / m).sqrt().clamp(1.0, nodes);
    let received = rows * (1.0 - of_cols) + cols * (1.0 - of_rows);
    received + rows * of_cols * (across - 1.0) + cols * of_rows * (nodes / across - 1.0)
}

/// What every node receives where k is split: `layout` says who holds C, in blocks of `block` elements a side, and
/// `computes` who has a share of k.
///
/// # Panics
/// When there are not as many nodes in `computes` as in the layout.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::slice_cols;
/// use isochron_hierarchy::predict::reduction_traffic;
///
/// // Each of two nodes receives its half of what the other one has computed.
/// let layout = slice_cols(4, &[2, 2])?;
/// let received = reduction_traffic(&layout, 100, &[true, true]);
/// assert_eq!((received[0].elements, received[0].messages), (400.0 * 200.0, 1.0));
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
#[must_use]
pub fn reduction_traffic(layout: &Layout, block: usize, computes: &[bool]) -> Vec<Traffic> {
    let rects = layout.rects();
    assert_eq!(rects.len(), computes.len(), "one answer for each node");
    let all = computes.iter().filter(|&&computes| computes).count();
    let of_node = |(rect, &computes): (&Rect, &bool)| {
        let others = if rect.is_empty() {
            0
        } else {
            all - usize::from(computes)
        };
        Traffic {
            elements: others as f64 * rect.area() as f64 * (block * block) as f64,
            messages: others as f64,
        }
    };
    rects.iter().zip(computes).map(of_node).collect()
}

/// Seconds of a multiplication whose arithmetic takes `compute_s` on the slowest node and whose messages take `travel_s` on
/// the busiest link, of which a part of `hidden`, from 0 to 1, travels while something is computed.
///
/// What is hidden costs nothing as long as the arithmetic is longer.
#[must_use]
pub fn wall_s(compute_s: f64, travel_s: f64, hidden: f64) -> f64 {
    let (under, beside) = (travel_s * hidden, travel_s * (1.0 - hidden));
    compute_s.max(under) + beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::br;

    #[test]
    fn a_node_alone_receives_nothing() {
        let layout = br(&[1.0], 8, 8).unwrap();
        assert_eq!(panel_traffic(&layout, 10, 1000, 10), [Traffic::default()]);
        assert_eq!(
            reduction_traffic(&layout, 10, &[true]),
            [Traffic::default()]
        );
    }

    #[test]
    fn a_grid_receives_what_summa_does() {
        // On a p×p grid every node receives (p-1)/p of its rows of A and its columns of B.
        let layout = br(&[1.0; 16], 64, 64).unwrap();
        let received = panel_traffic(&layout, 1, 64, 16);
        let each = 64.0 * 16.0 * 2.0 * 0.75;
        assert!(
            received
                .iter()
                .all(|node| (node.elements - each).abs() < 1e-9)
        );
    }

    #[test]
    fn on_a_grid_of_two_by_two_as_much_is_exchanged_as_received_and_sent() {
        let rect = |row, col, rows, cols| Rect {
            row,
            col,
            rows,
            cols,
        };
        let rects = vec![
            rect(0, 0, 6, 7),
            rect(6, 0, 4, 7),
            rect(0, 7, 6, 3),
            rect(6, 7, 4, 3),
        ];
        let layout = Layout::new(10, 10, rects.clone()).unwrap();
        let received = Traffic::total(&panel_traffic(&layout, 1, 7, 1)).elements;
        let part = |rect: &Rect| (rect.rows as usize, rect.cols as usize);
        let exchanged = rects
            .iter()
            .map(|rect| 7.0 * count_exchanged(part(rect), (10, 10), 4));
        assert!((exchanged.sum::<f64>() - 2.0 * received).abs() < 1e-9);
    }

    #[test]
    fn ten_thousand_nodes_receive_less_than_the_half_perimeters() {
        let layout = br(&vec![1.0; 10_000], 1000, 1000).unwrap();
        let received = Traffic::total(&panel_traffic(&layout, 1, 1000, 10)).elements;
        let most = 1000.0 * layout.half_perimeter_sum() as f64;
        assert!(received < most && received > 0.97 * most);
    }

    #[test]
    fn who_computes_nothing_receives_its_part_from_all_who_do() {
        let layout = br(&[1.0; 4], 8, 8).unwrap();
        let received = reduction_traffic(&layout, 1, &[true, true, false, true]);
        let messages: Vec<f64> = received.iter().map(|node| node.messages).collect();
        assert_eq!(messages, [2.0, 2.0, 3.0, 2.0]);
    }

    #[test]
    fn what_is_hidden_counts_only_where_it_is_longer() {
        assert_eq!(wall_s(10.0, 4.0, 1.0), 10.0);
        assert_eq!(wall_s(10.0, 4.0, 0.0), 14.0);
        assert_eq!(wall_s(10.0, 40.0, 1.0), 40.0);
        assert_eq!(wall_s(10.0, 4.0, 0.5), 12.0);
    }
}
