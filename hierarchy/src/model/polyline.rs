//! Speed as a line through given corners, without any restriction of its shape.

use serde::{Deserialize, Serialize};

use super::means::{Mean, means};
use super::{ModelError, Piece, Point, SpeedModel};

/// A corner of a piecewise linear speed function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knot {
    /// Problem size in units.
    pub d: f64,
    /// Speed there in units per second.
    pub speed: f64,
}

impl Knot {
    /// Seconds that this many units take: `d / speed`.
    #[must_use]
    pub fn time_s(&self) -> f64 {
        self.d / self.speed
    }

    pub(super) fn slope_to(self, next: Self) -> f64 {
        (next.speed - self.speed) / (next.d - self.d)
    }

    /// The speed at `d` on the line through this knot and `other`.
    pub(super) fn toward(self, other: Self, d: f64) -> f64 {
        self.speed + (other.speed - self.speed) * ((d - self.d) / (other.d - self.d))
    }
}

/// Speed function of any shape, linear between its knots, constant to the left of the first and to the
/// right of the last.
///
/// The unrestricted sibling of [`PiecewiseFpm`](super::PiecewiseFpm), to replay, plot and compare what
/// was measured, and the section of a [`Surface`](super::Surface). Its time need not increase: where
/// the same time is met at several sizes, [`units_within`](SpeedModel::units_within) is the largest.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Knot, Polyline, SpeedModel};
///
/// // From 20 to 30 units the time falls from 4 to 2 seconds.
/// let knots = [(10.0, 10.0), (20.0, 5.0), (30.0, 15.0)];
/// let model = Polyline::from_knots(knots.map(|(d, speed)| Knot { d, speed }).to_vec())?;
/// assert_eq!(model.time_s(20.0), 4.0);
/// assert_eq!(model.units_within(3.0), 45.0);
/// assert_eq!(model.units_within(0.5), 5.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 3.2.1, before the shape is restricted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Knot>", into = "Vec<Knot>")]
pub struct Polyline {
    knots: Vec<Knot>,
    /// The least time at each knot and all to the right of it.
    least_s: Vec<f64>,
}

impl Polyline {
    /// The line through the measured sizes, in any order; the times of a repeated size are averaged,
    /// weighted by repetitions.
    ///
    /// # Errors
    /// [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn from_points(points: &[Point]) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Self::of(&means(points)))
    }

    /// The line through these corners; without any, the speed is 0 everywhere.
    ///
    /// # Errors
    /// [`ModelError::InvalidKnot`] unless sizes are positive and ascend, and speeds are positive, all
    /// of them finite.
    pub fn from_knots(knots: Vec<Knot>) -> Result<Self, ModelError> {
        let mut last_d = 0.0;
        for (index, &Knot { d, speed }) in knots.iter().enumerate() {
            let usable = d.is_finite() && d > last_d && speed.is_finite() && speed > 0.0;
            if !usable {
                return Err(ModelError::InvalidKnot { index, d, speed });
            }
            last_d = d;
        }
        Ok(Self::through(knots))
    }

    /// The line through the means of measured sizes.
    pub(super) fn of(means: &[Mean]) -> Self {
        Self::through(means.iter().map(|mean| mean.knot).collect())
    }

    /// The line through corners known to be good.
    pub(super) fn through(knots: Vec<Knot>) -> Self {
        let least_s = suffix_minima(knots.iter().map(Knot::time_s));
        Self { knots, least_s }
    }

    /// The corners, ascending in `d`.
    #[must_use]
    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// Whether there are no corners.
    pub(super) fn is_empty(&self) -> bool {
        self.knots.is_empty()
    }

    /// The straight piece whose right end is the knot `right`; beyond the last one the flat end. `None`
    /// without knots.
    fn piece(&self, right: usize) -> Option<Piece> {
        let left = right.checked_sub(1).map(|left| self.knots[left]);
        let next = self.knots.get(right).copied();
        let start = left.or(next)?;
        let slope = match (left, next) {
            (Some(a), Some(b)) => a.slope_to(b),
            _ => 0.0,
        };
        Some(Piece {
            start: left.map_or(0.0, |knot| knot.d),
            end: next.map_or(f64::INFINITY, |knot| knot.d),
            speed: start.speed,
            slope,
            from_s: right.checked_sub(1).map_or(0.0, |left| self.least_s[left]),
            to_s: self.least_s.get(right).copied().unwrap_or(f64::INFINITY),
        })
    }

    /// The knots at or left of `d`, and right of it.
    pub(super) fn around(&self, d: f64) -> (Option<Knot>, Option<Knot>) {
        let right = self.knots.partition_point(|knot| knot.d <= d);
        let left = right.checked_sub(1).map(|left| self.knots[left]);
        (left, self.knots.get(right).copied())
    }
}

