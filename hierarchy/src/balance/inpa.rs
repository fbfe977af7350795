//! The inter-node partitioning algorithm.
//!
//! # Deviations
//!
//! * **first points of INPA**: the paper measures one block (step 1). Here each node measures a
//!   sixteenth of an even share, because one block fits a first-level cache. Its speed says little about
//!   the speeds to come, and the larger sub-matrix costs little more. It has the matrix's proportions.
//! * **first points by strategy**: the paper measures first points in every case (step 1). Here only
//!   [`Strategy::Fpm`](super::Strategy::Fpm) with more than one node does, because nothing else uses them.
//! * **first distribution of INPA**: the paper starts evenly (step 3). Here [`Strategy::Fpm`](super::Strategy::Fpm) starts
//!   with GPA's division by the first points, because between unlike nodes an even one is the most
//!   expensive. The configuration can ask for the paper's start by [`BalanceStart::Even`]. The CPM
//!   strategies start evenly, as in the paper's comparison (section 4).
//! * **end of an INPA iteration**: the paper takes the nodes' times (step 5). Here nodes that know their
//!   time repeat with the others until the last one does, because the multiplication runs all nodes
//!   together too. All measurements count.
//! * **CMA between iterations**: the paper arranges every division again (step 4). Here the last
//!   measured columns are kept if that costs little, because speeds depend on shapes too. Small changes
//!   of areas are then small changes of shapes. The limit is 3 % more half-perimeters than the least.
//! * **models of DIPA-2D**: the report's partial models are of the number of chunks (4.1). Here they are of the area, and
//!   heights and widths follow from them by FPM-KL. It starts from first points too, unless the configuration asks for
//!   [`BalanceStart::Even`].
//! * **areas in the models**: the paper adds points of the division wanted (step 6). Here they are
//!   those of the whole blocks measured, because rounding changes the areas.

use serde::{Deserialize, Serialize};

use super::dpa::{Balanced, Dpa};
use super::{
    BalanceConfig, BalanceError, BalanceStart, BalanceStep, EndReason, MeasuredDivision, imbalance,
};
use crate::layout::{Arrangement, FpmKlConfig, Layout, Rect, br_in, count_blocks};
use crate::model::SpeedModel;
use crate::partition::Partition;
use crate::times::Sample;

/// Inter-node partitioning algorithm: lays a matrix of `rows × cols` blocks out over nodes so that
/// all of them take equally long. One unit is one block; there are `W = rows · cols`.
///
/// 1. Every node measures a small sub-matrix, by its own IDPA.
/// 2. The times become the first point of each node's model.
/// 3. The initial division follows.
/// 4. The CMA ([`br`](crate::layout::br()), or the configured [`Arrangement`]) arranges it: node i gets
///    `m_i × n_i` blocks.
/// 5. Every node measures its sub-matrix, by its own IDPA.
/// 6. If the times differ by at most `epsilon`, this is the solution; otherwise the points
///    `(m_i · n_i, t_i)` are added to the models.
/// 7. The GPA computes the next division from the models, or FPM-KL in a grid
///    ([`Method::FpmKl`](crate::layout::Method::FpmKl)): that is DIPA-2D.
/// 8. Back to 4.
///
/// It also ends in other cases, and with the best layout measured; see [`Dpa`].
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Extent, Inpa};
/// use isochron_hierarchy::times::Sample;
///
/// let mut inpa = Inpa::new(BalanceConfig::default(), 2, 60, 60);
/// let balance = loop {
///     match inpa.step() {
///         BalanceStep::Done(balance) => break balance,
///         BalanceStep::Measure(extents) => {
///             // The second node is three times as fast.
///             let nodes = extents.iter().zip([50.0, 150.0]);
///             let sizes = nodes.map(|(extent, speed)| (extent.area(), speed));
///             let times = sizes.map(|(d, speed)| Sample::measured(d, d as f64 / speed, 3, 0.0));
///             inpa.observe(&times.collect::<Vec<_>>())?;
///         }
///     }
/// };
/// assert_eq!(balance.layout.areas(), [900, 2700]);
/// # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
/// ```
///
/// # References
/// Clarke et al. 2012, section 3 (INPA); Clarke's thesis, section 5.2.1. Alonso, Reddy and Lastovetsky 2009, section 4.1
/// (DIPA-2D).
#[derive(Debug, Clone)]
pub struct Inpa {
    config: BalanceConfig,
    n_nodes: usize,
    rows: u64,
    cols: u64,
    dpa: Dpa,
    /// The layout of each iteration of `dpa`.
    layouts: Vec<Layout>,
    /// The next layout, if heights and widths were divided by the models.
    divided: Option<Layout>,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Step 1: this sub-matrix on each node.
    FirstPoints(Extent),
    /// Step 5: this layout.
    Measure(Layout),
    Done(NodeBalance),
}

