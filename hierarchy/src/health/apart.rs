//! Members of a class that are slower than all others, and apart from them.

use crate::times::find_median;

/// Fewest members of a class in which a few are told apart. In a smaller class a gap is too often chance.
const FEWEST: usize = 16;

/// Least number of members times the gap above them, in deviations of the others. In a class that varies by chance
/// gaps are the smaller the more members are beyond them.
const GAPS: f64 = 9.0;

/// Least distance from the median of the others: as a logarithm, and in their deviations.
const LEAST: f64 = 0.0513;
const DEVIATIONS: f64 = 3.5;

/// Lists the slowest members of a class by their speeds, if they are several, at most a quarter, and a gap is between them and all
/// others.
///
/// One slow member of many is found by its [distance](super::HealthCheck). Several together, as hosts with one fault of their cooling, make
/// the class itself look scattered.
///
/// ```
/// use isochron_hierarchy::health::find_apart;
///
/// let mut speeds: Vec<f64> = (0..30).map(|host| 1.0 + 0.002 * f64::from(host)).collect();
/// assert!(find_apart(&speeds).is_empty());
/// speeds[4] = 0.91;
/// speeds[17] = 0.90;
/// assert_eq!(find_apart(&speeds), [17, 4]);
/// ```
pub fn find_apart(speeds: &[f64]) -> Vec<usize> {
    if speeds.len() < FEWEST {
        return Vec::new();
    }
    let mut members: Vec<usize> = (0..speeds.len()).collect();
    members.sort_by(|&a, &b| speeds[a].total_cmp(&speeds[b]));
    let logs: Vec<f64> = members.iter().map(|&member| speeds[member].ln()).collect();
    let is_apart = |count: &usize| {
        let (slow, others) = logs.split_at(*count);
        let mean = others.iter().sum::<f64>() / others.len() as f64;
        let squares = others.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        let deviation = (squares / others.len() as f64).sqrt();
        let distance = find_median(others) - slow[count - 1];
        *count as f64 * (others[0] - slow[count - 1]) > GAPS * deviation
            && distance > LEAST.max(DEVIATIONS * deviation)
    };
    members.truncate((2..=speeds.len() / 4).rev().find(is_apart).unwrap_or(0));
    members
}
