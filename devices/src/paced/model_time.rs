//! Times of updates after a recorded model.

use isochron_hierarchy::model::{PiecewiseFpm, SpeedModel};

/// Checks that a model can give times for a block size.
///
/// # Errors
/// Returns the reason why not.
pub(crate) fn check_model(model: &PiecewiseFpm, block: u64) -> Result<(), String> {
    if block == 0 {
        return Err("the block size must be at least 1".to_owned());
    }
    if model.is_empty() {
        return Err("the model has no points".to_owned());
    }
    Ok(())
}

/// Returns the seconds of an update of `rows × cols` with inner dimension `k`: `t(d)·k/b` with `d = rows·cols/b²`.
///
/// The model knows updates with `k = b`; the work is proportional to `k`.
pub(crate) fn model_time_s(
    model: &PiecewiseFpm,
    block: u64,
    rows: usize,
    cols: usize,
    k: usize,
) -> f64 {
    if rows == 0 || cols == 0 || k == 0 {
        return 0.0;
    }
    let b = block as f64;
    let d = (rows as f64 / b) * (cols as f64 / b);
    model.raw().time_s(d) * (k as f64 / b)
}
