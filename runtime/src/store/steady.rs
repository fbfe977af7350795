//! The times of a device's steps, for later runs.

use std::collections::BTreeMap;

/// The times of a device's updates in a run, without messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SteadyTimes {
    /// Seconds of each step, by the elements of C.
    pub by_units: BTreeMap<u64, Vec<f64>>,
    /// The seconds of the first step in each division.
    pub(crate) first: BTreeMap<u64, Vec<f64>>,
    /// Steps in which something else had the device's cores, whose times are not here.
    pub stopped: usize,
}

impl SteadyTimes {
    /// Adds the time of a step.
    pub(crate) fn add(&mut self, units: u64, busy_s: f64, is_first: bool) {
        let times = if is_first {
            &mut self.first
        } else {
            &mut self.by_units
        };
        times.entry(units).or_default().push(busy_s);
    }

    /// Returns the times without first steps; these, if a short run had no others.
    pub(crate) fn without_first(&self) -> Self {
        let by_units = if self.by_units.is_empty() {
            self.first.clone()
        } else {
            self.by_units.clone()
        };
        Self {
            by_units,
            first: BTreeMap::new(),
            stopped: self.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_steps_count_in_the_shortest_runs_alone() {
        let mut times = SteadyTimes::default();
        times.add(10, 3.0, true);
        assert_eq!(
            times.without_first().by_units,
            BTreeMap::from([(10, vec![3.0])])
        );
        times.add(12, 1.0, false);
        times.add(12, 1.1, false);
        assert_eq!(
            times.without_first().by_units,
            BTreeMap::from([(12, vec![1.0, 1.1])])
        );
    }
}
