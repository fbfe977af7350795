//! The exact optimum of the largest time, then of the number of active devices. Sums that memory cannot
//! hold are [`PartitionError::TooLarge`].

use super::choices::{Choices, MAX_BYTES, SizeProblem, gcd};
use super::stages::{Stages, Taken};
use super::sums::{Bits, Counts, Sparse, SumRange, Sums};
use super::{Partition, PartitionError};

/// Ranges wider than this may hold few sums far apart, which are then listed if that is possible.
const WIDE: u64 = 1 << 22;

/// Divides `target` among the devices so that the largest time is minimal and, among equals, so is the
/// number of active devices. Returns `None` if their sizes cannot sum to the target.
pub(super) fn divide_target(
    devices: &[&Choices],
    target: u64,
) -> Result<Option<Taken>, PartitionError> {
    let identical = devices.windows(2).all(|pair| std::ptr::eq(pair[0], pair[1]));
    let times = list_times(if identical { &devices[..devices.len().min(1)] } else { devices });
    let best = match find_least_time(devices, &times, target)? {
        None => return Ok(None),
        Some(at) => times[at],
    };
    let stages = Stages::new(devices, best, target);
    match reach_target(&stages)? {
        None => Ok(None),
        Some(Reached::Sparse(n)) => stages.trace_choices::<Sparse>(n).map(Some),
        // Any of identical devices may take part, so the first ones do.
        Some(Reached::First(n)) if identical => {
            stages.keep_first(n).trace_choices::<Bits>(n).map(Some)
        }
        Some(Reached::First(n)) => {
            let known = stages.keep_first(n).trace_choices::<Bits>(n)?;
            minimise_active(&stages, known).map(Some)
        }
    }
}

/// Returns the [`Partition`] of `total` units among `devices`.
///
/// # Errors
/// Returns [`PartitionError::NotASum`] if no sizes sum to the total; [`PartitionError::TooLarge`].
pub(super) fn solve_problem(
    problem: &SizeProblem,
    devices: &[&Choices],
    total: u64,
) -> Result<Partition, PartitionError> {
    if total == 0 {
        return Ok(Partition::idle(devices.len()));
    }
    let taken = if problem.exact { divide_target(devices, problem.target)? } else { None };
    match taken {
        Some(taken) => Ok(collect_choices(problem, devices.len(), taken)),
        None => Err(not_a_sum(problem, devices, total)?),
    }
}

/// Returns the partition of `n` devices in which those of `taken` take their choices.
pub(super) fn collect_choices(problem: &SizeProblem, n: usize, taken: Taken) -> Partition {
    let mut partition = Partition::idle(n);
    for (index, choice) in taken {
        partition.units[index] = choice.size * problem.unit;
        partition.times_s[index] = choice.time_s;
    }
    partition
}

/// Returns the error that names the nearest possible amount below `total`.
pub(super) fn not_a_sum(
    problem: &SizeProblem,
    devices: &[&Choices],
    total: u64,
) -> Result<PartitionError, PartitionError> {
    let target = problem.target;
    let rounded_down = if problem.exact {
        None
    } else {
        reach_target(&Stages::new(devices, f64::INFINITY, target))?
    };
    let below = match rounded_down {
        Some(_) => target,
        None => find_largest_sum(devices, target)?,
    };
    Ok(PartitionError::NotASum { total, below: problem.unit * below })
}

/// Returns the times that the optimum may have, ascending.
fn list_times(devices: &[&Choices]) -> Vec<f64> {
    let mut times: Vec<f64> =
        devices.iter().flat_map(|device| device.all()).map(|choice| choice.time_s).collect();
    times.sort_unstable_by(f64::total_cmp);
    times.dedup();
    times
}

/// Returns the index of the least time within which the target can be reached.
///
/// The size thresholds must sum to at least the target, and the common divisor of the sizes must divide
/// it. Both are cheap to test and usually sufficient. From the first time that passes, the search goes
/// on in steps that double, and then halves.
fn find_least_time(
    devices: &[&Choices],
    times: &[f64],
    target: u64,
) -> Result<Option<usize>, PartitionError> {
    let first = times.partition_point(|&time_s| is_excluded(devices, time_s, target));
    if first == times.len() {
        return Ok(None);
    }
    if is_possible(devices, times[first], target)? {
        return Ok(Some(first));
    }
    let (mut impossible, mut step, last) = (first, 1, times.len() - 1);
    let mut found = loop {
        if impossible == last {
            return Ok(None);
        }
        let next = last.min(impossible + step);
        if is_possible(devices, times[next], target)? {
            break next;
        }
        (impossible, step) = (next, 2 * step);
    };
    while found - impossible > 1 {
        let middle = impossible.midpoint(found);
        if is_possible(devices, times[middle], target)? {
            found = middle;
        } else {
            impossible = middle;
        }
    }
    Ok(Some(found))
}

