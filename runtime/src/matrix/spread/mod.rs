//! Spreads: which rank holds which elements of a matrix.

mod cyclic;
pub(crate) mod error;
mod lines;
mod memory;

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;

use isochron_hierarchy::layout::{Layout, Rect};

pub use cyclic::{BlockCyclic, ProcessGrid};
pub(crate) use lines::Numbering;
pub(super) use lines::{HeldLines, SharedLines};

use super::region::Region;
use crate::comm::describe_long;
use error::SpreadError;
use lines::Dimension;

/// The ranks that hold the elements of a `rows×cols` matrix, and the places of the elements in their memory.
///
/// Every rank holds a list of rows times a list of columns, stored in that order as a local matrix. Every element has
/// one holder; outside a [window](Self::within) it has none. Lists come from the rectangles of a layout
/// ([`on_layout`](Self::on_layout)), from ScaLAPACK's distribution ([`block_cyclic`](Self::block_cyclic)), or from
/// another spread. A copy shares them.
///
/// ```
/// use isochron::matrix::{BlockCyclic, ProcessGrid, Spread};
/// // 9×9 in blocks of 2×2 on a 2×3 grid of six ranks.
/// let spread = Spread::block_cyclic(&BlockCyclic::new(9, 9, 2, 2), ProcessGrid::by_rows(2, 3), 6)?;
/// assert_eq!(spread.local_shape(0), (5, 4));
/// let part = spread.sub(2..4, 0..9)?; // the second row of blocks
/// assert_eq!((part.held(0), part.held(3)), (0, 8));
/// # Ok::<(), isochron::matrix::SpreadError>(())
/// ```
///
/// # Panics
/// Methods of one rank, if there is no such rank.
#[derive(Debug, Clone)]
pub struct Spread {
    rows: Dimension,
    cols: Dimension,
}

/// The rows and columns that one rank holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding<'a> {
    pub rows: &'a HeldLines,
    pub cols: &'a HeldLines,
}

impl Holding<'_> {
    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    /// Counts the elements that both hold.
    pub(super) fn count_shared(&self, other: &Self) -> usize {
        self.rows.count_shared(other.rows) * self.cols.count_shared(other.cols)
    }
}

/// One element that a rank holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldElement {
    /// Row in the whole matrix.
    pub row: usize,
    /// Column in the whole matrix.
    pub col: usize,
    /// Row in the rank's local matrix.
    pub local_row: usize,
    /// Column in the rank's local matrix.
    pub local_col: usize,
}

/// The most ranks: each one is listed.
const MOST_RANKS: usize = 1 << 24;

/// Refuses numbers of ranks that no job has, before they are listed.
pub(super) fn check_ranks(ranks: usize) -> Result<(), SpreadError> {
    if ranks <= MOST_RANKS {
        Ok(())
    } else {
        Err(SpreadError::ManyRanks { ranks, most: MOST_RANKS })
    }
}

impl Spread {
    /// Spreads a `rows×cols` matrix over the rectangles of `layout`, one for each rank, in `block×block` blocks.
    ///
    /// # Panics
    /// If `layout` does not have `ceil(rows/block) × ceil(cols/block)` blocks.
    pub fn on_layout(rows: usize, cols: usize, block: usize, layout: &Layout) -> Self {
        let blocks = (rows.div_ceil(block) as u64, cols.div_ceil(block) as u64);
        assert_eq!(
            (layout.rows(), layout.cols()),
            blocks,
            "the layout is in blocks of another matrix"
        );
        let rects = layout.rects().iter();
        Self::with_regions(rows, cols, rects.map(|rect| cut_rect(rect, block, rows, cols)))
    }

    /// Puts a `rows×cols` matrix on a single rank.
    pub fn whole(rows: usize, cols: usize) -> Self {
        Self::on_each(rows, cols, &[true])
    }

    /// Puts a `rows×cols` matrix on `rank`, one of `n_ranks`.
    ///
    /// # Errors
    /// Returns [`SpreadError::Rank`]; [`SpreadError::ManyRanks`].
    pub fn on_one(
        rows: usize,
        cols: usize,
        rank: usize,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        check_ranks(n_ranks)?;
        if rank >= n_ranks {
            return Err(SpreadError::Rank { rank, ranks: n_ranks });
        }
        let holds: Vec<bool> = (0..n_ranks).map(|other| other == rank).collect();
        Ok(Self::on_each(rows, cols, &holds))
    }

