//! A straight segment of a speed function.

/// A segment on which a speed function is a straight line, `s(d) = speed + slope · (d - start)`.
///
/// A piecewise linear model returns the segment around a time
/// ([`SpeedModel::segment_within`](super::SpeedModel::segment_within)). An evaluation on the segment takes
/// a few operations; the model has to find the segment first. Partitioners that approach one time over
/// very many devices therefore ask each model for a segment only once or twice. The default holds no size
/// and no time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpeedSegment {
    /// Start of the segment in units.
    pub start: f64,
    /// End of the segment in units; infinity for the last one.
    pub end: f64,
    /// Speed at `start`, in units per second.
    pub speed: f64,
    /// Slope of the speed, in units per second per unit.
    pub slope: f64,
    /// Shortest time in seconds for which the largest size within it lies on this segment.
    pub from_s: f64,
    /// Shortest time in seconds for which that size lies beyond this segment.
    pub to_s: f64,
}

impl SpeedSegment {
    /// Returns `true` if the largest size within `t_s` lies on this segment.
    pub fn holds_time(&self, t_s: f64) -> bool {
        self.from_s <= t_s && t_s < self.to_s
    }

    /// Returns `true` if a size of `d` units lies on this segment.
    pub fn holds_size(&self, d: f64) -> bool {
        self.start <= d && d < self.end
    }

    /// Returns the size that takes `t_s`: the solution of `d = t · s(d)` on the segment.
    pub fn units_within(&self, t_s: f64) -> f64 {
        let d = t_s * (self.speed - self.slope * self.start) / (1.0 - self.slope * t_s);
        // Nearly equal times at both ends make this 0/0. Any size between them is then right.
        if d.is_nan() { self.start } else { d.clamp(self.start, self.end) }
    }

    /// Returns the speed at `d` units, in units per second.
    pub fn speed(&self, d: f64) -> f64 {
        self.speed + self.slope * (d - self.start)
    }

    /// Returns the seconds that `d` units take.
    pub fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 { 0.0 } else { d / self.speed(d) }
    }
}
