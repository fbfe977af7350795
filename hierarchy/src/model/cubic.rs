//! A cubic speed function between two sizes.

use super::Knot;

/// A cubic speed function between two sizes, in Bernstein form:
/// `s = b0 (1-u)³ + 3 b1 u (1-u)² + 3 b2 u² (1-u) + b3 u³` with `u = (d - start) / width` from 0 to 1.
///
/// The coefficients are not negative, so neither is the speed, even after rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cubic {
    start: f64,
    width: f64,
    b: [f64; 4],
}

impl Cubic {
    /// Builds the cubic through two corners with these slopes at them. The left slope must be at least
    /// `-3 speed / width`, the right one at most `3 speed / width`.
    pub(super) fn between(left: Knot, right: Knot, slopes: [f64; 2]) -> Self {
        let width = right.d - left.d;
        let b1 = left.speed + slopes[0] * width / 3.0;
        let b2 = right.speed - slopes[1] * width / 3.0;
        Self {
            start: left.d,
            width,
            // Rounding can make the coefficient of an admissible slope negative.
            b: [left.speed, b1.max(0.0), b2.max(0.0), right.speed],
        }
    }

    /// Returns the speed at `d`, in units per second.
    pub(super) fn speed(&self, d: f64) -> f64 {
        self.speed_at((d - self.start) / self.width)
    }

    /// Returns the slope of the speed at `d`, in units per second per unit.
    pub(super) fn derivative(&self, d: f64) -> f64 {
        self.derivative_at((d - self.start) / self.width)
    }

    /// Returns the least time between the two sizes, in seconds.
    pub(super) fn least_time_s(&self) -> f64 {
        self.time_at(self.find_quickest())
    }

    /// Returns the last `d` with a time of at most `t_s`. That must be at least the least time, and below
    /// the time at the right end.
    pub(super) fn last_within(&self, t_s: f64) -> f64 {
        // Between the places with s'(d) = 1 / t, the difference d - t s(d) is monotone and changes its
        // sign at most once.
        let mut right = 1.0;
        let quickest = self.find_quickest();
        let [first, second] = self.places_of_slope(1.0 / t_s);
        for left in [first.max(second), first.min(second), quickest] {
            if !(left >= quickest && left < right) {
                continue;
            }
            if self.time_at(left) <= t_s {
                return self.size_at(self.bisect(left, right, |u| self.time_at(u) <= t_s));
            }
            right = left;
        }
        self.size_at(quickest)
    }

    fn size_at(&self, u: f64) -> f64 {
        self.start + u * self.width
    }

    fn speed_at(&self, u: f64) -> f64 {
        let [b0, b1, b2, b3] = self.b;
        let v = 1.0 - u;
        v * v * (v * b0 + 3.0 * u * b1) + u * u * (3.0 * v * b2 + u * b3)
    }

    fn time_at(&self, u: f64) -> f64 {
        self.size_at(u) / self.speed_at(u)
    }

    /// Returns the Bernstein coefficients of the slope.
    fn slope_coefficients(&self) -> [f64; 3] {
        let [b0, b1, b2, b3] = self.b;
        let width = self.width;
        [3.0 * (b1 - b0) / width, 3.0 * (b2 - b1) / width, 3.0 * (b3 - b2) / width]
    }

    fn derivative_at(&self, u: f64) -> f64 {
        let [e0, e1, e2] = self.slope_coefficients();
        let v = 1.0 - u;
        v * v * e0 + 2.0 * u * v * e1 + u * u * e2
    }

    /// Returns the two `u` at which the slope is `slope`; NaN for one that does not exist.
    fn places_of_slope(&self, slope: f64) -> [f64; 2] {
        let [e0, e1, e2] = self.slope_coefficients().map(|e| e - slope);
        // e0 - 2 half u + a u² = 0.
        let (a, half) = (e0 - 2.0 * e1 + e2, e0 - e1);
        let root = (half * half - a * e0).sqrt();
        // A sum of two terms of one sign loses no digits. Vieta's formula gives the other solution.
        let sum = half + root.copysign(half);
        [sum / a, e0 / sum]
    }

