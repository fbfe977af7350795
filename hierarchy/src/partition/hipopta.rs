//! Load imbalancing on two levels: between identical nodes, then inside each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::choices::{Choices, MAX_BYTES, SizeProblem, SizeTime, check_copies};
use super::exact::{collect_choices, divide_target, not_a_sum};
use super::limits::one_each;
use super::stages::Stages;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// A division between identical nodes and between the devices of each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HierarchicalPartition {
    /// The division between the nodes.
    pub nodes: Partition,
    /// For each node, the division between its devices.
    pub devices: Vec<Partition>,
}

impl HierarchicalPartition {
    /// Returns the seconds of the device that is predicted to finish last; 0 without devices.
    pub fn max_time_s(&self) -> f64 {
        self.nodes.max_time_s()
    }

    /// Returns the number of devices that get any units.
    pub fn active(&self) -> usize {
        self.devices.iter().map(Partition::active).sum()
    }
}

/// Divides `total` units between `n_nodes` identical nodes of these devices, and inside each node, so
/// that the largest time is minimal. This is the time that [`hpopta`](super::hpopta()) finds for all
/// devices of all nodes at once.
///
/// 1. Compute the time function of a node: the best division of each load between its devices. Some
///    loads may be impossible. With `T_0(0) = 0` and no other load possible, one device after the other
///    is added by `T_{j+1}(s) = min_x max(T_j(s - x), t_j(x))`, `x` a size of device `j` or 0. All loads
///    together take `O(c·m·M)` time and `O(M)` memory for `c` devices of `m` points and `M` loads.
/// 2. Divide between the nodes by [`popta`](super::popta()), with the fewest active nodes.
/// 3. Divide each different load by [`hpopta`](super::hpopta()), with the fewest active devices for this
///    division between the nodes.
///
/// `limits` holds one entry for each device of a node, or none at all.
///
/// # Deviations
/// * **HiPOPTA, time function of a node**: the paper measures the application at every load
///   (supplement, section 5.4). Here it is computed from the devices' functions, because that needs no
///   measurements. All loads are computed at once. The paper divides each load by HPOPTA, which gives
///   the same optimum.
///
/// # Errors
/// Returns [`PartitionError::LimitsMismatch`]; [`PartitionError::NoDevices`]; [`PartitionError::BeyondModels`] and
/// [`PartitionError::BeyondLimits`] if the largest sizes sum to less than `total`; [`PartitionError::NotASum`] if no
/// sizes sum to `total`; [`PartitionError::TooLarge`] if the different sums do not fit into memory;
/// [`PartitionError::TooManyCopies`] if the parts of the nodes do not fit into memory. Indices of devices count inside
/// a node.
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
    let problem = SizeProblem::new(devices, &one_each(devices.len(), limits)?, n_nodes, total)?;
    // Units and seconds of each node and of its devices, besides the memory of the search.
    let part_bytes = (1 + devices.len()) * size_of::<(u64, f64)>() + size_of::<Partition>();
    check_copies(n_nodes, Stages::BYTES + part_bytes as u128)?;
    let mut partition = HierarchicalPartition {
        nodes: Partition::idle(n_nodes),
        devices: vec![Partition::idle(devices.len()); n_nodes],
    };
    if total == 0 {
        return Ok(partition);
    }
    let node = Choices::new(compute_node_times(&problem)?);
    let nodes = vec![&node; n_nodes];
    let taken = if problem.exact { divide_target(&nodes, problem.target)? } else { None };
    let Some(loads) = taken else {
        return Err(not_a_sum(&problem, &nodes, total)?);
    };
    let mut divided: BTreeMap<u64, Partition> = BTreeMap::new();
    for &(index, load) in &loads {
        let inside = match divided.entry(load.size) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(divide_load(&problem, load)?),
        };
        partition.devices[index].clone_from(inside);
    }
    partition.nodes = collect_choices(&problem, n_nodes, loads);
    Ok(partition)
}

