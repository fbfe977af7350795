//! The ranks' logs of their steps, for the director.

use super::seen_step::SeenStep;
use crate::plan::Assignment;

/// The steps of a rank since the last decision.
#[derive(Default)]
pub(super) struct StepLog {
    pub steps: Vec<SeenStep>,
    /// Seconds of the last change.
    pub changing_s: f64,
    /// This rank's part of C moved in it.
    pub has_moved: bool,
    pub has_failed: bool,
    /// The sum of the inner dimensions of all updates, since the beginning.
    pub k: usize,
}

/// Reads the logs of the ranks, which have the devices of this assignment.
pub(super) fn decode_logs(logs: &[impl AsRef<[u8]>], assignment: &Assignment) -> Vec<StepLog> {
    logs.iter()
        .zip(&assignment.slices)
        .map(|(bytes, slices)| StepLog::decode(bytes.as_ref(), slices.len()))
        .collect()
}

/// Returns the rank whose steps took longest, each as long as its slowest device; `None` without times.
pub(super) fn find_slowest(logs: &[StepLog]) -> Option<usize> {
    let times_s: Vec<f64> =
        logs.iter().map(|log| log.steps.iter().map(SeenStep::slowest_s).sum()).collect();
    (0..times_s.len())
        .filter(|&rank| times_s[rank] > 0.0)
        .max_by(|&a, &b| times_s[a].total_cmp(&times_s[b]))
}

/// Returns the seconds of a change, given those of each rank and whether its part of C moved: the shortest time of a rank whose
/// part moved, since other ranks also waited, or the longest if C did not move.
pub(super) fn cost_change(ranks: impl Iterator<Item = (f64, bool)> + Clone) -> f64 {
    ranks
        .clone()
        .filter_map(|(seconds, has_moved)| has_moved.then_some(seconds))
        .reduce(f64::min)
        .unwrap_or_else(|| ranks.map(|(seconds, _)| seconds).fold(0.0, f64::max))
}

/// Returns the seconds of the last change.
pub(super) fn find_changing_s(logs: &[StepLog]) -> f64 {
    cost_change(logs.iter().map(|log| (log.changing_s, log.has_moved)))
}

impl StepLog {
    /// Writes the log as numbers: failure, movement, seconds of changing, and the steps.
    pub fn encode(&self) -> Vec<f64> {
        let [failed, moved] = [self.has_failed, self.has_moved].map(|is| f64::from(u8::from(is)));
        let mut numbers = vec![failed, moved, self.changing_s];
        for step in &self.steps {
            step.write_to(&mut numbers);
        }
        numbers
    }

    /// Reads the log of a rank with this number of devices.
    pub fn decode(bytes: &[u8], devices: usize) -> Self {
        let numbers = bytes.chunks_exact(size_of::<f64>());
        let numbers: Vec<f64> = numbers.map(bytemuck::pod_read_unaligned).collect();
        let (frame, steps) = numbers.split_at(3);
        Self {
            steps: SeenStep::read_all(steps, devices),
            changing_s: frame[2],
            has_moved: frame[1] > 0.0,
            has_failed: frame[0] > 0.0,
            k: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::times::Sample;

    use super::*;

    fn step(k: usize, times: &[f64]) -> SeenStep {
        let samples = times.iter().map(|&seconds| Sample::measured(7, seconds, 1, 0.0));
        SeenStep { k, rows: 3, samples: samples.collect() }
    }

    fn changed(changing_s: f64, has_moved: bool) -> StepLog {
        StepLog { changing_s, has_moved, ..StepLog::default() }
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        for times in [&[][..], &[0.1, 0.2], &[0.0, f64::INFINITY]] {
            let log = StepLog {
                steps: vec![step(5, times), step(2, times)],
                changing_s: 0.3,
                has_moved: true,
                has_failed: false,
                k: 9,
            };
            let read = StepLog::decode(bytemuck::cast_slice(&log.encode()), times.len());
            assert_eq!(read.steps, log.steps);
            assert_eq!((read.changing_s, read.has_moved, read.has_failed), (0.3, true, false));
        }
        let log = StepLog { steps: vec![step(5, &[f64::NAN])], ..StepLog::default() };
        let read = StepLog::decode(bytemuck::cast_slice(&log.encode()), 1);
        assert!(read.steps[0].samples[0].seconds.is_nan());
    }

    fn log_steps(steps: &[&[f64]]) -> StepLog {
        StepLog { steps: steps.iter().map(|times| step(4, times)).collect(), ..StepLog::default() }
    }

    #[test]
    fn the_slowest_node_is_that_of_the_longest_steps() {
        assert_eq!(find_slowest(&[log_steps(&[]), log_steps(&[&[]])]), None);
        let logs = [&[&[0.1, 0.3][..], &[0.3, 0.1]], &[&[0.35][..], &[0.2]]];
        let logs = logs.map(|steps| log_steps(steps));
        assert_eq!(find_slowest(&logs), Some(0));
        assert_eq!(find_slowest(&logs[1..]), Some(0));
    }

    #[test]
    fn a_change_costs_what_the_rank_says_that_waits_least() {
        let slices = [changed(0.1, false), changed(0.2, false)];
        assert_eq!(find_changing_s(&slices), 0.2);
        let layouts = [changed(0.1, false), changed(5.0, true), changed(2.0, true)];
        assert_eq!(find_changing_s(&layouts), 2.0);
    }
}
