//! The model of a part's time, fitted to its measured points.

use nalgebra::{Matrix2, Vector2};
use serde::{Deserialize, Serialize};

use super::FitTuning;
use super::time_line::TimeLine;
use crate::model::SpeedModel;
use crate::times::LogTime;

/// The prior of a part's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// It may take long to start, and its speed may fall.
    Anything,
    /// It starts at once, and its speed does not fall: what seems so is a disturbance.
    Steady,
}

/// A part's time as a function of its units: `t(d) = t0 + d / v(d) + g · max(0, d - cap)`.
///
/// `t0` and a mean speed are fitted to the points by weighted least squares. Points far from the size of
/// interest count less, because speeds depend on the size. `v(d)` passes through the points themselves as
/// far as these are known better than the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TimeCurve {
    pub line: TimeLine,
    pub fixed_s: f64,
    /// Seconds a unit, without the fixed cost.
    pub slope: f64,
    pub fall: Option<Fall>,
    /// Largest size that was measured before any fall.
    pub seen: f64,
    /// The size of interest.
    pub center: f64,
    /// Covariance of fixed cost and slope.
    #[serde(with = "columns")]
    covariance: Matrix2<f64>,
    /// The numbers that it was fitted by.
    #[serde(skip)]
    by: FitTuning,
}

/// A fall of the speed, as at the end of memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Fall {
    /// Units with which the fall may begin, from the least to the most.
    pub from: f64,
    pub to: f64,
    /// The size taken for its beginning.
    pub cap: f64,
    /// Largest size behind it that was measured or given up.
    pub last: f64,
}

impl TimeCurve {
    /// Fits the samples around the size `center`. There must be one at least, and sizes must ascend.
    pub fn fit(samples: &[LogTime], center: f64, expected: Expected, by: FitTuning) -> Self {
        let before = match expected {
            Expected::Anything => count_before_fall(samples, center, by),
            Expected::Steady => samples.len(),
        };
        let (good, behind) = samples.split_at(before);
        let mut curve = Self::fit_line(good, center, expected, by);
        curve.fall_off(behind);
        curve
    }

    /// Fits the samples without looking for a fall.
    pub fn fit_line(samples: &[LogTime], center: f64, expected: Expected, by: FitTuning) -> Self {
        let fit = LineFit::solve(samples, center, expected, by);
        let mut curve = Self {
            line: TimeLine::new(fit.fixed_s, fit.slope),
            fixed_s: fit.fixed_s,
            slope: fit.slope,
            fall: None,
            seen: samples.last().map_or(0.0, |sample| sample.d),
            center,
            covariance: fit.covariance,
            by,
        };
        curve.pass_through(samples, &fit);
        curve
    }

    /// Bends the line towards the points, as far as the roughness between them and the size of interest
    /// exceeds their noise.
    fn pass_through(&mut self, samples: &[LogTime], fit: &LineFit) {
        for sample in samples {
            let rough = self.by.roughness_between(sample.d, self.center);
            let residual = sample.log_s - fit.time_s(sample.d).ln();
            let bend = (residual * rough / (rough + sample.variance)).exp();
            self.line.extend_to(sample.d, fit.time_s(sample.d) * bend, fit.slope * bend);
        }
    }

    /// Lets the line fall off at the capacity that the points behind it suggest, and pass through these.
    fn fall_off(&mut self, behind: &[LogTime]) {
        let (Some(first), Some(last)) = (behind.first(), behind.last()) else {
            return;
        };
        let excess_s = (first.time_s() - self.line.time_s(first.d)).max(0.0);
        let [mut from, mut to] = self
            .by
            .steepness
            .map(|steep| first.d - excess_s / ((steep - 1.0) * self.slope))
            .map(|cap| cap.clamp(self.seen, first.d));
        for further in &behind[1..] {
            let [least, most] = self.meet_line(first, further);
            (from, to) = (least.clamp(from, to), most.clamp(from, to));
        }
        let cap = from + self.by.caution * (to - from);
        let before = self.line.clone();
        self.line = before.with_wall(cap, self.slope);
        for sample in behind {
            let excess_s = sample.time_s() - before.time_s(sample.d);
            let steep = excess_s.max(0.0) / (sample.d - cap).max(1e-3 * sample.d);
            self.line.extend_to(sample.d, sample.time_s(), self.slope + steep);
        }
        self.fall = Some(Fall { from, to, cap, last: last.d });
    }

