//! Layouts: where in the matrix each node's rectangle lies.
//!
//! A [`Layout`] is plain data that is known to tile its matrix by one rectangle per node. The
//! [overview](crate#when-to-use-which) compares the algorithms that make one. [`Method`] chooses by name
//! among those that need areas only, and [`by_models()`] applies them to speed functions of the area.

use serde::{Deserialize, Serialize};

mod areas;
pub mod arrangement;
pub mod by_models;
pub mod cartesian;
pub mod columns;
mod error;
pub mod fpm_br;
pub mod fpm_kl;
mod grid;
mod grouped;
pub mod kl;
pub mod method;
mod picture;
pub mod rect;
pub mod recursive;
pub mod repair;
pub mod slices;
mod tiling;
mod way;

pub use arrangement::br_in;
pub use by_models::by_models;
pub use cartesian::{GridRule, cartesian, cartesian_columns, cartesian_in};
pub use columns::{br, br_columns, lower_bound};
pub use error::LayoutError;
pub use fpm_br::fpm_br;
pub use fpm_kl::{FpmKl, FpmKlConfig, SpeedSurface, fpm_kl};
pub use grid::{Arrangement, Grid};
pub use grouped::{arrange_in_groups, rearrange_in_groups};
pub use kl::{kl, kl_columns};
pub use method::{Method, arrange, arrange_in, rearrange};
pub use rect::Rect;
pub use recursive::recursive;
pub use repair::repair;
pub use slices::{slice_cols, slice_rows};
pub use way::Way;

pub(crate) use tiling::count_blocks;

/// A tiling of a matrix of `rows × cols` blocks by one rectangle per node, in node order.
///
/// A node without work has an empty rectangle. Every constructor checks that the rectangles cover every
/// block exactly once, and so does deserialisation.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Layout, Rect};
///
/// let top = Rect { row: 0, col: 0, rows: 2, cols: 9 };
/// let bottom = Rect { row: 2, col: 0, rows: 4, cols: 9 };
/// let layout = Layout::new(6, 9, vec![top, bottom])?;
/// assert_eq!(layout.half_perimeter_sum(), 2 + 9 + 4 + 9);
/// assert!(Layout::new(6, 9, vec![top, top]).is_err());
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(!try_from))]
#[serde(try_from = "UncheckedLayout")]
pub struct Layout {
    /// Rows of the matrix, in blocks.
    rows: u64,
    /// Columns of the matrix, in blocks.
    cols: u64,
    /// A rectangle for each node, in blocks, by rank.
    rects: Vec<Rect>,
}

/// A deserialised layout before its tiling is checked.
#[derive(Deserialize)]
struct UncheckedLayout {
    rows: u64,
    cols: u64,
    rects: Vec<Rect>,
}

impl TryFrom<UncheckedLayout> for Layout {
    type Error = LayoutError;

    fn try_from(raw: UncheckedLayout) -> Result<Self, LayoutError> {
        Self::new(raw.rows, raw.cols, raw.rects)
    }
}

impl Layout {
    /// Makes a layout of `rows × cols` blocks from one rectangle per node.
    ///
    /// # Errors
    /// Returns [`LayoutError::NoNodes`], [`LayoutError::TooLarge`], [`LayoutError::OutOfBounds`],
    /// [`LayoutError::Overlap`] or [`LayoutError::Gap`] unless the rectangles tile the matrix exactly.
    pub fn new(rows: u64, cols: u64, rects: Vec<Rect>) -> Result<Self, LayoutError> {
        tiling::check_tiling(rows, cols, &rects)?;
        Ok(Self { rows, cols, rects })
    }

    /// Returns the height of the matrix in blocks.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the width of the matrix in blocks.
    pub fn cols(&self) -> u64 {
        self.cols
    }

    /// Returns the nodes' rectangles, in node order.
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Returns the nodes' areas in blocks, in node order.
    pub fn areas(&self) -> Vec<u64> {
        self.rects.iter().map(Rect::area).collect()
    }

    /// Returns the sum of half-perimeters, `Σ (rows_i + cols_i)` over the rectangles that are not
    /// empty. The volume of communication of a matrix multiplication is proportional to it.
    ///
    /// # References
    /// Clarke et al. 2012, section 3 (CMA).
    pub fn half_perimeter_sum(&self) -> u64 {
        self.rects.iter().filter(|rect| !rect.is_empty()).map(|rect| rect.rows + rect.cols).sum()
    }

