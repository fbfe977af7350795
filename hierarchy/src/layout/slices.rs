//! Slices in one dimension.

use super::{Layout, LayoutError, Rect};

/// Makes vertical slices of the given widths side by side, as high as the matrix: `rows` blocks. The
/// width of the matrix is the sum of all widths.
///
/// A node's devices share its rectangle in this way; the units of [`Idpa`](crate::balance::Idpa) are
/// columns.
///
/// # Errors
/// Returns [`LayoutError::NoNodes`] without slices, [`LayoutError::TooLarge`] for more than 63 bits of blocks.
///
/// # References
/// Clarke et al. 2012, section 3 (IDPA).
pub fn slice_cols(rows: u64, widths: &[u64]) -> Result<Layout, LayoutError> {
    let mut cols: u64 = 0;
    let mut rects = Vec::with_capacity(widths.len());
    for &width in widths {
        rects.push(Rect::new(0, cols, rows, width));
        cols = cols.checked_add(width).ok_or(LayoutError::TooLarge { rows, cols: u64::MAX })?;
    }
    Layout::new(rows, cols, rects)
}

/// Makes horizontal slices of the given heights from top to bottom, as wide as the matrix: `cols`
/// blocks. The height of the matrix is the sum of all heights.
///
/// # Errors
/// Returns [`LayoutError::NoNodes`] without slices; [`LayoutError::TooLarge`] for more than 63 bits of blocks.
pub fn slice_rows(cols: u64, heights: &[u64]) -> Result<Layout, LayoutError> {
    let mut found = slice_cols(cols, heights);
    if let Err(LayoutError::NoNodes { rows, cols } | LayoutError::TooLarge { rows, cols }) =
        &mut found
    {
        std::mem::swap(rows, cols);
    }
    found.map(|layout| layout.transposed())
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
        assert_eq!(slice_cols(3, &[]), Err(LayoutError::NoNodes { rows: 3, cols: 0 }));
        assert_eq!(slice_rows(3, &[]), Err(LayoutError::NoNodes { rows: 0, cols: 3 }));
        assert!(matches!(
            slice_cols(1, &[u64::MAX, 1]),
            Err(LayoutError::TooLarge { rows: 1, .. })
        ));
        assert!(matches!(slice_rows(2, &[1 << 62]), Err(LayoutError::TooLarge { cols: 2, .. })));
    }

    #[test]
    fn columns_add_up_to_the_width() {
        let layout = slice_cols(10, &[3, 0, 4]).expect("valid");
        assert_eq!((layout.rows(), layout.cols()), (10, 7));
        assert_eq!(layout.rects()[2], Rect::new(0, 3, 10, 4));
    }
}
