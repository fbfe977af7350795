//! Matrices in ordinary host memory.

use anyhow::Context as _;
use isochron_devices::Scalar;
use isochron_devices::internal::try_zeroed_matrix;
use num_complex::Complex64;

/// Makes a matrix without gaps, with all cores. Its numbers in [1/2, 1) have no pattern: a processor's power, and so
/// its clock, depends on the numbers.
///
/// # Errors
/// Fails if there is too little memory.
pub fn make_matrix<T: Scalar>(rows: usize, cols: usize) -> anyhow::Result<Vec<T>> {
    let mut values: Vec<T> = try_zeroed_matrix(rows * cols)
        .with_context(|| format!("no memory for a {rows}×{cols} matrix"))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = values.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (index, part_values) in values.chunks_mut(part).enumerate() {
            scope.spawn(move || {
                for (at, value) in part_values.iter_mut().enumerate() {
                    *value = scrambled_number(index * part + at);
                }
            });
        }
    });
    Ok(values)
}

/// Returns the number at a place, which the finalizer of SplitMix64 scrambles.
fn scrambled_number<T: Scalar>(at: usize) -> T {
    let mut bits = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    T::of(Complex64::from(0.5 + (bits >> 11) as f64 / 2.0_f64.powi(54)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_everywhere_and_unlike() {
        let values = make_matrix::<f64>(37, 53).unwrap_or_default();
        assert_eq!(values.len(), 37 * 53);
        assert!(values.iter().all(|value| (0.5..1.0).contains(value)));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.75).abs() < 0.02, "{mean}");
    }
}
