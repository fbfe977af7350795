//! The check that rectangles tile a matrix.

use std::collections::BTreeMap;

use super::{LayoutError, Rect};

/// Checks that `rects` cover `rows × cols` blocks exactly once, in O(p log p).
///
/// Rectangles within bounds that do not overlap and whose areas sum to the matrix's leave no gap.
pub(super) fn check_tiling(rows: u64, cols: u64, rects: &[Rect]) -> Result<(), LayoutError> {
    if rects.is_empty() {
        return Err(LayoutError::NoNodes { rows, cols });
    }
    let total = count_blocks(rows, cols)?;
    for (index, &rect) in rects.iter().enumerate() {
        if !(lies_within(rect.row, rect.rows, rows) && lies_within(rect.col, rect.cols, cols)) {
            return Err(LayoutError::OutOfBounds { index, rect, rows, cols });
        }
    }
    if let Some((first, second)) = find_overlap(rects) {
        return Err(LayoutError::Overlap { first, second });
    }
    let covered = rects.iter().map(Rect::area).sum();
    if covered != total {
        return Err(LayoutError::Gap { covered, total });
    }
    Ok(())
}

/// Counts the blocks of a matrix, in 63 bits, so that sums of two coordinates and of areas cannot
/// overflow either.
///
/// # Errors
/// Returns [`LayoutError::TooLarge`].
pub(crate) fn count_blocks(rows: u64, cols: u64) -> Result<u64, LayoutError> {
    (rows.checked_mul(cols))
        .filter(|&total| total <= i64::MAX as u64)
        .ok_or(LayoutError::TooLarge { rows, cols })
}

/// Returns `true` if the interval of `len` from `start` on ends by `bound`.
fn lies_within(start: u64, len: u64, bound: u64) -> bool {
    start <= bound && len <= bound - start
}

/// Finds two rectangles that share blocks, by a sweep over the columns.
///
/// The rectangles under the sweep line are disjoint row intervals, so each new one is compared with one
/// neighbour only.
fn find_overlap(rects: &[Rect]) -> Option<(usize, usize)> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * rects.len());
    let busy = rects.iter().enumerate().filter(|(_, rect)| !rect.is_empty());
    for (index, rect) in busy {
        events.push((rect.col, true, index));
        events.push((rect.col + rect.cols, false, index));
    }
    // At the same column, ends (false) come before starts (true).
    events.sort_unstable();
    let mut under: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, starts, index) in events {
        let rect = rects[index];
        if !starts {
            under.remove(&rect.row);
            continue;
        }
        if let Some((_, &other)) = under.range(..rect.row + rect.rows).next_back()
            && rects[other].row + rects[other].rows > rect.row
        {
            return Some((other, index));
        }
        under.insert(rect.row, index);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinwheel_tiles() {
        let mut rects = [
            Rect::new(0, 0, 1, 2),
            Rect::new(0, 2, 2, 1),
            Rect::new(2, 1, 1, 2),
            Rect::new(1, 0, 2, 1),
        ]
        .to_vec();
        assert_eq!(check_tiling(3, 3, &rects), Err(LayoutError::Gap { covered: 8, total: 9 }));
        rects.push(Rect::new(1, 1, 1, 1));
        assert_eq!(check_tiling(3, 3, &rects), Ok(()));
    }

    #[test]
    fn overlaps_are_found_even_if_the_areas_sum_up() {
        let rects = [Rect::new(0, 0, 2, 2), Rect::new(1, 1, 1, 2), Rect::new(0, 2, 1, 0)];
        assert_eq!(check_tiling(2, 3, &rects), Err(LayoutError::Overlap { first: 0, second: 1 }));
        let inside = [Rect::new(0, 0, 3, 3), Rect::new(1, 1, 1, 1)];
        assert_eq!(check_tiling(3, 3, &inside), Err(LayoutError::Overlap { first: 0, second: 1 }));
    }

    #[test]
    fn impossible_rectangles_are_refused() {
        assert_eq!(check_tiling(2, 2, &[]), Err(LayoutError::NoNodes { rows: 2, cols: 2 }));
        let far = Rect::new(1, u64::MAX, 1, u64::MAX);
        assert!(matches!(
            check_tiling(2, 2, &[far]),
            Err(LayoutError::OutOfBounds { index: 0, .. })
        ));
        let (rows, cols) = (1 << 40, 1 << 40);
        assert_eq!(
            check_tiling(rows, cols, &[Rect::new(0, 0, rows, cols)]),
            Err(LayoutError::TooLarge { rows, cols })
        );
        assert_eq!(check_tiling(0, 5, &[Rect::new(0, 0, 0, 0)]), Ok(()));
    }
}
