//! The choice of a model by name.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::{AkimaFpm, Cpm, ModelError, PiecewiseFpm, PiecewiseTime, Point, Polyline, SpeedModel};

/// The kind of model that is built from measured points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = ModelError, parse_err_fn = unknown_fit)]
pub enum Fit {
    /// [`Cpm`] of all points together.
    Cpm,
    /// [`PiecewiseFpm`]: linear in speed, in admissible shape.
    #[default]
    PiecewiseSpeed,
    /// [`PiecewiseTime`]: linear in time, increasing.
    PiecewiseTime,
    /// [`AkimaFpm`]: a smooth speed of any shape.
    Akima,
    /// [`Polyline`]: linear in speed, of any shape.
    RawPiecewise,
}

fn unknown_fit(name: &str) -> ModelError {
    ModelError::UnknownFit(name.to_owned())
}

impl Fit {
    /// Builds the model of these points, in any order; sizes may repeat.
    ///
    /// # Errors
    /// Returns [`ModelError::NoPoints`] without points; [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`]
    /// for a bad one.
    pub fn model(self, points: &[Point]) -> Result<Box<dyn SpeedModel>, ModelError> {
        if points.is_empty() {
            return Err(ModelError::NoPoints);
        }
        Ok(match self {
            Self::Cpm => Box::new(Cpm::from_points(points)?),
            Self::PiecewiseSpeed => Box::new(PiecewiseFpm::fit_points(points)?),
            Self::PiecewiseTime => Box::new(PiecewiseTime::from_points(points)?),
            Self::Akima => Box::new(AkimaFpm::fit_points(points)?),
            Self::RawPiecewise => Box::new(Polyline::from_points(points)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for &fit in Fit::VARIANTS {
            assert_eq!(fit.to_string().parse(), Ok(fit));
            let json = serde_json::to_string(&fit).expect("serialises");
            assert_eq!(json, format!("\"{fit}\""));
        }
        let error = "spline".parse::<Fit>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown model \"spline\": expected one of cpm, piecewise-speed, piecewise-time, akima, \
             raw-piecewise"
        );
    }

    #[test]
    fn no_points_and_bad_points_are_refused_by_every_fit() {
        let bad = Point { d: 5, t_s: f64::NAN, reps: 1, ci_s: 0.0 };
        for &fit in Fit::VARIANTS {
            assert_eq!(fit.model(&[]).expect_err("empty"), ModelError::NoPoints);
            assert!(matches!(fit.model(&[bad]), Err(ModelError::InvalidPoint { d: 5, .. })));
        }
    }

    #[test]
    fn one_point_is_a_constant() {
        let points = [Point { d: 100, t_s: 2.0, reps: 3, ci_s: 0.01 }];
        let fit: Fit = "akima".parse().expect("known");
        assert_eq!(fit.model(&points).expect("valid").speed(70.0), 50.0);
    }
}