/// Returns the size of each node's first measurement: a sixteenth of an even share, or one block.
fn first_extent(start: BalanceStart, n_nodes: usize, rows: u64, cols: u64) -> Extent {
    let parts = 4.0 * (n_nodes as f64).sqrt();
    let [rows, cols] = [rows, cols].map(|whole| match start {
        BalanceStart::Even => 1,
        BalanceStart::FirstPoints => ((whole as f64 / parts) as u64).max(1),
    });
    Extent { rows, cols }
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
    /// Returns the number of blocks.
    pub fn area(&self) -> u64 {
        self.rows * self.cols
    }
}

impl From<&Rect> for Extent {
    /// Returns the rectangle's size.
    fn from(rect: &Rect) -> Self {
        let Rect { rows, cols, .. } = *rect;
        Self { rows, cols }
    }
}

/// The result of an [`Inpa`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeBalance {
    /// The nodes' rectangles.
    pub layout: Layout,
    /// Seconds that each node takes however small its part, as its measurements show; 0 if they show none.
    pub fixed_s: Vec<f64>,
    /// The nodes' times in this layout, and the measurements that led to it.
    pub outcome: BalanceOutcome,
}

/// The nodes' times in a division, and the measurements that led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct BalanceOutcome {
    /// Seconds of each node for an update of its part: measured, or predicted for a part that was not measured, or 0
    /// if nothing is known.
    pub times_s: Vec<f64>,
    /// Imbalance of these times, as balanced.
    pub imbalance: f64,
    /// Number of measured divisions.
    pub iterations: u32,
    /// `true` if the division was measured to be balanced, or there was no work.
    pub converged: bool,
    /// Why balancing ended. `balanced`: the last division was balanced, or the best that the models allow.
    /// `nothing-new`: the next division was measured before. `not-worth-it`: more measuring would cost more than it
    /// saves. `iteration-limit`: the iterations were used up. `predicted`: the result follows from a measurement and
    /// was not measured. `not-measured`: an even split. `no-work`: nothing to divide.
    pub why: EndReason,
    /// Every measured division, in order.
    pub history: Vec<MeasuredDivision>,
    /// Nodes whose time falls with their area by the fit, while the partitioner is made for times that grow. The
    /// division may then be far from the best.
    pub falling: Vec<usize>,
}

impl Inpa {
    /// Starts a balancing of `rows × cols` blocks over `n_nodes` nodes.
    ///
    /// # Panics
    /// If `n_nodes` is 0, if `rows · cols` exceeds 63 bits, or if the configured grid has not one place for each node.
    pub fn new(config: BalanceConfig, n_nodes: usize, rows: u64, cols: u64) -> Self {
        let Ok(total) = count_blocks(rows, cols) else {
            panic!("{rows} x {cols} blocks are too many to count")
        };
        let dpa = Dpa::new(config, n_nodes, total);
        let first_points = dpa.is_functional() && n_nodes > 1 && total > 0;
        let mut inpa = Self {
            config,
            n_nodes,
            rows,
            cols,
            dpa,
            layouts: Vec::new(),
            divided: None,
            phase: Phase::FirstPoints(first_extent(config.start, n_nodes, rows, cols)),
        };
        if !first_points {
            inpa.advance();
        }
        inpa
    }

    /// Returns the sub-matrix that each node's IDPA shall measure next, or the result.
    ///
    /// The sub-matrix of a node without work has no blocks. Asking twice changes nothing.
    pub fn step(&self) -> BalanceStep<Vec<Extent>, NodeBalance> {
        match &self.phase {
            Phase::FirstPoints(extent) => BalanceStep::Measure(vec![*extent; self.n_nodes]),
            Phase::Measure(layout) => {
                BalanceStep::Measure(layout.rects().iter().map(Extent::from).collect())
            }
            Phase::Done(balance) => BalanceStep::Done(balance.clone()),
        }
    }

    /// Takes one time for each node, for the sub-matrices that [`step`](Self::step) returned, in whatever units it was
    /// measured.
    ///
    /// # Errors
    /// Returns [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`], after which the request stands; [`BalanceError::Partition`] or
    /// [`BalanceError::Layout`] if the models do not admit a division.
    pub fn observe(&mut self, times: &[Sample]) -> Result<(), BalanceError> {
        match &self.phase {
            Phase::Done(_) => return Err(BalanceError::NotMeasuring),
            Phase::FirstPoints(extent) => {
                self.dpa.seed_all(extent.area(), times)?;
                if self.config.start == BalanceStart::FirstPoints {
                    self.dpa.start_from_points()?;
                }
            }
            Phase::Measure(layout) => {
                let (wanted, got) = (self.n_nodes, times.len());
                if got != wanted {
                    return Err(BalanceError::WrongLength { wanted, got });
                }
                let parts: Vec<Sample> = times
                    .iter()
                    .zip(layout.areas())
                    .map(|(time, blocks)| time.counted_as(blocks))
                    .collect();
                let (config, divided) = (self.config, &mut self.divided);
                self.dpa.observe_by(&parts, |dpa| {
                    let next = divide_sides(&config, layout, dpa)?;
                    let Some((sides, partition)) = next else {
                        return dpa.compute_next();
                    };
                    *divided = Some(sides);
                    Ok(partition)
                })?;
                self.layouts.push(layout.clone());
            }
        }
        self.advance();
        Ok(())
    }

