//! Time as a discrete function of the problem size, of any shape.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::means::mean_time;
use super::point::TIMES_S;
use super::{ModelError, Point, SpeedModel};

/// Largest number of points that [`TimeFunction::sample`] takes from a model.
const MAX_SAMPLES: u64 = 1 << 24;

/// A discrete time function: seconds for some of the sizes `g, 2g, 3g, …`, where `g` is the granule.
///
/// It may have any shape. More units may take less time, and a missing size is impossible. A size of 0
/// takes 0 s and is never listed.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::TimeFunction;
///
/// let function = TimeFunction::new(32, vec![(64, 0.5), (32, 0.75)])?;
/// assert_eq!(function.time_s(32), Some(0.75));
/// assert_eq!(function.time_s(0), Some(0.0));
/// assert_eq!(function.time_s(96), None);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, supplement, sections 6 and 8.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeFunction {
    /// Units and seconds, ascending in units.
    points: Vec<(u64, f64)>,
}

/// The time that a measured point stands for.
///
/// The optimum over functions of any shape often uses a single narrow dip of the time. If that dip is
/// noise, so is the gain. With [`Upper`](Self::Upper) a dip counts only as far as its confidence interval
/// backs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = ModelError, parse_err_fn = unknown_estimate)]
pub enum Estimate {
    /// The mean time.
    #[default]
    Mean,
    /// The upper end of the mean's confidence interval.
    Upper,
}

fn unknown_estimate(name: &str) -> ModelError {
    ModelError::UnknownEstimate(name.to_owned())
}

impl TimeFunction {
    /// Builds a function of these points `(units, seconds)`, in any order.
    ///
    /// # Errors
    /// Returns [`ModelError::ZeroGranule`]; [`ModelError::InvalidPoint`] for 0 units or a time that is not within
    /// 1e-100 to 1e100 s; [`ModelError::NotAMultiple`] of the granule; [`ModelError::RepeatedSize`].
    pub fn new(granule: u64, mut points: Vec<(u64, f64)>) -> Result<Self, ModelError> {
        if granule == 0 {
            return Err(ModelError::ZeroGranule);
        }
        for &(d, t_s) in &points {
            if d == 0 || !TIMES_S.contains(&t_s) {
                return Err(ModelError::InvalidPoint { d, t_s });
            }
            if !d.is_multiple_of(granule) {
                return Err(ModelError::NotAMultiple { d, granule });
            }
        }
        points.sort_unstable_by_key(|&(units, _)| units);
        if let Some(pair) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ModelError::RepeatedSize { d: pair[0].0 });
        }
        Ok(Self { points })
    }

    /// Builds a function of measured points, in any order. Repeated measurements of one size are averaged,
    /// weighted by their repetitions `w`. Their intervals are independent and combine to `√Σ(w·ci)² / Σw`.
    /// A size that was given up ([`Point`] with `reps = 0`) and never measured is impossible.
    ///
    /// # Errors
    /// Returns [`ModelError::ZeroGranule`]; [`ModelError::InvalidPoint`] for 0 units or a time that is not within
    /// 1e-100 to 1e100 s; [`ModelError::InvalidInterval`] for a bad confidence interval; [`ModelError::NotAMultiple`]
    /// of the granule.
    pub fn from_points(
        granule: u64,
        points: &[Point],
        estimate: Estimate,
    ) -> Result<Self, ModelError> {
        let mut sorted = points.to_vec();
        sorted.iter().try_for_each(Point::check)?;
        sorted.retain(|point| point.reps > 0);
        sorted.sort_by_key(|point| point.d);
        let times = (sorted.chunk_by(|a, b| a.d == b.d))
            .map(|same| (same[0].d, estimate_time(same, estimate)))
            .collect();
        Self::new(granule, times)
    }

    /// Samples the times of `model` at `granule, 2·granule, …`, up to `max` units.
    ///
    /// # Errors
    /// Returns [`ModelError::ZeroGranule`]; [`ModelError::InvalidPoint`] if a time of the model is not within 1e-100 to
    /// 1e100 s; [`ModelError::TooManyPoints`] above 2²⁴ points.
    pub fn sample(model: &dyn SpeedModel, granule: u64, max: u64) -> Result<Self, ModelError> {
        let Some(points) = max.checked_div(granule) else {
            return Err(ModelError::ZeroGranule);
        };
        let limit = MAX_SAMPLES;
        if points > limit {
            return Err(ModelError::TooManyPoints { points, limit });
        }
        let sizes = (1..=points).map(|i| i * granule);
        Self::new(granule, sizes.map(|d| (d, model.time_s(d as f64))).collect())
    }

    /// Returns the points `(units, seconds)`, ascending in units.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// Returns the largest possible size in units; 0 without points.
    pub fn max_units(&self) -> u64 {
        self.points.last().map_or(0, |&(units, _)| units)
    }

    /// Returns the seconds that `units` take, or `None` if that size is impossible.
    pub fn time_s(&self, units: u64) -> Option<f64> {
        if units == 0 {
            return Some(0.0);
        }
        let at = self.points.binary_search_by_key(&units, |&(d, _)| d).ok()?;
        Some(self.points[at].1)
    }
}

