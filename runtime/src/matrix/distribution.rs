//! The matrices of a program: where it has them, and its memory.

use std::ops::{Deref, Range};
use std::ptr::NonNull;

use isochron_devices::MatrixView;
use isochron_hierarchy::layout::{Layout, Rect};

use super::spread::check_ranks;
use super::spread::error::SpreadError;
use super::{BlockCyclic, HeldElement, LocalMemory, Numbering, Order, ProcessGrid, Region, Spread};
use crate::comm::describe_long;

/// The ranks that hold the elements of a program's matrix, and the order of the elements in their memory.
///
/// A rank has one local matrix, or a list of [blocks](BlockList) in memory of their own.
///
/// ```
/// use isochron::prelude::*;
///
/// // As ScaLAPACK has it: 9×9 in blocks of 2×2 on a 2×3 grid of six ranks.
/// let matrix = BlockCyclic::new(9, 9, 2, 2);
/// let cyclic = Distribution::block_cyclic(&matrix, ProcessGrid::by_rows(2, 3), 6)?;
/// assert_eq!(cyclic.local_shapes(0), [(5, 4)]);
/// // Rows of a matrix in C's order, 3 on the first rank and 6 on the second.
/// let rows = [Region::new(0..3, 0..9), Region::new(3..9, 0..9)];
/// let slices = Distribution::of_regions(9, 9, &rows)?.row_major();
/// assert_eq!(slices.local_shapes(1), [(6, 9)]);
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Distribution {
    /// The first piece of each rank, the second one, and so on.
    pieces: Vec<Spread>,
    order: Order,
}

/// A matrix in blocks, each with one owner.
///
/// A rank numbers its blocks down the columns of the grid, one column of blocks after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockList {
    /// The borders of the rows of blocks: 0, the border after each row of blocks, and last the number of rows. No block is
    /// empty.
    pub row_cuts: Vec<usize>,
    /// The borders of the columns of blocks: 0, the border after each column of blocks, and last the number of columns.
    pub col_cuts: Vec<usize>,
    /// The rank of each block, down the columns of the grid.
    pub owners: Vec<usize>,
}

impl From<Spread> for Distribution {
    /// Makes a distribution with one local matrix for each rank, column-major.
    fn from(spread: Spread) -> Self {
        Self { pieces: vec![spread], order: Order::Columns }
    }
}

impl Distribution {
    /// Spreads a block-cyclic matrix over a grid of the first of `n_ranks` ranks; the others hold nothing.
    ///
    /// # Errors
    /// Returns the errors of [`Spread::block_cyclic`].
    pub fn block_cyclic(
        matrix: &BlockCyclic,
        grid: ProcessGrid,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        Spread::block_cyclic(matrix, grid, n_ranks).map(Self::from)
    }

    /// Puts a `rows×cols` matrix on `rank`, one of `n_ranks`.
    ///
    /// # Errors
    /// Returns the errors of [`Spread::on_one`].
    pub fn on_one(
        rows: usize,
        cols: usize,
        rank: usize,
        n_ranks: usize,
    ) -> Result<Self, SpreadError> {
        Spread::on_one(rows, cols, rank, n_ranks).map(Self::from)
    }

    /// Gives each rank a rectangle of a `rows×cols` matrix, which may be empty.
    ///
    /// # Errors
    /// Returns [`SpreadError::Tiling`] if the rectangles do not tile the matrix.
    pub fn of_regions(rows: usize, cols: usize, regions: &[Region]) -> Result<Self, SpreadError> {
        let rects = regions.iter().map(|region| Rect {
            row: region.row as u64,
            col: region.col as u64,
            rows: region.rows as u64,
            cols: region.cols as u64,
        });
        let layout = Layout::new(rows as u64, cols as u64, rects.collect());
        let layout = layout.map_err(|error| SpreadError::Tiling(error.to_string()))?;
        Ok(Spread::on_layout(rows, cols, 1, &layout).into())
    }