    /// Spreads a block-cyclic matrix over a grid of the first of `n_ranks` ranks; the others hold nothing.
    ///
    /// # Errors
    /// Returns [`SpreadError::Grid`] for a grid that is empty or has more processes than there are ranks,
    /// [`SpreadError::Block`] and [`SpreadError::Source`] for blocks and first processes that do not exist;
    /// [`SpreadError::ManyBlocks`] and [`SpreadError::ManyRanks`].
    pub fn block_cyclic(
        matrix: &BlockCyclic,
        grid: ProcessGrid,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        let processes = grid.rows.checked_mul(grid.cols);
        check_ranks(n_ranks)?;
        if processes.is_none_or(|processes| processes == 0 || processes > n_ranks) {
            return Err(SpreadError::Grid { rows: grid.rows, cols: grid.cols, ranks: n_ranks });
        }
        let [mut rows, mut cols] = matrix.deal_lines(&grid)?;
        // For the ranks outside the grid.
        rows.push(HeldLines::range(0..0));
        cols.push(HeldLines::range(0..0));
        let places = (0..n_ranks).map(|rank| grid.place(rank).unwrap_or((grid.rows, grid.cols)));
        let (row_lists, col_lists): (Vec<_>, Vec<_>) = places.unzip();
        Ok(Self {
            rows: Dimension::new(matrix.rows, rows, row_lists),
            cols: Dimension::new(matrix.cols, cols, col_lists),
        })
    }

    /// Puts a copy of a `rows×cols` matrix on each rank that `holds` says. Such copies can be moved, and summed on the
    /// way.
    pub(crate) fn on_each(rows: usize, cols: usize, holds: &[bool]) -> Self {
        let regions = holds
            .iter()
            .map(|&holds| if holds { Region::new(0..rows, 0..cols) } else { Region::default() });
        Self::with_regions(rows, cols, regions)
    }

    /// Gives each rank its rectangle.
    pub(crate) fn with_regions(
        rows: usize,
        cols: usize,
        regions: impl ExactSizeIterator<Item = Region>,
    ) -> Self {
        let of_rank: Vec<usize> = (0..regions.len()).collect();
        let (row_lists, col_lists) = regions
            .map(|region| (region.row_range(), region.col_range()))
            .map(|(rows, cols)| (HeldLines::range(rows), HeldLines::range(cols)))
            .unzip();
        Self {
            rows: Dimension::new(rows, row_lists, of_rank.clone()),
            cols: Dimension::new(cols, col_lists, of_rank),
        }
    }

    /// Returns the submatrix in `rows` and `cols`, counted from 0 (in ScaLAPACK's words `IA-1..IA-1+M` and
    /// `JA-1..JA-1+N`). Its elements stay in place: its local memory is that of the whole matrix.
    ///
    /// # Errors
    /// Returns [`SpreadError::Sub`] if a range reaches past the matrix or runs backwards.
    pub fn sub(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, SpreadError> {
        for (what, range, len) in [("rows", &rows, self.rows()), ("columns", &cols, self.cols())] {
            if range.start > range.end || range.end > len {
                let range = range.clone();
                return Err(SpreadError::Sub { what, range, len });
            }
        }
        Ok(Self { rows: self.rows.within(&rows), cols: self.cols.within(&cols) })
    }

    /// Returns the same spread as a window of a larger matrix of `whole` rows and columns, with its first element in
    /// `row` and `col`. No rank holds the rest of that matrix.
    ///
    /// # Panics
    /// If the window reaches beyond the matrix.
    #[must_use]
    pub fn within(self, (row, col): (usize, usize), whole: (usize, usize)) -> Self {
        assert!(
            row + self.rows() <= whole.0 && col + self.cols() <= whole.1,
            "a window reaches beyond its matrix"
        );
        Self {
            rows: self.rows.placed(self.rows.held.start + row, whole.0),
            cols: self.cols.placed(self.cols.held.start + col, whole.1),
        }
    }

    /// Returns `true` if no rank holds some of the elements.
    pub(crate) fn is_window(&self) -> bool {
        [&self.rows, &self.cols].iter().any(|dimension| dimension.held != (0..dimension.len))
    }

    /// Returns the elements that ranks hold.
    pub(super) fn window(&self) -> Region {
        Region::new(self.rows.held.clone(), self.cols.held.clone())
    }

    /// Returns the spread of a window as a matrix of its own, with rows and columns counted from its first element.
    pub(super) fn alone(&self) -> Self {
        Self {
            rows: self.rows.placed(0, self.rows.held.len()),
            cols: self.cols.placed(0, self.cols.held.len()),
        }
    }

    /// Returns the spread of the transposed matrix with all elements in place: row `i` is column `i` of this one, also
    /// in the local memory, which has the other [`Order`](super::Order).
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self { rows: self.cols.clone(), cols: self.rows.clone() }
    }

