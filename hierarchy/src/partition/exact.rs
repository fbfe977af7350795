//! The exact optimum of the largest time, then of the number of active devices.

use super::choices::{Choices, MAX_BYTES, Problem, gcd};
use super::stages::{Stages, Taken};
use super::sums::{Bits, Counts, Sparse, Sums, Window};
use super::{Partition, PartitionError};

/// Windows wider than this may hold few sums far apart, which are then listed if that is possible.
const WIDE: u64 = 1 << 22;

/// Divides `target` among the devices so that the largest time is minimal and, among equals, so is the
/// number of active devices. None if no sum of their sizes makes the target.
///
/// # Errors
/// [`PartitionError::TooLarge`].
pub(super) fn divide(devices: &[&Choices], target: u64) -> Result<Option<Taken>, PartitionError> {
    let identical = devices
        .windows(2)
        .all(|pair| std::ptr::eq(pair[0], pair[1]));
    let times = candidates(if identical {
        &devices[..devices.len().min(1)]
    } else {
        devices
    });
    let best = match least_time(devices, &times, target)? {
        None => return Ok(None),
        Some(at) => times[at],
    };
    let stages = Stages::new(devices, best, target);
    match hit(&stages)? {
        None => Ok(None),
        Some(Hit::Sparse(n)) => stages.trace::<Sparse>(n).map(Some),
        // Where all are identical, whoever takes part may as well come first.
        Some(Hit::First(n)) if identical => stages.first(n).trace::<Bits>(n).map(Some),
        Some(Hit::First(n)) => fewest(&stages, stages.first(n).trace::<Bits>(n)?).map(Some),
    }
}

/// The whole [`Partition`] of `n` devices, or the error of a target that no sizes make.
///
/// # Errors
/// [`PartitionError::NotASum`] if there is no solution.
pub(super) fn partition(
    problem: &Problem,
    devices: &[&Choices],
    total: u64,
) -> Result<Partition, PartitionError> {
    let mut partition = Partition {
        units: vec![0; devices.len()],
        times_s: vec![0.0; devices.len()],
    };
    if total == 0 {
        return Ok(partition);
    }
    let taken = match problem.exact {
        true => divide(devices, problem.target)?,
        false => None,
    };
    let Some(taken) = taken else {
        return Err(not_a_sum(problem, devices, total)?);
    };
    for (index, choice) in taken {
        partition.units[index] = choice.size * problem.unit;
        partition.times_s[index] = choice.time_s;
    }
    Ok(partition)
}

/// The error that names the nearest possible amount below `total`.
///
/// # Errors
/// [`PartitionError::TooLarge`].
pub(super) fn not_a_sum(
    problem: &Problem,
    devices: &[&Choices],
    total: u64,
) -> Result<PartitionError, PartitionError> {
    let target = problem.target;
    let rounded_down = match problem.exact {
        true => None,
        false => hit(&Stages::new(devices, f64::INFINITY, target))?,
    };
    let below = match rounded_down {
        Some(_) => target,
        None => largest_sum(devices, target)?,
    };
    let below = problem.unit * below;
    Ok(PartitionError::NotASum { total, below })
}

/// The times that the optimum may have, ascending.
fn candidates(devices: &[&Choices]) -> Vec<f64> {
    let choices = devices.iter().flat_map(|device| device.all());
    let mut times: Vec<f64> = choices.map(|choice| choice.time_s).collect();
    times.sort_unstable_by(f64::total_cmp);
    times.dedup();
    times
}

