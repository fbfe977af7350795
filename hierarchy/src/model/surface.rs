//! The functional performance model in two dimensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::means::{average_measured, mean_time};
use super::point::{TIMES_S, check_interval};
use super::{Flag, Knot, ModelError, Point, Polyline, flags};

/// A measured point of a surface: `m × n` blocks took `t_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SurfacePoint {
    /// Height in blocks.
    pub m: u64,
    /// Width in blocks.
    pub n: u64,
    /// Mean time in seconds.
    pub t_s: f64,
    /// Number of repetitions averaged.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds; 0 if it is not known.
    pub ci_s: f64,
}

impl SurfacePoint {
    /// Returns the speed in units per second: `m n / t_s`.
    pub fn speed(&self) -> f64 {
        self.m as f64 * self.n as f64 / self.t_s
    }

    pub(super) fn check(&self) -> Result<(), ModelError> {
        let Self { m, n, t_s, .. } = *self;
        if m == 0 || n == 0 || !TIMES_S.contains(&t_s) {
            return Err(ModelError::InvalidSurfacePoint { m, n, t_s });
        }
        check_interval(self.ci_s)
    }
}

/// Two-dimensional functional performance model: speed in units per second as a function of the height
/// `m` and the width `n` of a rectangle of blocks. The time is `t(m, n) = m n / s(m, n)`.
///
/// The speed is bilinear in every cell of the grid of all measured heights and widths. A grid point that
/// was not measured has the mean of all measured speeds, weighted by `1 / δ²`, with
/// `δ² = ln²(m/mᵢ) + ln²(n/nᵢ)`. Sizes count by their ratio, because 10 and 20 blocks differ more than
/// 1010 and 1020. The surface goes through every measured point, no speed lies outside the measured ones,
/// and a section is exactly a [`Polyline`]. Beyond the measured heights and widths the speed is that at
/// the edge.
///
/// The times of a repeated point are averaged, weighted by repetitions. With `k` points a speed costs
/// `O(log k)` on a complete grid and `O(k)` otherwise. A section costs that for each height.
///
/// # Deviations
/// * **2D-FPM between points**: the thesis leaves the speed between points open (sections 3.4 and
///   5.1.3). Here it is bilinear, because a section is then a piecewise linear model. Weighted means
///   (Shepard) fill the holes of the grid, so that any set of points gives a model.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{SpeedModel, Surface, SurfacePoint};
///
/// let times = [(8, 2, 0.5), (8, 6, 1.5), (16, 2, 4.0), (16, 6, 12.0)];
/// let points = times.map(|(m, n, t_s)| SurfacePoint { m, n, t_s, reps: 3, ci_s: 0.0 });
/// let surface = Surface::from_points(points.to_vec())?;
/// assert_eq!(surface.speed(12.0, 4.0), 20.0);
/// assert_eq!(surface.at_width(4.0)?.speed(12.0), 5.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, sections 3.4 (equation 3.2) and 5.1.3. Shepard, "A two-dimensional interpolation
/// function for irregularly-spaced data", ACM National Conference 1968, for the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    points: Vec<SurfacePoint>,
    /// The measured heights, ascending.
    heights: Vec<f64>,
    /// The measured widths, ascending.
    widths: Vec<f64>,
    /// The measured grid points, ascending in height, then in width.
    measured: Vec<GridPoint>,
}

/// The speed at one point of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
struct GridPoint {
    m: f64,
    n: f64,
    speed: f64,
}

impl Surface {
    /// Builds a model of these points, on a grid or scattered, in any order; points may repeat.
    ///
    /// # Errors
    /// Returns [`ModelError::NoPoints`] without points; [`ModelError::InvalidSurfacePoint`] or
    /// [`ModelError::InvalidInterval`] for a bad one.
    pub fn from_points(points: Vec<SurfacePoint>) -> Result<Self, ModelError> {
        if points.is_empty() {
            return Err(ModelError::NoPoints);
        }
        points.iter().try_for_each(SurfacePoint::check)?;
        let measured = average_points(&points);
        Ok(Self {
            heights: sort_distinct(measured.iter().map(|point| point.m)),
            widths: sort_distinct(measured.iter().map(|point| point.n)),
            measured,
            points,
        })
    }

