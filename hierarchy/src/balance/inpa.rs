//! The inter-node partitioning algorithm.

use serde::{Deserialize, Serialize};

use super::dpa::{Balanced, Dpa};
use super::{
    BalanceConfig, BalanceError, Iteration, Observation, Outcome, Start, Step, Strategy, imbalance,
};
use crate::layout::{Layout, Method, Rect, Zones, arrange, br_in};

/// Inter-node partitioning algorithm: lays a matrix of `rows × cols` blocks out over nodes so that
/// all of them take equally long. One unit is one block; there are `W = rows · cols`.
///
/// 1. Every node measures a small sub-matrix, by its own IDPA.
/// 2. The times become the first point of each node's model.
/// 3. The initial division follows.
/// 4. The CMA ([`br`](crate::layout::br()), or the configured [`Method`]) arranges it: node i gets
///    `m_i × n_i` blocks, or with [`Method::Corner`] perhaps an L of two rectangles.
/// 5. Every node measures its sub-matrix, by its own IDPA.
/// 6. If the times differ by at most `epsilon`, this is the solution; otherwise the points
///    `(m_i · n_i, t_i)` are added to the models.
/// 7. The GPA computes the next division from the models.
/// 8. Back to 4.
///
/// Deviations from the paper:
/// * the small sub-matrix is a sixteenth of an even share, in the matrix's proportions, where the
///   paper measures a single block: a block of a few thousand elements fits a first-level cache and says
///   little about the speeds to come, and the larger one costs little more;
/// * the initial division is what the first points suggest, not the even one, unless the
///   configuration says [`Start::Even`]: between unlike nodes the even division is the most expensive
///   measurement there is;
/// * the first points are measured with [`Strategy::Fpm`] only, which alone uses them, and not for
///   a single node;
/// * the nodes stay in the columns of the last layout measured while that costs little more
///   communication: a small change of areas then is a small change of shapes;
/// * the areas in the models are those of the whole blocks measured, not of the division wanted;
/// * it ends in more cases, and with the best layout measured; see [`Dpa`].
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, Extent, Inpa, Observation, Step};
///
/// let mut inpa = Inpa::new(BalanceConfig::default(), 2, 60, 60);
/// let balance = loop {
///     match inpa.step() {
///         Step::Done(balance) => break balance,
///         Step::Measure(zones) => {
///             // The second node is three times as fast.
///             let time = |(zone, speed): (&Vec<Extent>, f64)| {
///                 let blocks: u64 = zone.iter().map(Extent::area).sum();
///                 Observation::measured(blocks as f64 / speed, 3, 0.0)
///             };
///             inpa.observe(&zones.iter().zip([50.0, 150.0]).map(time).collect::<Vec<_>>())?;
///         }
///     }
/// };
/// assert_eq!(balance.zones.areas(), [900, 2700]);
/// # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
/// ```
///
/// # References
/// Clarke et al. 2012, section 3 (INPA); Clarke's thesis, section 5.2.1.
#[derive(Debug, Clone)]
pub struct Inpa {
    start: Start,
    method: Method,
    n_nodes: usize,
    rows: u64,
    cols: u64,
    dpa: Dpa,
    /// The layout of each iteration of `dpa`.
    layouts: Vec<Zones>,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Step 1: this sub-matrix on each node.
    FirstPoints(Extent),
    /// Step 5: this layout.
    Measure(Zones),
    Done(NodeBalance),
}

/// What every node measures first: a sixteenth of an even share, or the paper's single block before the
/// even division.
fn first_extent(start: Start, n_nodes: usize, rows: u64, cols: u64) -> Extent {
    let parts = 4.0 * (n_nodes as f64).sqrt();
    let part = |whole: u64| match start {
        Start::Even => 1,
        Start::FirstPoints => ((whole as f64 / parts) as u64).max(1),
    };
    Extent {
        rows: part(rows),
        cols: part(cols),
    }
}

/// The size of a node's sub-matrix in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Extent {
    /// Height in blocks.
    pub rows: u64,
    /// Width in blocks.
    pub cols: u64,
}

impl Extent {
    /// Number of blocks.
    #[must_use]
    pub fn area(&self) -> u64 {
        self.rows * self.cols
    }
}

impl From<&Rect> for Extent {
    /// The rectangle's size.
    fn from(rect: &Rect) -> Self {
        Self {
            rows: rect.rows,
            cols: rect.cols,
        }
    }
}

/// Where an [`Inpa`] ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeBalance {
    /// The nodes' zones: rectangles, or with [`Method::Corner`] perhaps L-shapes.
    pub zones: Zones,
    /// Seconds of each node: measured, or predicted where the layout was not measured, or 0 where
    /// nothing is known.
    pub times_s: Vec<f64>,
    /// The [`imbalance`] of these times.
    pub imbalance: f64,
    /// Number of measured layouts.
    pub iterations: u32,
    /// Whether the returned layout was measured to be balanced (or there was no work).
    pub converged: bool,
    /// Why balancing ended.
    pub why: Outcome,
    /// Every measured division into areas, in order.
    pub history: Vec<Iteration>,
}

