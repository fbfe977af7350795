//! Making a target sum out of one choice per device, device by device.

use super::PartitionError;
use super::choices::{Choice, Choices, MAX_BYTES};
use super::sums::{Sums, Window};

/// Devices in descending order of their size thresholds, of which at most `active` may take part.
///
/// With the thresholds `σ_0 ≥ σ_1 ≥ …` and their sums `P_i = σ_0 + … + σ_{i-1}`, the sums after `i`
/// devices that matter lie between `target - (P_{i+active} - P_i)`, below which the devices to come
/// cannot make up the rest, and `min(target, P_{min(i, active)})`. Near the optimal time the
/// thresholds sum up to little more than the target, so that few sums are left to be looked at.
#[derive(Debug)]
pub(super) struct Stages<'a> {
    devices: Vec<Device<'a>>,
    /// `P_0 ..= P_n`.
    most: Vec<u128>,
    active: usize,
    target: u64,
}

#[derive(Debug, Clone, Copy)]
struct Device<'a> {
    index: usize,
    choices: &'a [Choice],
    threshold: u64,
}

/// The sizes that some devices take: pairs of device index and choice. All others are idle.
pub(super) type Taken = Vec<(usize, Choice)>;

impl<'a> Stages<'a> {
    /// Bytes that each device takes in the computation of a division: its own, and those of the stages
    /// of which the first devices, or as many as may be active, make others.
    pub const BYTES: u128 = (size_of::<&Choices>() + 3 * size_of::<(Device, u128)>()) as u128;