    /// Numbers the rows so that what each rank holds is one range; `None` if that is so already, or cannot be.
    pub(crate) fn number_rows(&self) -> Option<Numbering> {
        Numbering::of(&self.rows)
    }

    /// Returns `true` if these numbers cut the rows of no rank into more ranges.
    pub(crate) fn suits_rows(&self, numbering: &Numbering) -> bool {
        numbering.suits(&self.rows)
    }

    /// Returns the spread of the matrix with other numbers for its rows and columns. All elements stay in place.
    #[must_use]
    pub(crate) fn renumbered(&self, [rows, cols]: [Option<&Numbering>; 2]) -> Self {
        Self {
            rows: rows.map_or_else(|| self.rows.clone(), |rows| self.rows.renumbered(rows)),
            cols: cols.map_or_else(|| self.cols.clone(), |cols| self.cols.renumbered(cols)),
        }
    }

    /// Returns the number of rows of the whole matrix.
    pub fn rows(&self) -> usize {
        self.rows.len
    }

    /// Returns the number of columns of the whole matrix.
    pub fn cols(&self) -> usize {
        self.cols.len
    }

    /// Returns the number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.rows.of_rank.len()
    }

    /// Returns the rectangle that `rank` holds.
    ///
    /// # Panics
    /// If its elements are not one rectangle that is all of its local memory, as on a layout.
    pub fn part(&self, rank: usize) -> Region {
        self.find_part(rank).unwrap_or_else(|| panic!("rank {rank} holds no single rectangle"))
    }

    /// Returns the rectangle that `rank` holds; `None` if its elements are not one.
    pub(crate) fn find_part(&self, rank: usize) -> Option<Region> {
        let Holding { rows, cols } = self.holding(rank);
        Some(Region::new(rows.as_range()?, cols.as_range()?))
    }

    /// Returns the rectangle that `rank` holds, in any order in memory; `None` if its elements are not one, or not all of its
    /// memory.
    pub(crate) fn find_covered(&self, rank: usize) -> Option<Region> {
        let Holding { rows, cols } = self.holding(rank);
        Some(Region::new(rows.as_covered_range()?, cols.as_covered_range()?))
    }

    /// Returns the rows and columns that `rank` holds.
    pub(super) fn holding(&self, rank: usize) -> Holding<'_> {
        Holding { rows: self.rows.list_of(rank), cols: self.cols.list_of(rank) }
    }

    /// Returns rows and columns of the local matrix of `rank`; for a submatrix, those of the whole.
    pub fn local_shape(&self, rank: usize) -> (usize, usize) {
        let Holding { rows, cols } = self.holding(rank);
        (rows.extent(), cols.extent())
    }

    /// Returns the number of elements that `rank` holds.
    pub fn held(&self, rank: usize) -> usize {
        self.holding(rank).len()
    }

    /// Returns the elements that `rank` holds, column after column.
    pub fn elements(&self, rank: usize) -> impl Iterator<Item = HeldElement> {
        let Holding { rows, cols } = self.holding(rank);
        cols.iter().flat_map(move |(col, local_col)| {
            rows.iter().map(move |(row, local_row)| HeldElement { row, col, local_row, local_col })
        })
    }

    /// Returns the rows and the columns that `rank` holds, each with its place in the local matrix.
    pub(in crate::matrix) fn lines(&self, rank: usize) -> [Vec<(usize, usize)>; 2] {
        let Holding { rows, cols } = self.holding(rank);
        [rows, cols].map(|lines| lines.iter().collect())
    }

    /// Returns `true` if every rank has one rectangle, the same as in the other spread.
    pub(in crate::matrix) fn is_like(&self, other: &Self) -> bool {
        self.holds_parts(other, Self::find_part)
    }

    /// Returns `true` if every rank has the elements of one rectangle, the same as in the other spread, in any order in memory.
    pub(in crate::matrix) fn covers(&self, other: &Self) -> bool {
        self.holds_parts(other, Self::find_covered)
    }

    /// Returns `true` if every rank has the rectangle that it has in the other spread.
    fn holds_parts(&self, other: &Self, find: fn(&Self, usize) -> Option<Region>) -> bool {
        let shapes = [self, other].map(|spread| (spread.rows(), spread.cols(), spread.n_ranks()));
        shapes[0] == shapes[1]
            && (0..self.n_ranks()).all(|rank| {
                match [find(self, rank), other.find_part(rank)] {
                    // It does not matter where an empty part begins.
                    [Some(mine), Some(its)] => mine == its || (mine.is_empty() && its.is_empty()),
                    _ => false,
                }
            })
    }

    /// Returns a number that equal spreads have in common, and others hardly ever.
    pub(crate) fn fingerprint(&self) -> u64 {
        digest(&[&self.rows, &self.cols].map(|dimension| (dimension.len, dimension.digest_lists())))
    }

    /// Describes the spread for a comparison between ranks: by its shape, and a number that is the same for equal ones.
    pub(crate) fn describe(&self) -> String {
        let words = format!("a distribution of {}×{}", self.rows(), self.cols());
        describe_long(words, self.fingerprint())
    }
}