    /// Gives each of `n_ranks` ranks its blocks. Elements travel one block of each rank after the other, so a redistribution
    /// takes as many rounds of messages as any rank has blocks.
    ///
    /// # Errors
    /// Returns [`SpreadError::Cuts`] for borders that do not ascend from 0, [`SpreadError::Owners`] for another number
    /// of owners than blocks, and [`SpreadError::Rank`].
    pub fn of_blocks(blocks: &BlockList, n_ranks: usize) -> Result<Self, SpreadError> {
        let owned = blocks.list_owned(n_ranks)?;
        let (rows, cols) = (last(&blocks.row_cuts), last(&blocks.col_cuts));
        let most = owned.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let pieces = (0..most).map(|number| {
            let of_ranks = owned.iter();
            let of_ranks = of_ranks.map(|owned| owned.get(number).copied().unwrap_or_default());
            Spread::with_regions(rows, cols, of_ranks)
        });
        Ok(Self { pieces: pieces.collect(), order: Order::Columns })
    }

    /// Returns the same distribution with the memory of each rank row-major, as in C.
    #[must_use]
    pub fn row_major(mut self) -> Self {
        self.order = Order::Rows;
        self
    }

    /// Returns the submatrix in these rows and columns, counted from 0, with its elements in place.
    ///
    /// # Errors
    /// Returns the errors of [`Spread::sub`].
    pub fn sub(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, SpreadError> {
        let pieces = self.pieces.iter();
        let pieces = pieces.map(|piece| piece.sub(rows.clone(), cols.clone()));
        Ok(Self { pieces: pieces.collect::<Result<_, _>>()?, order: self.order })
    }

    /// Returns the number of rows of the whole matrix.
    pub fn rows(&self) -> usize {
        self.pieces[0].rows()
    }

    /// Returns the number of columns of the whole matrix.
    pub fn cols(&self) -> usize {
        self.pieces[0].cols()
    }

    /// Returns the number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.pieces[0].n_ranks()
    }

