//! Layouts by speed functions of the area.

use super::repair::{repair_within, time_or_never};
use super::{
    Arrangement, FpmKlConfig, Layout, LayoutError, Method, arrange, arrange_in, count_blocks,
};
use crate::model::SpeedModel;
use crate::partition::{PartitionError, Partitioner};

/// Divides a matrix of `rows × cols` blocks by the nodes' speed functions of the *area*, and arranges
/// the areas by `method`, in the given `columns` if there are any.
///
/// `partitioner` finds areas of equal times, [`arrange()`] or [`arrange_in()`] their places. Rounding to
/// whole blocks treats every cut alike, whatever the cost of a block. So single rows and columns of blocks
/// then move away from the slowest node, as by [`repair()`](super::repair()), in at most `4 p` steps for
/// `p` nodes. That is done for methods that keep columns over the whole height ([`Method::Kl`],
/// [`Method::Br`]). [`Method::FpmKl`] divides heights and widths by [`fpm_kl()`](super::fpm_kl()) from there.
///
/// # Errors
/// Returns [`LayoutError::Partition`] for a model that is empty or whose time does not grow, [`LayoutError::NoNodes`],
/// [`LayoutError::TooLarge`]; with columns also the errors of [`arrange_in()`].
pub fn by_models(
    method: Method,
    columns: Option<&[Vec<usize>]>,
    partitioner: Partitioner,
    models: &[&dyn SpeedModel],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    let areas = find_areas(partitioner, models, rows, cols)?;
    let layout = match columns {
        Some(columns) => arrange_in(method, columns, &areas, rows, cols)?,
        None => arrange(method, &areas, rows, cols)?,
    };
    if let Some(found) =
        Arrangement::from(method).divide_sides(&layout, models, &FpmKlConfig::default())?
    {
        return Ok(found.layout);
    }
    match method {
        Method::Kl | Method::Br => repair_within(
            &layout,
            &|node, rows, cols| time_or_never(models[node].time_s((rows * cols) as f64)),
            4 * models.len(),
        ),
        // A grid would lose its rows; rectangles by cuts do not lie in columns.
        _ => Ok(layout),
    }
}

/// Finds areas of equal times.
fn find_areas(
    partitioner: Partitioner,
    models: &[&dyn SpeedModel],
    rows: u64,
    cols: u64,
) -> Result<Vec<f64>, LayoutError> {
    Ok(partitioner
        .divide(models, count_blocks(rows, cols)?)
        .map_err(|error| match error {
            PartitionError::NoDevices { .. } => LayoutError::NoNodes { rows, cols },
            error => LayoutError::Partition(error),
        })?
        .units
        .iter()
        .map(|&d| d as f64)
        .collect())
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use proptest::prelude::*;

    use super::*;
    use crate::model::{Cpm, Knot, Polyline};

    fn slowest_s(layout: &Layout, models: &[&dyn SpeedModel]) -> f64 {
        let areas = layout.areas();
        models.iter().zip(&areas).map(|(model, &d)| model.time_s(d as f64)).fold(0.0, f64::max)
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
            let areas = find_areas(Partitioner::Gpa, &models, rows, cols).expect("valid");
            for &method in Method::VARIANTS {
                let arranged = arrange(method, &areas, rows, cols).expect("valid");
                let found = by_models(method, None, Partitioner::Gpa, &models, rows, cols).expect("valid");
                prop_assert!(slowest_s(&found, &models) <= slowest_s(&arranged, &models), "{}", method);
            }
        }
    }

    #[test]
    fn rounding_does_not_push_a_node_over_its_cliff() {
        // Fifty times slower beyond 30 blocks.
        let knots = [(30.0, 100.0), (31.0, 2.0)].map(|(d, speed)| Knot { d, speed });
        let cliff = Polyline::from_knots(knots.to_vec()).expect("valid");
        let steady = Cpm { speed: 100.0 };
        let models: [&dyn SpeedModel; 2] = [&cliff, &steady];
        // Rows of 7 blocks: 30 areas are 4.3 of them, and 5 do not fit.
        let columns = [vec![0, 1]];
        let kept =
            by_models(Method::Kl, Some(&columns), Partitioner::Gpa, &models, 9, 7).expect("valid");
        assert_eq!(kept.areas(), [28, 35]);
    }

    fn refusal(columns: &[Vec<usize>]) -> LayoutError {
        let good = Cpm { speed: 1.0 };
        by_models(Method::Kl, Some(columns), Partitioner::Gpa, &[&good, &good], 4, 4)
            .expect_err("refused")
    }

    #[test]
    fn grids_that_lack_a_node_are_refused() {
        assert_eq!(refusal(&[vec![1]]), LayoutError::NotArranged { index: 0 });
        let twice = refusal(&[vec![1, 0], vec![1]]);
        assert_eq!(twice, LayoutError::Repeated { index: 1 });
    }

    #[test]
    fn any_method_and_partitioner_go_together() {
        let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
        let models: [&dyn SpeedModel; 2] = [&slow, &fast];
        let layout = by_models(Method::Recursive, None, Partitioner::Npa, &models, 16, 16);
        assert_eq!(layout.expect("valid").areas(), [64, 192]);
    }
}
