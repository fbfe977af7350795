//! Times that are not the device's own.

use super::stats::median;

/// A time must lie beyond the median by so many times the median before it can be a disturbance.
const FLOOR: f64 = 1.0;

/// With so many times their own scatter says what is unusual; with fewer [`FLOOR`] alone does.
const SCATTERED: usize = 4;

/// A modified z-score beyond this is unusual.
const UNUSUAL: f64 = 3.5;

/// The deviation of a normal distribution in units of its median absolute deviation.
const DEVIATION_BY_MAD: f64 = 1.4826;

/// At most this part of the times can be disturbances; what happens more often is how the device is.
const RARE: f64 = 1.0 / 3.0;

/// Times that differ by more than this factor contradict each other, as long as there are fewer than [`MANY`].
const CONTRADICTION: f64 = 2.0;

/// So many times are believed, however much they differ.
const MANY: usize = 8;

/// The times of one device in two groups: its own, and disturbances.
///
/// A disturbance (a page being moved, another program) only ever makes an update slower. A time `t` is one when it lies
/// beyond the median `m` by more than `max(m, 3.5·σ)`, where `σ` is 1.4826 times the median absolute deviation: the
/// modified z-score of Iglewicz and Hoaglin, whose scale the disturbances themselves hardly move. With fewer than 4
/// times, whose deviation means little, the floor decides alone. It is as high as twice the median because what slows
/// an update by less happens in the run as well, where everybody waits for it: left out, a device to which it happens
/// often would seem faster than it is.
///
/// Where more than a third of the times would be disturbances they are the device's own, and all count: a device that
/// has two speeds has two speeds.
///
/// # References
/// Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.
pub(super) struct Sorted {
    /// The times that count.
    pub own: Vec<f64>,
    /// How many were disturbances.
    pub outliers: usize,
    /// Whether the times that count are few and contradict each other, so that more should be measured before any is
    /// believed: of a spike and an ordinary time nobody can tell which is which.
    pub contradictory: bool,
}

impl Sorted {
    /// Sorts the times of one device.
    pub fn from_times(times: &[f64]) -> Self {
        let limit_s = limit_s(times);
        let beyond = times.iter().filter(|&&t| t > limit_s).count();
        let rare = beyond as f64 <= RARE * times.len() as f64;
        let own: Vec<f64> = if rare {
            times.iter().copied().filter(|&t| t <= limit_s).collect()
        } else {
            times.to_vec()
        };
        let fastest = own.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = own.iter().copied().fold(0.0, f64::max);
        Self {
            outliers: times.len() - own.len(),
            contradictory: times.len() < MANY && slowest > CONTRADICTION * fastest,
            own,
        }
    }
}

/// Beyond this a time is a disturbance.
fn limit_s(times: &[f64]) -> f64 {
    let middle = median(times);
    let floor_s = FLOOR * middle;
    if times.len() < SCATTERED {
        return middle + floor_s;
    }
    let away: Vec<f64> = times.iter().map(|t| (t - middle).abs()).collect();
    middle + floor_s.max(UNUSUAL * DEVIATION_BY_MAD * median(&away))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(times: &[f64]) -> (usize, bool) {
        let sorted = Sorted::from_times(times);
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
