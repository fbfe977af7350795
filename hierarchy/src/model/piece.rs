//! A straight stretch of a speed function.

/// A stretch on which a speed function is a straight line, `s(d) = speed + slope · (d - start)`.
///
/// A model that is made of such stretches hands out the one around a time
/// ([`SpeedModel::piece_within`](super::SpeedModel::piece_within)). What is then asked of it nearby takes a
/// few operations, where the model has to look for the stretch first: partitioners that close in on one
/// time over very many devices ask each of them for it once or twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Where the stretch begins, in units.
    pub start: f64,
    /// Where it ends, in units; infinity for the last one.
    pub end: f64,
    /// Speed at `start`, in units per second.
    pub speed: f64,
    /// Slope of the speed, in units per second per unit.
    pub slope: f64,
    /// The shortest time for which the largest size within it lies on this stretch, in seconds...
    pub from_s: f64,
    /// ... and the time from which it lies beyond.
    pub to_s: f64,
}

impl Piece {
    /// A stretch that holds nothing.
    pub const NONE: Self = Self {
        start: f64::NAN,
        end: f64::NAN,
        speed: f64::NAN,
        slope: f64::NAN,
        from_s: f64::NAN,
        to_s: f64::NAN,
    };

    /// Whether the largest size within `t_s` lies on this stretch.
    #[must_use]
    pub fn holds_time(&self, t_s: f64) -> bool {
        self.from_s <= t_s && t_s < self.to_s
    }

    /// Whether a size of `d` units lies on this stretch.
    #[must_use]
    pub fn holds(&self, d: f64) -> bool {
        self.start <= d && d < self.end
    }

    /// The size that takes `t_s`: solves `d = t · s(d)`, within the stretch.
    #[must_use]
    pub fn units_within(&self, t_s: f64) -> f64 {
        let d = t_s * (self.speed - self.slope * self.start) / (1.0 - self.slope * t_s);
        // Nearly equal times at both ends make this 0/0; any size between them is then right.
        if d.is_nan() {
            self.start
        } else {
            d.clamp(self.start, self.end)
        }
    }

    /// The speed at `d` units, in units per second.
    #[must_use]
    pub fn speed(&self, d: f64) -> f64 {
        self.speed + self.slope * (d - self.start)
    }

    /// Seconds that `d` units take.
    #[must_use]
    pub fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 { 0.0 } else { d / self.speed(d) }
    }
}
