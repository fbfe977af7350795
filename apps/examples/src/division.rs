//! The division of the rows.
//!
//! # Deviations
//! * **Time of a size in HPOPTA**: the paper takes the sample mean, at as many sizes as its figures show (supplement,
//!   sections 1 and 5). Here it is the upper end of the confidence interval, at about 16 sizes, because the smallest of
//!   many noisy means is too small, and measuring may not outweigh the run.

use std::fs;

use isochron::comm::{agree, share_outcome};
use isochron::devices::kernel::{Kernel, OwnRun};
use isochron::devices::measure::{limit_run_s, measure_kernel, repeat_alone};
use isochron::hierarchy::model::{Estimate, Fit, ModelFile, Point, TimeFunction};
use isochron::hierarchy::partition::{PartitionError, even, hpopta};
use isochron::hierarchy::{SplitOptions, split};
use isochron::prelude::*;

use crate::{RowArguments, RowStrategy};

/// The repetitions of a size. Few are enough for an example.
const EFFORT: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.05,
    min_reps: 3,
    max_reps: 10,
    max_seconds: 1.0,
};

/// Most sizes that are measured.
const SIZES: u64 = 16;

/// The rows of the ranks.
pub struct RowDivision {
    /// Rows of each rank.
    pub rows: Vec<u64>,
    /// Seconds of each rank's kernel for its rows, by its points; `None` if its times are not known.
    pub times_s: Option<Vec<f64>>,
}

/// Divides rows by the times of `kernel`, which are read or measured.
///
/// # Errors
/// On every rank, returns the errors of the files and of the kernel, and [`Error::Parameter`] if the points do not admit a
/// division.
///
/// # Collective
/// All ranks.
pub fn divide_rows(
    comm: &dyn Comm,
    arguments: &RowArguments,
    kernel: impl Kernel + 'static,
) -> Result<RowDivision, Error> {
    let is_measured = arguments.models.is_empty() && arguments.strategy != RowStrategy::Even;
    let points = if is_measured {
        comm.gather(&measure(comm, arguments.size, kernel)?)?
    } else {
        let read = (comm.rank() == 0).then(|| read_points(arguments, comm.size()));
        share_outcome(comm, 0, read)?
    };
    let rows = divide(arguments, &points, comm.size())
        .map_err(|error| Error::parameter("--size", arguments.size, error.to_string()))?;
    let predict = |(points, &rows): (&Vec<Point>, &u64)| match rows {
        0 => Ok(0.0),
        _ => Ok(Fit::RawPiecewise.model(points)?.time_s(rows as f64)),
    };
    let times_s: Vec<f64> = points.iter().zip(&rows).map(predict).collect::<Result<_, Error>>()?;
    Ok(RowDivision { rows, times_s: (!points.is_empty()).then_some(times_s) })
}

/// Measures this rank's kernel at multiples of a sixteenth of the rows. All ranks measure a size at the same time, since they
/// will compute so.
fn measure(
    comm: &dyn Comm,
    total: u64,
    kernel: impl Kernel + 'static,
) -> Result<Vec<Point>, Error> {
    let run = OwnRun::new("rows", Box::new(kernel), limit_run_s(&EFFORT)).map_err(Error::from);
    let mut run = agree(comm, run)?;
    let granule = total.div_ceil(SIZES);
    let rest = total % granule;
    let mut points = Vec::new();
    // Sizes with the rest complete others to the total.
    let mut sizes: Vec<u64> =
        (0..=total / granule).flat_map(|n| [n * granule, n * granule + rest]).collect();
    sizes.dedup();
    for d in sizes.into_iter().filter(|&d| 0 < d && d <= total) {
        comm.barrier()?;
        let found = measure_kernel(&mut run, d, &EFFORT, &mut repeat_alone).map_err(Error::from);
        let found = agree(comm, found)?;
        let (t_s, reps) = (found.sample.seconds, found.sample.reps);
        points.push(Point { d, t_s, reps, ci_s: found.ci_s });
    }
    Ok(points)
}

/// Reads the points of each rank, if there are files.
fn read_points(arguments: &RowArguments, ranks: usize) -> Result<Vec<Vec<Point>>, Error> {
    let files = arguments.models.len();
    if files > 0 && files != ranks {
        return Err(Error::parameter("--models", files, format!("give {ranks} files, one a rank")));
    }
    let read = arguments.models.iter().map(|path| {
        let text = fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        let mut points = ModelFile::parse(&text).map_err(|error| Error::file(path, error))?.points;
        points.retain(|point| point.reps > 0);
        Ok(points)
    });
    read.collect()
}

fn divide(
    arguments: &RowArguments,
    points: &[Vec<Point>],
    ranks: usize,
) -> Result<Vec<u64>, PartitionError> {
    let total = arguments.size;
    match arguments.strategy {
        RowStrategy::Even => Ok(even(ranks, total)),
        RowStrategy::Balanced => {
            let times = points.iter().map(|points| points.iter().map(|point| (point.d, point.t_s)));
            let times: Vec<Vec<(u64, f64)>> = times.map(Iterator::collect).collect();
            let times: Vec<&[(u64, f64)]> = times.iter().map(Vec::as_slice).collect();
            Ok(split(total, &times, &SplitOptions::default())?.units)
        }
        RowStrategy::Hpopta => {
            let mut times = Vec::new();
            for (index, points) in points.iter().enumerate() {
                let function = TimeFunction::from_points(1, points, Estimate::Upper);
                times.push(function.map_err(|reason| PartitionError::Points { index, reason })?);
            }
            Ok(hpopta(&times, &[], total)?.units)
        }
    }
}
