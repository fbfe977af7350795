//! The functional performance model in two dimensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::means::{mean_time, measured};
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
    /// Repetitions that the mean was taken over.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds; 0 if it is not known.
    pub ci_s: f64,
}

impl SurfacePoint {
    /// Speed in units per second: `m n / t_s`.
    #[must_use]
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
/// `m` and the width `n` of a rectangle of blocks, whose time is `t(m, n) = m n / s(m, n)`.
///
/// **On a grid**, where every measured height is measured at every measured width, the speed is bilinear
/// in every cell of the grid. **From scattered points** it is bilinear just the same, on the grid of all
/// heights and widths that occur; a grid point that was not measured has the mean of all measured
/// speeds, weighted by `1 / δ²`, with `δ² = ln²(m/mᵢ) + ln²(n/nᵢ)`: sizes count by their ratio, as 10
/// against 20 blocks is more of a difference than 1010 against 1020. So both are one definition, the
/// surface goes through every measured point, no speed lies outside the measured ones, and a section is
/// exactly a [`Polyline`]. Beyond the measured heights and widths the speed is that at the edge.
///
/// The times of a repeated point are averaged, weighted by repetitions; the points are kept as they came
/// ([`points`](Self::points)).
///
/// With `k` points a speed costs `O(log k)` on a grid and `O(k)` otherwise, a section that times the
/// number of heights or widths.
///
/// # Example
/// Two devices share a column 4 blocks wide; the second slows down when it gets tall:
/// ```
/// use isochron_hierarchy::model::{SpeedModel, Surface, SurfacePoint};
/// use isochron_hierarchy::partition::gpa;
///
/// let point = |m, n, t_s| SurfacePoint { m, n, t_s, reps: 3, ci_s: 0.0 };
/// let steady = Surface::from_points(vec![point(8, 4, 2.0)])?;
/// let memory = [point(8, 2, 0.5), point(8, 6, 1.5), point(16, 2, 4.0), point(16, 6, 12.0)];
/// let tall = Surface::on_grid(memory.to_vec())?;
/// assert_eq!(tall.speed(12.0, 4.0), 20.0);
///
/// let (a, b) = (steady.at_width(4.0)?, tall.at_width(4.0)?);
/// let heights = gpa(&[&a as &dyn SpeedModel, &b], 20)?;
/// assert_eq!(heights.units, [9, 11]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Clarke's thesis, sections 3.4 (equation 3.2) and 5.1.3, which cuts sections but leaves open what lies
/// between the points. Shepard, "A two-dimensional interpolation function for irregularly-spaced data",
/// ACM National Conference 1968, for the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SurfacePoint>", into = "Vec<SurfacePoint>")]
pub struct Surface {
    points: Vec<SurfacePoint>,
    /// The measured heights and widths, ascending.
    heights: Vec<f64>,
    widths: Vec<f64>,
    /// One per measured height and width, ascending in both, height first.
    nodes: Vec<Node>,
}

/// The speed at one point of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    m: f64,
    n: f64,
    speed: f64,
}

impl Surface {
    /// A model of these points, on a grid or scattered, in any order; points may repeat.
    ///
    /// # Errors
    /// [`ModelError::NoPoints`] without points; [`ModelError::InvalidSurfacePoint`] or
    /// [`ModelError::InvalidInterval`] for a bad one.
    pub fn from_points(points: Vec<SurfacePoint>) -> Result<Self, ModelError> {
        if points.is_empty() {
            return Err(ModelError::NoPoints);
        }
        points.iter().try_for_each(SurfacePoint::check)?;
        let nodes = average(&points);
        Ok(Self {
            heights: distinct(nodes.iter().map(|node| node.m)),
            widths: distinct(nodes.iter().map(|node| node.n)),
            nodes,
            points,
        })
    }

    /// As [`from_points`](Self::from_points), for points that are meant to fill a grid.
    ///
    /// # Errors
    /// [`ModelError::IncompleteGrid`] if a height was not measured at one of the widths, besides those of
    /// [`from_points`](Self::from_points).
    pub fn on_grid(points: Vec<SurfacePoint>) -> Result<Self, ModelError> {
        let surface = Self::from_points(points)?;
        match surface.first_hole() {
            Some((m, n)) => Err(ModelError::IncompleteGrid { m, n }),
            None => Ok(surface),
        }
    }

