//! Reaching a target sum with one choice per device, device by device.

use super::PartitionError;
use super::choices::{Choices, MAX_BYTES, SizeTime};
use super::sums::{SumRange, Sums};

/// Devices in descending order of their size thresholds, of which at most `active` may take part.
///
/// The thresholds are `σ_0 ≥ σ_1 ≥ …` and their sums `P_i = σ_0 + … + σ_{i-1}`. Only the sums in a range
/// matter after `i` devices. Below `target - (P_{i+active} - P_i)` the remaining devices cannot make up
/// the rest; the upper end is `min(target, P_{min(i, active)})`. Near the optimal time the thresholds sum
/// to little more than the target, so that the ranges are narrow. Sums that memory cannot hold are
/// [`PartitionError::TooLarge`].
#[derive(Debug)]
pub(super) struct Stages<'a> {
    devices: Vec<StagedDevice<'a>>,
    /// `P_0 ..= P_n`.
    most: Vec<u128>,
    active: usize,
    target: u64,
}

/// A device that can take part.
#[derive(Debug, Clone, Copy)]
struct StagedDevice<'a> {
    index: usize,
    choices: &'a [SizeTime],
    threshold: u64,
}

/// The choices of some devices, by device index. All other devices are idle.
pub(super) type Taken = Vec<(usize, SizeTime)>;

impl<'a> Stages<'a> {
    /// Bytes per device for the computation of a division: its reference and its entries in three
    /// [`Stages`]. These are the stages of all devices, [`keep_first`](Self::keep_first) and
    /// [`limit_active`](Self::limit_active).
    pub const BYTES: u128 = (size_of::<&Choices>() + 3 * size_of::<(StagedDevice, u128)>()) as u128;

