//! Made-up devices and areas, the same in every run.

use isochron_hierarchy::model::{ModelError, Point, TimeFunction};
use isochron_support::simulated::SplitMix;

/// Points of each speed function.
const POINTS: i32 = 20;

/// Makes [`POINTS`] points for each of `n` devices: speeds rise, level out and fall off at the edge of a memory.
///
/// Peak speeds and memories differ by factors of up to 50 and 100.
fn make_points(n: usize) -> impl Iterator<Item = Vec<Point>> {
    let mut random = SplitMix::new(1);
    (0..n).map(move |_| {
        let (peak, memory) = (random.log_uniform(10.0, 500.0), random.log_uniform(1e3, 1e5));
        (0..POINTS).map(|i| make_point(i, peak, memory)).collect()
    })
}

fn make_point(i: i32, peak: f64, memory: f64) -> Point {
    let d = (memory / 1000.0 * 1.7_f64.powi(i)).round() + f64::from(i) + 1.0;
    let paging = 1.0 + (d / memory).powi(4);
    let speed = peak * d / (d + memory / 100.0) / paging;
    Point { d: d as u64, t_s: d / speed, reps: 3, ci_s: 0.0 }
}

/// Makes `n` devices with models of the form that `fit` gives to points.
///
/// # Errors
/// Returns the errors of `fit`; none of ours for these points.
pub fn make_models<M>(
    n: usize,
    fit: fn(Vec<Point>) -> Result<M, ModelError>,
) -> Result<Vec<M>, ModelError> {
    make_points(n).map(fit).collect()
}

/// Makes the areas of `n` nodes, which differ by a factor of up to 100.
pub fn make_areas(n: usize) -> Vec<f64> {
    let mut random = SplitMix::new(2);
    (0..n).map(|_| random.log_uniform(1.0, 100.0)).collect()
}

/// Makes `n` devices of `kinds` different kinds, each with a time for every size up to `sizes` units.
///
/// As in matrix products and Fourier transforms, speeds saturate, drop to less than half at multiples of some number,
/// and vary by a third in between. The time rises and falls hundreds of times. Peak speeds differ by a factor of up to
/// 10.
///
/// # Errors
/// Never fails for these times.
pub fn make_rugged(n: usize, kinds: usize, sizes: u64) -> Result<Vec<TimeFunction>, ModelError> {
    let mut random = SplitMix::new(3);
    let different: Vec<TimeFunction> = (0..kinds.min(n))
        .map(|_| TimeFunction::new(1, make_rugged_times(&mut random, sizes)))
        .collect::<Result<_, _>>()?;
    Ok(different.into_iter().cycle().take(n).collect())
}

fn make_rugged_times(random: &mut SplitMix, sizes: u64) -> Vec<(u64, f64)> {
    let peak = random.log_uniform(1.0, 10.0);
    let period = random.uniform(8.0, 64.0) as u64;
    let mut times = Vec::new();
    for d in 1..=sizes {
        let drop = if d.is_multiple_of(period) { 0.45 } else { 1.0 };
        let saturation = d as f64 / (d as f64 + 10.0);
        let speed = peak * saturation * drop * random.uniform(0.67, 1.0);
        times.push((d, d as f64 / speed));
    }
    times
}
