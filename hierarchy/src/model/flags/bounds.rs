//! The bounds that measured speeds set for their neighbours.

use super::{Flag, Reason};
use crate::model::Knot;
use crate::model::means::Mean;

/// Least relative uncertainty of a measured speed.
const TOLERANCE: f64 = 0.05;

/// A bound on a speed and its uncertainty, in units per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpeedBound {
    pub speed: f64,
    pub uncertainty: f64,
}

impl Mean {
    /// Returns the uncertainty of the speed, in units per second.
    pub(super) fn uncertainty(&self) -> f64 {
        self.ci.max(TOLERANCE * self.knot.speed)
    }

    /// Returns the flag for `reason` if this speed breaks the bound.
    pub(super) fn check_bound(&self, bound: SpeedBound, reason: Reason) -> Option<Flag> {
        let speed = self.knot.speed;
        let tolerance = self.uncertainty() + bound.uncertainty;
        let beyond = match reason {
            Reason::TooSlow | Reason::OutOfShape => bound.speed - speed,
            Reason::TooFast => speed - bound.speed,
        };
        (beyond > tolerance).then_some(Flag {
            d: self.knot.d as u64,
            speed,
            allowed: bound.speed,
            tolerance,
            reason,
        })
    }
}

/// Returns the least speed at `d` between two neighbours.
pub(super) fn least_between(d: f64, left: Option<&Mean>, right: &Mean) -> SpeedBound {
    const ORIGIN: Knot = Knot { d: 0.0, speed: 0.0 };
    let Some(left) = left else {
        return SpeedBound {
            speed: ORIGIN.interpolate_to(right.knot, d),
            uncertainty: right.uncertainty() * (d / right.knot.d),
        };
    };
    SpeedBound {
        speed: if left.knot.speed <= right.knot.speed {
            left.knot.interpolate_to(right.knot, d)
        } else {
            right.knot.speed
        },
        // A mean would be too small: speeds measured as falling may truly rise, and the reverse.
        uncertainty: left.uncertainty().max(right.uncertainty()),
    }
}

/// Returns the greatest speed at `d` that concavity allows to the right of `left`.
pub(super) fn most_from_left(d: f64, left: &Mean, next: Option<&Mean>) -> SpeedBound {
    let (next_d, next_speed, next_uncertainty) =
        next.map_or((0.0, 0.0, 0.0), |next| (next.knot.d, next.knot.speed, next.uncertainty()));
    let reach = (d - left.knot.d) / (left.knot.d - next_d);
    let rise = (left.knot.speed - next_speed).max(0.0);
    SpeedBound {
        speed: left.knot.speed + rise * reach,
        uncertainty: (1.0 + reach) * left.uncertainty() + reach * next_uncertainty,
    }
}

/// Returns the greatest speed at `d` that concavity allows to the left of `right`, if the function
/// certainly rises from there to `next`.
pub(super) fn most_from_right(d: f64, right: &Mean, next: &Mean) -> Option<SpeedBound> {
    let rise = next.knot.speed - right.knot.speed;
    let reach = (right.knot.d - d) / (next.knot.d - right.knot.d);
    (rise > right.uncertainty() + next.uncertainty()).then(|| SpeedBound {
        speed: right.knot.speed - rise * reach,
        uncertainty: (1.0 + reach) * right.uncertainty() + reach * next.uncertainty(),
    })
}