    /// Builds stages of all devices that have a choice within `time_s`, in descending order of their
    /// thresholds; equal ones stay in order of their index.
    pub fn new(devices: &[&'a Choices], time_s: f64, target: u64) -> Self {
        let mut staged: Vec<_> = (devices.iter().enumerate())
            .map(|(index, choices)| StagedDevice {
                index,
                choices: choices.within(time_s),
                threshold: choices.largest_within(time_s),
            })
            .filter(|device| device.threshold > 0)
            .collect();
        staged.sort_by_key(|device| std::cmp::Reverse(device.threshold));
        Self::from_devices(staged, target)
    }

    fn from_devices(devices: Vec<StagedDevice<'a>>, target: u64) -> Self {
        let mut most = vec![0];
        for device in &devices {
            most.push(most[most.len() - 1] + u128::from(device.threshold));
        }
        Self { active: devices.len(), devices, most, target }
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns the fewest devices with thresholds that sum to at least the target, or `None` if the
    /// thresholds of all devices do not.
    pub fn fewest_by_threshold(&self) -> Option<usize> {
        let n = self.most.partition_point(|&most| most < u128::from(self.target));
        (n < self.most.len()).then_some(n)
    }

    /// Returns the stages of the first `n` devices. Their thresholds must reach the target.
    pub fn keep_first(&self, n: usize) -> Self {
        Self::from_devices(self.devices[..n].to_vec(), self.target)
    }

    /// Returns the stages with at most `active` active devices, without the devices that then cannot take
    /// part.
    pub fn limit_active(&self, active: usize) -> Self {
        let needed = u128::from(self.target).saturating_sub(self.most[active - 1]);
        let useful = (self.devices.iter())
            .take_while(|device| u128::from(device.threshold) >= needed)
            .copied()
            .collect();
        Self { active, ..Self::from_devices(useful, self.target) }
    }

    /// Returns `true` if memory holds the sums of every range, as
    /// [`trace_choices`](Self::trace_choices) stores them.
    pub fn fits_memory<S: Sums>(&self) -> bool {
        let kept = 2 * (self.stride() as u128 + 1);
        let bits = (u128::from(self.widest_range()) + 64).saturating_mul(S::BITS * kept);
        bits / 8 <= MAX_BYTES
    }

    /// Returns the difference between the ends of the widest range.
    pub fn widest_range(&self) -> u64 {
        (0..=self.len())
            .map(|i| self.range_after(i))
            .map(|range| range.hi - range.lo)
            .max()
            .unwrap_or(0)
    }

    /// Returns the number of first devices that are needed for the target, or `None` if all of them
    /// together cannot reach it.
    pub fn count_needed<S: Sums>(&self) -> Result<Option<usize>, PartitionError> {
        let mut sums = S::empty();
        for i in 0..self.len() {
            sums = self.add_device(i, &sums)?;
            if sums.fewest(self.target).is_some() {
                return Ok(Some(i + 1));
            }
        }
        Ok(None)
    }

    /// Returns the fewest active devices that reach the target, as far as `S` counts them.
    pub fn count_fewest<S: Sums>(&self) -> Result<Option<u32>, PartitionError> {
        let mut sums = S::empty();
        for i in 0..self.len() {
            sums = self.add_device(i, &sums)?;
        }
        Ok(sums.fewest(self.target).filter(|&n| n as usize <= self.active))
    }

    /// Returns choices by which at most `active` devices reach the target.
    ///
    /// The last device chooses first. Idleness included, it takes the least time with which the devices
    /// before it can reach the target.
    ///
    /// # Panics
    /// If the target cannot be reached.
    pub fn trace_choices<S: Sums>(&self, active: usize) -> Result<Taken, PartitionError> {
        let (mut rest, mut left) = (self.target, active);
        let mut taken = Vec::new();
        self.visit_backwards::<S>(|i, sums| {
            if can_reach(sums, rest, left) {
                return;
            }
            let device = &self.devices[i];
            let Some(&choice) = device.choices.iter().find(|choice| {
                left > 0 && choice.size <= rest && can_reach(sums, rest - choice.size, left - 1)
            }) else {
                unreachable!("device {} has no choice for {rest} units", device.index);
            };
            rest -= choice.size;
            left -= 1;
            taken.push((device.index, choice));
        })?;
        Ok(taken)
    }

    /// Visits the sums before each stage, from the last stage to the first. Only every `√n`-th is kept;
    /// the others are computed once more from there.
    fn visit_backwards<S: Sums>(
        &self,
        mut visit: impl FnMut(usize, &S),
    ) -> Result<(), PartitionError> {
        let n = self.len();
        let stride = self.stride();
        let mut kept = vec![S::empty()];
        let mut sums = None;
        for i in 0..n.saturating_sub(1) / stride * stride {
            let next = self.add_device(i, sums.as_ref().unwrap_or(&kept[kept.len() - 1]))?;
            if (i + 1).is_multiple_of(stride) {
                kept.push(next);
                sums = None;
            } else {
                sums = Some(next);
            }
        }
        while let Some(first) = kept.pop() {
            let start = kept.len() * stride;
            let mut block = vec![first];
            for i in start..n.min(start + stride).saturating_sub(1) {
                block.push(self.add_device(i, &block[i - start])?);
            }
            for (i, sums) in (start..n.min(start + stride)).zip(&block).rev() {
                visit(i, sums);
            }
        }
        Ok(())
    }

    fn stride(&self) -> usize {
        self.len().isqrt().max(1)
    }

    fn add_device<S: Sums>(&self, i: usize, sums: &S) -> Result<S, PartitionError> {
        // The most that the other devices can take leaves a least size for this one, if it takes part.
        let others = if i < self.active {
            self.most[self.active] - u128::from(self.devices[i].threshold)
        } else {
            self.most[self.active - 1]
        };
        let least = u128::from(self.target).saturating_sub(others);
        let choices: Vec<SizeTime> = (self.devices[i].choices.iter())
            .filter(|choice| u128::from(choice.size) >= least)
            .copied()
            .collect();
        sums.add_device(&choices, self.range_after(i + 1))
    }

    /// Returns the range of useful sums after `i` devices.
    fn range_after(&self, i: usize) -> SumRange {
        let to_come = self.most[self.len().min(i + self.active)] - self.most[i];
        let target = u128::from(self.target);
        let (lo, hi) = (target.saturating_sub(to_come), target.min(self.most[i.min(self.active)]));
        // Neither exceeds the target.
        SumRange { lo: lo as u64, hi: hi as u64 }
    }
}

/// Returns `true` if at most `active` devices reach `sum`, as far as the sums know.
fn can_reach<S: Sums>(sums: &S, sum: u64, active: usize) -> bool {
    sums.fewest(sum).is_some_and(|n| n as usize <= active)
}
