//! Layouts by speed functions of the area.

use super::kl::kl;
use super::repair::{repair_within, time_or_never};
use super::{Layout, LayoutError, Method, Zones, arrange};
use crate::model::SpeedModel;
use crate::partition::{PartitionError, Partitioner};

/// Divides a matrix of `rows × cols` blocks by the nodes' speed functions of the *area*, and arranges
/// the areas by `method`.
///
/// `partitioner` finds areas of equal times, [`arrange()`] their places. Rounding to whole blocks
/// treats every cut alike, whatever a block costs: where the method keeps columns over the whole height
/// ([`Method::Kl`], [`Method::Br`] and slices), single rows and columns of blocks then move away from the
/// slowest node, as by [`repair()`](super::repair()), at most four for each node.
///
/// # Errors
/// [`LayoutError::Partition`] for a model that is empty or whose time does not grow,
/// [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Method, by_models};
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
/// use isochron_hierarchy::partition::Partitioner;
///
/// let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
/// let models: [&dyn SpeedModel; 2] = [&slow, &fast];
/// let zones = by_models(Method::Corner, Partitioner::Npa, &models, 16, 16)?;
/// assert_eq!(zones.areas(), [64, 192]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn by_models(
    method: Method,
    partitioner: Partitioner,
    models: &[&dyn SpeedModel],
    rows: u64,
    cols: u64,
) -> Result<Zones, LayoutError> {
    let zones = arrange(method, &areas(partitioner, models, rows, cols)?, rows, cols)?;
    match method {
        Method::Kl | Method::Br | Method::RowSlices | Method::ColumnSlices => {
            repaired(&zones.try_into()?, models).map(Zones::from)
        }
        // A grid would lose its rows; the others do not lie in columns.
        Method::Cartesian | Method::Recursive | Method::Corner => Ok(zones),
    }
}

/// As [`by_models()`] for [`kl()`] in a given grid: `columns`, from left to right, each with its nodes
/// from top to bottom.
///
/// # Errors
/// Those of [`by_models()`]; [`LayoutError::NoSuchNode`], [`LayoutError::Repeated`], and
/// [`LayoutError::NotArranged`] for a node with work, if the columns do not hold every node once.
pub fn by_models_in(
    columns: &[Vec<usize>],
    partitioner: Partitioner,
    models: &[&dyn SpeedModel],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    let areas = areas(partitioner, models, rows, cols)?;
    repaired(&kl(&areas, columns, rows, cols)?, models)
}

/// Areas of equal times.
fn areas(
    partitioner: Partitioner,
    models: &[&dyn SpeedModel],
    rows: u64,
    cols: u64,
) -> Result<Vec<f64>, LayoutError> {
    let total = rows
        .checked_mul(cols)
        .filter(|&total| total <= i64::MAX as u64);
    let total = total.ok_or(LayoutError::TooLarge { rows, cols })?;
    let partition = partitioner
        .divide(models, total)
        .map_err(|error| match error {
            PartitionError::NoDevices { .. } => LayoutError::NoNodes { rows, cols },
            error => LayoutError::Partition(error),
        })?;
    Ok(partition.units.iter().map(|&d| d as f64).collect())
}

fn repaired(layout: &Layout, models: &[&dyn SpeedModel]) -> Result<Layout, LayoutError> {
    let time_s = |node: usize, rows: u64, cols: u64| {
        time_or_never(models[node].time_s((rows * cols) as f64))
    };
    repair_within(layout, &time_s, 4 * models.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Cpm, Knot, Polyline};

    fn slowest(zones: &Zones, models: &[&dyn SpeedModel]) -> f64 {
        let areas = zones.areas();
        let times = models.iter().zip(&areas);
        times
            .map(|(model, &d)| model.time_s(d as f64))
            .fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn no_layout_is_slower_than_its_areas_arranged(
            speeds in prop::collection::vec(0.5..20.0_f64, 1..9),
            rows in 1..30_u64,
            cols in 1..30_u64,
        ) {
            let cpms: Vec<Cpm> = speeds.iter().map(|&speed| Cpm { speed }).collect();
            let models: Vec<&dyn SpeedModel> = cpms.iter().map(|cpm| cpm as _).collect();
            let areas = areas(Partitioner::Gpa, &models, rows, cols).expect("valid");
            for method in Method::ALL {
                let arranged = arrange(method, &areas, rows, cols).expect("valid");
                let found = by_models(method, Partitioner::Gpa, &models, rows, cols).expect("valid");
                prop_assert!(slowest(&found, &models) <= slowest(&arranged, &models), "{}", method);
            }
        }
    }

    #[test]
    fn rounding_does_not_push_a_node_over_its_cliff() {
        // Fifty times slower beyond 30 blocks.
        let knot = |d, speed| Knot { d, speed };
        let cliff = Polyline::from_knots(vec![knot(30.0, 100.0), knot(31.0, 2.0)]).expect("valid");
        let steady = Cpm { speed: 100.0 };
        let models: [&dyn SpeedModel; 2] = [&cliff, &steady];
        // Rows of 7 blocks: 30 areas are 4.3 of them, and 5 do not fit.
        let zones = by_models(Method::RowSlices, Partitioner::Gpa, &models, 9, 7).expect("valid");
        assert_eq!(zones.areas(), [28, 35]);
        let columns = [vec![0, 1]];
        let kept = by_models_in(&columns, Partitioner::Gpa, &models, 9, 7).expect("valid");
        assert_eq!(kept.areas(), [28, 35]);
    }

    #[test]
    fn grids_that_lack_a_node_are_refused() {
        let good = Cpm { speed: 1.0 };
        let models: [&dyn SpeedModel; 2] = [&good, &good];
        let refused = |columns: &[Vec<usize>]| {
            by_models_in(columns, Partitioner::Gpa, &models, 4, 4).expect_err("refused")
        };
        assert_eq!(refused(&[vec![1]]), LayoutError::NotArranged { index: 0 });
        let twice = refused(&[vec![1, 0], vec![1]]);
        assert_eq!(twice, LayoutError::Repeated { index: 1 });
    }
}
