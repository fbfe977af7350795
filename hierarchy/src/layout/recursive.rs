//! Rectangles by recursive cuts.

use super::cuts::zones;
use super::{Layout, LayoutError, Zones};

/// Arranges one rectangle per node, of areas in proportion to `areas`, by cutting the matrix of
/// `rows × cols` blocks in two again and again.
///
/// The areas are sorted descending. The first group are the largest ones, as few as make up a third of
/// the sum; the others are the second group. A straight line across the longer side gives each group
/// its part, and both go on likewise. The rule keeps rectangles from becoming thin: no part is below a
/// third unless its group is the one node that dominates.
///
/// Added to the rule of Nagamochi and Abe: a part whose sum of half-perimeters is smaller in columns, or
/// in rows, as by [`br()`](super::br()), becomes columns or rows instead. So before rounding the sum is
/// never above that of [`br()`](super::br()), as it often is by the rule alone.
///
/// All this is decided for exact areas and then placed in whole blocks. Each cut, of a part into two or
/// into columns or of a column into nodes, divides a side `s` into `q` parts by
/// [`apportion()`](crate::partition::apportion()): a part of which the exact length is `x` gets more
/// than `x - 1` and less than `x · (1 + q / s)`, and what that is too little or too much is shared by
/// all nodes behind the cut.
///
/// O(p log² p) time, unless areas fall off so fast that one node after another dominates.
///
/// A node of area 0, or of less than rounding leaves, gets an empty rectangle.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there
/// are blocks and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{br, recursive};
///
/// // In columns the two small ones share theirs with a large one, or are narrow.
/// let areas = [8.0, 6.0, 1.0, 1.0];
/// assert_eq!(br(&areas, 120, 120)?.half_perimeter_sum(), 480);
/// assert_eq!(recursive(&areas, 120, 120)?.half_perimeter_sum(), 450);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Nagamochi and Abe, "An approximation algorithm for dissecting a rectangle into rectangles with
/// specified areas", Discrete Applied Mathematics 155(4), 2007.
pub fn recursive(areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    Zones::new(rows, cols, zones(areas, rows, cols, false)?)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Rect;

    #[test]
    fn a_matrix_is_cut_across_its_longer_side() {
        let layout = recursive(&[1.0, 2.0, 1.0], 4, 10).expect("areas");
        let rect = |row, col, rows, cols| Rect {
            row,
            col,
            rows,
            cols,
        };
        assert_eq!(
            layout.rects(),
            [rect(0, 5, 4, 3), rect(0, 0, 4, 5), rect(0, 8, 4, 2)]
        );
    }

    #[test]
    fn areas_far_apart_end_the_recursion() {
        let areas: Vec<f64> = (0..2000).map(|i| 2.0_f64.powi(900 - i)).collect();
        let layout = recursive(&areas, 1 << 30, 1 << 30).expect("areas");
        assert!(layout.areas()[0] > 1 << 58);
        assert_eq!(layout.areas()[1999], 0);
    }
}
