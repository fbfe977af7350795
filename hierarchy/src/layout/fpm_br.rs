//! The 1.5D matrix partitioning algorithm.
//!
//! # Deviations
//!
//! * **FPM-BR**: the thesis ends with the rectangles of the CMA (5.1.4). Here single rows and columns of
//!   blocks then leave the slowest node, because rounding ignores the cost of a block.

use super::{Layout, LayoutError, Method, by_models};
use crate::model::SpeedModel;
use crate::partition::Partitioner;

/// Divides a matrix of `rows × cols` blocks by the nodes' speed functions of the *area* (FPM-BR, 1.5D).
///
/// All nodes finish at the same time, and the arrangement minimises the sum of half-perimeters.
///
/// Height and width are one problem size, `d = rows_i · cols_i` blocks, so that a one-dimensional
/// model, measured on squares, describes a node. [`br()`](super::br()) makes nearly squares, so the
/// models hold for its rectangles. This is [`by_models()`] of [`Method::Br`] and [`Partitioner::Gpa`].
///
/// # Errors
/// Returns [`LayoutError::Partition`] for a model that is empty or whose time does not grow, [`LayoutError::NoNodes`],
/// [`LayoutError::TooLarge`].
///
/// # References
/// Clarke's thesis, section 5.1.4.
pub fn fpm_br(models: &[&dyn SpeedModel], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    by_models(Method::Br, None, Partitioner::Gpa, models, rows, cols)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm, Point};
    use crate::partition::PartitionError;

    #[test]
    fn a_node_gets_what_fits_into_its_memory() {
        let mut paging = PiecewiseFpm::new();
        // 100 blocks/s up to 400 blocks, then 40 times slower for each further block.
        for (d, t_s) in [(100, 1.0), (400, 4.0), (420, 12.0), (600, 84.0)] {
            paging.add(Point { d, t_s, reps: 3, ci_s: 0.0 }).expect("valid");
        }
        let steady = Cpm { speed: 100.0 };
        let areas = fpm_br(&[&paging, &steady], 40, 40).expect("valid").areas();
        assert!((400..=430).contains(&areas[0]), "{areas:?}");
    }

    #[test]
    fn impossible_requests_are_refused() {
        let (good, empty) = (Cpm { speed: 1.0 }, PiecewiseFpm::new());
        assert_eq!(fpm_br(&[], 2, 3), Err(LayoutError::NoNodes { rows: 2, cols: 3 }));
        assert!(matches!(
            fpm_br(&[&good, &empty], 2, 3),
            Err(LayoutError::Partition(PartitionError::InvalidModel { index: 1, .. }))
        ));
        let huge = 1 << 33;
        assert!(matches!(fpm_br(&[&good], huge, huge), Err(LayoutError::TooLarge { .. })));
        assert_eq!(fpm_br(&[&good], 0, 3).expect("no blocks").areas(), [0]);
    }

    #[test]
    fn constant_speeds_get_their_areas() {
        let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
        let models: [&dyn SpeedModel; 3] = [&slow, &fast, &fast];
        let layout = fpm_br(&models, 16, 14).expect("valid");
        assert_eq!(layout.areas(), [32, 96, 96]);
    }
}