    /// Returns the order of the elements in memory.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns rows and columns of each piece of memory of `rank`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn local_shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        let held = self.pieces.iter().map(|piece| piece.local_shape(rank)).enumerate();
        held.filter(|(number, (rows, cols))| *number == 0 || *rows.min(cols) > 0)
            .map(|(_, shape)| shape)
            .collect()
    }

    /// Returns the elements that `rank` has, piece after piece of its memory: the index of the piece, as in
    /// [`local_shapes`](Self::local_shapes), and the element.
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// // 3×4 in blocks of 2×2, dealt to two ranks beside each other.
    /// let blocks = BlockCyclic::new(3, 4, 2, 2);
    /// let on = Distribution::block_cyclic(&blocks, ProcessGrid::by_rows(1, 2), 2)?;
    /// let columns = on.elements(1).map(|(_piece, element)| element.col);
    /// assert_eq!(columns.collect::<Vec<_>>(), [2, 2, 2, 3, 3, 3]);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn elements(&self, rank: usize) -> impl Iterator<Item = (usize, HeldElement)> {
        self.pieces.iter().enumerate().flat_map(move |(number, piece)| {
            piece.elements(rank).map(move |element| (number, element))
        })
    }

    /// Returns the rows and the columns that each piece of memory of `rank` has, each with its place in the piece. The piece
    /// has every element of these rows in these columns.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn lines(&self, rank: usize) -> Vec<[Vec<(usize, usize)>; 2]> {
        let n_pieces = self.local_shapes(rank).len();
        self.pieces.iter().take(n_pieces).map(|piece| piece.lines(rank)).collect()
    }

    /// Sets every element that `rank` has to `element(row, col)`, with indices in the whole matrix. The memory between its
    /// lines stays as it is.
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// let rows = [Region::new(0..1, 0..3), Region::new(1..3, 0..3)];
    /// let on = Distribution::of_regions(3, 3, &rows)?.row_major();
    /// let mut mine = [0.0; 6];
    /// on.fill(1, (&mut mine, 3), |row, col| (10 * row + col) as f64)?;
    /// assert_eq!(mine, [10.0, 11.0, 12.0, 20.0, 21.0, 22.0]);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`SpreadError::NoRank`] for a rank that the distribution does not have; [`SpreadError::Pieces`],
    /// [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold its elements;
    /// [`SpreadError::ViewShape`] and [`SpreadError::ViewOrder`] for a view of another shape or order.
    pub fn fill<'p, T: 'p>(
        &self,
        rank: usize,
        memory: impl Into<Pieces<T, &'p mut [T]>>,
        element: impl Fn(usize, usize) -> T,
    ) -> Result<(), SpreadError> {
        let ranks = self.n_ranks();
        if rank >= ranks {
            return Err(SpreadError::NoRank { rank, ranks });
        }
        let memory = memory.into().fit_to(self, rank)?;
        for (piece, local) in self.pieces.iter().zip(memory) {
            piece.fill_view(rank, local, &element);
        }
        Ok(())
    }

    /// Returns where each rank has its pieces of memory, one after the other.
    pub(crate) fn pieces(&self) -> &[Spread] {
        &self.pieces
    }

    /// Returns the transposed matrix with all elements in place.
    pub(crate) fn transposed(&self) -> Self {
        Self {
            pieces: self.pieces.iter().map(Spread::transposed).collect(),
            order: self.order.transposed(),
        }
    }

    /// Returns `true` if every rank has the elements of `spread` in one column-major local matrix.
    pub(crate) fn is_like(&self, spread: &Spread) -> bool {
        self.only_spread().is_some_and(|only| only.is_like(spread))
    }

    /// Returns `true` if every rank has the elements of its part of `spread` in one column-major local matrix, in which its rows
    /// and its columns may be in another order.
    pub(crate) fn covers(&self, spread: &Spread) -> bool {
        self.only_spread().is_some_and(|only| only.covers(spread))
    }

    /// Returns the spread of a distribution with one column-major local matrix for each rank.
    pub(crate) fn only_spread(&self) -> Option<&Spread> {
        match &self.pieces[..] {
            [only] if self.order == Order::Columns => Some(only),
            _ => None,
        }
    }

    /// Returns the same distribution with other numbers for its rows and columns. All elements stay in place.
    #[must_use]
    pub(crate) fn renumbered(&self, numberings: [Option<&Numbering>; 2]) -> Self {
        let pieces = self.pieces.iter();
        Self {
            pieces: pieces.map(|piece| piece.renumbered(numberings)).collect(),
            order: self.order,
        }
    }

    /// Returns its text for comparisons between ranks, which equal distributions have in common, and others hardly ever.
    pub(crate) fn describe(&self) -> String {
        let prints: Vec<u64> = self.pieces.iter().map(Spread::fingerprint).collect();
        let print = super::digest(&(prints, self.order));
        let (rows, cols, order) = (self.rows(), self.cols(), self.order.words());
        let ranks = self.n_ranks();
        let words = format!("a {order} distribution of {rows}×{cols} over {ranks} ranks");
        describe_long(words, print)
    }
}

fn last(cuts: &[usize]) -> usize {
    cuts.last().copied().unwrap_or(0)
}

impl BlockList {
    /// Lists the blocks of each rank.
    fn list_owned(&self, n_ranks: usize) -> Result<Vec<Vec<Region>>, SpreadError> {
        for (what, cuts) in [("row_cuts", &self.row_cuts), ("col_cuts", &self.col_cuts)] {
            let ascends = cuts.first() == Some(&0) && cuts.is_sorted_by(|a, b| a < b);
            if !ascends {
                return Err(SpreadError::Cuts { what });
            }
        }
        let (rows, cols) = (self.row_cuts.windows(2), self.col_cuts.windows(2));
        let (found, needed) = (self.owners.len(), rows.len() * cols.len());
        if found != needed {
            return Err(SpreadError::Owners { found, needed });
        }
        check_ranks(n_ranks)?;
        let mut owned = vec![Vec::new(); n_ranks];
        let blocks = cols.flat_map(|cols| {
            let rows = rows.clone();
            rows.map(move |rows| Region::new(rows[0]..rows[1], cols[0]..cols[1]))
        });
        for (block, &rank) in blocks.zip(&self.owners) {
            let blocks = owned.get_mut(rank);
            let ranks = n_ranks;
            blocks.ok_or(SpreadError::Rank { rank, ranks })?.push(block);
        }
        Ok(owned)
    }
}

