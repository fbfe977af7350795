//! The constant performance model.

use serde::{Deserialize, Serialize};

use super::{Point, SpeedModel};

/// Constant performance model: `s(d) = speed` at every problem size.
///
/// # References
/// Clarke's thesis, section 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cpm {
    /// Units per second.
    pub speed: f64,
}

impl From<Point> for Cpm {
    /// The model that one measurement gives: `speed = d / t_s`.
    fn from(point: Point) -> Self {
        Self {
            speed: point.speed(),
        }
    }
}

impl SpeedModel for Cpm {
    fn speed(&self, _d: f64) -> f64 {
        self.speed
    }

    fn speed_derivative(&self, _d: f64) -> f64 {
        0.0
    }

    fn units_within(&self, t_s: f64) -> f64 {
        t_s * self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_the_points_speed_everywhere() {
        let cpm = Cpm::from(Point {
            d: 30,
            t_s: 2.0,
            reps: 1,
            ci_s: 0.0,
        });
        assert_eq!(cpm.speed(1.0), 15.0);
        assert_eq!(cpm.time_s(0.0), 0.0);
        assert_eq!(cpm.time_s(45.0), 3.0);
        assert_eq!(cpm.units_within(3.0), 45.0);
        assert_eq!(cpm.speed_derivative(45.0), 0.0);
        assert_eq!(cpm.time_derivative(45.0), 1.0 / 15.0);
    }
}
