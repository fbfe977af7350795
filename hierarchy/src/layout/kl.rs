//! Columns of nodes as they come, by constant speeds.

use super::areas::check_areas;
use super::arrangement::br_in;
use super::{Layout, LayoutError};
use crate::partition::even;

/// Arranges rectangles in proportion to the nodes' constant `speeds` in a given grid: `columns`, from
/// left to right, each with its nodes from top to bottom.
///
/// The matrix is cut into columns in proportion to the total speed of their nodes, and each column into
/// rectangles in proportion to the speeds. [`br_in()`] describes the rounding. The columns may hold
/// unlike numbers of nodes. The caller chooses the columns, and so the volume of communication,
/// which [`br()`](super::br()) minimises.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite speed; [`LayoutError::NoSuchNode`],
/// [`LayoutError::Repeated`], and [`LayoutError::NotArranged`] for a node of positive speed, if the columns do not hold
/// every node once; [`LayoutError::NoArea`] if there are blocks and no speed is positive; [`LayoutError::NoNodes`] and
/// [`LayoutError::TooLarge`].
///
/// # Example
/// The example of the report: nine nodes on 6 × 6 blocks.
/// ```
/// use isochron_hierarchy::layout::kl;
///
/// let speeds = [0.11, 0.17, 0.05, 0.25, 0.09, 0.17, 0.05, 0.08, 0.03];
/// let layout = kl(&speeds, &[vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]], 6, 6)?;
/// assert_eq!(layout.areas(), [4, 6, 2, 9, 3, 6, 2, 3, 1]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Kalinov and Lastovetsky, "Heterogeneous distribution of computations solving linear algebra problems
/// on networks of heterogeneous computers", Journal of Parallel and Distributed Computing 61(4), 2001;
/// Clarke's thesis, section 5.1.1.
pub fn kl(
    speeds: &[f64],
    columns: &[Vec<usize>],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    br_in(columns, speeds, rows, cols)
}

/// Chooses a grid for [`kl()`]: the nodes of positive speed, in node order, in columns of as equal
/// numbers of nodes as possible.
///
/// `p` nodes stand in `√(p · cols / rows)` columns, rounded and at least one, so that rectangles of
/// average area are nearly square.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite speed.
pub fn kl_columns(speeds: &[f64], rows: u64, cols: u64) -> Result<Vec<Vec<usize>>, LayoutError> {
    check_areas(speeds)?;
    let mut nodes = (0..speeds.len()).filter(|&node| speeds[node] > 0.0);
    let p = nodes.clone().count();
    if p == 0 {
        return Ok(Vec::new());
    }
    // Without rows the ratio is infinite or, without columns too, not a number; both are clamped.
    let n_columns =
        (p as f64 * cols as f64 / rows as f64).sqrt().round().max(1.0).min(p as f64) as usize;
    Ok(even(n_columns, p as u64)
        .iter()
        .map(|&count| nodes.by_ref().take(count as usize).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column_lengths(p: usize, rows: u64, cols: u64) -> Vec<usize> {
        kl_columns(&vec![1.0; p], rows, cols).expect("speeds").iter().map(Vec::len).collect()
    }

    #[test]
    fn grids_suit_the_matrix() {
        assert_eq!(column_lengths(9, 6, 6), [3, 3, 3]);
        assert_eq!(column_lengths(7, 6, 6), [3, 2, 2]);
        assert_eq!(column_lengths(8, 10, 20), [2, 2, 2, 2]);
        assert_eq!(column_lengths(3, 1, 100), [1, 1, 1]);
        assert_eq!(column_lengths(3, 100, 1), [3]);
        assert_eq!(column_lengths(2, 0, 5), [1, 1]);
        assert_eq!(column_lengths(2, 0, 0), [2]);
    }

    #[test]
    fn idle_nodes_have_no_place() {
        let speeds = [0.0, 1.0, 0.0, 3.0];
        let columns = kl_columns(&speeds, 4, 4).expect("speeds");
        assert_eq!(columns, [[1, 3]]);
        assert_eq!(kl(&speeds, &columns, 4, 4).expect("valid").areas(), [0, 4, 0, 12]);
        assert_eq!(kl_columns(&[0.0], 4, 4), Ok(vec![]));
        assert!(matches!(
            kl_columns(&[1.0, f64::NAN], 4, 4),
            Err(LayoutError::InvalidArea { index: 1, .. })
        ));
    }
}