    /// Returns the points in the given order.
    pub fn points(&self) -> &[SurfacePoint] {
        &self.points
    }

    /// Returns the measured heights that contradict their neighbours at the same width. Each is a pair of
    /// the width in blocks and the [`Flag`] of its section, with one row as its unit; ascending in both.
    pub fn flags(&self) -> Vec<(u64, Flag)> {
        let mut widths: BTreeMap<u64, Vec<Point>> = BTreeMap::new();
        for point in &self.points {
            widths.entry(point.n).or_default().push(Point {
                d: point.m,
                t_s: point.t_s,
                reps: point.reps,
                ci_s: point.ci_s,
            });
        }
        (widths.into_iter())
            .flat_map(|(n, points)| {
                flags::find_contradictions(&average_measured(&points))
                    .into_iter()
                    .map(move |flag| (n, flag))
            })
            .collect()
    }

    /// Returns `true` if every measured height was measured at every measured width.
    pub fn is_grid(&self) -> bool {
        self.measured.len() == self.heights.len() * self.widths.len()
    }

    /// Returns the speed of `m × n` blocks, in units per second.
    pub fn speed(&self, m: f64, n: f64) -> f64 {
        interpolate_at(&self.heights, m, |height| self.speed_at_height(height, n))
    }

    /// Returns the speed at width `n` and one of the measured heights.
    fn speed_at_height(&self, height: f64, n: f64) -> f64 {
        interpolate_at(&self.widths, n, |width| self.grid_speed(height, width))
    }

    /// Returns the seconds that `m × n` blocks take: `m n / s(m, n)`, and 0 if either is 0.
    pub fn time_s(&self, m: f64, n: f64) -> f64 {
        if m <= 0.0 || n <= 0.0 { 0.0 } else { m * n / self.speed(m, n) }
    }

    /// Returns the section at width `n`: a model of the heights in a column of that width. Its unit is one
    /// row of `n` blocks and its speed is `s(m, n) / n` rows per second, so that its time is `t(m, n)`.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidExtent`] unless `n` is finite and positive.
    pub fn at_width(&self, n: f64) -> Result<Polyline, ModelError> {
        if !(n.is_finite() && n > 0.0) {
            return Err(ModelError::InvalidExtent { extent: n });
        }
        let knots = (self.heights.iter())
            .map(|&height| Knot { d: height, speed: self.speed_at_height(height, n) / n });
        Polyline::from_knots(knots.collect())
    }

    /// Returns the speed at a point of the grid: the measured one, or the mean of all measured ones,
    /// weighted by inverse square distance.
    fn grid_speed(&self, m: f64, n: f64) -> f64 {
        let found = (self.measured)
            .binary_search_by(|point| point.m.total_cmp(&m).then(point.n.total_cmp(&n)));
        if let Ok(found) = found {
            return self.measured[found].speed;
        }
        // Neighbours above 2⁵³ have ratio 1 in floating point.
        const LEAST: f64 = 1e-32;
        let (mut weights, mut speeds) = (0.0, 0.0);
        for point in &self.measured {
            let distance = (m / point.m).ln().powi(2) + (n / point.n).ln().powi(2);
            let weight = 1.0 / distance.max(LEAST);
            weights += weight;
            speeds += weight * point.speed;
        }
        speeds / weights
    }
}

/// Returns one grid point for each measured height and width, at the mean of its times.
fn average_points(points: &[SurfacePoint]) -> Vec<GridPoint> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable_by(|a, b| {
        (a.m as f64)
            .total_cmp(&(b.m as f64))
            .then((a.n as f64).total_cmp(&(b.n as f64)))
            .then(a.t_s.total_cmp(&b.t_s))
            .then(a.reps.cmp(&b.reps))
    });
    sorted
        .chunk_by(|a, b| a.m as f64 == b.m as f64 && a.n as f64 == b.n as f64)
        .map(|same| {
            let (m, n) = (same[0].m as f64, same[0].n as f64);
            let time = mean_time(same.iter().map(|point| (point.t_s, point.reps, point.ci_s)));
            let speed = m * n / time.t_s;
            GridPoint { m, n, speed }
        })
        .collect()
}