    /// Lifts the line to lower bounds of the times of sizes beyond all samples. Sizes must ascend.
    ///
    /// A bound far above the line is a fall of the speed before it.
    pub fn hold_floors(&mut self, floors: &[LogTime]) {
        for floor in floors {
            let excess = floor.log_s - self.line.time_s(floor.d).ln();
            if self.fall.is_none() && excess > self.by.fall {
                self.fall_off(std::slice::from_ref(floor));
            } else if excess > 0.0 {
                self.line.lift_to(floor.d, floor.time_s());
            }
        }
    }

    /// Returns the least and the largest size at which the line through two samples may meet this one.
    fn meet_line(&self, first: &LogTime, second: &LogTime) -> [f64; 2] {
        let [first_s, second_s] =
            [first, second].map(|sample| sample.time_s() - self.line.time_s(sample.d));
        let ahead = (second.d - first.d) / (second_s - first_s);
        if !(ahead.is_finite() && ahead > 0.0) {
            return [0.0, f64::INFINITY];
        }
        let cap = first.d - first_s * ahead;
        let [first_error, second_error] =
            [first, second].map(|sample| sample.variance.sqrt() * sample.time_s());
        let error_s = (first_error * second_s).hypot(second_error * first_s) / (second_s - first_s);
        [cap - 2.0 * error_s * ahead, cap + 2.0 * error_s * ahead]
    }

    /// Returns the next size that was seen to take longer than `limit_s`, if the speed falls between `units` and it.
    pub fn find_fallen(&self, units: f64, limit_s: f64) -> Option<f64> {
        let slow = self.line.find_beyond(limit_s)?;
        let slower = self.line.speed(units) / self.line.speed(slow);
        (slow > units && slower.ln() > self.by.fall).then_some(slow)
    }

    /// Returns the largest size of which the time is known well enough to notice drift.
    pub fn find_known(&self) -> f64 {
        match self.fall {
            Some(fall) => self.by.before_fall * fall.from,
            None => self.by.nearly * self.seen,
        }
    }

    /// Returns the largest size that takes `limit_s` at most even if the part begins to page right behind the largest size that
    /// was measured; no less than that one.
    pub fn find_endurable(&self, limit_s: f64) -> f64 {
        let ratio = (limit_s / self.line.time_s(self.seen)).max(1.0);
        self.seen * ratio.powf(1.0 / (1.0 + self.by.paging))
    }

    /// Returns the relative variance of the time of `d` units.
    pub fn variance(&self, d: f64) -> f64 {
        let t_s = (self.fixed_s + self.slope * d).max(f64::MIN_POSITIVE);
        let x = Vector2::new(1.0, d) / t_s;
        let fitted = (x.transpose() * self.covariance * x)[0];
        fitted + self.by.roughness_between(d, self.center)
    }
}

