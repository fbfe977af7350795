//! Load imbalancing: an unbalanced division may be faster than the balanced one.
//!
//! The smallest case is 31 units and four devices with times that do not always rise with the size. The
//! balanced division needs 13 s, an uneven one 3 s. The other cases have four devices
//! with rugged speed functions, as measured for matrix multiplication and FFT. Their speed drops at
//! multiples of some power of two, and varies in between.
//!
//! Reference: Khaleghzadeh, Reddy and Lastovetsky, "A Novel Data-Partitioning Algorithm for Performance
//! Optimization of Data-Parallel Applications on Heterogeneous HPC Platforms", supplement, section 3.

use std::error::Error;

use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel, TimeFunction};
use isochron_hierarchy::partition::{Partition, gpa, hpopta};

/// A division that balances and the optimum.
pub struct Comparison {
    /// The division that balances.
    pub balanced: Partition,
    /// The one of least time.
    pub optimum: Partition,
}

impl Comparison {
    /// Returns the time of the balanced division relative to the optimum.
    pub fn speedup(&self) -> f64 {
        self.balanced.max_time_s() / self.optimum.max_time_s()
    }
}

/// Compares divisions of 31 units between four devices. With `[2, 11, 9, 9]` all finish after 13 s.
pub fn compare_smallest() -> Result<Comparison, Box<dyn Error>> {
    let times: [&[u32]; 4] = [
        &[11, 13, 13, 14, 14, 13, 12, 9, 3, 14, 15, 16],
        &[4, 6, 7, 9, 10, 12, 12, 9, 3, 11, 13, 16],
        &[4, 6, 8, 9, 9, 7, 1, 10, 13, 14, 15, 16],
        &[4, 5, 7, 8, 8, 2, 9, 11, 13, 14, 15, 16],
    ];
    let functions: Vec<TimeFunction> = (times.iter())
        .map(|times| {
            let times_s = times.iter().map(|&time_s| f64::from(time_s));
            TimeFunction::new(1, (1..).zip(times_s).collect())
        })
        .collect::<Result<_, _>>()?;
    Ok(Comparison {
        balanced: add_times(&functions, vec![2, 11, 9, 9]),
        optimum: hpopta(&functions, &[], 31)?,
    })
}

/// Compares divisions of `total` units between four devices with drops of speed. The geometric algorithm
/// balances them by the same points.
pub fn compare_rugged(total: u64) -> Result<Comparison, Box<dyn Error>> {
    let functions: Vec<TimeFunction> = [(100.0, 8), (40.0, 16), (25.0, 32), (60.0, 12)]
        .into_iter()
        .map(|(speed, period)| TimeFunction::new(1, rugged_times(speed, period)))
        .collect::<Result<_, _>>()?;
    let models: Vec<PiecewiseFpm> =
        (functions.iter().map(fit_piecewise)).collect::<Result<_, _>>()?;
    let seen: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
    Ok(Comparison {
        balanced: add_times(&functions, gpa(&seen, total)?.units),
        optimum: hpopta(&functions, &[], total)?,
    })
}

/// Returns the times of a speed that saturates, drops to less than half at multiples of `period`, and
/// varies.
fn rugged_times(speed: f64, period: u64) -> Vec<(u64, f64)> {
    (1..=200)
        .map(|d: u64| {
            let drop = if d.is_multiple_of(period) { 0.45 } else { 1.0 };
            let variation = 1.0 - 0.2 * ((d * d % 17) as f64 / 17.0);
            let saturation = d as f64 / (d as f64 + 10.0);
            (d, d as f64 / (speed * saturation * drop * variation))
        })
        .collect()
}

fn fit_piecewise(function: &TimeFunction) -> Result<PiecewiseFpm, Box<dyn Error>> {
    let points = (function.points().iter()).map(|&(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
    Ok(PiecewiseFpm::from_points(points.collect())?)
}

/// Returns the division with its times by the functions.
fn add_times(functions: &[TimeFunction], units: Vec<u64>) -> Partition {
    let times = functions.iter().zip(&units);
    Partition {
        times_s: times
            .map(|(function, &units)| function.time_s(units).unwrap_or(f64::INFINITY))
            .collect(),
        units,
    }
}