    /// Finds the `u` of least time: an end, or a sign change of `s - d s'` from negative to positive.
    ///
    /// That expression is the slope of the time up to the positive factor `1 / s²`. Its own slope is
    /// `-d s''`, so that it is monotone on either side of the inflection of `s`.
    fn find_quickest(&self) -> f64 {
        let [e0, e1, e2] = self.slope_coefficients();
        let inflection = (e0 - e1) / (e0 - 2.0 * e1 + e2);
        let middle = if inflection > 0.0 && inflection < 1.0 { inflection } else { 1.0 };
        let mut quickest = 0.0;
        for (left, right) in [(0.0, middle), (middle, 1.0)] {
            let mut place = right;
            if self.is_time_falling(left) && !self.is_time_falling(right) {
                place = self.bisect(left, right, |u| self.is_time_falling(u));
            }
            if self.time_at(place) < self.time_at(quickest) {
                quickest = place;
            }
        }
        quickest
    }

    /// Returns `true` if the time does not increase at `u`.
    fn is_time_falling(&self, u: f64) -> bool {
        self.speed_at(u) <= self.size_at(u) * self.derivative_at(u)
    }

    /// Returns the last `u` found at which `holds` is true, from `left`, where it is, to `right`, where
    /// it is not.
    fn bisect(&self, mut left: f64, mut right: f64, holds: impl Fn(f64) -> bool) -> f64 {
        // More halvings move no size, whether it is large relative to the width or small.
        for _ in 0..128 {
            let middle = left.midpoint(right);
            if self.size_at(middle) <= self.size_at(left)
                || self.size_at(middle) >= self.size_at(right)
            {
                break;
            }
            if holds(middle) {
                left = middle;
            } else {
                right = middle;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs from 1 unit at 1 unit/s to 11 units at 11 units/s, with slope 0 at both ends. The time is 1 s at
    /// the ends, more after the left one and less before the right one.
    fn step() -> Cubic {
        Cubic::between(knot(1.0, 1.0), knot(11.0, 11.0), [0.0, 0.0])
    }

    fn knot(d: f64, speed: f64) -> Knot {
        Knot { d, speed }
    }

    #[test]
    fn values_and_slopes_are_those_asked_for() {
        let cubic = Cubic::between(knot(10.0, 4.0), knot(30.0, 8.0), [0.5, -0.25]);
        assert_eq!([cubic.speed(10.0), cubic.speed(30.0)], [4.0, 8.0]);
        let slopes = [cubic.derivative(10.0), cubic.derivative(30.0)];
        assert!((slopes[0] - 0.5).abs() < 1e-12 && (slopes[1] + 0.25).abs() < 1e-12);
        let slope = (cubic.speed(17.0 + 1e-6) - cubic.speed(17.0 - 1e-6)) / 2e-6;
        assert!((cubic.derivative(17.0) - slope).abs() < 1e-6);
    }

    #[test]
    fn the_least_time_is_found_inside() {
        let cubic = step();
        let least =
            (0..=100_000).map(|i| cubic.time_at(f64::from(i) / 1e5)).fold(f64::INFINITY, f64::min);
        assert!(cubic.least_time_s() < 0.95);
        assert!((cubic.least_time_s() - least).abs() < 1e-9);
    }

    #[test]
    fn the_last_crossing_is_found_where_time_falls_and_rises_again() {
        let cubic = step();
        for t_s in [cubic.least_time_s(), 0.96, 0.99, 0.999_999] {
            let d = cubic.last_within(t_s);
            assert!((d / cubic.speed(d) / t_s - 1.0).abs() < 1e-9);
            let later = (1..=1000).map(|i| d + (11.0 - d) * f64::from(i) / 1e3);
            assert!(later.into_iter().all(|d| d / cubic.speed(d) > t_s));
        }
    }
}