/// A matrix as the list of its columns.
mod columns {
    use nalgebra::Matrix2;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(matrix: &Matrix2<f64>, to: S) -> Result<S::Ok, S::Error> {
        let columns: [[f64; 2]; 2] = (*matrix).into();
        columns.serialize(to)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Matrix2<f64>, D::Error> {
        <[[f64; 2]; 2]>::deserialize(from).map(Matrix2::from)
    }
}

impl FitTuning {
    /// Returns the variance of a speed for its distance to the size of interest.
    fn roughness_between(&self, d: f64, center: f64) -> f64 {
        (self.roughness * (d / center).ln()).powi(2)
    }
}

/// Returns the number of samples before the first that takes clearly longer than the smaller ones
/// suggest.
fn count_before_fall(samples: &[LogTime], center: f64, by: FitTuning) -> usize {
    let whole = LineFit::solve(samples, center, Expected::Anything, by);
    let is_smooth = samples
        .iter()
        .all(|sample| (sample.log_s - whole.time_s(sample.d).ln()).abs() < 0.5 * by.steep_fall);
    if is_smooth {
        return samples.len();
    }
    let clear = (1..samples.len()).find(|&n| falls_after(&samples[..n], &samples[n], by));
    let Some(mut first) = clear else {
        return samples.len();
    };
    while first > 1 && excess_of(&samples[..first - 1], &samples[first - 1], by) > by.slight_fall {
        first -= 1;
    }
    first
}

/// Returns `true` if the speed falls between the samples before and `next`.
fn falls_after(before: &[LogTime], next: &LogTime, by: FitTuning) -> bool {
    let is_steep = before
        .last()
        .is_some_and(|last| next.log_s - last.log_s > by.steep * (next.d / last.d).ln());
    let limit = if is_steep { by.steep_fall } else { by.fall };
    excess_of(before, next, by) > limit
}

/// Returns the logarithm by which `next` exceeds the time that the samples before it suggest; 0 if that may
/// be noise.
fn excess_of(before: &[LogTime], next: &LogTime, by: FitTuning) -> f64 {
    let Some(last) = before.last() else {
        return 0.0;
    };
    let fit = LineFit::solve(before, last.d, Expected::Anything, by);
    let excess = next.log_s - fit.time_s(next.d).ln();
    let variance = fit.variance(next.d) + by.roughness_between(next.d, last.d) + next.variance;
    if excess > by.clearly * variance.sqrt() { excess } else { 0.0 }
}

/// Fixed cost and slope by weighted least squares on relative errors.
#[derive(Debug, Clone, Copy)]
struct LineFit {
    fixed_s: f64,
    slope: f64,
    covariance: Matrix2<f64>,
}

impl LineFit {
    /// Solves for `t0 + slope · d = t` at the samples, with `t0 ≥ 0` small in the absence of samples that
    /// tell.
    fn solve(samples: &[LogTime], center: f64, expected: Expected, by: FitTuning) -> Self {
        let scale_s = samples.last().map_or(1.0, |last| last.time_s() * center / last.d);
        let fixed_cost = match expected {
            Expected::Anything => by.fixed_cost,
            Expected::Steady => by.fixed_cost.min(by.steady_start_s / scale_s),
        };
        let unit = Vector2::new(scale_s, scale_s / center);
        let mut normal = Matrix2::new(fixed_cost.powi(-2), 0.0, 0.0, 0.0);
        let mut right = Vector2::zeros();
        for sample in samples {
            let weight = 1.0 / (sample.variance + by.roughness_between(sample.d, center));
            let row = Vector2::new(scale_s, scale_s * sample.d / center) / sample.time_s();
            normal += weight * row * row.transpose();
            right += weight * row;
        }
        let inverse = normal.try_inverse().unwrap_or_else(Matrix2::identity);
        let mut solution = inverse * right;
        if solution.x < 0.0 {
            solution = Vector2::new(0.0, right.y / normal.m22);
        } else if solution.y < by.least_slope {
            let fixed = (right.x - normal.m12 * by.least_slope) / normal.m11;
            solution = Vector2::new(fixed.max(0.0), by.least_slope);
        }
        let scaling = Matrix2::from_diagonal(&unit);
        Self {
            fixed_s: solution.x * unit.x,
            slope: solution.y * unit.y,
            covariance: scaling * inverse * scaling,
        }
    }

    fn time_s(&self, d: f64) -> f64 {
        self.fixed_s + self.slope * d
    }