    /// All devices that can do something within `time_s`, the threshold of which decides their order;
    /// equal ones stay in order of their index.
    pub fn new(devices: &[&'a Choices], time_s: f64, target: u64) -> Self {
        let device = |(index, choices): (usize, &&'a Choices)| {
            let within = choices.within(time_s);
            Device {
                index,
                choices: within,
                threshold: choices.most_of(within.len()),
            }
        };
        let mut devices: Vec<_> = devices.iter().enumerate().map(device).collect();
        devices.retain(|device| device.threshold > 0);
        devices.sort_by_key(|device| std::cmp::Reverse(device.threshold));
        Self::of(devices, target)
    }

    fn of(devices: Vec<Device<'a>>, target: u64) -> Self {
        let mut most = vec![0];
        for device in &devices {
            most.push(most[most.len() - 1] + u128::from(device.threshold));
        }
        Self {
            active: devices.len(),
            devices,
            most,
            target,
        }
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// The fewest devices whose thresholds sum up to the target; none if all do not.
    pub fn at_least(&self) -> Option<usize> {
        let n = self
            .most
            .partition_point(|&most| most < u128::from(self.target));
        (n < self.most.len()).then_some(n)
    }

    /// The first `n` devices only. Their thresholds must reach the target.
    pub fn first(&self, n: usize) -> Self {
        Self::of(self.devices[..n].to_vec(), self.target)
    }

    /// The same with at most `active` devices taking part; those that then cannot are left out.
    pub fn with_active(&self, active: usize) -> Self {
        let target = u128::from(self.target);
        let needed = target.saturating_sub(self.most[active - 1]);
        let useful = |device: &&Device| u128::from(device.threshold) >= needed;
        let devices = self.devices.iter().take_while(useful).copied().collect();
        Self {
            active,
            ..Self::of(devices, self.target)
        }
    }

    /// Whether storing the sums of every window, as [`trace`](Self::trace) does, fits into the memory.
    pub fn fits<S: Sums>(&self) -> bool {
        let kept = 2 * (self.stride() as u128 + 1);
        let bits = (u128::from(self.width()) + 64).saturating_mul(S::BITS * kept);
        bits / 8 <= MAX_BYTES
    }

    /// The difference between the ends of the widest window.
    pub fn width(&self) -> u64 {
        let windows = (0..=self.len()).map(|i| self.window(i));
        windows
            .map(|window| window.hi - window.lo)
            .max()
            .unwrap_or(0)
    }

    /// How many of the first devices are needed for the target; none if all cannot make it.
    ///
    /// # Errors
    /// [`PartitionError::TooLarge`].
    pub fn first_hit<S: Sums>(&self) -> Result<Option<usize>, PartitionError> {
        let mut sums = S::empty();
        for i in 0..self.len() {
            sums = self.advance(i, &sums)?;
            if sums.fewest(self.target).is_some() {
                return Ok(Some(i + 1));
            }
        }
        Ok(None)
    }

    /// The fewest active devices that make the target, as far as `S` counts them.
    ///
    /// # Errors
    /// [`PartitionError::TooLarge`].
    pub fn fewest<S: Sums>(&self) -> Result<Option<u32>, PartitionError> {
        let mut sums = S::empty();
        for i in 0..self.len() {
            sums = self.advance(i, &sums)?;
        }
        let fewest = sums.fewest(self.target);
        Ok(fewest.filter(|&n| n as usize <= self.active))
    }

    /// What the devices take so that at most `active` of them make the target, which must be possible.
    /// The last device chooses first: the least time that the others can complete, idleness included.
    ///
    /// # Errors
    /// [`PartitionError::TooLarge`].
    ///
    /// # Panics
    /// If the target cannot be made.
    pub fn trace<S: Sums>(&self, active: usize) -> Result<Taken, PartitionError> {
        let (mut rest, mut active) = (self.target, active);
        let mut taken = Vec::new();
        self.backwards::<S>(|i, sums| {
            let made = |sum, by: usize| sums.fewest(sum).is_some_and(|n| n as usize <= by);
            if made(rest, active) {
                return;
            }
            let others_make = |choice: &&Choice| {
                active > 0 && choice.size <= rest && made(rest - choice.size, active - 1)
            };
            let device = &self.devices[i];
            let Some(&choice) = device.choices.iter().find(others_make) else {
                unreachable!("device {} has no choice for {rest} units", device.index);
            };
            rest -= choice.size;
            active -= 1;
            taken.push((device.index, choice));
        })?;
        Ok(taken)
    }

    /// Shows the sums before each stage, from the last stage to the first. Only every `√n`-th is kept;
    /// those between are computed once more from there.
    fn backwards<S: Sums>(&self, mut show: impl FnMut(usize, &S)) -> Result<(), PartitionError> {
        let n = self.len();
        let stride = self.stride();
        let mut kept = vec![S::empty()];
        let mut sums = None;
        for i in 0..n.saturating_sub(1) / stride * stride {
            let next = self.advance(i, sums.as_ref().unwrap_or(&kept[kept.len() - 1]))?;
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
                block.push(self.advance(i, &block[i - start])?);
            }
            for (i, sums) in (start..n.min(start + stride)).zip(&block).rev() {
                show(i, sums);
            }
        }
        Ok(())
    }

    fn stride(&self) -> usize {
        self.len().isqrt().max(1)
    }

    fn advance<S: Sums>(&self, i: usize, sums: &S) -> Result<S, PartitionError> {
        // What the others can make at most tells what this one must take if it takes part at all.
        let others = match i < self.active {
            true => self.most[self.active] - u128::from(self.devices[i].threshold),
            false => self.most[self.active - 1],
        };
        let least = u128::from(self.target).saturating_sub(others);
        let worthwhile = |choice: &&Choice| u128::from(choice.size) >= least;
        let choices = self.devices[i].choices.iter().filter(worthwhile);
        let choices: Vec<Choice> = choices.copied().collect();
        sums.with(&choices, self.window(i + 1))
    }

    /// The sums worth keeping after `i` devices.
    fn window(&self, i: usize) -> Window {
        let to_come = self.most[self.len().min(i + self.active)] - self.most[i];
        let target = u128::from(self.target);
        let (lo, hi) = (
            target.saturating_sub(to_come),
            target.min(self.most[i.min(self.active)]),
        );
        // Neither exceeds the target.
        Window {
            lo: lo as u64,
            hi: hi as u64,
        }
    }
}
