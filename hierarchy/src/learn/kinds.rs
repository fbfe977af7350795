//! The model that parts of one kind share.

use super::curve::TimeCurve;
use super::part::PartState;
use crate::model::SpeedModel;
use crate::times::{LogTime, Quality, find_common};

/// Makes the models of parts of one kind as alike as their times are.
///
/// The models are compared at one size for each unit of likely speed, the median of the parts' own. The logarithms of
/// their times there have a [common mean](find_common()), which counts as one more point of each part. Parts with a fall of
/// the speed are left as they are, and with `keeps_unlike` also those that are clearly unlike the mean.
///
/// # References
/// Efron and Morris, "Stein's estimation rule and its competitors", Journal of the American Statistical
/// Association 68, 1973.
pub(super) fn shrink_to_kind(parts: &mut [&mut PartState], keeps_unlike: bool) {
    let scales = list_scales(parts);
    let mut centers: Vec<f64> =
        list_smooth(parts, &scales).map(|(curve, scale)| curve.center / scale).collect();
    if centers.len() < 2 {
        return;
    }
    centers.sort_by(f64::total_cmp);
    let d = centers[centers.len() / 2];
    let times: Vec<LogTime> =
        list_smooth(parts, &scales).map(|(curve, scale)| predict(curve, scale * d)).collect();
    let common = find_common(d, &times);
    for (part, scale) in parts.iter_mut().zip(scales) {
        let point = LogTime { d: scale * d, ..common };
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

fn predict(curve: &TimeCurve, d: f64) -> LogTime {
    LogTime {
        d,
        log_s: curve.line.time_s(d).ln(),
        variance: curve.variance(d),
        quality: Quality::Predicted,
    }
}
