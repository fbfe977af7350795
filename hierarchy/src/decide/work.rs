//! The multiplication to be divided, and what follows from the nodes' times of its updates.

use super::{Division, SplitChoice, hold_evenly};
use crate::balance::{BalanceConfig, Extent, NodeBalance, Strategy};
use crate::layout::{Layout, LayoutError};
use crate::partition::apportion;
use crate::predict::{Candidate, Links, Multiplication, NodeRate, Way, count_exchanged};

/// A multiplication `C = A·B` to be divided among nodes: C of `m×n` elements over `k`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Number of nodes.
    pub nodes: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Elements on the side of a block.
    pub block: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Width of the panels if C is divided.
    pub panel: usize,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
    /// The part of the messages that travels during the arithmetic, from 0 to 1.
    pub hidden: f64,
    /// The dimension that the caller wants divided.
    pub split: SplitChoice,
    /// `true` if C may be laid out in slices of rows or columns that were not balanced.
    pub may_slice: bool,
    /// The caller's settings.
    pub config: BalanceConfig,
    /// The strategy of balancing; [`Strategy::Homogeneous`] if nothing is to be computed or divided.
    pub strategy: Strategy,
    /// Least number of repetitions in one measurement.
    pub reps: u32,
}

/// Factor by which shares of k must be faster than a division of C for a run that learns, between hosts.
const FIXED_SHARES: f64 = 1.1;

impl Work {
    /// Returns the settings for the balancing of this multiplication.
    pub fn balance_config(&self) -> BalanceConfig {
        BalanceConfig {
            strategy: self.strategy,
            steps: match self.strategy {
                // Models answer at once, so that no answer costs more than it saves.
                Strategy::Adaptive => 0,
                _ => self.k.div_ceil(self.kernel_width.max(1)) as u64,
            },
            reps: self.reps,
            ..self.config
        }
    }

    /// Returns a way to divide with the seconds that it is compared by. Shares of k stay as they are to the end, so a run that
    /// learns takes them only if they are much faster. On one host the least advantage is enough: the computing cores copy
    /// the panels there, and cold ones take several times as long as the messages that were measured.
    pub(super) fn weigh(&self, way: Candidate) -> Candidate {
        let is_learnt = self.strategy == Strategy::Adaptive && self.hidden > 0.0;
        let is_fixed = way.way == Way::K && is_learnt;
        let factor = if is_fixed { FIXED_SHARES } else { 1.0 };
        Candidate {
            wall_s: factor * way.wall_s,
            ..way
        }
    }

    /// Returns `true` if nothing is to be computed.
    pub fn is_empty(&self) -> bool {
        [self.m, self.n, self.k].contains(&0)
    }

    /// Returns the rows and columns of C in blocks.
    pub fn c_blocks(&self) -> (u64, u64) {
        let [rows, cols] = [self.m, self.n].map(|length| length.div_ceil(self.block) as u64);
        (rows, cols)
    }

    /// Returns k in blocks.
    pub fn k_blocks(&self) -> u64 {
        self.k.div_ceil(self.block) as u64
    }

    /// Returns the height and the width, in elements, of a part of C that begins in its corner.
    pub fn size_in_elements(&self, part: Extent) -> (usize, usize) {
        let [rows, cols] = [(part.rows, self.m), (part.cols, self.n)]
            .map(|(blocks, length)| (blocks as usize).saturating_mul(self.block).min(length));
        (rows, cols)
    }

    /// Returns the rectangles of C that nodes hold while k is divided.
    ///
    /// # Errors
    /// As [`hold_evenly()`].
    pub fn hold_evenly(&self) -> Result<Layout, LayoutError> {
        hold_evenly(self.c_blocks(), self.nodes)
    }

    /// Divides k in shares as even as blocks allow, with C held in `held`.
    pub fn divide_k_evenly(&self, held: Layout) -> Division {
        Division::K {
            shares: apportion(self.k_blocks(), &vec![1.0; self.nodes]),
            held,
        }
    }

    /// Returns the seconds that the messages of an update take from the arithmetic of a node with such a
    /// part of C, one of `nodes` parts, if a byte takes `byte_s`.
    pub fn messages_s(&self, byte_s: f64, part: Extent, nodes: usize) -> f64 {
        let (rows, cols) = self.size_in_elements(part);
        let exchanged = count_exchanged((rows, cols), (self.m, self.n), nodes);
        exchanged * self.kernel_width as f64 * self.element_bytes as f64 * byte_s
    }

    /// Returns the speeds of nodes from their times of an update on these areas of C, in blocks per
    /// second over all of k. A speed is 0 if the time is unknown.
    pub fn node_speeds(&self, areas: &[u64], times_s: &[f64]) -> Vec<f64> {
        let updates = self.k as f64 / self.kernel_width.max(1) as f64;
        areas
            .iter()
            .zip(times_s)
            .map(|(&area, &time_s)| {
                if time_s > 0.0 {
                    area as f64 / (time_s * updates)
                } else {
                    0.0
                }
            })
            .collect()
    }

    /// Returns the rates of nodes with these speeds, if a byte of a message takes `byte_s` of each.
    pub fn add_messages(&self, speeds: &[f64], byte_s: &[f64]) -> Vec<NodeRate> {
        speeds
            .iter()
            .zip(byte_s)
            .map(|(&speed, byte_s)| NodeRate {
                speed,
                fixed_s: 0.0,
                element_s: byte_s * self.element_bytes as f64,
            })
            .collect()
    }