    /// Adds a measured point and derives the surface anew.
    ///
    /// # Errors
    /// [`ModelError::InvalidSurfacePoint`] or [`ModelError::InvalidInterval`] for a bad point; the model
    /// is then unchanged.
    pub fn add(&mut self, point: SurfacePoint) -> Result<(), ModelError> {
        point.check()?;
        self.points.push(point);
        self.nodes = average(&self.points);
        self.heights = distinct(self.nodes.iter().map(|node| node.m));
        self.widths = distinct(self.nodes.iter().map(|node| node.n));
        Ok(())
    }

    /// Every point ever added, in the order of addition.
    #[must_use]
    pub fn points(&self) -> &[SurfacePoint] {
        &self.points
    }

    /// The measured heights that contradict their neighbours at the same width, as pairs of the width in
    /// blocks and the [`Flag`] of its section, whose unit is one row; ascending in both.
    #[must_use]
    pub fn flags(&self) -> Vec<(u64, Flag)> {
        let mut widths: BTreeMap<u64, Vec<Point>> = BTreeMap::new();
        for &SurfacePoint {
            m,
            n,
            t_s,
            reps,
            ci_s,
        } in &self.points
        {
            let point = Point {
                d: m,
                t_s,
                reps,
                ci_s,
            };
            widths.entry(n).or_default().push(point);
        }
        let flags = |(n, points): (u64, Vec<Point>)| {
            let flags = flags::among(&measured(&points));
            flags.into_iter().map(move |flag| (n, flag))
        };
        widths.into_iter().flat_map(flags).collect()
    }

    /// Whether every measured height was measured at every measured width.
    #[must_use]
    pub fn is_grid(&self) -> bool {
        self.nodes.len() == self.heights.len() * self.widths.len()
    }

    /// Speed of `m × n` blocks, in units per second.
    #[must_use]
    pub fn speed(&self, m: f64, n: f64) -> f64 {
        along(&self.heights, m, |height| {
            along(&self.widths, n, |width| self.node_speed(height, width))
        })
    }

    /// Seconds that `m × n` blocks take: `m n / s(m, n)`, and 0 if either is 0.
    #[must_use]
    pub fn time_s(&self, m: f64, n: f64) -> f64 {
        if m <= 0.0 || n <= 0.0 {
            0.0
        } else {
            m * n / self.speed(m, n)
        }
    }

    /// The section at width `n`: a model of the heights in a column of that width. Its unit is one row
    /// of `n` blocks, its speed is `s(m, n) / n` rows per second, and so its time is `t(m, n)`.
    ///
    /// # Errors
    /// [`ModelError::InvalidExtent`] unless `n` is finite and positive.
    pub fn at_width(&self, n: f64) -> Result<Polyline, ModelError> {
        let speed = |m| along(&self.widths, n, |width| self.node_speed(m, width));
        section(&self.heights, n, speed)
    }

    /// The section at height `m`: a model of the widths in a row of that height. Its unit is one column
    /// of `m` blocks, its speed is `s(m, n) / m` columns per second, and so its time is `t(m, n)`.
    ///
    /// # Errors
    /// [`ModelError::InvalidExtent`] unless `m` is finite and positive.
    pub fn at_height(&self, m: f64) -> Result<Polyline, ModelError> {
        let speed = |n| along(&self.heights, m, |height| self.node_speed(height, n));
        section(&self.widths, m, speed)
    }

    /// The speed at a point of the grid: measured, or else the mean of the measured ones, weighted by
    /// inverse square distance.
    fn node_speed(&self, m: f64, n: f64) -> f64 {
        let order = |node: &Node| node.m.total_cmp(&m).then(node.n.total_cmp(&n));
        if let Ok(found) = self.nodes.binary_search_by(order) {
            return self.nodes[found].speed;
        }
        // Neighbours above 2⁵³ have ratio 1 in floating point.
        const LEAST: f64 = 1e-32;
        let (mut weights, mut speeds) = (0.0, 0.0);
        for node in &self.nodes {
            let distance = (m / node.m).ln().powi(2) + (n / node.n).ln().powi(2);
            let weight = 1.0 / distance.max(LEAST);
            weights += weight;
            speeds += weight * node.speed;
        }
        speeds / weights
    }

    fn first_hole(&self) -> Option<(f64, f64)> {
        let grid = self
            .heights
            .iter()
            .flat_map(|&m| self.widths.iter().map(move |&n| (m, n)));
        // Nodes and grid are in the same order: the first that differ are a hole.
        let mut nodes = self.nodes.iter();
        grid.into_iter()
            .find(|&(m, n)| nodes.next().is_none_or(|node| (node.m, node.n) != (m, n)))
    }
}