    /// Returns the lower bound of the sum of half-perimeters for these areas: `Σ 2 √area_i`, every
    /// rectangle a square.
    ///
    /// # References
    /// Beaumont, Boudet, Rastello and Robert 2001.
    pub fn lower_bound(&self) -> f64 {
        self.areas().into_iter().map(|area| 2.0 * (area as f64).sqrt()).sum()
    }

    /// Returns the tiling stretched to `new_cols` columns; it tiles `rows × new_cols` exactly.
    ///
    /// Every boundary `x` moves to `x · new_cols / cols`, rounded half up. A rectangle may become
    /// empty. A layout without columns has no boundaries to stretch: its first node gets everything.
    #[must_use]
    pub fn scale_cols(&self, new_cols: u64) -> Self {
        if self.cols == 0 {
            let mut rects = vec![Rect::default(); self.rects.len()];
            rects[0] = Rect::new(0, 0, self.rows, new_cols);
            return Self { rows: self.rows, cols: new_cols, rects };
        }
        let rects = self.rects.iter().map(|rect| {
            let col = scale_boundary(rect.col, self.cols, new_cols);
            let end = scale_boundary(rect.col + rect.cols, self.cols, new_cols);
            Rect { col, cols: end - col, ..*rect }
        });
        Self { rows: self.rows, cols: new_cols, rects: rects.collect() }
    }

    /// Returns the tiling stretched to `new_rows` rows, as [`scale_cols`](Self::scale_cols) does for
    /// columns.
    #[must_use]
    pub fn scale_rows(&self, new_rows: u64) -> Self {
        self.transposed().scale_cols(new_rows).transposed()
    }

    /// Returns the tiling of the transposed matrix by the transposed rectangles.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            rects: self.rects.iter().map(Rect::transposed).collect(),
        }
    }

    /// Draws the tiling in proportion, at most `max_width` characters wide and `max_lines` high, and at least 8 and 3.
    ///
    /// Each rectangle shows its node's number and, if there is room, its `rows×cols`. Lines end in
    /// a newline.
    pub fn picture(&self, max_width: usize, max_lines: usize) -> String {
        let (max_height, max_width) = (max_lines.max(3) - 1, max_width.max(8) - 1);
        picture::draw_tiling(self.rows, self.cols, &self.rects, max_height, max_width)
    }

    /// Replaces every empty rectangle by [`Rect::default()`], which has no place.
    pub(crate) fn forget_empty_places(mut self) -> Self {
        for rect in self.rects.iter_mut().filter(|rect| rect.is_empty()) {
            *rect = Rect::default();
        }
        self
    }
}

/// Returns `x · new / old`, rounded half up.
fn scale_boundary(x: u64, old: u64, new: u64) -> u64 {
    let (x, old, new) = (u128::from(x), u128::from(old), u128::from(new));
    // At most `new`, because x <= old.
    ((2 * x * new + old) / (2 * old)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_rounds_each_boundary_once() {
        let layout =
            Layout::new(1, 3, (0..3).map(|i| Rect::new(0, i, 1, 1)).collect()).expect("tiles");
        // Boundaries 1/3 and 2/3 of 5 columns are 1.67 and 3.33.
        let scaled = layout.scale_cols(5);
        assert_eq!(
            scaled.rects(),
            [Rect::new(0, 0, 1, 2), Rect::new(0, 2, 1, 1), Rect::new(0, 3, 1, 2)]
        );
        assert_eq!(layout.scale_cols(1).areas(), [0, 1, 0]);
        assert_eq!(layout.scale_rows(7).areas(), [7, 7, 7]);
    }

    #[test]
    fn a_layout_without_blocks_scales_onto_the_first_node() {
        let layout =
            Layout::new(4, 0, vec![Rect::new(0, 0, 3, 0), Rect::new(3, 0, 1, 0)]).expect("tiles");
        assert_eq!(layout.scale_cols(5).areas(), [20, 0]);
        assert_eq!(layout.scale_rows(0).scale_rows(5).areas(), [0, 0]);
    }

    #[test]
    fn deserialisation_checks_the_tiling() {
        let layout =
            Layout::new(1, 2, vec![Rect::new(0, 0, 1, 2), Rect::new(0, 0, 0, 0)]).expect("tiles");
        let json = serde_json::to_string(&layout).expect("serialises");
        assert_eq!(serde_json::from_str::<Layout>(&json).expect("reads back"), layout);
        let hole = json.replace(r#""rows":1,"cols":2,"rects""#, r#""rows":2,"cols":2,"rects""#);
        let error = serde_json::from_str::<Layout>(&hole).expect_err("must be refused");
        assert!(error.to_string().contains("2 of 4 blocks have an owner"), "{error}");
    }
}
