//! A step of a rank as the learner sees it, in memory and in messages between ranks.

use isochron_hierarchy::times::Sample;

/// The work of a rank in a step: an update of `rows` rows with inner dimension `k`.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenStep {
    /// Inner dimension of the update: the panels' width, and less for the last piece of k; 0 if its times are not
    /// known.
    pub k: usize,
    /// Rows of C.
    pub rows: usize,
    /// Each device's time for its columns of C, corrected for the share of time that its host grants. It is
    /// [disturbed](Sample::is_disturbed) if something else had the device's cores for a good part of it.
    pub samples: Vec<Sample>,
}

impl SeenStep {
    /// Makes a step on these columns of each device without times: there was nothing to do, or they are not known and `k` is 0.
    pub(super) fn untimed(k: usize, rows: usize, slices: &[usize]) -> Self {
        let samples = slices.iter().map(|&cols| Sample::measured(cols as u64, 0.0, 1, 0.0));
        Self { k, rows, samples: samples.collect() }
    }

    /// Returns the elements of C that a device's sample is for.
    pub(super) fn count_elements(&self, sample: &Sample) -> u64 {
        self.rows as u64 * sample.units
    }

    /// Returns the seconds of the slowest device.
    pub(super) fn slowest_s(&self) -> f64 {
        let times_s = self.samples.iter().map(|sample| sample.seconds);
        times_s.fold(0.0, f64::max)
    }

    /// Writes the step as numbers: its `k`, its rows, and the columns, the seconds and the disturbance of each device.
    pub(super) fn write_to(&self, numbers: &mut Vec<f64>) {
        numbers.extend([self.k as f64, self.rows as f64]);
        numbers.extend(self.samples.iter().flat_map(Sample::to_numbers));
    }

    /// Reads the steps of a rank with this number of devices.
    pub(super) fn read_all(numbers: &[f64], devices: usize) -> Vec<Self> {
        let steps = numbers.chunks_exact(2 + 3 * devices).map(|step| Self {
            k: step[0] as usize,
            rows: step[1] as usize,
            samples: step[2..]
                .as_chunks()
                .0
                .iter()
                .map(|&numbers| Sample::from_numbers(numbers))
                .collect(),
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_was_written() {
        for times in [&[][..], &[0.1, -1.0], &[0.0, f64::INFINITY]] {
            let step = SeenStep {
                k: 5,
                rows: 3,
                samples: times
                    .iter()
                    .map(|&s| Sample::measured(7, s, 1, 0.0).disturbed_if(s < 0.0))
                    .collect(),
            };
            let mut numbers = Vec::new();
            step.write_to(&mut numbers);
            step.write_to(&mut numbers);
            let read = SeenStep::read_all(&numbers, times.len());
            assert_eq!(read, [step.clone(), step]);
        }
    }
}