impl Inpa {
    /// A balancing of `rows × cols` blocks over `n_nodes` nodes.
    ///
    /// # Panics
    /// If `n_nodes` is 0, or if `rows · cols` exceeds 63 bits.
    #[must_use]
    pub fn new(config: BalanceConfig, n_nodes: usize, rows: u64, cols: u64) -> Self {
        let total = rows
            .checked_mul(cols)
            .filter(|&total| total <= i64::MAX as u64);
        let Some(total) = total else {
            panic!("{rows} x {cols} blocks are too many to count")
        };
        let dpa = Dpa::new(config, n_nodes, total);
        let first_points = config.strategy == Strategy::Fpm && n_nodes > 1 && total > 0;
        let mut inpa = Self {
            start: config.start,
            method: config.layout,
            n_nodes,
            rows,
            cols,
            dpa,
            layouts: Vec::new(),
            phase: Phase::FirstPoints(first_extent(config.start, n_nodes, rows, cols)),
        };
        if !first_points {
            inpa.advance();
        }
        inpa
    }

    /// The rectangles that each node's IDPA shall measure next, or the result: none for a node without
    /// work, one, or the two of an L, whose times add up. Asking twice changes nothing.
    #[must_use]
    pub fn step(&self) -> Step<Vec<Vec<Extent>>, NodeBalance> {
        match &self.phase {
            Phase::FirstPoints(extent) => Step::Measure(vec![vec![*extent]; self.n_nodes]),
            Phase::Measure(layout) => {
                let extents = |zone: &Vec<Rect>| zone.iter().map(Extent::from).collect();
                Step::Measure(layout.zones().iter().map(extents).collect())
            }
            Phase::Done(balance) => Step::Done(balance.clone()),
        }
    }

    /// Takes one time for each node, of what [`step`](Self::step) asked for.
    ///
    /// # Errors
    /// As [`Dpa::observe`].
    pub fn observe(&mut self, times: &[Observation]) -> Result<(), BalanceError> {
        match &self.phase {
            Phase::Done(_) => return Err(BalanceError::NotMeasuring),
            Phase::FirstPoints(extent) => {
                self.dpa.seed_all(extent.area(), times)?;
                if self.start == Start::FirstPoints {
                    self.dpa.start_from_points()?;
                }
            }
            Phase::Measure(layout) => {
                self.dpa.observe(&layout.areas(), times)?;
                self.layouts.push(layout.clone());
            }
        }
        self.advance();
        Ok(())
    }

    /// Lays out what the DPA wants next, or ends.
    fn advance(&mut self) {
        if let (true, Some(layout)) = (self.dpa.is_again(), self.layouts.last()) {
            self.phase = Phase::Measure(layout.clone());
            return;
        }
        if let Step::Measure(units) = self.dpa.step() {
            let layout = self.arrange(&units);
            if !self.dpa.is_known(&layout.areas()) {
                self.phase = Phase::Measure(layout);
                return;
            }
            // Another division, but the same whole blocks.
            self.dpa.end(Outcome::NothingNew);
        }
        if let Step::Done(balanced) = self.dpa.step() {
            self.phase = Phase::Done(self.result(balanced));
        }
    }

    fn result(&self, balanced: Balanced) -> NodeBalance {
        let (zones, times_s) = match balanced.measured {
            Some(iteration) => (self.layouts[iteration].clone(), balanced.times_s),
            None => {
                let zones = self.arrange(&balanced.units);
                let unknown = matches!(balanced.why, Outcome::NotMeasured | Outcome::NoWork);
                let times_s = if unknown {
                    balanced.times_s
                } else {
                    self.dpa.predicted_times(&zones.areas())
                };
                (zones, times_s)
            }
        };
        NodeBalance {
            zones,
            imbalance: imbalance(&times_s),
            times_s,
            iterations: balanced.iterations,
            converged: balanced.converged,
            why: balanced.why,
            history: balanced.history,
        }
    }

    /// Step 4: the CMA, in the columns that were measured last as long as those cost little more.
    fn arrange(&self, units: &[u64]) -> Zones {
        let areas: Vec<f64> = units.iter().map(|&d| d as f64).collect();
        let best = self.arrange_anew(&areas);
        match self.in_last_columns(&areas) {
            Some(kept) if kept.cost() as f64 <= KEEP * best.cost() as f64 => kept,
            _ => best,
        }
    }

    fn in_last_columns(&self, areas: &[f64]) -> Option<Zones> {
        let measured = self.layouts.last().filter(|_| self.method == Method::Br)?;
        let columns = Layout::try_from(measured.clone()).ok()?.columns()?;
        let kept = br_in(&columns, areas, self.rows, self.cols).ok()?;
        Some(kept.into())
    }

    #[allow(
        clippy::expect_used,
        reason = "the invariant is explained where it is used"
    )]
    fn arrange_anew(&self, areas: &[f64]) -> Zones {
        // A division has as many finite areas as there are nodes, and sums to rows · cols, which fits
        // in 63 bits: that leaves no method anything to refuse.
        arrange(self.method, areas, self.rows, self.cols)
            .expect("a division of the blocks can be laid out")
    }
}

/// Up to this ratio of half-perimeters to the least possible the columns of the last measured layout are kept.
/// A node's time depends on the shape of its rectangle too, a little, and that is what was measured.
const KEEP: f64 = 1.03;