    /// Lays out the DPA's next division, or ends.
    fn advance(&mut self) {
        if let BalanceStep::Measure(units) = self.dpa.step() {
            let layout = self.arrange(&units);
            if !self.dpa.is_known(&layout.areas()) {
                self.phase = Phase::Measure(layout);
                return;
            }
            // Another division, but the same whole blocks.
            self.dpa.end(EndReason::NothingNew);
        }
        if let BalanceStep::Done(balanced) = self.dpa.step() {
            self.phase = Phase::Done(self.make_result(balanced));
        }
    }

    fn make_result(&self, balanced: Balanced) -> NodeBalance {
        let (layout, times_s) = match balanced.measured {
            Some(iteration) => (self.layouts[iteration].clone(), balanced.times_s),
            None => {
                let layout = self.arrange(&balanced.units);
                let times_s = match balanced.why {
                    EndReason::NotMeasured | EndReason::NoWork => balanced.times_s,
                    _ => self.dpa.predict_times_s(&layout.areas()),
                };
                (layout, times_s)
            }
        };
        NodeBalance {
            layout,
            fixed_s: balanced.fixed_s,
            outcome: BalanceOutcome {
                imbalance: imbalance(&times_s),
                times_s,
                iterations: balanced.iterations,
                converged: balanced.converged,
                why: balanced.why,
                history: balanced.history,
                falling: balanced.falling,
            },
        }
    }

    /// Does step 4, the CMA, and keeps the columns that were measured last if they cost little more, or if they stand in a grid.
    fn arrange(&self, units: &[u64]) -> Layout {
        if let Some(divided) = self.divided.as_ref().filter(|next| next.areas() == units) {
            return divided.clone();
        }
        let areas: Vec<f64> = units.iter().map(|&d| d as f64).collect();
        let kept = self.layouts.last().filter(|_| self.config.layout.grid.is_some());
        if let Some(kept) =
            kept.and_then(|last| self.config.layout.rearrange(last, &[], &areas).ok())
        {
            return kept;
        }
        let best = self.arrange_freely(&areas);
        let least = best.half_perimeter_sum() as f64;
        match self.arrange_in_last_columns(&areas) {
            Some(kept) if kept.half_perimeter_sum() as f64 <= KEEP * least => kept,
            _ => best,
        }
    }

    fn arrange_in_last_columns(&self, areas: &[f64]) -> Option<Layout> {
        let measured =
            self.layouts.last().filter(|_| self.config.layout == Arrangement::default())?;
        Some(br_in(&measured.columns()?, areas, self.rows, self.cols).ok()?.forget_empty_places())
    }

    fn arrange_freely(&self, areas: &[f64]) -> Layout {
        // A division has one finite area per node and sums to rows · cols, which fits in 63 bits. No
        // method refuses that.
        (self.config.layout.arrange(areas, self.rows, self.cols))
            .unwrap_or_else(|error| unreachable!("a division of the blocks has a layout: {error}"))
    }
}

/// Divides the blocks by the models of `dpa` in the columns of a layout, if the arrangement does so.
fn divide_sides(
    config: &BalanceConfig,
    layout: &Layout,
    dpa: &Dpa,
) -> Result<Option<(Layout, Partition)>, BalanceError> {
    if !dpa.is_functional() {
        return Ok(None);
    }
    let owned = dpa.make_functions();
    let functions: Vec<&dyn SpeedModel> = owned.iter().map(AsRef::as_ref).collect();
    let ends = FpmKlConfig { epsilon: config.epsilon, ..FpmKlConfig::default() };
    let found = config.layout.divide_sides(layout, &functions, &ends)?;
    Ok(found.map(|found| {
        let units = found.layout.areas();
        (found.layout, Partition { units, times_s: found.times_s })
    }))
}

/// Largest ratio of half-perimeters to the least possible for which the columns of the last measured
/// layout are kept. A node's time depends a little on the shape of its rectangle too, and that shape
/// was measured. Holder: `balance::four_nodes_one_with_two_devices_converge`.
const KEEP: f64 = 1.03;
