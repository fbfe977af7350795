//! The noise in times that were measured together.

/// Returns the expected range of `n` normally distributed numbers of deviation 1: 2.1 for 4, 3.5 for 16, 4.9
/// for 90. It is 0 for fewer than two.
///
/// # References
/// Blom, *Statistical Estimates and Transformed Beta-Variables*, 1958; Abramowitz and Stegun, 26.2.23.
pub(crate) fn expected_range(n: usize) -> f64 {
    if n < 2 {
        return 0.0;
    }
    let n = n as f64;
    let beyond = 0.625 / (n + 0.25);
    let t = (-2.0 * beyond.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    2.0 * (t - above / below)
}

/// Returns the relative standard error of times: the root mean square of those known, and as much again for
/// the drift between measurements, at least `drift`. It is 0 if none is known.
pub(crate) fn pool_errors(times_s: &[f64], errors_s: &[f64], drift: f64) -> f64 {
    let known: Vec<f64> = times_s
        .iter()
        .zip(errors_s)
        .filter(|(t_s, error_s)| **t_s > 0.0 && **error_s > 0.0)
        .map(|(t_s, error_s)| (error_s / t_s).powi(2))
        .collect();
    if known.is_empty() {
        return 0.0;
    }
    let within = (known.iter().sum::<f64>() / known.len() as f64).sqrt();
    within.hypot(within.max(drift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_noise_grows_with_the_number_of_times() {
        for (n, range) in [(0, 0.0), (1, 0.0), (2, 1.13), (4, 2.06), (16, 3.53), (90, 4.97)] {
            let found = expected_range(n);
            assert!((found - range).abs() < 0.06, "{n}: {found}");
        }
    }

    #[test]
    fn unknown_errors_are_left_out() {
        assert_eq!(pool_errors(&[1.0, 2.0], &[0.0, 0.0], 0.01), 0.0);
        let found = pool_errors(&[1.0, 0.0, 2.0], &[0.003, 0.0, 0.006], 0.01);
        assert!((found - 0.003_f64.hypot(0.01)).abs() < 1e-12, "{found}");
    }
}