/// Returns one time for the measurements of one size.
fn estimate_time(same: &[Point], estimate: Estimate) -> f64 {
    let mean = mean_time(same.iter().map(|point| (point.t_s, point.reps, point.ci_s)));
    match estimate {
        Estimate::Mean => mean.t_s,
        Estimate::Upper => mean.t_s + mean.ci_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm};

    fn point(d: u64, t_s: f64, reps: u32, ci_s: f64) -> Point {
        Point { d, t_s, reps, ci_s }
    }

    #[test]
    fn bad_points_are_refused_by_name() {
        assert_eq!(TimeFunction::new(0, vec![]), Err(ModelError::ZeroGranule));
        assert_eq!(
            TimeFunction::new(4, vec![(4, 1.0), (6, 1.0)]),
            Err(ModelError::NotAMultiple { d: 6, granule: 4 })
        );
        assert_eq!(
            TimeFunction::new(4, vec![(8, 1.0), (4, 1.0), (8, 2.0)]),
            Err(ModelError::RepeatedSize { d: 8 })
        );
        for (d, t_s) in [(0, 1.0), (4, 0.0), (4, -1.0), (4, f64::NAN), (4, f64::INFINITY)] {
            assert!(matches!(
                TimeFunction::new(4, vec![(d, t_s)]),
                Err(ModelError::InvalidPoint { .. })
            ));
        }
    }

    #[test]
    fn repeated_sizes_are_averaged_and_the_upper_bound_adds_their_interval() {
        let points = [point(8, 3.0, 1, 0.0), point(4, 1.0, 3, 0.4), point(4, 5.0, 1, 0.0)];
        let mean = TimeFunction::from_points(4, &points, Estimate::Mean).expect("valid");
        assert_eq!(mean.points(), [(4, 2.0), (8, 3.0)]);
        let upper = TimeFunction::from_points(4, &points, Estimate::Upper).expect("valid");
        assert!((upper.time_s(4).expect("there") - 2.3).abs() < 1e-12);
        let bad = [point(4, 1.0, 1, -1.0)];
        assert_eq!(
            TimeFunction::from_points(4, &bad, Estimate::Mean),
            Err(ModelError::InvalidInterval { ci_s: -1.0 })
        );
    }

    #[test]
    fn a_model_is_sampled_at_every_granule() {
        let model = Cpm { speed: 2.0 };
        let sampled = TimeFunction::sample(&model, 4, 11).expect("valid");
        assert_eq!(sampled.points(), [(4, 2.0), (8, 4.0)]);
        let none = TimeFunction::sample(&model, 4, 3).expect("valid");
        assert_eq!((none.points().len(), none.max_units()), (0, 0));
        assert_eq!(TimeFunction::sample(&model, 0, 3), Err(ModelError::ZeroGranule));
        assert!(matches!(
            TimeFunction::sample(&model, 1, u64::MAX),
            Err(ModelError::TooManyPoints { points: u64::MAX, .. })
        ));
        assert!(matches!(
            TimeFunction::sample(&PiecewiseFpm::new(), 1, 3),
            Err(ModelError::InvalidPoint { d: 1, .. })
        ));
    }

    #[test]
    fn names_are_read_back() {
        for &estimate in Estimate::VARIANTS {
            assert_eq!(estimate.to_string().parse(), Ok(estimate));
        }
        let error = "median".parse::<Estimate>().expect_err("unknown");
        assert_eq!(error.to_string(), "unknown estimate \"median\": expected one of mean, upper");
    }
}
