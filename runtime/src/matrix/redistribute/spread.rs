//! Who holds which elements of a matrix.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use super::cyclic::{BlockCyclic, ProcessGrid};
use super::error::SpreadError;
use super::lines::Lines;
use super::stored::StoredMut;
use crate::matrix::Distribution;

/// Which rank holds which elements of a `rows×cols` matrix, and where in its memory.
///
/// Every rank's share is a list of rows times a list of columns, stored in that order as a local matrix. Every element
/// has one holder.
///
/// ```
/// use isochron::matrix::redistribute::{BlockCyclic, ProcessGrid, Spread};
/// // 9×9 in blocks of 2×2 on a 2×3 grid of six ranks.
/// let spread = Spread::block_cyclic(&BlockCyclic::new(9, 9, 2, 2), ProcessGrid::by_rows(2, 3), 6)?;
/// assert_eq!(spread.local_shape(0), (5, 4));
/// let part = spread.sub(2..4, 0..9)?; // the second row of blocks
/// assert_eq!((part.held(0), part.held(3)), (0, 8));
/// # Ok::<(), isochron::matrix::redistribute::SpreadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    rows: usize,
    cols: usize,
    shares: Vec<Share>,
}

/// The rows and columns of one rank. Many ranks have the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    pub rows: Arc<Lines>,
    pub cols: Arc<Lines>,
}

impl Share {
    fn new(rows: Range<usize>, cols: Range<usize>) -> Self {
        Self {
            rows: Arc::new(Lines::range(rows)),
            cols: Arc::new(Lines::range(cols)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    /// How many elements both hold.
    pub(super) fn shared(&self, other: &Self) -> usize {
        match self.rows.shared(&other.rows) {
            0 => 0,
            rows => rows * self.cols.shared(&other.cols),
        }
    }
}

/// One element of a rank's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Row in the whole matrix.
    pub row: usize,
    /// Column in the whole matrix.
    pub col: usize,
    /// Row in the rank's local matrix.
    pub local_row: usize,
    /// Column in the rank's local matrix.
    pub local_col: usize,
}

impl From<&Distribution> for Spread {
    /// What each rank of a distribution holds.
    fn from(distribution: &Distribution) -> Self {
        let parts = (0..distribution.n_ranks()).map(|rank| distribution.part(rank));
        Self {
            rows: distribution.rows(),
            cols: distribution.cols(),
            shares: parts
                .map(|part| Share::new(part.row_range(), part.col_range()))
                .collect(),
        }
    }
}

impl Spread {
    /// The whole `rows×cols` matrix on `rank`, one of `n_ranks`.
    ///
    /// # Errors
    /// [`SpreadError::Rank`].
    pub fn on_one(
        rows: usize,
        cols: usize,
        rank: usize,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        if rank >= n_ranks {
            return Err(SpreadError::Rank {
                rank,
                ranks: n_ranks,
            });
        }
        let mut shares = vec![Share::new(0..0, 0..0); n_ranks];
        shares[rank] = Share::new(0..rows, 0..cols);
        Ok(Self { rows, cols, shares })
    }

    /// A block-cyclic matrix on a grid of the first of `n_ranks` ranks; the others hold nothing.
    ///
    /// # Errors
    /// [`SpreadError::Grid`] for a grid that is empty or has more processes than there are ranks,
    /// [`SpreadError::Block`] and [`SpreadError::Source`] for blocks and first processes that do not exist.
    pub fn block_cyclic(
        matrix: &BlockCyclic,
        grid: ProcessGrid,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        let processes = grid.rows.checked_mul(grid.cols);
        if processes.is_none_or(|processes| processes == 0 || processes > n_ranks) {
            return Err(SpreadError::Grid {
                rows: grid.rows,
                cols: grid.cols,
                ranks: n_ranks,
            });
        }
        let shared = |lines: Vec<Lines>| lines.into_iter().map(Arc::new).collect::<Vec<_>>();
        let [rows, cols] = matrix.lines(&grid)?.map(shared);
        let share = |rank| match grid.place(rank) {
            Some((p, q)) => Share {
                rows: rows[p].clone(),
                cols: cols[q].clone(),
            },
            None => Share::new(0..0, 0..0),
        };
        Ok(Self {
            rows: matrix.rows,
            cols: matrix.cols,
            shares: (0..n_ranks).map(share).collect(),
        })
    }

    /// The submatrix in `rows` and `cols`, counted from 0 (in ScaLAPACK's words `IA-1..IA-1+M` and `JA-1..JA-1+N`). Its
    /// elements stay where they are: the local memory that goes with it is that of the whole matrix.
    ///
    /// # Errors
    /// [`SpreadError::Sub`] when a range reaches past the matrix or runs backwards.
    pub fn sub(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, SpreadError> {
        for (what, range, len) in [("rows", &rows, self.rows), ("columns", &cols, self.cols)] {
            if range.start > range.end || range.end > len {
                let range = range.clone();
                return Err(SpreadError::Sub { what, range, len });
            }
        }
        let mut cut = [HashMap::new(), HashMap::new()];
        let mut part = |which: usize, lines: &Arc<Lines>, range: &Range<usize>| {
            let entry = cut[which].entry(Arc::as_ptr(lines));
            Arc::clone(entry.or_insert_with(|| Arc::new(lines.within(range))))
        };
        let shares = self.shares.iter().map(|share| Share {
            rows: part(0, &share.rows, &rows),
            cols: part(1, &share.cols, &cols),
        });
        Ok(Self {
            rows: rows.len(),
            cols: cols.len(),
            shares: shares.collect(),
        })
    }

    /// The transposed matrix where its elements lie: row `i` is column `i` of this one, and so it is in the local memory,
    /// whose [`Order`](super::Order) is the other one.
    pub fn transposed(&self) -> Self {
        let shares = self.shares.iter().map(|share| Share {
            rows: share.cols.clone(),
            cols: share.rows.clone(),
        });
        Self {
            rows: self.cols,
            cols: self.rows,
            shares: shares.collect(),
        }
    }

    /// Number of rows of the whole matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns of the whole matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.shares.len()
    }

    /// Rows and columns of the local matrix of `rank`: of a submatrix that of the whole.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn local_shape(&self, rank: usize) -> (usize, usize) {
        let share = &self.shares[rank];
        (share.rows.extent(), share.cols.extent())
    }

    /// How many elements `rank` holds.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn held(&self, rank: usize) -> usize {
        self.shares[rank].len()
    }

