//! A cubic spline through points, which figure 3.3 compares with Akima's.

/// The natural cubic spline: two continuous derivatives, and no curvature at both ends.
pub struct CubicSpline {
    /// Places and values, ascending in places.
    points: Vec<(f64, f64)>,
    /// The second derivative at each place.
    curvatures: Vec<f64>,
}

impl CubicSpline {
    /// Makes the spline through at least two points, ascending in the first coordinate.
    pub fn through(points: Vec<(f64, f64)>) -> Self {
        let n = points.len();
        // The tridiagonal system of the curvatures, solved from the left and back.
        let (mut factors, mut rights) = (vec![0.0; n], vec![0.0; n]);
        for i in 1..n.saturating_sub(1) {
            let [(x0, y0), (x1, y1), (x2, y2)] = [points[i - 1], points[i], points[i + 1]];
            let (left, right) = (x1 - x0, x2 - x1);
            let pivot = 2.0 * (left + right) - left * factors[i - 1];
            factors[i] = right / pivot;
            let bend = 6.0 * ((y2 - y1) / right - (y1 - y0) / left);
            rights[i] = (bend - left * rights[i - 1]) / pivot;
        }
        let mut curvatures = vec![0.0; n];
        for i in (1..n.saturating_sub(1)).rev() {
            curvatures[i] = rights[i] - factors[i] * curvatures[i + 1];
        }
        Self { points, curvatures }
    }

    /// Returns the value at a place; beyond the ends that of the end.
    pub fn value(&self, x: f64) -> f64 {
        let last = self.points.len() - 1;
        let right = self.points.partition_point(|point| point.0 < x);
        if right == 0 || right > last {
            return self.points[right.min(last)].1;
        }
        let [(x0, y0), (x1, y1)] = [self.points[right - 1], self.points[right]];
        let [c0, c1] = [self.curvatures[right - 1], self.curvatures[right]];
        let width = x1 - x0;
        let (a, b) = ((x1 - x) / width, (x - x0) / width);
        let bend = (a * a * a - a) * c0 + (b * b * b - b) * c1;
        a * y0 + b * y1 + bend * width * width / 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spline_meets_its_points_and_is_smooth() {
        let points = vec![(1.0, 2.0), (2.0, 5.0), (4.0, 1.0), (5.0, 1.0), (9.0, 3.0)];
        let spline = CubicSpline::through(points.clone());
        for &(x, y) in &points {
            assert!((spline.value(x) - y).abs() < 1e-12, "{x}");
        }
        for &(x, _) in &points[1..4] {
            let h = 1e-5;
            let slopes =
                [-h, 0.0].map(|from| (spline.value(x + from + h) - spline.value(x + from)) / h);
            assert!((slopes[0] - slopes[1]).abs() < 1e-3, "{x}: {slopes:?}");
        }
        assert_eq!((spline.value(0.0), spline.value(10.0)), (2.0, 3.0));
    }

    #[test]
    fn points_on_a_line_have_a_straight_spline() {
        let spline = CubicSpline::through(vec![(0.0, 1.0), (1.0, 3.0), (3.0, 7.0), (4.0, 9.0)]);
        for x in [0.5, 2.0, 3.3] {
            assert!((spline.value(x) - (1.0 + 2.0 * x)).abs() < 1e-12);
        }
    }
}
