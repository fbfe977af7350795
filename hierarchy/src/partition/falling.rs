//! Models whose time falls with the size, which the algorithms of equal times are not made for.

use crate::model::SpeedModel;

/// Number of sizes at which a model is evaluated.
const SIZES: u32 = 1000;

/// Returns the indices of the models whose time falls somewhere up to `total` units.
///
/// [`gpa`](super::gpa()) needs times that increase, and [`npa`](super::npa()) may find one of several roots:
/// for such models their division may be far from the optimum, which [`hpopta`](super::hpopta()) finds. The
/// models are evaluated at multiples of a thousandth of `total`.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Cpm, Knot, Polyline};
/// use isochron_hierarchy::partition::list_falling;
///
/// // From 20 to 30 units the time falls from 4 to 2 seconds.
/// let knots = [(10.0, 10.0), (20.0, 5.0), (30.0, 15.0)].map(|(d, speed)| Knot { d, speed });
/// let rugged = Polyline::from_knots(knots.to_vec())?;
/// assert_eq!(list_falling(&[&Cpm { speed: 1.0 }, &rugged], 40), [1]);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
pub fn list_falling(models: &[&dyn SpeedModel], total: u64) -> Vec<usize> {
    models
        .iter()
        .enumerate()
        .filter(|(_, model)| falls(**model, total))
        .map(|(index, _)| index)
        .collect()
}

fn falls(model: &dyn SpeedModel, total: u64) -> bool {
    let mut longest_s = 0.0;
    (1..=SIZES).any(|part| {
        let time_s = model.time_s(total as f64 * f64::from(part) / f64::from(SIZES));
        // Rounding errors are no fall.
        let falls = time_s < longest_s * (1.0 - 1e-9);
        longest_s = time_s.max(longest_s);
        falls
    })
}