fn sort_distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted
}

/// Returns the value at `x` of a function known at `places`, which are not empty and ascend. It is linear
/// between them and constant outside.
fn interpolate_at(places: &[f64], x: f64, speed: impl Fn(f64) -> f64) -> f64 {
    let right = places.partition_point(|&place| place <= x);
    match (right.checked_sub(1), places.get(right)) {
        (Some(left), Some(&right)) => {
            let [a, b] = [places[left], right].map(|d| Knot { d, speed: speed(d) });
            a.interpolate_to(b, x)
        }
        (Some(end), None) => speed(places[end]),
        (None, _) => speed(places[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SpeedModel;

    fn point(m: u64, n: u64, speed: f64) -> SurfacePoint {
        SurfacePoint { m, n, t_s: (m * n) as f64 / speed, reps: 1, ci_s: 0.0 }
    }

    fn grid() -> Vec<SurfacePoint> {
        vec![point(10, 1, 4.0), point(10, 3, 8.0), point(20, 1, 16.0), point(20, 3, 32.0)]
    }

    #[test]
    fn a_grid_is_bilinear_inside_and_constant_outside() {
        let surface = Surface::from_points(grid()).expect("valid");
        assert!(surface.is_grid());
        assert_eq!(surface.speed(15.0, 2.0), 15.0);
        assert_eq!(surface.speed(10.0, 2.0), 6.0);
        assert_eq!(surface.speed(1.0, 1.0), 4.0);
        assert_eq!(surface.speed(99.0, 2.0), 24.0);
        assert_eq!(surface.time_s(15.0, 2.0), 2.0);
        assert_eq!(surface.time_s(0.0, 2.0), 0.0);
    }

    #[test]
    fn sections_have_the_times_of_the_surface() {
        let surface = Surface::from_points(grid()).expect("valid");
        let column = surface.at_width(2.0).expect("valid");
        assert_eq!(column.speed(15.0), 7.5);
        assert_eq!(column.time_s(15.0), surface.time_s(15.0, 2.0));
        assert_eq!(column.units_within(surface.time_s(40.0, 2.0)), 40.0);
        for extent in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(surface.at_width(extent), Err(ModelError::InvalidExtent { .. })));
        }
    }

    #[test]
    fn a_hole_in_a_grid_is_filled() {
        let mut points = grid();
        points.remove(2);
        let surface = Surface::from_points(points).expect("valid");
        assert!(!surface.is_grid());
        // Nearer, by ratio, to (10, 1) than to (20, 3), and farthest from (10, 3).
        let filled = surface.speed(20.0, 1.0);
        assert!(filled > 8.0 && filled < 18.0, "{filled}");
    }

    #[test]
    fn no_points_and_bad_points_are_refused() {
        assert_eq!(Surface::from_points(Vec::new()), Err(ModelError::NoPoints));
        let good = point(7, 7, 7.0);
        for bad in [
            SurfacePoint { m: 0, ..good },
            SurfacePoint { n: 0, ..good },
            SurfacePoint { t_s: 0.0, ..good },
            SurfacePoint { t_s: -1.0, ..good },
            SurfacePoint { t_s: f64::NAN, ..good },
            SurfacePoint { t_s: f64::INFINITY, ..good },
            SurfacePoint { ci_s: -1.0, ..good },
        ] {
            assert!(Surface::from_points(vec![good, bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_column_is_divided_by_its_sections() {
        let steady = [(8, 4, 2.0)];
        let tall = [(8, 2, 0.5), (8, 6, 1.5), (16, 2, 4.0), (16, 6, 12.0)];
        let [a, b] = [&steady[..], &tall].map(|times| {
            let points =
                times.iter().map(|&(m, n, t_s)| SurfacePoint { m, n, t_s, reps: 3, ci_s: 0.0 });
            Surface::from_points(points.collect()).expect("valid").at_width(4.0).expect("valid")
        });
        let heights = crate::partition::gpa(&[&a as &dyn SpeedModel, &b], 20).expect("valid");
        assert_eq!(heights.units, [9, 11]);
    }
}
