//! The functional performance model as an Akima spline.

use std::sync::OnceLock;

use super::cubic::Cubic;
use super::means::average_knots;
use super::polyline::suffix_minima;
use super::{Knot, ModelError, Point, SpeedModel};

/// Functional performance model in which the *speed* is an Akima spline: cubic between the measured
/// sizes, with a continuous slope, through every one of them. It is meant for partitioners that need
/// slopes, and keeps detail that the shape restrictions of [`PiecewiseFpm`](super::PiecewiseFpm) lose.
///
/// **Slopes.** Let `m₋₂ m₋₁ m₁ m₂` be the slopes of the chords before and after a measured size. The
/// spline's slope at it is `(|m₂ - m₁| m₋₁ + |m₋₁ - m₋₂| m₁) / (|m₂ - m₁| + |m₋₁ - m₋₂|)`, or the mean
/// of `m₋₁` and `m₁` if that is 0/0.
///
/// **Ends and few points.** The speed is constant beyond the smallest and the largest size, as if two
/// chords of slope 0 lay there. The thesis adds one to three points of the speed at the end instead,
/// depending on the number of points. Chords between them have slope 0 wherever they lie.
///
/// The time `d / s(d)` need not increase everywhere. [`units_within`](SpeedModel::units_within) is the
/// last of several sizes of one time.
///
/// # Deviations
/// * **Akima, ends of 3 and more points**: the thesis adds one chord of slope 0 beyond either end of a
///   partial model (section 3.3.2). Here two, because Akima's boundary rule continues a single one by a
///   parabola. The speed would swing outside the measured sizes, where the thesis wants the nearest
///   point's speed (section 3.3), and its slope would jump where the swing ends.
/// * **Akima, point beyond the last size**: the thesis prints `(n - x)/2` for the point between the last
///   size x and n (section 3.3.2). Here it is read as the middle, `(n + x)/2`, because the printed
///   one lies before x if x is more than a third of n. Chords to it have slope 0 wherever it lies.
/// * **Akima, 0/0 at an end**: Akima's rule takes the mean of two chords (Akima 1970). Here the slope
///   at an end is always 0, because the speed would swing outside the measured sizes. The case occurs
///   if the three outer points lie on one line.
/// * **Akima, positivity**: the thesis relies on little overshoot (section 3.2.2). Here slopes at
///   measured sizes are limited, because a spline may overshoot to speeds of 0 and less. The limits
///   are `-3 s / h` and `3 s / h'`, with `s` the speed at the size, and `h`, `h'` the distances to the
///   next size and to the one before. Between sizes of speeds `a` and `b` the speed is then at least
///   `a b / (√a + √b)²`, so at least a quarter of the smaller one. The slope stays continuous. Slopes
///   within the limits are Akima's own.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{AkimaFpm, Point, SpeedModel};
///
/// let points = [(100, 1.0), (200, 4.0)].map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
/// let model = AkimaFpm::from_points(points.to_vec())?;
/// assert_eq!([model.speed(50.0), model.speed(100.0)], [100.0, 100.0]);
/// assert_eq!([model.speed(150.0), model.speed_derivative(150.0)], [75.0, -0.75]);
/// assert_eq!(model.units_within(8.0), 400.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, sections 3.2.2 and 3.3.2; Akima, "A new method of interpolation and smooth curve
/// fitting based on local procedures", Journal of the ACM 17(4), 1970. Schmidt and Hess, "Positivity of
/// cubic polynomials on intervals and positive spline interpolation", BIT 28, 1988, for the limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AkimaFpm {
    points: Vec<Point>,
    spline: Spline,
}

/// An Akima spline without the points that it was made of. Piece `i` is the cubic from knot `i` to the next.
#[derive(Debug, Clone, Default)]
struct Spline {
    knots: Vec<Knot>,
    /// The slope at each knot.
    slopes: Vec<f64>,
    /// Entry `i`: the least time on piece `i` and all to the right of it. Many splines are never asked for it.
    least_s: OnceLock<Vec<f64>>,
}

impl AkimaFpm {
    /// Returns a model without points, with speed 0 everywhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a model of these points, in any order; the times of a repeated size are averaged, weighted by
    /// repetitions.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn from_points(points: Vec<Point>) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Self::through(points))
    }

    /// Builds the spline through these points without the points.
    pub(super) fn fit_points(points: &[Point]) -> Result<impl SpeedModel + use<>, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Spline::through(average_knots(points)))
    }

    /// Adds a measured point and renews the spline.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point. The model is then
    /// unchanged.
    pub fn add(&mut self, point: Point) -> Result<(), ModelError> {
        point.check()?;
        self.points.push(point);
        *self = Self::through(std::mem::take(&mut self.points));
        Ok(())
    }

    /// Returns the measured sizes and speeds that the spline goes through, ascending in `d`.
    pub fn knots(&self) -> &[Knot] {
        &self.spline.knots
    }

    fn through(points: Vec<Point>) -> Self {
        Self { spline: Spline::through(average_knots(&points)), points }
    }
}

impl SpeedModel for AkimaFpm {
    fn speed(&self, d: f64) -> f64 {
        self.spline.speed(d)
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.spline.speed_derivative(d)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.spline.units_within(t_s)
    }
}

impl Spline {
    fn through(knots: Vec<Knot>) -> Self {
        Self { slopes: limit_slopes(&knots, akima_slopes(&knots)), knots, least_s: OnceLock::new() }
    }

    fn least_s(&self) -> &[f64] {
        self.least_s.get_or_init(|| {
            let pieces = 1..self.knots.len();
            suffix_minima(pieces.map(|right| self.piece(right - 1).least_time_s()))
        })
    }

