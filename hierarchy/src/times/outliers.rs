//! Times that are not the device's own.

use super::find_median;

/// The numbers that tell a disturbance from a device's own time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutlierRule {
    /// Least distance of a disturbance from the median, in medians.
    pub floor: f64,
    /// Number of times from which on their own scatter decides; with fewer the floor alone does.
    pub scattered: usize,
    /// Modified z-score beyond which a time is unusual.
    pub unusual: f64,
    /// Largest part of the times that can be disturbances. Times that are long more often are the device's own.
    pub rare: f64,
    /// Factor beyond which few times contradict each other.
    pub contradiction: f64,
    /// Number of times that are believed however much they differ.
    pub many: usize,
}

/// Deviation of a normal distribution in units of its median absolute deviation.
const DEVIATION_BY_MAD: f64 = 1.4826;

/// The times of one device in two groups: its own, and disturbances.
///
/// A disturbance (a moved page, another program) only makes an update slower. A time counts as one if it lies beyond the median
/// `m` by more than `max(floor·m, unusual·σ)`, where `σ` is 1.4826 times the median absolute deviation: the modified z-score of
/// Iglewicz and Hoaglin, whose scale the disturbances hardly move.
///
/// The floor is high because smaller delays happen in the run as well, where all devices wait for them. Without these
/// times a device that is often delayed would seem faster than it is.
///
/// # Deviations
/// * **Disturbed repetitions**: the paper averages every repetition (supplement of the HPOPTA paper, section 1). Here
///   disturbances are measured again, because one of them outweighs all other times of a short measurement. A
///   disturbance lies beyond twice the median and, from 4 times on, more than 3.5 deviations beyond the median (by the
///   median absolute deviation). If more than a third of the times are so long, none is a disturbance.
/// * **Contradicting repetitions**: the paper ends after `maxReps` repetitions (supplement of the HPOPTA paper, section
///   1). Here fewer than 8 times that differ by more than a factor of 2 are repeated up to half as often again, because
///   a few times do not show which of them are disturbances.
///
/// # References
/// Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.
#[derive(Debug, Clone, PartialEq)]
pub struct SortedTimes {
    /// The times that count.
    pub own: Vec<f64>,
    /// Number of disturbances.
    pub outliers: usize,
    /// `true` if the times that count are few and contradict each other. More are measured before any is believed.
    pub contradictory: bool,
}

impl SortedTimes {
    /// Sorts the times of one device.
    pub fn from_times(times: &[f64], rule: &OutlierRule) -> Self {
        let limit_s = limit_disturbance(times, rule);
        let beyond = times.iter().filter(|&&t| t > limit_s).count();
        let rare = beyond as f64 <= rule.rare * times.len() as f64;
        let own: Vec<f64> = if rare {
            times.iter().copied().filter(|&t| t <= limit_s).collect()
        } else {
            times.to_vec()
        };
        let fastest = own.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = own.iter().copied().fold(0.0, f64::max);
        Self {
            outliers: times.len() - own.len(),
            contradictory: times.len() < rule.many && slowest > rule.contradiction * fastest,
            own,
        }
    }
}

/// Returns the seconds beyond which a time is a disturbance.
fn limit_disturbance(times: &[f64], rule: &OutlierRule) -> f64 {
    let middle = find_median(times);
    let floor_s = rule.floor * middle;
    if times.len() < rule.scattered {
        return middle + floor_s;
    }
    middle + floor_s.max(rule.unusual * find_scatter(times))
}

/// Returns the robust standard deviation of values about their median: 1.4826 times the median absolute deviation.
pub fn find_scatter(values: &[f64]) -> f64 {
    let middle = find_median(values);
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    DEVIATION_BY_MAD * find_median(&away)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: OutlierRule = OutlierRule {
        floor: 1.0,
        scattered: 4,
        unusual: 3.5,
        rare: 1.0 / 3.0,
        contradiction: 2.0,
        many: 8,
    };

    fn sorted(times: &[f64]) -> (usize, bool) {
        let sorted = SortedTimes::from_times(times, &RULE);
        assert_eq!(sorted.own.len() + sorted.outliers, times.len());
        (sorted.outliers, sorted.contradictory)
    }

    #[test]
    fn a_spike_of_500_times_is_found_among_few_and_many() {
        let (usual, spike) = (190e-6, 100e-3);
        assert_eq!(sorted(&[usual, spike, usual]), (1, false));
        assert_eq!(sorted(&[usual, 200e-6, 185e-6, spike, 195e-6]), (1, false));
        let mut many = vec![usual; 100];
        many.extend([spike; 30]);
        assert_eq!(sorted(&many), (30, false));
    }

    #[test]
    fn jitter_and_scatter_are_the_devices_own() {
        assert_eq!(sorted(&[1.0, 1.0, 1.0, 1.0, 1.9]), (0, false));
        // The last time is over twice the median, but such is the scatter of the others.
        assert_eq!(sorted(&[0.4, 0.7, 1.0, 1.3, 1.7, 2.5]), (0, true));
        assert_eq!(sorted(&[0.99, 1.0, 1.01, 1.0, 2.1]), (1, false));
    }

    #[test]
    fn what_is_not_rare_is_believed() {
        let two_speeds = [1.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0];
        assert_eq!(sorted(&two_speeds), (0, false));
    }

    #[test]
    fn few_times_that_contradict_each_other_settle_nothing() {
        assert_eq!(sorted(&[1.0, 60.0]), (0, true));
        assert_eq!(sorted(&[60.0, 1.0, 60.0]), (0, true));
        assert_eq!(sorted(&[1.0, 1.9]), (0, false));
        assert_eq!(sorted(&[]), (0, false));
    }
}
