//! Load imbalancing on two levels: between identical nodes, then inside each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::choices::{Choice, Choices, MAX_BYTES, Problem, check_copies};
use super::exact::{divide, not_a_sum};
use super::limits::one_each;
use super::stages::Stages;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// A division between identical nodes and between the devices of each.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HierarchicalPartition {
    /// What each node gets.
    pub nodes: Partition,
    /// For each node, what each of its devices gets.
    pub devices: Vec<Partition>,
}

impl HierarchicalPartition {
    /// Seconds of the device that is predicted to finish last; 0 without any.
    #[must_use]
    pub fn max_time_s(&self) -> f64 {
        self.nodes.max_time_s()
    }

    /// Number of devices that get something.
    #[must_use]
    pub fn active(&self) -> usize {
        self.devices.iter().map(Partition::active).sum()
    }
}

/// Divides `total` units between `n_nodes` identical nodes of the devices given, and inside each, so that
/// the largest time is minimal. It is the time that [`hpopta`](super::hpopta()) finds for all devices of
/// all nodes at once.
///
/// 1. The time function of a node, from the best division of each load between its devices (see
///    [`node_times`]).
/// 2. [`popta`](super::popta()) between the nodes, with the fewest nodes active.
/// 3. [`hpopta`](super::hpopta()) for each different load that a node was given, with the fewest devices
///    active. That is the fewest for this division between the nodes.
///
/// `limits` holds one entry for each device of a node, or none at all.
///
/// # Errors
/// As [`hpopta`](super::hpopta()); device indices are those inside a node. [`PartitionError::TooLarge`]
/// also for so many nodes that their parts do not fit into memory.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::TimeFunction;
/// use isochron_hierarchy::partition::hipopta;
///
/// let cpu = TimeFunction::new(1, vec![(1, 2.0), (2, 4.0)])?;
/// let gpu = TimeFunction::new(1, vec![(2, 2.5), (3, 2.0), (4, 6.0)])?;
/// let partition = hipopta(&[cpu, gpu], &[], 2, 7)?;
/// assert_eq!(partition.nodes.units, [3, 4]);
/// assert_eq!(partition.devices[0].units, [0, 3]);
/// assert_eq!(partition.devices[1].units, [1, 3]);
/// assert_eq!(partition.max_time_s(), 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, supplement, section 5.4.
pub fn hipopta(
    devices: &[TimeFunction],
    limits: &[Limits],
    n_nodes: usize,
    total: u64,
) -> Result<HierarchicalPartition, PartitionError> {
    let problem = Problem::new(devices, &one_each(devices, limits)?, n_nodes, total)?;
    // The units and seconds of the node and of its devices, besides what the search needs.
    let parts = (1 + devices.len()) * size_of::<(u64, f64)>() + size_of::<Partition>();
    check_copies(n_nodes, Stages::BYTES + parts as u128)?;
    let mut partition = HierarchicalPartition {
        nodes: idle(n_nodes),
        devices: vec![idle(devices.len()); n_nodes],
    };
    if total == 0 {
        return Ok(partition);
    }
    let node = Choices::new(node_choices(&problem)?);
    let nodes = vec![&node; n_nodes];
    let taken = match problem.exact {
        true => divide(&nodes, problem.target)?,
        false => None,
    };
    let Some(taken) = taken else {
        return Err(not_a_sum(&problem, &nodes, total)?);
    };
    let mut parts = BTreeMap::new();
    for (index, load) in taken {
        partition.nodes.units[index] = load.size * problem.unit;
        partition.nodes.times_s[index] = load.time_s;
        partition.devices[index] = match parts.get(&load.size) {
            Some(known) => Partition::clone(known),
            None => {
                let inside = inside(&problem, load)?;
                parts.insert(load.size, inside.clone());
                inside
            }
        };
    }
    Ok(partition)
}