/// Returns `true` if thresholds or divisors show that the target cannot be reached within `time_s`.
fn is_excluded(devices: &[&Choices], time_s: f64, target: u64) -> bool {
    let largest = (devices.iter()).map(|device| u128::from(device.largest_within(time_s)));
    let divisors = devices.iter().map(|device| device.divisor_within(time_s));
    largest.sum::<u128>() < u128::from(target) || !target.is_multiple_of(divisors.fold(0, gcd))
}

/// Returns `true` if the target can be reached within `time_s`.
fn is_possible(devices: &[&Choices], time_s: f64, target: u64) -> Result<bool, PartitionError> {
    reach_target(&Stages::new(devices, time_s, target)).map(|reached| reached.is_some())
}

/// The number of devices by which the target was reached.
enum Reached {
    /// This number of first devices. Fewer of the first do not reach it.
    First(usize),
    /// This number of any devices, the fewest possible.
    Sparse(usize),
}

/// Tries to reach the target by as few of the first devices as their thresholds allow, then by more and
/// more of them. The fewer there are, the narrower the ranges.
fn reach_target(stages: &Stages) -> Result<Option<Reached>, PartitionError> {
    let Some(mut n) = stages.fewest_by_threshold() else {
        return Ok(None);
    };
    let mut step = 1;
    loop {
        let first = stages.keep_first(n);
        if first.widest_range() > WIDE {
            match stages.count_fewest::<Sparse>() {
                Ok(fewest) => return Ok(fewest.map(|n| Reached::Sparse(n as usize))),
                Err(too_large) if !first.fits_memory::<Bits>() => return Err(too_large),
                Err(_) => {}
            }
        }
        if let Some(n) = first.count_needed::<Bits>()? {
            return Ok(Some(Reached::First(n)));
        }
        if n == stages.len() {
            return Ok(None);
        }
        (n, step) = (stages.len().min(n + step), 2 * step);
    }
}

/// Returns choices of the fewest active devices that reach the target; `known` is one way to reach it.
///
/// Fewer devices than the thresholds require are not enough, and more are seldom needed. The bound on
/// the number is raised from there in steps that double.
fn minimise_active(stages: &Stages, known: Taken) -> Result<Taken, PartitionError> {
    let least = stages.fewest_by_threshold().unwrap_or(0);
    let (mut bound, mut step) = (least, 1);
    while bound < known.len() {
        let bounded = stages.limit_active(bound);
        let dense = bounded.fits_memory::<Counts>();
        let found = if dense {
            bounded.count_fewest::<Counts>()?
        } else {
            bounded.count_fewest::<Sparse>()?
        };
        if let Some(n) = found {
            return if dense {
                bounded.trace_choices::<Counts>(n as usize)
            } else {
                bounded.trace_choices::<Sparse>(n as usize)
            };
        }
        if bound == known.len() - 1 {
            break;
        }
        (bound, step) = ((known.len() - 1).min(bound + step), 2 * step);
    }
    Ok(known)
}

/// Returns the largest sum of possible sizes that does not exceed `target`, in `O(p·m·target/64)`.
fn find_largest_sum(devices: &[&Choices], target: u64) -> Result<u64, PartitionError> {
    let everything = SumRange { lo: 0, hi: target };
    if target > WIDE {
        match add_devices::<Sparse>(devices, everything) {
            Ok(sums) => return Ok(sums.largest()),
            Err(too_large) if u128::from(target) > 4 * MAX_BYTES => return Err(too_large),
            Err(_) => {}
        }
    }
    let sums = add_devices::<Bits>(devices, everything)?;
    Ok((0..=target).rev().find(|&sum| sums.fewest(sum).is_some()).unwrap_or(0))
}

/// Returns the sums of all devices within `range`.
fn add_devices<S: Sums>(devices: &[&Choices], range: SumRange) -> Result<S, PartitionError> {
    (devices.iter()).try_fold(S::empty(), |sums, device| sums.add_device(device.all(), range))
}
