//! The first division.

use crate::partition::{apportion, even};

/// Divides `total` units in proportion to weights, in multiples of `granule`, within the capacities. The rest of a
/// granule goes to the part with the most units that has room.
///
/// The capacities take all units in whole granules.
pub(super) fn divide_within(
    total: u64,
    granule: u64,
    weights: &[f64],
    capacities: &[Option<u64>],
) -> Vec<u64> {
    let mut units = vec![0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut left = total / granule;
    while left > 0 && !open.is_empty() {
        let shares = apportion_among(left, weights, &open);
        let full: Vec<bool> = (open.iter().zip(&shares))
            .map(|(&part, &share)| capacities[part].is_some_and(|most| most / granule <= share))
            .collect();
        let is_last = !full.contains(&true);
        for ((&part, &share), &full) in open.iter().zip(&shares).zip(&full) {
            if full || is_last {
                let most = capacities[part].map_or(u64::MAX, |most| most / granule);
                units[part] = share.min(most) * granule;
                left -= share.min(most);
            }
        }
        let mut full = full.into_iter();
        open.retain(|_| !is_last && full.next() == Some(false));
    }
    give_rest(&mut units, total % granule, capacities);
    units
}

/// Apportions granules among the open parts; evenly if none of them has a weight.
fn apportion_among(left: u64, weights: &[f64], open: &[usize]) -> Vec<u64> {
    let weights: Vec<f64> = open.iter().map(|&part| weights[part]).collect();
    if weights.iter().any(|&w| w > 0.0) {
        apportion(left, &weights)
    } else {
        even(open.len(), left)
    }
}

fn give_rest(units: &mut [u64], rest: u64, capacities: &[Option<u64>]) {
    if let Some(largest) = (0..units.len())
        .filter(|&part| capacities[part].is_none_or(|most| most - units[part] >= rest))
        .max_by_key(|&part| (units[part], part))
    {
        units[largest] += rest;
    }
}

#[cfg(test)]
mod tests {
    use super::divide_within;

    #[test]
    fn a_full_part_leaves_its_share_to_the_others() {
        let limits = [Some(10), None, Some(40)];
        assert_eq!(divide_within(120, 1, &[1.0; 3], &limits), [10, 70, 40]);
        assert_eq!(divide_within(90, 1, &[3.0, 2.0, 1.0], &limits), [10, 54, 26]);
        assert_eq!(divide_within(95, 10, &[1.0; 3], &limits), [10, 45, 40]);
        let weightless = divide_within(60, 1, &[0.0, 0.0, 1.0], &limits);
        assert_eq!(weightless, [10, 10, 40]);
        assert_eq!(divide_within(0, 1, &[1.0; 3], &limits), [0; 3]);
    }
}