/// The memory of this rank for a [`Distribution`].
///
/// It is made from `(&data, ld)` or `(&mut data, ld)` for one local matrix, or from a list of them for blocks; or from a
/// [`View`](isochron_devices::View) or [`ViewMut`](isochron_devices::ViewMut), or a list of them. Views need no memory of
/// their own between their lines, so they may be parts of one array that lie between each other.
#[derive(Debug)]
pub struct Pieces<T, D>(Vec<Piece<T, D>>);

#[derive(Debug)]
enum Piece<T, D> {
    /// Elements and leading dimension, in the order of the distribution.
    Slice(D, usize),
    View(MatrixView<T, D>),
}

impl<'a, T, D: AsRef<[T]> + ?Sized> From<(&'a D, usize)> for Pieces<T, &'a [T]> {
    fn from((data, ld): (&'a D, usize)) -> Self {
        Self(vec![Piece::Slice(data.as_ref(), ld)])
    }
}

impl<'a, T, D: AsMut<[T]> + ?Sized> From<(&'a mut D, usize)> for Pieces<T, &'a mut [T]> {
    fn from((data, ld): (&'a mut D, usize)) -> Self {
        Self(vec![Piece::Slice(data.as_mut(), ld)])
    }
}

impl<T, D: Deref<Target = [T]>> From<Vec<(D, usize)>> for Pieces<T, D> {
    fn from(pieces: Vec<(D, usize)>) -> Self {
        let pieces = pieces.into_iter();
        Self(pieces.map(|(data, ld)| Piece::Slice(data, ld)).collect())
    }
}

impl<T, D> From<MatrixView<T, D>> for Pieces<T, D> {
    fn from(view: MatrixView<T, D>) -> Self {
        Self(vec![Piece::View(view)])
    }
}

impl<T, D> From<Vec<MatrixView<T, D>>> for Pieces<T, D> {
    fn from(views: Vec<MatrixView<T, D>>) -> Self {
        Self(views.into_iter().map(Piece::View).collect())
    }
}

impl<T, D: Deref<Target = [T]> + Into<NonNull<[T]>>> Pieces<T, D> {
    /// Returns the local matrix of each piece of the distribution on `rank`, without elements where the rank has no piece.
    ///
    /// # Errors
    /// Returns [`SpreadError::Pieces`] for another number of pieces than the rank has;
    /// [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold its piece;
    /// [`SpreadError::ViewShape`] and [`SpreadError::ViewOrder`] for a view of another shape or order.
    pub(crate) fn fit_to(
        self,
        on: &Distribution,
        rank: usize,
    ) -> Result<Vec<MatrixView<T, D>>, SpreadError> {
        let shapes = on.local_shapes(rank);
        let (found, needed) = (self.0.len(), shapes.len());
        if found != needed {
            return Err(SpreadError::Pieces { found, needed });
        }
        let mut views = self
            .0
            .into_iter()
            .zip(shapes)
            .map(|(piece, shape)| piece.fit_to(shape, on.order))
            .collect::<Result<Vec<_>, _>>()?;
        views.resize_with(on.pieces.len(), || MatrixView::empty(0, 0));
        Ok(views)
    }
}