/// Index of the least time within which the target can be made.
///
/// The size thresholds must sum up to the target, and the common divisor of the sizes must divide it.
/// Both are cheap to find out and most often enough; the search goes on from there in steps that double,
/// and then halves.
fn least_time(
    devices: &[&Choices],
    times: &[f64],
    target: u64,
) -> Result<Option<usize>, PartitionError> {
    let excluded = |&time_s: &f64| {
        let most = devices
            .iter()
            .map(|device| u128::from(device.most_within(time_s)));
        let divisor = devices.iter().map(|device| device.divisor_within(time_s));
        most.sum::<u128>() < u128::from(target) || !target.is_multiple_of(divisor.fold(0, gcd))
    };
    let possible =
        |at: usize| hit(&Stages::new(devices, times[at], target)).map(|hit| hit.is_some());
    let first = times.partition_point(excluded);
    if first == times.len() {
        return Ok(None);
    }
    if possible(first)? {
        return Ok(Some(first));
    }
    let (mut impossible, mut step, last) = (first, 1, times.len() - 1);
    let mut found = loop {
        if impossible == last {
            return Ok(None);
        }
        let next = last.min(impossible + step);
        if possible(next)? {
            break next;
        }
        (impossible, step) = (next, 2 * step);
    };
    while found - impossible > 1 {
        let middle = impossible.midpoint(found);
        if possible(middle)? {
            found = middle;
        } else {
            impossible = middle;
        }
    }
    Ok(Some(found))
}

/// How the target was met.
enum Hit {
    /// By so many of the first devices, and by no fewer of the first.
    First(usize),
    /// By so many devices, the fewest of all.
    Sparse(usize),
}

/// Whether the target can be made: by as few of the first devices as their thresholds allow, else by
/// more and more of them. The fewer there are, the narrower the windows.
fn hit(stages: &Stages) -> Result<Option<Hit>, PartitionError> {
    let Some(mut n) = stages.at_least() else {
        return Ok(None);
    };
    let mut step = 1;
    loop {
        let first = stages.first(n);
        if first.width() > WIDE {
            match stages.fewest::<Sparse>() {
                Ok(fewest) => return Ok(fewest.map(|n| Hit::Sparse(n as usize))),
                Err(too_large) if !first.fits::<Bits>() => return Err(too_large),
                Err(_) => {}
            }
        }
        if let Some(n) = first.first_hit::<Bits>()? {
            return Ok(Some(Hit::First(n)));
        }
        if n == stages.len() {
            return Ok(None);
        }
        (n, step) = (stages.len().min(n + step), 2 * step);
    }
}

/// The fewest active devices that make the target; `known` is one way to make it.
///
/// Fewer than the thresholds ask for cannot do it, and seldom are more needed: the bound on the number
/// is raised from there in steps that double.
fn fewest(stages: &Stages, known: Taken) -> Result<Taken, PartitionError> {
    let least = stages.at_least().unwrap_or(0);
    let (mut bound, mut step) = (least, 1);
    while bound < known.len() {
        let bounded = stages.with_active(bound);
        let dense = bounded.fits::<Counts>();
        let found = match dense {
            true => bounded.fewest::<Counts>()?,
            false => bounded.fewest::<Sparse>()?,
        };
        if let Some(n) = found {
            return match dense {
                true => bounded.trace::<Counts>(n as usize),
                false => bounded.trace::<Sparse>(n as usize),
            };
        }
        if bound == known.len() - 1 {
            break;
        }
        (bound, step) = ((known.len() - 1).min(bound + step), 2 * step);
    }
    Ok(known)
}

/// The largest sum of possible sizes that does not exceed `target`, in O(p·m·target/64).
fn largest_sum(devices: &[&Choices], target: u64) -> Result<u64, PartitionError> {
    let everything = Window { lo: 0, hi: target };
    if target > WIDE {
        let add = |sums: Sparse, device: &&Choices| sums.with(device.all(), everything);
        match devices.iter().try_fold(Sparse::empty(), add) {
            Ok(sums) => return Ok(sums.largest()),
            Err(too_large) if u128::from(target) > 4 * MAX_BYTES => return Err(too_large),
            Err(_) => {}
        }
    }
    let add = |sums: Bits, device: &&Choices| sums.with(device.all(), everything);
    let sums = devices.iter().try_fold(Bits::empty(), add)?;
    let made = |&sum: &u64| sums.fewest(sum).is_some();
    Ok((0..=target).rev().find(made).unwrap_or(0))
}
