//! The contender that learns while it runs.

use isochron_hierarchy::layout::{Layout, br, br_in};
use isochron_hierarchy::learn::{Adaptive, AdaptivePart, LaidOut, Observed, Request, Tuning};
use isochron_hierarchy::partition::apportion;

use super::simulation::{SimulatedRun, find_move_s};

/// Steps that are handed over as one burst at most, as the runtime does. The contender cannot see where the true ones end.
const BURST: u64 = 16;

/// Lays the units of devices out as rectangles of their nodes.
pub struct Placer {
    /// Rows and columns of C in blocks.
    pub side: u64,
    /// Devices of each node.
    pub devices: usize,
    /// The layout of the steps; `None` before the first.
    pub held: Option<Layout>,
}

impl Placer {
    /// Lays `units` out: in the columns of the layout held, so that little moves, or freely before the first.
    ///
    /// # Panics
    /// If these are no units for all blocks.
    pub fn lay_out(&self, units: &[u64]) -> Layout {
        let areas: Vec<f64> =
            units.chunks(self.devices).map(|node| node.iter().sum::<u64>() as f64).collect();
        let columns = self.held.as_ref().and_then(Layout::columns);
        columns
            .and_then(|columns| br_in(&columns, &areas, self.side, self.side).ok())
            .or_else(|| br(&areas, self.side, self.side).ok())
            .unwrap_or_else(|| unreachable!("all blocks have a layout"))
    }

    /// Returns the units of the devices in a layout, in proportion to `units` inside each node.
    pub fn share_out(&self, layout: &Layout, units: &[u64]) -> Vec<u64> {
        layout
            .areas()
            .into_iter()
            .zip(units.chunks(self.devices))
            .flat_map(|(area, node)| share_area(area, node))
            .collect()
    }

    /// Returns a division as it would be laid out, with the seconds of moving C there.
    pub fn propose(&self, units: &[u64]) -> LaidOut {
        let layout = self.lay_out(units);
        LaidOut {
            units: self.share_out(&layout, units),
            cost_s: self.held.as_ref().map_or(0.0, |held| find_move_s(held, &layout)),
        }
    }
}

fn share_area(area: u64, units: &[u64]) -> Vec<u64> {
    let mut weights: Vec<f64> = units.iter().map(|&d| d as f64).collect();
    if units.iter().all(|&d| d == 0) {
        weights.fill(1.0);
    }
    apportion(area, &weights)
}

/// Makes the parts of a cluster with so many devices in each node.
pub fn make_parts(parts: usize, devices: usize) -> Vec<AdaptivePart> {
    (0..parts)
        .map(|part| part / devices)
        .map(|node| AdaptivePart { node, ..AdaptivePart::default() })
        .collect()
}

/// Runs all steps, and learns the nodes' times from them by this tuning.
///
/// # Errors
/// Returns the errors of the learner.
pub fn learn_in_run(run: &mut SimulatedRun<'_>, tuning: Tuning) -> anyhow::Result<()> {
    let (side, mut parts) = (run.side(), make_parts(run.n_nodes(), 1));
    for part in parts.iter_mut().filter(|_| run.is_one_kind()) {
        (part.safe, part.likely_speed) = (side * side, Some(1.0));
    }
    let mut learner = Adaptive::new(tuning, side * side, run.steps_left(), parts)?;
    let mut placer = Placer { side, devices: 1, held: None };
    let (mut burst, mut in_burst) = (0, 0);
    loop {
        let request = learner.request_next(|units| placer.propose(units))?;
        match request {
            Request::Done => return Ok(()),
            Request::Measure(units) => {
                burst += 1;
                learner.observe(&Observed {
                    is_measurement: true,
                    burst,
                    samples: run.look_once(&units),
                })?;
            }
            Request::Steps { units, count } => {
                if learner.is_changed() {
                    let layout = placer.lay_out(&units);
                    run.place(layout.clone());
                    placer.held = Some(layout);
                    (burst, in_burst) = (burst + 1, 0);
                }
                for _ in 0..count {
                    if in_burst == BURST {
                        (burst, in_burst) = (burst + 1, 0);
                    }
                    in_burst += 1;
                    learner.observe(&Observed {
                        is_measurement: false,
                        burst,
                        samples: run.step(),
                    })?;
                }
            }
        }
    }
}