impl<T, D: Deref<Target = [T]> + Into<NonNull<[T]>>> Piece<T, D> {
    fn fit_to(self, shape: (usize, usize), order: Order) -> Result<MatrixView<T, D>, SpreadError> {
        let (view, needed) = match self {
            Self::Slice(data, ld) => return LocalMemory { data, ld, order }.view(shape),
            Self::View(view) => (view, shape),
        };
        let found = (view.rows(), view.cols());
        if found != needed && !(view.is_empty() && needed.0.min(needed.1) == 0) {
            return Err(SpreadError::ViewShape { found, needed });
        }
        let is_in_order = match order {
            Order::Columns => view.is_by_columns(),
            Order::Rows => view.is_by_rows(),
        };
        if !is_in_order && !view.is_empty() {
            return Err(SpreadError::ViewOrder { needed: order });
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use isochron_devices::View;

    use super::*;

    #[test]
    fn ranks_that_no_job_has_are_refused_before_they_are_listed() {
        let huge = 1 << 45;
        let (cyclic, grid) = (BlockCyclic::new(3, 3, 1, 1), ProcessGrid::by_rows(1, 1));
        for refused in [
            Distribution::on_one(3, 3, 0, huge),
            Distribution::block_cyclic(&cyclic, grid, huge),
            Distribution::of_blocks(&blocks(), huge),
        ] {
            let error = refused.err().unwrap();
            assert!(matches!(error, SpreadError::ManyRanks { .. }), "{error}");
        }
    }

    /// 5×7 in 2×3 blocks, of which rank 1 has none and rank 2 has three.
    fn blocks() -> BlockList {
        BlockList {
            row_cuts: vec![0, 2, 5],
            col_cuts: vec![0, 1, 4, 7],
            owners: vec![0, 2, 2, 0, 0, 2],
        }
    }

    #[test]
    fn ranks_have_their_blocks_down_the_columns() {
        let on = Distribution::of_blocks(&blocks(), 3).unwrap();
        assert_eq!((on.rows(), on.cols(), on.n_ranks()), (5, 7, 3));
        assert_eq!(on.local_shapes(0), [(2, 1), (3, 3), (2, 3)]);
        assert_eq!(on.local_shapes(1), [(0, 0)]);
        assert_eq!(on.local_shapes(2), [(3, 1), (2, 3), (3, 3)]);
        let parts: Vec<Region> = on.pieces().iter().map(|piece| piece.part(2)).collect();
        let expected = [(2..5, 0..1), (0..2, 1..4), (2..5, 4..7)];
        assert_eq!(parts, expected.map(|(rows, cols)| Region::new(rows, cols)));
    }

    /// Makes a list of blocks impossible.
    type Spoil = fn(&mut BlockList);

    #[test]
    fn blocks_that_are_no_grid_or_have_no_owner_are_refused() {
        let wrong: [(Spoil, &str); 5] = [
            (|list| list.row_cuts[0] = 1, "row_cuts"),
            (|list| list.col_cuts[2] = 1, "col_cuts"),
            (|list| list.col_cuts.clear(), "col_cuts"),
            (|list| list.owners.truncate(5), "5 owners"),
            (|list| list.owners[3] = 3, "rank 3"),
        ];
        for (spoil, word) in wrong {
            let mut list = blocks();
            spoil(&mut list);
            let text = Distribution::of_blocks(&list, 3).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn regions_must_tile_the_matrix() {
        let regions = [Region::new(0..3, 0..4), Region::new(3..5, 0..4)];
        let on = Distribution::of_regions(5, 4, &regions).unwrap();
        assert_eq!(on.local_shapes(1), [(2, 4)]);
        assert!(matches!(Distribution::of_regions(5, 5, &regions), Err(SpreadError::Tiling(_))));
    }

    #[test]
    fn memory_must_be_that_of_the_pieces() {
        let on = Distribution::of_blocks(&blocks(), 3).unwrap();
        let data = [0.0; 9];
        let three: Vec<(&[f64], usize)> = vec![(&data, 3), (&data, 2), (&data, 3)];
        let fitted = Pieces::from(three.clone()).fit_to(&on, 2).unwrap();
        assert_eq!(fitted.len(), 3);
        let text = Pieces::from(three[..2].to_vec()).fit_to(&on, 2);
        let text = text.unwrap_err().to_string();
        assert!(text.contains("2 pieces") && text.contains("has 3"), "{text}");
        // A rank without blocks gives one empty piece.
        let none = Pieces::<f64, &[f64]>::from((&[0.0; 0], 0)).fit_to(&on, 1).unwrap();
        assert_eq!(none.len(), 3);
        let low = Pieces::from(vec![(&data[..], 3), (&data, 1), (&data, 3)]).fit_to(&on, 2);
        assert!(matches!(low, Err(SpreadError::LeadingDimension { .. })));
        let rows = on.clone().row_major();
        let wide = Pieces::from(vec![(&data[..], 1), (&data, 3), (&data, 3)]).fit_to(&rows, 2);
        let wide = wide.unwrap();
        assert!(wide[1].is_by_rows() && !wide[1].is_by_columns());
    }

    #[test]
    fn views_must_be_those_of_the_pieces() {
        let on = Distribution::of_blocks(&blocks(), 3).unwrap();
        let data = [0.0; 9];
        let views = |[first, second, third]: [(usize, usize); 3]| {
            let view = |(rows, cols)| View::new(&data, rows, cols, 3);
            Pieces::from(vec![view(first), view(second), view(third)])
        };
        let shapes = on.local_shapes(2);
        let shapes = [shapes[0], shapes[1], shapes[2]];
        assert_eq!(views(shapes).fit_to(&on, 2).unwrap().len(), 3);
        let refused = views(shapes).fit_to(&on.clone().row_major(), 2).unwrap_err();
        assert!(matches!(refused, SpreadError::ViewOrder { .. }), "{refused}");
        let refused = views([shapes[1]; 3]).fit_to(&on, 2).unwrap_err();
        assert!(matches!(refused, SpreadError::ViewShape { .. }), "{refused}");
        let none = Pieces::from(View::<f64>::empty(0, 0)).fit_to(&on, 1);
        assert_eq!(none.unwrap().len(), 3);
    }

    #[test]
    fn every_element_is_listed_once_and_filled_where_it_lies() {
        let whole = Distribution::of_blocks(&blocks(), 3).unwrap();
        let cyclic = BlockCyclic::new(5, 7, 2, 3).with_first_blocks(1, 2);
        let cyclic = Distribution::block_cyclic(&cyclic, ProcessGrid::by_columns(2, 1), 3);
        for on in [whole.clone().row_major(), cyclic.unwrap(), whole] {
            let mut seen = [0; 35];
            for rank in 0..3 {
                let shapes = on.local_shapes(rank);
                let lines = |&(rows, cols): &(usize, usize)| match on.order() {
                    Order::Rows => (rows, cols),
                    Order::Columns => (cols, rows),
                };
                let mut memory: Vec<(Vec<usize>, usize)> = (shapes.iter().map(lines))
                    .map(|(lines, along)| (vec![99; lines * (along + 1)], along + 1))
                    .collect();
                let places = memory.iter_mut();
                let places: Vec<(&mut [usize], usize)> =
                    places.map(|(data, ld)| (&mut data[..], *ld)).collect();
                on.fill(rank, places, |row, col| 10 * row + col).unwrap();
                let mut n_filled = 0;
                for (piece, held) in on.elements(rank) {
                    let (data, ld) = &memory[piece];
                    let place = on.order().index(held.local_row, held.local_col, *ld);
                    assert_eq!(data[place], 10 * held.row + held.col);
                    seen[held.row * 7 + held.col] += 1;
                    n_filled += 1;
                }
                let all = memory.iter().flat_map(|(data, _)| data);
                assert_eq!(all.filter(|&&value| value != 99).count(), n_filled);
            }
            assert_eq!(seen, [1; 35]);
        }
        let one = Distribution::on_one(2, 2, 0, 1).unwrap();
        let mut data = [0; 4];
        let text = one.fill(1, (&mut data, 2), |_, _| 1).unwrap_err().to_string();
        assert!(text.contains("no rank 1"), "{text}");
        let text = one.fill(0, (&mut data[..3], 2), |_, _| 1).unwrap_err().to_string();
        assert!(text.contains("local memory of 3"), "{text}");
    }

    #[test]
    fn a_distribution_is_like_a_spread_if_parts_and_order_are() {
        let spread = Spread::whole(4, 6);
        let on = Distribution::from(spread.clone());
        assert!(on.is_like(&spread));
        assert!(!on.clone().row_major().is_like(&spread));
        assert!(on.clone().row_major().transposed().is_like(&spread.transposed()));
        assert!(!on.is_like(&Spread::whole(4, 7)));
        let cyclic =
            Spread::block_cyclic(&BlockCyclic::new(4, 6, 1, 2), ProcessGrid::by_rows(1, 2), 2);
        let cyclic = Distribution::from(cyclic.unwrap());
        assert!(!cyclic.is_like(&Spread::on_one(4, 6, 0, 2).unwrap()));
        assert_ne!(on.describe(), on.clone().row_major().describe());
    }
}
