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
    let mut numbers = Numbers(1);
    let mut all = [Ratios::default(); 2];
    for _ in 0..cases {
        let areas = numbers.next_areas();
        let bound = lower_bound(&areas, side, side);
        for (ratios, method) in all.iter_mut().zip(METHODS) {
            let ratio = arrange(method, &areas, side, side)?.half_perimeter_sum() as f64 / bound;
            ratios.mean += ratio / f64::from(cases);
            ratios.worst = ratios.worst.max(ratio);
        }
    }
    Ok(all)
}

/// A sequence of numbers that look random (splitmix64).
struct Numbers(u64);

impl Numbers {
    /// Returns a number in `[0, 1)`.
    fn next_number(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns 2 to 24 areas with ratios up to 1000: uniform, uniform in the logarithm, or with one that
    /// dominates.
    fn next_areas(&mut self) -> Vec<f64> {
        let p = 2 + (self.next_number() * 23.0) as usize;
        let ratio = 1000_f64.powf(self.next_number());
        let kind = (self.next_number() * 3.0) as u32;
        let mut areas: Vec<f64> = (0..p)
            .map(|_| match kind {
                0 => 1.0 + (ratio - 1.0) * self.next_number(),
                1 => ratio.powf(self.next_number()),
                _ => 1.0 + self.next_number(),
            })
            .collect();
        if kind == 2 {
            areas[0] = ratio;
        }
        areas
    }
}
