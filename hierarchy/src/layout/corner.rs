//! Rectangles and L-shaped zones by recursive cuts and corners.

use super::cuts::zones;
use super::{LayoutError, Zones};

/// Arranges one zone per node, of areas in proportion to `areas`, as [`recursive()`](super::recursive())
/// does, except that a node that dominates its part may keep all of it but a square in the corner.
///
/// Where the first group is a single node, of area `a` in a part of `h × w`, and the others need
/// `s² = h · w - a`, two ways are compared:
/// * straight: a rectangle of its own, and the others in the strip that is left;
/// * corner: the others in a square of `s × s`, `s < min(h, w)`, and the node in the L around it, which
///   touches every row and every column of the part and so costs `h + w`.
///
/// The others are laid out likewise in either case, an L within an L included, and the cheaper way is
/// taken. For two nodes the corner wins exactly if one is more than three times the other. The two ways
/// branch, but a square does not depend on what came before it: remembered by run and shape, a
/// sequence of `l` dominating nodes needs O(l²) comparisons, and the time is that of
/// [`recursive()`](super::recursive()) unless several dominate.
///
/// The choice is made for exact areas and then placed in whole blocks: cuts are rounded as in
/// [`recursive()`](super::recursive()), a square's sides up or down so that the larger of the two
/// excesses, of the node and of the others, is least.
///
/// **How near the bound.** Over 40 000 random cases of 2 to 24 areas, of ratios up to 1000, the sum of
/// half-perimeters is 1.018 times the bound `2 · Σ √area` in the mean and 1.100 times at worst; in columns
/// ([`br()`](super::br())) it is 1.035 and 1.454 times, by straight cuts alone 1.030 and 1.454 times. The
/// example `layout_bounds` prints these figures.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there
/// are blocks and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::corner;
///
/// let zones = corner(&[21.0, 4.0], 10, 10)?;
/// assert_eq!(zones.areas(), [84, 16]);
/// assert_eq!(zones.cost(), 10 + 10 + 4 + 4); // Cut straight: 10 + 10 + 10.
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Becker and Lastovetsky, "Matrix multiplication on two interconnected processors", HeteroPar 2006;
/// Beaumont, Eyraud-Dubois and Lambert, "A new approximation algorithm for matrix partitioning in
/// presence of strongly heterogeneous processors", IPDPS 2016, whose case analysis is not reproduced.
pub fn corner(areas: &[f64], rows: u64, cols: u64) -> Result<Zones, LayoutError> {
    Zones::new(rows, cols, zones(areas, rows, cols, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn the_corner_wins_beyond_three_to_one() {
        let is_cut = |ratio: f64| {
            let zones = corner(&[ratio, 1.0], 100_000, 100_000).expect("areas");
            Layout::try_from(zones).is_ok()
        };
        assert!(is_cut(1.0) && is_cut(2.99));
        assert!(!is_cut(3.01) && !is_cut(1000.0));
    }

    #[test]
    fn zones_nest() {
        let zones = corner(&[1.0, 144.0, 12.0], 1000, 1000).expect("areas");
        let rects: Vec<usize> = zones.zones().iter().map(Vec::len).collect();
        assert_eq!(rects, [1, 2, 2]);
    }

    #[test]
    fn whole_blocks_of_a_corner_balance() {
        // The corner wants 2.19 blocks of 25.
        let zones = corner(&[10.4, 1.0], 5, 5).expect("areas");
        assert_eq!(zones.areas(), [23, 2]);
        let thin = corner(&[100.0, 1.0], 1, 30).expect("areas");
        assert_eq!(thin.areas(), [30, 0]);
    }

    #[test]
    fn areas_far_apart_end_the_recursion() {
        let areas: Vec<f64> = (0..2000).map(|i| 2.0_f64.powi(900 - i)).collect();
        let zones = corner(&areas, 1 << 30, 1 << 30).expect("areas");
        assert!(zones.areas()[0] > 1 << 58);
        assert_eq!(zones.areas()[1999], 0);
    }
}