    fn piece(&self, left: usize) -> Cubic {
        let right = left + 1;
        let slopes = [self.slopes[left], self.slopes[right]];
        Cubic::between(self.knots[left], self.knots[right], slopes)
    }

    /// Returns the piece that `d` lies on, or `None` beyond the ends.
    fn piece_at(&self, d: f64) -> Option<Cubic> {
        let right = self.knots.partition_point(|knot| knot.d <= d);
        (1..self.knots.len()).contains(&right).then(|| self.piece(right - 1))
    }
}

impl PartialEq for Spline {
    fn eq(&self, other: &Self) -> bool {
        // The knots determine the rest.
        self.knots == other.knots
    }
}

impl SpeedModel for Spline {
    fn speed(&self, d: f64) -> f64 {
        match (self.piece_at(d), self.knots.first()) {
            (Some(piece), _) => piece.speed(d),
            (None, Some(first)) if d < first.d => first.speed,
            (None, _) => self.knots.last().map_or(0.0, |last| last.speed),
        }
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.piece_at(d).map_or(0.0, |piece| piece.derivative(d))
    }

    fn units_within(&self, t_s: f64) -> f64 {
        let (Some(first), Some(last)) = (self.knots.first(), self.knots.last()) else {
            return 0.0;
        };
        if last.time_s() <= t_s {
            return t_s * last.speed;
        }
        match self.least_s().partition_point(|&least_s| least_s <= t_s).checked_sub(1) {
            Some(piece) => self.piece(piece).last_within(t_s),
            None => t_s * first.speed,
        }
    }
}

/// Returns the spline's slope at each knot; 0 at both ends.
fn akima_slopes(knots: &[Knot]) -> Vec<f64> {
    let flat = [0.0; 2];
    let inner = knots.windows(2).map(|pair| pair[0].slope_to(pair[1]));
    let chords: Vec<f64> = flat.into_iter().chain(inner).chain(flat).collect();
    let mut slopes: Vec<f64> = chords.windows(4).take(knots.len()).map(akima_slope).collect();
    if let [first, .., last] = slopes.as_mut_slice() {
        (*first, *last) = (0.0, 0.0);
    }
    slopes
}

/// Returns Akima's slope between the second and the third of four chords.
fn akima_slope(chords: &[f64]) -> f64 {
    let (before, after) = (chords[1], chords[2]);
    let weight_before = (chords[3] - after).abs();
    let weight_after = (before - chords[0]).abs();
    let weight = weight_before + weight_after;
    if weight > 0.0 {
        before * (weight_before / weight) + after * (weight_after / weight)
    } else {
        before.midpoint(after)
    }
}

/// Limits the slopes so that the speed stays positive between the knots.
fn limit_slopes(knots: &[Knot], mut slopes: Vec<f64>) -> Vec<f64> {
    for (pair, i) in knots.windows(2).zip(0..) {
        let width = pair[1].d - pair[0].d;
        slopes[i] = slopes[i].max(-3.0 * pair[0].speed / width);
        slopes[i + 1] = slopes[i + 1].min(3.0 * pair[1].speed / width);
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(speeds: &[(u64, f64)]) -> AkimaFpm {
        let points = (speeds.iter())
            .map(|&(d, speed)| Point { d, t_s: d as f64 / speed, reps: 1, ci_s: 0.0 })
            .collect();
        AkimaFpm::from_points(points).expect("valid")
    }

    #[test]
    fn an_empty_model_completes_nothing() {
        let model = AkimaFpm::new();
        assert_eq!(model.speed(5.0), 0.0);
        assert_eq!(model.time_s(5.0), f64::INFINITY);
        assert_eq!(model.units_within(5.0), 0.0);
        assert_eq!(model.speed_derivative(5.0), 0.0);
    }

    #[test]
    fn one_point_is_a_constant() {
        let model = model(&[(100, 25.0)]);
        for d in [0.0, 50.0, 100.0, 1e6] {
            assert_eq!(model.speed(d), 25.0);
            assert_eq!(model.speed_derivative(d), 0.0);
        }
        assert_eq!(model.units_within(8.0), 200.0);
    }

    #[test]
    fn inner_slopes_are_akimas() {
        let slopes = akima_slopes(&[
            Knot { d: 1.0, speed: 1.0 },
            Knot { d: 2.0, speed: 2.0 },
            Knot { d: 3.0, speed: 4.0 },
            Knot { d: 4.0, speed: 8.0 },
            Knot { d: 5.0, speed: 7.0 },
        ]);
        // Chords 0 0 1 2 4 -1 0 0.
        let expected = [
            0.0,
            (2.0 * 1.0 + 1.0 * 2.0) / 3.0,
            (5.0 * 2.0 + 1.0 * 4.0) / 6.0,
            (1.0 * 4.0 - 2.0 * 1.0) / 3.0,
            0.0,
        ];
        for (slope, expected) in slopes.iter().zip(expected) {
            assert!((slope - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn an_outlier_moves_the_curve_only_near_it() {
        let speeds: Vec<(u64, f64)> = (1..=12).map(|i| (10 * i, 100.0)).collect();
        let mut spiked = speeds.clone();
        spiked[5].1 = 1000.0;
        let (flat, spiked) = (model(&speeds), model(&spiked));
        for d in [5.0, 25.0, 45.0, 75.0, 95.0, 200.0] {
            assert!((flat.speed(d) - spiked.speed(d)).abs() < 1e-9, "{d}");
        }
    }

    #[test]
    fn speed_stays_positive_over_a_cliff() {
        let model = model(&[(10, 9.0), (20, 10.0), (21, 1e-3), (1000, 5e-3), (1001, 50.0)]);
        for i in 0..20_000 {
            let d = f64::from(i) * 0.06;
            assert!(model.speed(d) >= 0.25e-3, "{d}: {}", model.speed(d));
        }
    }
}