impl SpeedModel for Polyline {
    fn speed(&self, d: f64) -> f64 {
        let right = self.knots.partition_point(|knot| knot.d <= d);
        self.piece(right).map_or(0.0, |piece| piece.speed(d))
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        match self.around(d) {
            (Some(a), Some(b)) => a.slope_to(b),
            _ => 0.0,
        }
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.piece_within(t_s)
            .map_or(0.0, |piece| piece.units_within(t_s))
    }

    fn piece_within(&self, t_s: f64) -> Option<Piece> {
        self.piece(self.least_s.partition_point(|&least_s| least_s <= t_s))
    }
}

impl TryFrom<Vec<Knot>> for Polyline {
    type Error = ModelError;

    fn try_from(knots: Vec<Knot>) -> Result<Self, ModelError> {
        Self::from_knots(knots)
    }
}

impl From<Polyline> for Vec<Knot> {
    fn from(line: Polyline) -> Self {
        line.knots
    }
}

/// The least value at each place and all to the right of it: ascending, so that the last place where
/// a value is at most `x` is found by bisection.
pub(super) fn suffix_minima(values: impl DoubleEndedIterator<Item = f64>) -> Vec<f64> {
    let mut least = f64::INFINITY;
    let mut minima: Vec<f64> = values
        .rev()
        .map(|value| {
            least = least.min(value);
            least
        })
        .collect();
    minima.reverse();
    minima
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(knots: &[(f64, f64)]) -> Result<Polyline, ModelError> {
        Polyline::from_knots(knots.iter().map(|&(d, speed)| Knot { d, speed }).collect())
    }

    #[test]
    fn the_last_size_within_a_time_counts() {
        // Times 1, 4, 2, 5.
        let model = line(&[(10.0, 10.0), (20.0, 5.0), (30.0, 15.0), (40.0, 8.0)]).expect("valid");
        assert_eq!(model.units_within(0.5), 5.0);
        assert_eq!(model.units_within(1.0), 10.0);
        assert_eq!(model.units_within(2.0), 30.0);
        let d = model.units_within(4.0);
        assert!((30.0..40.0).contains(&d) && (model.time_s(d) - 4.0).abs() < 1e-12);
        assert_eq!(model.units_within(10.0), 80.0);
        assert_eq!(Polyline::default().units_within(1.0), 0.0);
    }

    #[test]
    fn a_piece_says_the_same_as_the_line() {
        let model = line(&[(10.0, 10.0), (20.0, 5.0), (30.0, 15.0), (40.0, 8.0)]).expect("valid");
        for t_s in [1e-9, 0.5, 1.0, 1.7, 2.0, 3.0, 4.9, 5.0, 1e9] {
            let piece = model.piece_within(t_s).expect("made of pieces");
            assert!(piece.holds_time(t_s), "{t_s}: {piece:?}");
            let d = piece.units_within(t_s);
            assert_eq!(d, model.units_within(t_s));
            for d in [d, piece.start, piece.start.midpoint(d)] {
                assert!(d == piece.end || piece.holds(d), "{d}: {piece:?}");
                assert!((piece.time_s(d) - model.time_s(d)).abs() <= 1e-12 * model.time_s(d));
            }
        }
        assert_eq!(Polyline::default().piece_within(1.0), None);
        assert!(!Piece::NONE.holds(0.0) && !Piece::NONE.holds_time(0.0));
    }

    #[test]
    fn bad_knots_are_named() {
        for (knots, index) in [
            (vec![(0.0, 1.0)], 0),
            (vec![(1.0, 1.0), (1.0, 2.0)], 1),
            (vec![(1.0, 1.0), (2.0, 0.0)], 1),
            (vec![(1.0, f64::NAN)], 0),
            (vec![(f64::INFINITY, 1.0)], 0),
        ] {
            assert!(matches!(
                line(&knots),
                Err(ModelError::InvalidKnot { index: i, .. }) if i == index
            ));
        }
        let json = r#"[{"d":2.0,"speed":1.0},{"d":1.0,"speed":1.0}]"#;
        assert!(serde_json::from_str::<Polyline>(json).is_err());
    }
}