impl TryFrom<Vec<SurfacePoint>> for Surface {
    type Error = ModelError;

    fn try_from(points: Vec<SurfacePoint>) -> Result<Self, ModelError> {
        Self::from_points(points)
    }
}

impl From<Surface> for Vec<SurfacePoint> {
    fn from(surface: Surface) -> Self {
        surface.points
    }
}

/// One node for each measured height and width, at the mean of its times.
fn average(points: &[SurfacePoint]) -> Vec<Node> {
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
            Node { m, n, speed }
        })
        .collect()
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    values
}

/// The value at `x`, of a function known at `places` (not empty, ascending): linear between them,
/// constant outside.
fn along(places: &[f64], x: f64, value: impl Fn(f64) -> f64) -> f64 {
    let right = places.partition_point(|&place| place <= x);
    let knot = |place| Knot {
        d: place,
        speed: value(place),
    };
    match (right.checked_sub(1), places.get(right)) {
        (Some(left), Some(&right)) => knot(places[left]).toward(knot(right), x),
        (Some(end), None) => value(places[end]),
        (None, _) => value(places[0]),
    }
}

/// The section along `places` of a surface whose speed there, at `extent` across, is `speed`.
fn section(
    places: &[f64],
    extent: f64,
    speed: impl Fn(f64) -> f64,
) -> Result<Polyline, ModelError> {
    if !(extent.is_finite() && extent > 0.0) {
        return Err(ModelError::InvalidExtent { extent });
    }
    let knot = |&d: &f64| Knot {
        d,
        speed: speed(d) / extent,
    };
    Polyline::from_knots(places.iter().map(knot).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SpeedModel;

    fn point(m: u64, n: u64, speed: f64) -> SurfacePoint {
        SurfacePoint {
            m,
            n,
            t_s: (m * n) as f64 / speed,
            reps: 1,
            ci_s: 0.0,
        }
    }

    fn grid() -> Vec<SurfacePoint> {
        vec![
            point(10, 1, 4.0),
            point(10, 3, 8.0),
            point(20, 1, 16.0),
            point(20, 3, 32.0),
        ]
    }

    #[test]
    fn a_grid_is_bilinear_inside_and_constant_outside() {
        let surface = Surface::on_grid(grid()).expect("valid");
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
        let row = surface.at_height(15.0).expect("valid");
        assert_eq!(row.time_s(2.0), surface.time_s(15.0, 2.0));
        for extent in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                surface.at_width(extent),
                Err(ModelError::InvalidExtent { .. })
            ));
            assert!(surface.at_height(extent).is_err());
        }
    }

    #[test]
    fn a_hole_in_a_grid_is_named_or_filled() {
        let mut points = grid();
        points.remove(2);
        assert_eq!(
            Surface::on_grid(points.clone()),
            Err(ModelError::IncompleteGrid { m: 20.0, n: 1.0 })
        );
        let surface = Surface::from_points(points).expect("valid");
        assert!(!surface.is_grid());
        // Nearer, by ratio, to (10, 1) than to (20, 3), and farthest from (10, 3).
        let filled = surface.speed(20.0, 1.0);
        assert!(filled > 8.0 && filled < 18.0, "{filled}");
    }

    #[test]
    fn bad_points_are_refused_and_change_nothing() {
        assert_eq!(Surface::from_points(Vec::new()), Err(ModelError::NoPoints));
        let mut surface = Surface::from_points(grid()).expect("valid");
        let before = surface.clone();
        let good = point(7, 7, 7.0);
        for bad in [
            SurfacePoint { m: 0, ..good },
            SurfacePoint { n: 0, ..good },
            SurfacePoint { t_s: 0.0, ..good },
            SurfacePoint { t_s: -1.0, ..good },
            SurfacePoint {
                t_s: f64::NAN,
                ..good
            },
            SurfacePoint {
                t_s: f64::INFINITY,
                ..good
            },
            SurfacePoint { ci_s: -1.0, ..good },
        ] {
            assert!(surface.add(bad).is_err(), "{bad:?}");
            assert_eq!(surface, before);
        }
        surface.add(good).expect("valid");
        assert_eq!(surface.points().len(), 5);
        assert!((surface.speed(7.0, 7.0) - 7.0).abs() < 1e-12);
    }
}
