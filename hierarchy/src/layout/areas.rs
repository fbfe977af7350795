//! Relative areas: checked, sorted, and as shares of their sum.

use super::LayoutError;

/// Refuses areas that are negative or not finite.
pub(super) fn check_areas(areas: &[f64]) -> Result<(), LayoutError> {
    let mut all = areas.iter().copied().enumerate();
    match all.find(|(_, area)| !(area.is_finite() && *area >= 0.0)) {
        Some((index, area)) => Err(LayoutError::InvalidArea { index, area }),
        None => Ok(()),
    }
}

/// Returns the nodes of positive area, the smallest first, ties by index.
pub(super) fn sort_ascending(areas: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..areas.len()).filter(|&node| areas[node] > 0.0).collect();
    order.sort_by(|&a, &b| areas[a].total_cmp(&areas[b]));
    order
}

/// Returns `area` relative to the largest, so that sums cannot overflow.
pub(super) fn relate(area: f64, largest: f64) -> f64 {
    if largest > 0.0 { area / largest } else { 0.0 }
}

/// Returns `areas` as fractions of their sum; all 0 if that is 0.
pub(super) fn to_shares(areas: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let largest = areas.clone().fold(0.0, f64::max);
    let relative = areas.map(|area| relate(area, largest));
    let sum: f64 = relative.clone().sum();
    relative.map(|area| if sum > 0.0 { area / sum } else { 0.0 }).collect()
}
