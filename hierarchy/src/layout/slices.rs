//! Slices in one dimension.

use super::{Layout, LayoutError, Rect};

/// Vertical slices beside each other, of these widths and as high as the matrix: `rows` blocks. The
/// matrix is as wide as all slices together.
///
/// This is how a node's devices share its rectangle, [`Idpa`](crate::balance::Idpa)'s units being
/// columns.
///
/// # Errors
/// [`LayoutError::NoNodes`] without slices, [`LayoutError::TooLarge`] for more than 63 bits of blocks.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Rect, slice_cols};
///
/// let layout = slice_cols(10, &[3, 0, 4])?;
/// assert_eq!((layout.rows(), layout.cols()), (10, 7));
/// assert_eq!(layout.rects()[2], Rect { row: 0, col: 3, rows: 10, cols: 4 });
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Clarke et al. 2012, section 3 (IDPA).
pub fn slice_cols(rows: u64, widths: &[u64]) -> Result<Layout, LayoutError> {
    let (starts, cols) = starts(widths).ok_or(LayoutError::TooLarge {
        rows,
        cols: u64::MAX,
    })?;
    let slice = |(col, &cols)| Rect {
        row: 0,
        col,
        rows,
        cols,
    };
    Layout::new(
        rows,
        cols,
        starts.into_iter().zip(widths).map(slice).collect(),
    )
}

/// Horizontal slices below each other, of these heights and as wide as the matrix: `cols` blocks. The
/// matrix is as high as all slices together.
///
/// # Errors
/// As [`slice_cols()`].
pub fn slice_rows(cols: u64, heights: &[u64]) -> Result<Layout, LayoutError> {
    let (starts, rows) = starts(heights).ok_or(LayoutError::TooLarge {
        rows: u64::MAX,
        cols,
    })?;
    let slice = |(row, &rows)| Rect {
        row,
        col: 0,
        rows,
        cols,
    };
    Layout::new(
        rows,
        cols,
        starts.into_iter().zip(heights).map(slice).collect(),
    )
}

/// Where each slice starts, and where the last one ends; `None` if that exceeds 64 bits.
fn starts(sizes: &[u64]) -> Option<(Vec<u64>, u64)> {
    let mut end: u64 = 0;
    let mut starts = Vec::with_capacity(sizes.len());
    for &size in sizes {
        starts.push(end);
        end = end.checked_add(size)?;
    }
    Some((starts, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_side_by_side() {
        let layout = slice_rows(2, &[1, 0, 4]).expect("valid");
        assert_eq!((layout.rows(), layout.cols()), (5, 2));
        assert_eq!(layout.areas(), [2, 0, 8]);
        assert_eq!(slice_cols(3, &[0, 0]).expect("no blocks").areas(), [0, 0]);
    }

    #[test]
    fn impossible_slices_are_refused() {
        assert_eq!(
            slice_cols(3, &[]),
            Err(LayoutError::NoNodes { rows: 3, cols: 0 })
        );
        assert!(matches!(
            slice_cols(1, &[u64::MAX, 1]),
            Err(LayoutError::TooLarge { rows: 1, .. })
        ));
        assert!(matches!(
            slice_rows(2, &[1 << 62]),
            Err(LayoutError::TooLarge { .. })
        ));
    }
}
