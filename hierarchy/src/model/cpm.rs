//! The constant performance model.

use super::means::average_sizes;
use super::{ModelError, Point, SpeedModel};

/// Constant performance model: `s(d) = speed` at every problem size. It keeps only the constant, not its
/// points.
///
/// # Deviations
/// * **CPM of several sizes**: the thesis takes the speed of one point (appendix A.3). Here it is
///   `Σ d / Σ t` of all measured sizes, because that predicts their time together. Large sizes then
///   count most, as in a run. A mean of the speeds would count a tiny size as much as a large one.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Cpm, Point, SpeedModel};
///
/// let points = [(100, 1.0), (300, 3.0)].map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
/// let model = Cpm::from_points(&points)?;
/// assert_eq!((model.speed(5.0), model.time_s(50.0)), (100.0, 0.5));
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 2.3 and appendix A.3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpm {
    /// Units per second.
    pub speed: f64,
}

impl Cpm {
    /// Builds a model that predicts the time of all measured sizes together: `speed = Σ d / Σ t`. Each size
    /// counts once, with its mean time weighted by repetitions.
    ///
    /// # Errors
    /// Returns [`ModelError::NoPoints`] without points; [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`]
    /// for a bad one.
    pub fn from_points(points: &[Point]) -> Result<Self, ModelError> {
        if points.is_empty() {
            return Err(ModelError::NoPoints);
        }
        points.iter().try_for_each(Point::check)?;
        let means = average_sizes(points);
        let units: f64 = means.iter().map(|mean| mean.knot.d).sum();
        let t_s: f64 = means.iter().map(|mean| mean.knot.time_s()).sum();
        Ok(Self { speed: units / t_s })
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
    fn several_points_give_the_speed_of_them_all_together() {
        // 100 units take 2 s on average, 300 units 8 s.
        let points = [(300, 8.0, 1), (100, 1.0, 1), (100, 2.5, 2)].map(|(d, t_s, reps)| Point {
            d,
            t_s,
            reps,
            ci_s: 0.0,
        });
        assert_eq!(Cpm::from_points(&points), Ok(Cpm { speed: 40.0 }));
        assert_eq!(Cpm::from_points(&[]), Err(ModelError::NoPoints));
    }

    #[test]
    fn speed_is_the_points_speed_everywhere() {
        let points = [Point { d: 30, t_s: 2.0, reps: 1, ci_s: 0.0 }];
        let cpm = Cpm::from_points(&points).expect("valid");
        assert_eq!(cpm.speed(1.0), 15.0);
        assert_eq!(cpm.time_s(0.0), 0.0);
        assert_eq!(cpm.time_s(45.0), 3.0);
        assert_eq!(cpm.units_within(3.0), 45.0);
        assert_eq!(cpm.speed_derivative(45.0), 0.0);
        assert_eq!(cpm.time_derivative(45.0), 1.0 / 15.0);
    }
}
