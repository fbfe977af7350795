//! Load imbalancing: a division that does not balance may be faster than the one that does.
//!
//! The first table is the smallest case: four devices whose times are no rising functions of their sizes,
//! and 31 units. Divided so that all finish together, they need 13 s; unevenly, 3 s. The second has four
//! devices with rugged speed functions of the kind that is measured for matrix multiplication and FFT:
//! speed drops at multiples of some power of two, and varies in between.
//!
//! Reference: Khaleghzadeh, Reddy and Lastovetsky, "A Novel Data-Partitioning Algorithm for Performance
//! Optimization of Data-Parallel Applications on Heterogeneous HPC Platforms", supplement, section 3.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

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
    /// How many times as long the balanced division takes.
    pub fn speedup(&self) -> f64 {
        self.balanced.max_time_s() / self.optimum.max_time_s()
    }
}

/// Four devices, 31 units: all finish after 13 s with `[2, 11, 9, 9]`.
pub fn four_devices() -> Result<Comparison, Box<dyn Error>> {
    let times: [&[u32]; 4] = [
        &[11, 13, 13, 14, 14, 13, 12, 9, 3, 14, 15, 16],
        &[4, 6, 7, 9, 10, 12, 12, 9, 3, 11, 13, 16],
        &[4, 6, 8, 9, 9, 7, 1, 10, 13, 14, 15, 16],
        &[4, 5, 7, 8, 8, 2, 9, 11, 13, 14, 15, 16],
    ];
    let function = |times: &&[u32]| {
        let times = times.iter().map(|&time_s| f64::from(time_s));
        TimeFunction::new(1, (1..).zip(times).collect())
    };
    let functions: Vec<TimeFunction> = times.iter().map(function).collect::<Result<_, _>>()?;
    Ok(Comparison {
        balanced: with_times(&functions, vec![2, 11, 9, 9]),
        optimum: hpopta(&functions, &[], 31)?,
    })
}

/// `total` units on four devices with drops of speed: balanced by the geometric algorithm on the same
/// points, and at best.
pub fn rugged_devices(total: u64) -> Result<Comparison, Box<dyn Error>> {
    let functions: Vec<TimeFunction> = [(100.0, 8), (40.0, 16), (25.0, 32), (60.0, 12)]
        .into_iter()
        .map(|(speed, period)| TimeFunction::new(1, rugged(speed, period)))
        .collect::<Result<_, _>>()?;
    let models: Vec<PiecewiseFpm> = functions.iter().map(smoothed).collect::<Result<_, _>>()?;
    let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
    Ok(Comparison {
        balanced: with_times(&functions, gpa(&models, total)?.units),
        optimum: hpopta(&functions, &[], total)?,
    })
}

/// A speed that saturates, drops to less than half around multiples of `period`, and wavers.
fn rugged(speed: f64, period: u64) -> Vec<(u64, f64)> {
    let point = |d: u64| {
        let drop = if d.is_multiple_of(period) { 0.45 } else { 1.0 };
        let waver = 1.0 - 0.2 * ((d * d % 17) as f64 / 17.0);
        let saturation = d as f64 / (d as f64 + 10.0);
        (d, d as f64 / (speed * saturation * drop * waver))
    };
    (1..=200).map(point).collect()
}

fn smoothed(function: &TimeFunction) -> Result<PiecewiseFpm, Box<dyn Error>> {
    let point = |&(d, t_s): &(u64, f64)| Point {
        d,
        t_s,
        reps: 1,
        ci_s: 0.0,
    };
    Ok(PiecewiseFpm::from_points(
        function.points().iter().map(point).collect(),
    )?)
}

/// What the division really takes by the functions.
fn with_times(functions: &[TimeFunction], units: Vec<u64>) -> Partition {
    let times = functions.iter().zip(&units);
    Partition {
        times_s: times
            .map(|(function, &units)| function.time_s(units).unwrap_or(f64::INFINITY))
            .collect(),
        units,
    }
}

fn print(title: &str, comparison: &Comparison) {
    let Comparison { balanced, optimum } = comparison;
    println!("{title}\n  device   balanced           optimum");
    for i in 0..optimum.units.len() {
        println!(
            "  {i:>6} {:>6} {:>7.3} s  {:>6} {:>7.3} s",
            balanced.units[i], balanced.times_s[i], optimum.units[i], optimum.times_s[i]
        );
    }
    println!(
        "  {:>6} {:>16.3} s  {:>14.3} s  {:.2} times as fast\n",
        "last",
        balanced.max_time_s(),
        optimum.max_time_s(),
        comparison.speedup()
    );
}

#[allow(
    dead_code,
    reason = "the test that includes this file calls the functions above"
)]
fn main() -> Result<(), Box<dyn Error>> {
    print("31 units", &four_devices()?);
    for total in [192, 320, 480] {
        print(
            &format!("{total} units, drops of speed"),
            &rugged_devices(total)?,
        );
    }
    Ok(())
}