/// Returns the best time of each possible load of one node, ascending in load.
fn compute_node_times(problem: &SizeProblem) -> Result<Vec<SizeTime>, PartitionError> {
    let reach: u128 = problem.devices.iter().map(Choices::largest_size).map(u128::from).sum();
    let max = reach.min(problem.target.into());
    let bytes = max.saturating_mul(2 * size_of::<SizeTime>() as u128);
    if bytes > MAX_BYTES {
        return Err(PartitionError::TooLarge { bytes });
    }
    let mut times = vec![f64::INFINITY; max as usize + 1];
    times[0] = 0.0;
    // End of the loads that are possible with the devices so far.
    let mut end = 1;
    for device in &problem.devices {
        let before = times[..end].to_vec();
        end = times.len().min(end + device.largest_size() as usize);
        for choice in device.all() {
            let Some(to) = times.get_mut(choice.size as usize..) else {
                continue;
            };
            for (to, &from) in to.iter_mut().zip(&before) {
                let time_s = if from > choice.time_s { from } else { choice.time_s };
                *to = if time_s < *to { time_s } else { *to };
            }
        }
    }
    Ok((0..)
        .zip(times)
        .skip(1)
        .filter(|(_, time_s)| time_s.is_finite())
        .map(|(size, time_s)| SizeTime { size, time_s })
        .collect())
}

/// Divides a node's load between its devices.
fn divide_load(problem: &SizeProblem, load: SizeTime) -> Result<Partition, PartitionError> {
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    let Some(taken) = divide_target(&devices, load.size)? else {
        unreachable!("a node's load of {} units is a sum of sizes", load.size);
    };
    Ok(collect_choices(problem, devices.len(), taken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates functions of any shape, with gaps.
    fn any_function() -> impl Strategy<Value = TimeFunction> {
        prop::collection::btree_map(1..10_u64, (1..=12_u32).prop_map(f64::from), 0..9)
            .prop_map(|points| TimeFunction::new(1, points.into_iter().collect()).unwrap())
    }

    /// Returns the least largest time of every possible load, over all divisions.
    fn divide_exhaustively(devices: &[TimeFunction]) -> BTreeMap<u64, f64> {
        let Some((first, rest)) = devices.split_first() else {
            return [(0, 0.0)].into();
        };
        let mut best = BTreeMap::new();
        for (load, rest_s) in divide_exhaustively(rest) {
            for (size, time_s) in first.points().iter().copied().chain([(0, 0.0)]) {
                let best_s = best.entry(load + size).or_insert(f64::INFINITY);
                *best_s = best_s.min(rest_s.max(time_s));
            }
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn every_time_of_a_node_is_the_optimum_of_its_devices(
            devices in prop::collection::vec(any_function(), 1..=4),
        ) {
            let limits = vec![Limits::default(); devices.len()];
            let reach: u64 = devices.iter().map(TimeFunction::max_units).sum();
            let problem = SizeProblem::new(&devices, &limits, 1, reach).unwrap();
            let times = compute_node_times(&problem).unwrap().into_iter();
            let computed: BTreeMap<u64, f64> =
                times.map(|load| (load.size * problem.unit, load.time_s)).collect();
            let mut best = divide_exhaustively(&devices);
            best.remove(&0);
            prop_assert_eq!(computed, best);
        }
    }

    #[test]
    fn parts_beyond_memory_are_counted_and_refused() {
        let dense = TimeFunction::new(1, vec![(1, 1.0), (2, 1.5)]).expect("valid");
        let two = [dense.clone(), dense];
        for n_nodes in [1 << 32, usize::MAX] {
            let refused = hipopta(&two, &[], n_nodes, 60);
            assert!(
                matches!(
                    refused,
                    Err(PartitionError::TooManyCopies { copies: n, .. }) if n == n_nodes
                ),
                "{refused:?}"
            );
        }
        let huge = TimeFunction::new(1, vec![(u64::MAX - 1, 1.0), (u64::MAX, 1.0)]).expect("valid");
        let refused = hipopta(&[huge], &[], 2, u64::MAX);
        let Err(error @ PartitionError::TooLarge { .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().ends_with("measure at multiples of one size"));
    }
}
