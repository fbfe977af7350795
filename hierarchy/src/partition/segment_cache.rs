//! Speed functions of many devices, evaluated again and again at nearly the same time.

use crate::model::{SpeedModel, SpeedSegment};

/// The devices' speed functions, each with its straight segment used last.
///
/// A search over very many devices spends its time waiting for their models to come from memory. The
/// segments lie side by side, and as the search approaches one time, hardly any device leaves its segment.
pub(super) struct SegmentCache<'a> {
    pub models: &'a [&'a dyn SpeedModel],
    segments: Vec<SpeedSegment>,
}

impl<'a> SegmentCache<'a> {
    pub fn new(models: &'a [&'a dyn SpeedModel]) -> Self {
        Self { models, segments: vec![SpeedSegment::default(); models.len()] }
    }

    /// Writes the units that each device completes within `time_s`, at most `total`, and returns their
    /// sum.
    pub fn give_out(&mut self, total: f64, time_s: f64, shares: &mut [f64]) -> f64 {
        let mut sum = 0.0;
        for ((model, segment), share) in self.models.iter().zip(&mut self.segments).zip(shares) {
            // The order of the two bounds turns NaN into no units.
            *share = units_within(*model, segment, time_s).max(0.0).min(total);
            sum += *share;
        }
        sum
    }

    /// Returns the seconds that a device takes for `d` units.
    pub fn time_s(&self, device: usize, d: f64) -> f64 {
        let segment = &self.segments[device];
        if segment.holds_size(d) { segment.time_s(d) } else { self.models[device].time_s(d) }
    }
}

/// Returns [`SpeedModel::units_within`], from `segment` if it holds the time; else `segment` becomes the
/// one that does.
fn units_within(model: &dyn SpeedModel, segment: &mut SpeedSegment, time_s: f64) -> f64 {
    if !segment.holds_time(time_s) {
        match model.segment_within(time_s) {
            Some(around) => *segment = around,
            None => return model.units_within(time_s),
        }
    }
    segment.units_within(time_s)
}
