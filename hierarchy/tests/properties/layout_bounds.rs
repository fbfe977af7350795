//! The distance of layouts from the lower bound of communication.
//!
//! There are 40 000 random cases of 2 to 24 areas with ratios up to 1000: uniform, uniform in the
//! logarithm, or with one that dominates. The measure is the mean and the worst ratio of the sum of
//! half-perimeters to `2 · Σ √area`, that of squares.
//!
//! References: Beaumont et al., "Matrix multiplication on heterogeneous platforms", 2001, for the bound and
//! the columns; Nagamochi and Abe, "An approximation algorithm for dissecting a rectangle into rectangles
//! with specified areas", 2007, for the cuts.

use isochron_hierarchy::layout::{LayoutError, Method, arrange, lower_bound};
use isochron_support::simulated::SplitMix;

/// Ratios to the lower bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ratios {
    /// Their mean.
    pub mean: f64,
    /// The largest.
    pub worst: f64,
}

/// The methods compared.
pub const METHODS: [Method; 2] = [Method::Br, Method::Recursive];

/// Returns the ratios of each method over `cases` random cases.
pub fn measure_ratios(cases: u32) -> Result<[Ratios; 2], LayoutError> {
    // With this number of blocks rounding does not matter.
    let side = 1 << 24;
    let mut random = SplitMix::new(1);
    let mut all = [Ratios::default(); 2];
    for _ in 0..cases {
        let areas = draw_areas(&mut random);
        let bound = lower_bound(&areas, side, side);
        for (ratios, method) in all.iter_mut().zip(METHODS) {
            let ratio = arrange(method, &areas, side, side)?.half_perimeter_sum() as f64 / bound;
            ratios.mean += ratio / f64::from(cases);
            ratios.worst = ratios.worst.max(ratio);
        }
    }
    Ok(all)
}

/// Returns 2 to 24 areas with ratios up to 1000: uniform, uniform in the logarithm, or with one that
/// dominates.
fn draw_areas(random: &mut SplitMix) -> Vec<f64> {
    let p = random.uniform(2.0, 25.0) as usize;
    let ratio = random.log_uniform(1.0, 1000.0);
    let kind = random.uniform(0.0, 3.0) as u32;
    let mut areas: Vec<f64> = (0..p)
        .map(|_| match kind {
            0 => random.uniform(1.0, ratio),
            1 => random.log_uniform(1.0, ratio),
            _ => random.uniform(1.0, 2.0),
        })
        .collect();
    if kind == 2 {
        areas[0] = ratio;
    }
    areas
}