    /// The elements that `rank` holds, column after column.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn elements(&self, rank: usize) -> impl Iterator<Item = Place> + '_ {
        let share = &self.shares[rank];
        share.cols.iter().flat_map(move |(col, local_col)| {
            share.rows.iter().map(move |(row, local_row)| Place {
                row,
                col,
                local_row,
                local_col,
            })
        })
    }

    /// Sets every element that `rank` holds to `element(row, col)`, indices in the whole matrix.
    ///
    /// # Errors
    /// [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold them.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn fill<T>(
        &self,
        rank: usize,
        local: StoredMut<'_, T>,
        element: impl Fn(usize, usize) -> T,
    ) -> Result<(), SpreadError> {
        if self.held(rank) == 0 {
            return Ok(());
        }
        let (rows, cols) = self.local_shape(rank);
        local.check(rows, cols)?;
        for place in self.elements(rank) {
            let at = local
                .order
                .index(place.local_row, place.local_col, local.ld);
            local.data[at] = element(place.row, place.col);
        }
        Ok(())
    }

    pub(super) fn share(&self, rank: usize) -> &Share {
        &self.shares[rank]
    }

    /// A number that spreads have in common when they are equal, and hardly otherwise.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut known = HashMap::new();
        let mut of = |lines: &Arc<Lines>| {
            let entry = known.entry(Arc::as_ptr(lines));
            *entry.or_insert_with(|| digest(lines.as_ref()))
        };
        let shares: Vec<[u64; 2]> = self
            .shares
            .iter()
            .map(|share| [of(&share.rows), of(&share.cols)])
            .collect();
        digest(&(self.rows, self.cols, shares))
    }
}

/// A number that equal values have in common, on all ranks of a program, and others hardly.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    // Without keys, so that all ranks find the same.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// How many elements each rank has to send, by rank, so that all of them get from where one spread has them to where the
/// other one does: those that it holds and does not need itself, once each. Less is not possible.
///
/// # Panics
/// When the spreads are of another shape or number of ranks.
pub fn volume(from: &Spread, to: &Spread) -> Vec<u64> {
    let shapes = [from, to].map(|spread| (spread.rows, spread.cols, spread.n_ranks()));
    assert_eq!(shapes[0], shapes[1], "spreads of different matrices");
    let shares = from.shares.iter().zip(&to.shares);
    shares
        .map(|(from, to)| (from.len() - from.shared(to)) as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cyclic(rows: usize, cols: usize) -> Spread {
        let matrix = BlockCyclic::new(rows, cols, 2, 3);
        Spread::block_cyclic(&matrix, ProcessGrid::by_rows(2, 2), 5).unwrap()
    }

    #[test]
    fn every_element_has_one_holder() {
        let whole = cyclic(7, 8);
        for spread in [
            whole.sub(1..6, 2..8).unwrap(),
            whole.transposed(),
            whole.clone(),
            Spread::on_one(7, 8, 2, 3).unwrap(),
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
        }
        assert_eq!(whole.held(4), 0, "a rank outside the grid");
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let spread = cyclic(7, 8);
        for (rows, cols, word) in [(0..8, 0..8, "rows 0..8"), (0..7, 5..9, "columns 5..9")] {
            let text = spread.sub(rows, cols).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
        let backwards = Range { start: 3, end: 2 };
        assert!(spread.sub(backwards, 0..1).is_err());
        let text = Spread::on_one(1, 1, 3, 3).unwrap_err().to_string();
        assert!(
            text.contains("rank 3") && text.contains("3 ranks"),
            "{text}"
        );
        for grid in [(3, 2), (0, 4), (usize::MAX, 2)] {
            let grid = ProcessGrid::by_rows(grid.0, grid.1);
            let made = Spread::block_cyclic(&BlockCyclic::new(4, 4, 1, 1), grid, 5);
            assert!(matches!(made, Err(SpreadError::Grid { .. })), "{made:?}");
        }
    }

    #[test]
    fn volume_is_what_its_holder_does_not_need() {
        let (one, other) = (
            Spread::on_one(7, 8, 0, 5).unwrap(),
            Spread::on_one(7, 8, 3, 5).unwrap(),
        );
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
        let one = |rank| Spread::on_one(2, 2, rank, 3).unwrap().fingerprint();
        assert_ne!(one(1), one(2));
    }
}
