//! The model that parts of one kind share.

use super::curve::{TimeCurve, TimePoint};
use super::part::PartState;
use crate::model::SpeedModel;

/// Makes the models of parts of one kind as alike as their times are.
///
/// The models are compared at one size for each unit of likely speed, the median of the parts' own. The logarithms of
/// their times there are taken as normally distributed around a common mean. Their variance `τ²` is what their spread
/// exceeds their errors by (DerSimonian and Laird), and a further standard error less, so that parts count as alike as
/// long as they may be. The mean, with variance `τ²`, then counts as one more point of each part. Parts with a fall of
/// the speed are left as they are, and with `keeps_unlike` also those that are clearly unlike the mean.
///
/// # References
/// DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7(3), 1986.
/// Efron and Morris, "Stein's estimation rule and its competitors", Journal of the American Statistical
/// Association 68, 1973.
pub(super) fn shrink_to_kind(parts: &mut [&mut PartState], keeps_unlike: bool) {
    let scales = list_scales(parts);
    let mut centers: Vec<f64> = list_smooth(parts, &scales)
        .map(|(curve, scale)| curve.center / scale)
        .collect();
    if centers.len() < 2 {
        return;
    }
    centers.sort_by(f64::total_cmp);
    let d = centers[centers.len() / 2];
    let times: Vec<LogTime> = list_smooth(parts, &scales)
        .map(|(curve, scale)| LogTime::predict(curve, scale * d))
        .collect();
    let common = estimate_common(&times);
    for (part, scale) in parts.iter_mut().zip(scales) {
        let point = TimePoint {
            d: scale * d,
            log_s: common.mean,
            variance: common.variance,
        };
        if !(keeps_unlike && part.is_unlike(&point)) {
            part.count_in(point);
        }
    }
}

/// Returns the likely speeds of the parts, or 1 for each if that of some is unknown.
fn list_scales(parts: &[&mut PartState]) -> Vec<f64> {
    let likely = parts.iter().map(|part| part.part.usable_likely_speed());
    let likely: Option<Vec<f64>> = likely.collect();
    likely.unwrap_or_else(|| vec![1.0; parts.len()])
}

/// Lists the models without a fall, with the scales of their parts.
fn list_smooth<'a>(
    parts: &'a [&mut PartState],
    scales: &'a [f64],
) -> impl Iterator<Item = (&'a TimeCurve, f64)> {
    let curves = parts.iter().zip(scales);
    curves
        .filter_map(|(part, &scale)| Some((part.curve.as_ref()?, scale)))
        .filter(|(curve, _)| curve.fall.is_none())
}

/// The logarithm of a time, with its variance.
struct LogTime {
    mean: f64,
    variance: f64,
}

impl LogTime {
    fn predict(curve: &TimeCurve, d: f64) -> Self {
        Self {
            mean: curve.line.time_s(d).ln(),
            variance: curve.variance(d),
        }
    }
}

/// Returns the common mean, with the variance of a part around it.
fn estimate_common(times: &[LogTime]) -> LogTime {
    let weights: f64 = times.iter().map(|x| 1.0 / x.variance).sum();
    let squares: f64 = times.iter().map(|x| x.variance.powi(-2)).sum();
    let mean = times.iter().map(|x| x.mean / x.variance).sum::<f64>() / weights;
    let excess: f64 = times
        .iter()
        .map(|x| (x.mean - mean).powi(2) / x.variance)
        .sum();
    let freedom = times.len() as f64 - 1.0;
    let expected = freedom + (2.0 * freedom).sqrt();
    let spread = ((excess - expected) / (weights - squares / weights)).max(0.0);
    LogTime {
        mean,
        variance: spread + 1.0 / weights,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(means: &[f64]) -> LogTime {
        let times: Vec<LogTime> = means
            .iter()
            .map(|&mean| LogTime {
                mean,
                variance: 1e-4,
            })
            .collect();
        estimate_common(&times)
    }

    #[test]
    fn times_that_differ_by_their_errors_have_no_spread() {
        let alike = estimate(&[0.01, -0.01, 0.0, 0.012]);
        assert!((alike.mean - 0.003).abs() < 1e-9 && alike.variance < 3e-5);
        let unlike = estimate(&[0.0, 1.0, 2.0]);
        assert!(
            (unlike.variance.sqrt() - 1.0).abs() < 0.1,
            "{}",
            unlike.variance
        );
    }
}
