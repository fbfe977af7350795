//! The division of the rows.
//!
//! # Deviations
//! * **Time of a size in HPOPTA**: the paper takes the sample mean, at as many sizes as its figures show (supplement,
//!   sections 1 and 5). Here it is the upper end of the confidence interval, at about 16 sizes, because the smallest of
//!   many noisy means is too small, and measuring may not outweigh the run. `--estimate mean` takes the mean.

use isochron_core::comm::share_outcome;
use isochron_core::prelude::*;
use isochron_hierarchy::model::{Fit, ModelError, TimeFunction};
use isochron_hierarchy::partition::{Limits, PartitionError, even, hpopta};
use isochron_hierarchy::printable::show_path;
use isochron_hierarchy::{SplitOptions, split};

use super::functions::RowFunctions;
use super::options::{RowStrategy, RowsArguments};
use crate::host_share::HostShare;

/// Returns the rows that each rank has memory for, with one left for all else.
///
/// # Errors
/// [`Error::Parameter`] on every rank if all of them together cannot hold the matrix.
///
/// # Collective
/// All ranks.
pub fn count_room(comm: &dyn Comm, size: usize, row_bytes: u64) -> Result<Vec<u64>, Error> {
    let free_bytes = HostShare::find(comm)?.free_bytes;
    let room = comm.gather(&(free_bytes / row_bytes).saturating_sub(1))?;
    let all = room.iter().fold(0_u64, |sum, &rows| sum.saturating_add(rows));
    if all < size as u64 {
        let reason = format!(
            "the ranks have memory for {all} rows of {} MiB each: use more hosts, or a smaller size",
            row_bytes.div_ceil(1 << 20)
        );
        return Err(Error::parameter("--size", size, reason));
    }
    Ok(room)
}

/// Divides the rows; `room` are those that each rank has memory for.
///
/// # Errors
/// [`Error::Parameter`] on every rank if the functions do not admit a division, or a part does not fit its memory.
///
/// # Collective
/// All ranks.
pub fn divide_rows(
    comm: &dyn Comm,
    arguments: &RowsArguments,
    functions: &RowFunctions,
    room: &[u64],
) -> Result<Vec<u64>, Error> {
    let divided = (comm.rank() == 0).then(|| divide_by(arguments, functions, room));
    share_outcome(comm, 0, divided)
}

fn divide_by(
    arguments: &RowsArguments,
    functions: &RowFunctions,
    room: &[u64],
) -> Result<Vec<u64>, Error> {
    let total = arguments.size as u64;
    let limits = room.iter().map(|&rows| Limits { cap: Some(rows), ..Limits::default() });
    let limits: Vec<Limits> = limits.collect();
    let divided = match arguments.strategy {
        RowStrategy::Even => Ok(even(room.len(), total)),
        RowStrategy::Balanced => balance_times(functions, limits, total),
        RowStrategy::Hpopta => minimize_longest(arguments, functions, &limits),
    };
    let rows = divided.map_err(|error| refuse(arguments, &error))?;
    match rows.iter().zip(room).position(|(rows, room)| rows > room) {
        Some(rank) => Err(Error::parameter(
            "--size",
            total,
            format!("rank {rank} would get {} rows and has memory for {}", rows[rank], room[rank]),
        )),
        None => Ok(rows),
    }
}

/// Divides so that smooth models of the times are equal.
fn balance_times(
    functions: &RowFunctions,
    limits: Vec<Limits>,
    total: u64,
) -> Result<Vec<u64>, PartitionError> {
    let times = functions.points.iter();
    let times = times.map(|points| points.iter().map(|point| (point.d, point.t_s)).collect());
    let times: Vec<Vec<(u64, f64)>> = times.collect();
    let times: Vec<&[(u64, f64)]> = times.iter().map(Vec::as_slice).collect();
    let how = SplitOptions { limits, ..SplitOptions::default() };
    Ok(split(total, &times, &how)?.units)
}

/// Divides by the measured sizes alone.
fn minimize_longest(
    arguments: &RowsArguments,
    functions: &RowFunctions,
    limits: &[Limits],
) -> Result<Vec<u64>, PartitionError> {
    let mut times = Vec::new();
    for (index, points) in functions.points.iter().enumerate() {
        let function = TimeFunction::from_points(1, points, arguments.estimate());
        times.push(function.map_err(|reason| PartitionError::Points { index, reason })?);
    }
    Ok(hpopta(&times, limits, arguments.size as u64)?.units)
}

/// Makes the error of a partitioner, with the option that it comes from.
fn refuse(arguments: &RowsArguments, error: &PartitionError) -> Error {
    let files = arguments.models.iter().map(|path| show_path(path));
    let files: Vec<String> = files.collect();
    if files.is_empty() || matches!(error, PartitionError::BeyondLimits { .. }) {
        Error::parameter("--size", arguments.size, error.to_string())
    } else {
        Error::parameter("--models", files.join(" "), error.to_string())
    }
}

/// Returns the seconds that the measured points predict for each rank's rows, in all passes; between points by their speeds.
/// `None` without points.
///
/// # Errors
/// If the points make no model.
pub fn predict_times(
    functions: &RowFunctions,
    rows: &[u64],
    passes: u32,
) -> Result<Option<Vec<f64>>, Error> {
    if functions.points.is_empty() {
        return Ok(None);
    }
    let times =
        functions.points.iter().zip(rows).map(|(points, &rows)| -> Result<f64, ModelError> {
            match rows {
                0 => Ok(0.0),
                _ => Ok(f64::from(passes) * Fit::RawPiecewise.model(points)?.time_s(rows as f64)),
            }
        });
    Ok(Some(times.collect::<Result<_, _>>()?))
}