    fn variance(&self, d: f64) -> f64 {
        let x = Vector2::new(1.0, d) / self.time_s(d);
        (x.transpose() * self.covariance * x)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(times: &[(f64, f64)], center: f64) -> TimeCurve {
        let samples: Vec<LogTime> =
            times.iter().map(|&(d, t_s)| LogTime::measured(d, t_s.ln(), 1e-4)).collect();
        TimeCurve::fit(&samples, center, Expected::Anything, FitTuning::default())
    }

    #[test]
    fn a_fixed_cost_is_found() {
        let curve = fit(&[(10.0, 3.0), (40.0, 6.0), (160.0, 18.0)], 160.0);
        assert!((curve.fixed_s - 2.0).abs() < 0.2, "{curve:?}");
        assert!((curve.line.time_s(320.0) - 34.0).abs() < 0.5);
        assert_eq!(curve.line.units_within(1.5), 0.0);
        assert!(curve.fall.is_none());
    }

    #[test]
    fn a_steady_part_that_was_disturbed_has_neither_a_start_nor_a_fall() {
        let samples = [(5.0, 15.4e-3), (8.0, 16.5e-3), (8.8, 25.0e-3)]
            .map(|(d, t_s)| LogTime::measured(d, f64::ln(t_s), 1e-3));
        let curve = TimeCurve::fit(&samples, 8.8, Expected::Steady, FitTuning::default());
        assert!(curve.fall.is_none() && curve.fixed_s < 4e-4, "{curve:?}");
        let speed = 40.0 / curve.line.time_s(40.0);
        assert!((300.0..500.0).contains(&speed), "{curve:?}");
    }

    #[test]
    fn a_steady_part_takes_time_whatever_was_disturbed() {
        for disturbed in [[5e-6, 5e-6, 5e-3], [5e-6, 5e-3, 6e-3], [5e-3, 5e-3, 5e-3]] {
            let samples: Vec<LogTime> = [10.0, 11.0, 12.0]
                .into_iter()
                .zip(disturbed)
                .map(|(d, t_s)| LogTime::measured(d, f64::ln(t_s), 1e-3))
                .collect();
            let curve = TimeCurve::fit(&samples, 12.0, Expected::Steady, FitTuning::default());
            for d in [1.0, 2.0, 10.0, 40.0] {
                assert!(curve.line.time_s(d) > 0.0, "{disturbed:?} {d}: {curve:?}");
            }
        }
    }

    #[test]
    fn one_point_makes_a_constant_speed_that_is_unsure_elsewhere() {
        let curve = fit(&[(10.0, 5.0)], 10.0);
        assert!((curve.line.time_s(30.0) - 15.0).abs() < 1e-9);
        assert!(curve.variance(10.0) < 2e-4 && curve.variance(30.0) > 0.05);
    }

    #[test]
    fn a_fall_is_found_between_the_last_good_and_the_first_bad_size() {
        // Ten times as steep from 100 units on.
        let curve = fit(&[(25.0, 2.5), (75.0, 7.5), (150.0, 65.0)], 75.0);
        let fall = curve.fall.expect("a fall");
        assert!(fall.from < 100.0 && fall.to > 100.0, "{fall:?}");
        assert!(curve.line.time_s(75.0) < 7.7 && curve.line.time_s(150.0) > 60.0);
        let fall = fit(&[(25.0, 2.5), (75.0, 7.5), (120.0, 32.0), (150.0, 65.0)], 75.0)
            .fall
            .expect("a fall");
        assert!(fall.from > 90.0 && fall.to < 110.0, "{fall:?}");
    }

    #[test]
    fn points_behind_a_fall_are_followed() {
        // The first size behind the fall is hardly slower, the second is.
        let curve = fit(&[(25.0, 2.5), (75.0, 7.5), (101.0, 14.0), (104.0, 31.0)], 75.0);
        let fall = curve.fall.expect("a fall");
        assert!((curve.line.time_s(104.0) - 31.0).abs() < 0.1, "{curve:?}");
        assert!(fall.from > 90.0 && fall.to < 101.0 && fall.last == 104.0);
        assert!(curve.line.time_s(110.0) > 40.0);
    }

    #[test]
    fn bounds_lift_the_line_and_are_not_seen() {
        let before = fit(&[(25.0, 2.5), (75.0, 7.5)], 75.0);
        let hold = |times: &[(f64, f64)]| {
            let floors = times.iter().map(|&(d, t_s)| LogTime::measured(d, t_s.ln(), 1e-4));
            let mut curve = before.clone();
            curve.hold_floors(&floors.collect::<Vec<LogTime>>());
            curve
        };
        assert_eq!(hold(&[(150.0, 10.0), (200.0, 15.0)]), before);
        let slightly = hold(&[(150.0, 17.0)]);
        assert!(slightly.fall.is_none() && slightly.seen == 75.0);
        assert!((slightly.line.time_s(150.0) - 17.0).abs() < 1e-9);
        let far = hold(&[(150.0, 60.0), (300.0, 2000.0)]);
        let fall = far.fall.expect("a fall");
        assert!(fall.from >= 75.0 && fall.to <= 150.0 && far.seen == 75.0);
        assert!(far.line.time_s(150.0) > 59.9 && far.line.time_s(300.0) > 1999.0);
    }

    #[test]
    fn a_start_that_takes_all_of_the_time_is_a_fixed_cost() {
        let curve = fit(&[(500.0, 1.62), (660.0, 1.57)], 660.0);
        assert!(curve.fixed_s > 1.2, "{curve:?}");
        assert!(curve.line.time_s(2000.0) < 2.2);
    }

    #[test]
    fn points_off_the_line_are_followed() {
        let curve = fit(&[(10.0, 1.0), (40.0, 3.6), (160.0, 16.0), (200.0, 20.0)], 200.0);
        assert!((curve.line.time_s(40.0) - 3.6).abs() < 0.1, "{curve:?}");
        assert!((curve.line.time_s(200.0) - 20.0).abs() < 0.3);
    }

    /// Fits times that are known to a thousandth.
    fn fit_exactly(times: &[(f64, f64)], center: f64) -> TimeCurve {
        let samples: Vec<LogTime> =
            times.iter().map(|&(d, t_s)| LogTime::measured(d, t_s.ln(), 1e-6)).collect();
        TimeCurve::fit(&samples, center, Expected::Anything, FitTuning::default())
    }

    #[test]
    fn a_time_that_falls_with_the_size_is_nearly_all_fixed_cost() {
        let curve = fit(&[(500.0, 1.62), (660.0, 1.57)], 660.0);
        let part = curve.slope * 660.0 / 1.57;
        assert!((part - 0.05).abs() < 1e-9, "{part}");
    }

    #[test]
    fn sizes_up_to_those_seen_are_known_and_some_way_before_a_fall() {
        let smooth = fit(&[(25.0, 2.5), (75.0, 7.5)], 75.0);
        assert!((smooth.find_known() - 75.4).abs() < 0.1, "{smooth:?}");
        let cliff = fit(&[(25.0, 2.5), (75.0, 7.5), (150.0, 65.0)], 75.0);
        let part = cliff.find_known() / cliff.fall.expect("a fall").from;
        assert!((0.85..0.95).contains(&part), "{part}");
    }

    #[test]
    fn a_slight_excess_before_a_fall_belongs_to_it() {
        let curve = fit_exactly(&[(80.0, 8.0), (90.0, 9.0), (100.0, 10.45), (104.0, 31.0)], 90.0);
        assert_eq!(curve.seen, 90.0, "{curve:?}");
    }

    #[test]
    fn behind_a_fall_the_slope_is_expected_to_double_at_least() {
        let curve = fit_exactly(&[(25.0, 2.5), (50.0, 5.0), (100.0, 13.0)], 50.0);
        // The 3 s too many are those of 30 units.
        let from = curve.fall.expect("a fall").from;
        assert!((67.0..73.0).contains(&from), "{from}");
    }
}