/// Cuts a rectangle of a layout in `block×block` blocks from a `rows×cols` matrix. The last row and column of blocks may
/// be cut short.
pub(crate) fn cut_rect(rect: &Rect, block: usize, rows: usize, cols: usize) -> Region {
    Region::new(
        cut_blocks(rect.row, rect.rows, block, rows),
        cut_blocks(rect.col, rect.cols, block, cols),
    )
}

/// Returns the indices below `limit` of `n` blocks from block `first` on.
fn cut_blocks(first: u64, n: u64, block: usize, limit: usize) -> Range<usize> {
    let cut = [first, first + n].map(|blocks| (blocks as usize).saturating_mul(block).min(limit));
    cut[0]..cut[1]
}

/// Returns a number that equal values have in common on all ranks of a program, and others hardly ever.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    // Without keys, so that all ranks find the same.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Counts the elements that each rank must send, by rank, to bring a matrix from one spread to another: those that it
/// holds and does not need itself, once each. No way of moving sends fewer.
///
/// # Panics
/// If the spreads are of another shape or number of ranks.
pub fn volume(from: &Spread, to: &Spread) -> Vec<u64> {
    let shapes = [from, to].map(|spread| (spread.rows(), spread.cols(), spread.n_ranks()));
    assert_eq!(shapes[0], shapes[1], "spreads of different matrices");
    (0..from.n_ranks())
        .map(|rank| {
            let (have, need) = (from.holding(rank), to.holding(rank));
            (have.len() - have.count_shared(&need)) as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::columns;

    use super::*;

    fn cyclic(rows: usize, cols: usize) -> Spread {
        let matrix = BlockCyclic::new(rows, cols, 2, 3);
        Spread::block_cyclic(&matrix, ProcessGrid::by_rows(2, 2), 5).unwrap()
    }

    fn on_columns(rows: usize, cols: usize, block: usize) -> Spread {
        let blocks = [rows, cols].map(|size| size.div_ceil(block) as u64);
        let layout = columns::br(&[1.0, 3.0, 0.0, 2.0], blocks[0], blocks[1]).unwrap();
        Spread::on_layout(rows, cols, block, &layout)
    }

    #[test]
    fn every_element_has_one_holder() {
        let whole = cyclic(7, 8);
        for spread in [
            whole.sub(1..6, 2..8).unwrap(),
            whole.transposed(),
            whole.clone(),
            Spread::on_one(7, 8, 2, 3).unwrap(),
            on_columns(7, 8, 3),
            on_columns(7, 8, 3).transposed(),
            on_columns(9, 8, 2).sub(1..9, 2..7).unwrap(),
        ] {
            let mut holders = vec![0; spread.rows() * spread.cols()];
            for rank in 0..spread.n_ranks() {
                let (rows, cols) = spread.local_shape(rank);
                for element in spread.elements(rank) {
                    holders[element.row + element.col * spread.rows()] += 1;
                    assert!(element.local_row < rows && element.local_col < cols);
                }
            }
            assert!(holders.iter().all(|&holders| holders == 1), "{spread:?}");
            assert!(!spread.is_window());
        }
        assert_eq!(whole.held(4), 0, "a rank outside the grid");
    }

    #[test]
    fn a_window_lies_in_its_matrix_and_is_the_same_alone() {
        for spread in [on_columns(7, 8, 3), cyclic(7, 8)] {
            let window = spread.clone().within((2, 5), (20, 30));
            assert!(window.is_window());
            assert_eq!((window.rows(), window.cols()), (20, 30));
            let alone = window.alone();
            assert_eq!(alone.fingerprint(), spread.fingerprint());
            for rank in 0..spread.n_ranks() {
                let inner = spread.elements(rank).map(|held| HeldElement {
                    row: held.row + 2,
                    col: held.col + 5,
                    ..held
                });
                assert!(window.elements(rank).eq(inner));
            }
        }
    }

    #[test]
    fn only_whole_rectangles_are_parts() {
        let spread = on_columns(7, 8, 3);
        let parts = (0..4).map(|rank| spread.part(rank).len());
        assert_eq!(parts.sum::<usize>(), 56);
        assert_eq!(Spread::whole(7, 8).part(0), Region::new(0..7, 0..8));
        assert_eq!(cyclic(7, 8).find_part(0), None);
        // The memory of a submatrix is that of the whole.
        let sub = Spread::whole(7, 8).sub(0..7, 0..4).unwrap();
        assert_eq!(sub.find_part(0), None);
    }

    #[test]
    fn impossible_spreads_are_refused() {
        let spread = cyclic(7, 8);
        for (rows, cols, word) in [(0..8, 0..8, "rows 0..8"), (0..7, 5..9, "columns 5..9")] {
            let text = spread.sub(rows, cols).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
        let backwards = Range { start: 3, end: 2 };
        assert!(spread.sub(backwards, 0..1).is_err());
        let text = Spread::on_one(1, 1, 3, 3).unwrap_err().to_string();
        assert!(text.contains("rank 3") && text.contains("3 ranks"), "{text}");
        for grid in [(3, 2), (0, 4), (usize::MAX, 2)] {
            let grid = ProcessGrid::by_rows(grid.0, grid.1);
            let made = Spread::block_cyclic(&BlockCyclic::new(4, 4, 1, 1), grid, 5);
            assert!(matches!(made, Err(SpreadError::Grid { .. })), "{made:?}");
        }
    }

    #[test]
    fn volume_counts_elements_that_their_holder_does_not_need() {
        let (one, other) =
            (Spread::on_one(7, 8, 0, 5).unwrap(), Spread::on_one(7, 8, 3, 5).unwrap());
        assert_eq!(volume(&one, &other), [56, 0, 0, 0, 0]);
        assert_eq!(volume(&one, &one), [0; 5]);
        let cyclic = cyclic(7, 8);
        assert_eq!(volume(&one, &cyclic)[0] as usize, 56 - cyclic.held(0));
        let sent: u64 = volume(&cyclic, &one).iter().sum();
        assert_eq!(sent as usize, 56 - cyclic.held(0));
    }

    #[test]
    fn equal_spreads_have_equal_fingerprints() {
        assert_eq!(cyclic(7, 8).fingerprint(), cyclic(7, 8).fingerprint());
        assert_ne!(cyclic(7, 8).fingerprint(), cyclic(8, 7).fingerprint());
        let whole = cyclic(8, 8);
        assert_ne!(whole.fingerprint(), whole.transposed().fingerprint());
        let ones = [1, 2].map(|rank| Spread::on_one(2, 2, rank, 3).unwrap().fingerprint());
        assert_ne!(ones[0], ones[1]);
        let on_layout = on_columns(8, 8, 2);
        let regions = (0..4).map(|rank| on_layout.part(rank));
        let listed = Spread::with_regions(8, 8, regions);
        assert_eq!(on_layout.fingerprint(), listed.fingerprint());
    }
}