/// The time function of a node that divides each load of up to `max` units optimally between its
/// devices: of any shape, with no point where no sizes of its devices sum up to the load.
///
/// With `T_0(0) = 0` and no other load possible, one device after the other is added by
///
/// `T_{j+1}(s) = min_x max(T_j(s - x), t_j(x))`, `x` a size of device `j` or 0,
///
/// which yields all loads at once, where the paper runs HPOPTA for each. O(c·m·M) time and O(M) memory
/// for `c` devices of `m` points and `M` loads.
///
/// # Errors
/// [`PartitionError::LimitsMismatch`], [`PartitionError::NoDevices`], and
/// [`PartitionError::TooLarge`] if so many loads do not fit into memory.
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, supplement, section 5.4.
pub fn node_times(
    devices: &[TimeFunction],
    limits: &[Limits],
    max: u64,
) -> Result<TimeFunction, PartitionError> {
    if devices.is_empty() && max > 0 {
        return Err(PartitionError::NoDevices { total: max });
    }
    let problem = Problem::unchecked(devices, &one_each(devices, limits)?, max);
    let choices = node_choices(&problem)?;
    let points = choices
        .into_iter()
        .map(|load| (load.size * problem.unit, load.time_s));
    Ok(TimeFunction::of_sorted(problem.unit, points.collect()))
}

fn idle(n: usize) -> Partition {
    Partition {
        units: vec![0; n],
        times_s: vec![0.0; n],
    }
}

/// The best time of each load of one node, ascending in load.
fn node_choices(problem: &Problem) -> Result<Vec<Choice>, PartitionError> {
    let most = |device: &Choices| u128::from(device.most_of(device.all().len()));
    let max = problem.devices.iter().map(most).sum::<u128>();
    let max = max.min(problem.target.into());
    let bytes = max.saturating_mul(2 * size_of::<Choice>() as u128);
    if bytes > MAX_BYTES {
        let copies = None;
        return Err(PartitionError::TooLarge { bytes, copies });
    }
    let mut times = vec![f64::INFINITY; max as usize + 1];
    times[0] = 0.0;
    // The loads that the devices so far can make end here.
    let mut end = 1;
    for device in &problem.devices {
        let before = times[..end].to_vec();
        end = times
            .len()
            .min(end + device.most_of(device.all().len()) as usize);
        for choice in device.all() {
            let Some(to) = times.get_mut(choice.size as usize..) else {
                continue;
            };
            for (to, &from) in to.iter_mut().zip(&before) {
                let time_s = if from > choice.time_s {
                    from
                } else {
                    choice.time_s
                };
                *to = if time_s < *to { time_s } else { *to };
            }
        }
    }
    let loads = (0..).zip(times).skip(1);
    Ok(loads
        .filter(|(_, time_s)| time_s.is_finite())
        .map(|(size, time_s)| Choice { size, time_s })
        .collect())
}

/// What the devices of a node with this load get.
fn inside(problem: &Problem, load: Choice) -> Result<Partition, PartitionError> {
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    let mut partition = idle(devices.len());
    let Some(taken) = divide(&devices, load.size)? else {
        unreachable!("a node's load of {} units is a sum of sizes", load.size);
    };
    for (index, choice) in taken {
        partition.units[index] = choice.size * problem.unit;
        partition.times_s[index] = choice.time_s;
    }
    Ok(partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_counted_and_refused() {
        let dense = TimeFunction::new(1, vec![(1, 1.0), (2, 1.5)]).expect("valid");
        let two = [dense.clone(), dense];
        for n_nodes in [1 << 32, usize::MAX] {
            let refused = hipopta(&two, &[], n_nodes, 60);
            assert!(
                matches!(
                    refused,
                    Err(PartitionError::TooLarge { copies: Some(n), .. }) if n == n_nodes
                ),
                "{refused:?}"
            );
        }
        let huge = TimeFunction::new(1, vec![(u64::MAX - 1, 1.0), (u64::MAX, 1.0)]).expect("valid");
        let refused = hipopta(&[huge], &[], 2, u64::MAX);
        let Err(error @ PartitionError::TooLarge { copies: None, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            error
                .to_string()
                .ends_with("measure at multiples of one size")
        );
    }
}