    /// Returns the rates of nodes from their times of an update in this layout, with the cost of messages
    /// kept apart.
    ///
    /// Predicted times may contain more or less of that cost. So at most half of a time is taken for
    /// messages.
    pub fn node_rates(&self, layout: &Layout, times_s: &[f64], byte_s: &[f64]) -> Vec<NodeRate> {
        let areas = layout.areas();
        let busy = areas.iter().filter(|&&area| area > 0).count();
        let updates_s =
            layout
                .rects()
                .iter()
                .zip(times_s)
                .zip(byte_s)
                .map(|((rect, &time_s), &byte_s)| {
                    let messages_s = self.messages_s(byte_s, Extent::from(rect), busy);
                    (time_s - messages_s).max(0.5 * time_s)
                });
        let speeds = self.node_speeds(&areas, &updates_s.collect::<Vec<_>>());
        self.add_messages(&speeds, byte_s)
    }

    /// Returns the rates of balanced nodes, as [`node_rates`](Self::node_rates), with what each takes however
    /// small its part kept apart too.
    pub fn balance_rates(&self, balance: &NodeBalance, byte_s: &[f64]) -> Vec<NodeRate> {
        let updates = self.k as f64 / self.kernel_width.max(1) as f64;
        let mut rates = self.node_rates(&balance.layout, &balance.outcome.times_s, byte_s);
        let areas = balance.layout.areas().into_iter().zip(&balance.fixed_s);
        for (rate, (area, &fixed_s)) in rates.iter_mut().zip(areas) {
            let work_s = area as f64 / rate.speed - fixed_s * updates;
            if rate.speed > 0.0 && fixed_s > 0.0 && work_s > 0.0 {
                rate.speed = area as f64 / work_s;
                rate.fixed_s = fixed_s * updates;
            }
        }
        rates
    }

    /// Describes the multiplication for predictions with these links.
    pub fn over(&self, links: Links) -> Multiplication {
        Multiplication {
            blocks: self.c_blocks(),
            block: self.block,
            k: self.k,
            panel: self.panel,
            element_bytes: self.element_bytes,
            links,
            hidden: self.hidden,
        }
    }

    /// Returns the seconds of the arithmetic by nodes of these rates; 0 if no rate is known.
    pub fn arithmetic_s(&self, nodes: &[NodeRate]) -> f64 {
        let (rows, cols) = self.c_blocks();
        let speed: f64 = nodes.iter().map(|node| node.speed).sum();
        if speed > 0.0 {
            (rows * cols) as f64 / speed
        } else {
            0.0
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::layout::slice_cols;

    /// 64 × 64 blocks of one element.
    pub(in crate::decide) fn small(nodes: usize, k: usize) -> Work {
        Work {
            nodes,
            m: 64,
            n: 64,
            k,
            block: 1,
            element_bytes: 8,
            panel: k.clamp(1, 8),
            kernel_width: 1,
            hidden: 0.0,
            split: SplitChoice::Auto,
            may_slice: true,
            config: BalanceConfig::default(),
            strategy: Strategy::Fpm,
            reps: 3,
        }
    }

    #[test]
    fn the_cost_of_messages_is_taken_from_the_times_again() {
        let (work, byte_s) = (small(2, 10), [1e-9, 2e-9]);
        let layout = slice_cols(64, &[16, 48]).unwrap();
        let times_s = [0, 1].map(|node| {
            let cols = layout.rects()[node].cols;
            1e-3 + work.messages_s(byte_s[node], Extent { rows: 64, cols }, 2)
        });
        for (node, (cols, element_s)) in work
            .node_rates(&layout, &times_s, &byte_s)
            .iter()
            .zip([(16.0, 8e-9), (48.0, 16e-9)])
        {
            let speed = 64.0 * cols / (1e-3 * 10.0);
            assert!((node.speed / speed - 1.0).abs() < 1e-9);
            assert_eq!(node.element_s, element_s);
        }
        // This time contains less of the cost than it should.
        let hopeful = work.node_rates(&layout, &[1e-12, 1e-3], &byte_s);
        assert!((hopeful[0].speed * 1e-12 * 10.0 / (64.0 * 16.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_part_costs_as_much_as_its_messages() {
        let (work, quarter) = (small(4, 10), Extent { rows: 32, cols: 32 });
        assert_eq!(work.messages_s(0.0, quarter, 4), 0.0);
        // Half of 32 rows and 32 columns comes, and as much goes.
        let bytes = (32 + 32) * 8;
        assert!((work.messages_s(1e-9, quarter, 4) - 1e-9 * bytes as f64).abs() < 1e-15);
        assert_eq!(work.messages_s(1e-9, Extent::default(), 4), 0.0);
    }

    #[test]
    fn the_last_blocks_are_cut_short() {
        let work = Work {
            block: 10,
            ..small(3, 25)
        };
        assert_eq!((work.c_blocks(), work.k_blocks()), ((7, 7), 3));
        assert_eq!(work.size_in_elements(Extent { rows: 7, cols: 2 }), (64, 20));
        let widths: Vec<u64> = work
            .hold_evenly()
            .unwrap()
            .rects()
            .iter()
            .map(|rect| rect.cols)
            .collect();
        assert_eq!(widths, [3, 2, 2]);
    }
}
