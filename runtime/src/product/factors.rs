//! The matrices of a run: in the program's memory, in the runtime's, or made part by part.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use isochron_devices::{MatrixView, View, ViewMut};

use super::check::check_part;
use super::{Element, MakePart, Origin, Product};
use crate::error::Error;
use crate::matrix::{HeldMatrix, Matrix, Pieces};
use crate::plan::{A, B};

/// The factors A and B of a run.
pub struct Factors<'m, T: 'static>(Source<'m, T>);

enum Source<'m, T: 'static> {
    Whole([Lent<'m, T>; 2]),
    Made(&'m mut MakePart<'m, T>),
}

impl<'m, T> Factors<'m, T> {
    /// Takes whole matrices A and B.
    pub fn of(a: impl Into<Lent<'m, T>>, b: impl Into<Lent<'m, T>>) -> Self {
        Self(Source::Whole([a.into(), b.into()]))
    }

    /// Takes A and B in parts of k, for memory that cannot hold them whole. `make` makes or reads each part in its turn, and
    /// returns this rank's share of A and of B, spread as [`PartOfK::a`](crate::plan::PartOfK::a) and
    /// [`PartOfK::b`](crate::plan::PartOfK::b) say or [alone](HeldMatrix::alone).
    pub fn made(make: &'m mut MakePart<'m, T>) -> Self {
        Self(Source::Made(make))
    }

    /// Returns the place of a factor, which is the same on all ranks.
    pub(super) fn place(&self, side: usize) -> &'static str {
        match &self.0 {
            Source::Whole(factors) => factors[side].place(),
            Source::Made(_) => "made in parts of k",
        }
    }
}

impl<T> fmt::Debug for Factors<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = [A, B].map(|side| self.place(side));
        f.debug_struct("Factors").field("a", &a).field("b", &b).finish()
    }
}

/// A matrix that is read: the program's memory for its [`Distribution`](crate::matrix::Distribution), or a [`Matrix`] of the runtime.
///
/// It is made from `(&data, ld)` or a [`View`], from a list of them for blocks, or from `&matrix`.
#[derive(Debug)]
pub struct Lent<'m, T>(LentMemory<Pieces<T, &'m [T]>, &'m HeldMatrix<'m, T>>);

/// The matrix C of a run: the program's memory for its [`Distribution`](crate::matrix::Distribution), or a [`Matrix`] of the runtime.
///
/// It is made from `(&mut data, ld)` or a [`ViewMut`], from a list of them for blocks, or from `&mut matrix`.
#[derive(Debug)]
pub struct Target<'m, T: 'static>(LentMemory<Pieces<T, &'m mut [T]>, &'m mut Matrix<T>>);

#[derive(Debug)]
enum LentMemory<P, M> {
    Pieces(P),
    Matrix(M),
}

impl<P, M> LentMemory<P, M> {
    fn place(&self) -> &'static str {
        match self {
            Self::Pieces(_) => "in the program's memory",
            Self::Matrix(_) => "a matrix of the runtime",
        }
    }
}

impl<T> Lent<'_, T> {
    fn place(&self) -> &'static str {
        self.0.place()
    }
}

impl<T> Target<'_, T> {
    /// Returns the place of C, which is the same on all ranks.
    pub(super) fn place(&self) -> &'static str {
        self.0.place()
    }
}

impl<'m, T, D: AsRef<[T]> + ?Sized> From<(&'m D, usize)> for Lent<'m, T> {
    fn from(piece: (&'m D, usize)) -> Self {
        Self(LentMemory::Pieces(piece.into()))
    }
}

impl<'m, T> From<Vec<(&'m [T], usize)>> for Lent<'m, T> {
    fn from(pieces: Vec<(&'m [T], usize)>) -> Self {
        Self(LentMemory::Pieces(pieces.into()))
    }
}

impl<'m, T> From<View<'m, T>> for Lent<'m, T> {
    fn from(view: View<'m, T>) -> Self {
        Self(LentMemory::Pieces(view.into()))
    }
}

impl<'m, T> From<Vec<View<'m, T>>> for Lent<'m, T> {
    fn from(views: Vec<View<'m, T>>) -> Self {
        Self(LentMemory::Pieces(views.into()))
    }
}

impl<'m, T> From<&'m HeldMatrix<'m, T>> for Lent<'m, T> {
    fn from(matrix: &'m HeldMatrix<'m, T>) -> Self {
        Self(LentMemory::Matrix(matrix))
    }
}

impl<'m, T, D: AsMut<[T]> + ?Sized> From<(&'m mut D, usize)> for Target<'m, T> {
    fn from(piece: (&'m mut D, usize)) -> Self {
        Self(LentMemory::Pieces(piece.into()))
    }
}

impl<'m, T> From<Vec<(&'m mut [T], usize)>> for Target<'m, T> {
    fn from(pieces: Vec<(&'m mut [T], usize)>) -> Self {
        Self(LentMemory::Pieces(pieces.into()))
    }
}

impl<'m, T> From<ViewMut<'m, T>> for Target<'m, T> {
    fn from(view: ViewMut<'m, T>) -> Self {
        Self(LentMemory::Pieces(view.into()))
    }
}

impl<'m, T> From<Vec<ViewMut<'m, T>>> for Target<'m, T> {
    fn from(views: Vec<ViewMut<'m, T>>) -> Self {
        Self(LentMemory::Pieces(views.into()))
    }
}

impl<'m, T> From<&'m mut Matrix<T>> for Target<'m, T> {
    fn from(matrix: &'m mut Matrix<T>) -> Self {
        Self(LentMemory::Matrix(matrix))
    }
}

/// A matrix of a run on this rank.
pub(super) enum MatrixPlace<M, P> {
    /// The matrix is used where it lies.
    Here(M),
    /// The pieces are moved to the plan's layout and, for C, back.
    Elsewhere(P),
}

impl<M, P> MatrixPlace<M, P> {
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }
}

/// A factor of a run on this rank.
pub(super) type PlacedFactor<'m, T> = MatrixPlace<HeldMatrix<'m, T>, Vec<View<'m, T>>>;

/// C of a run on this rank.
pub(super) type PlacedC<'m, T> = MatrixPlace<CHere<'m, T>, Vec<ViewMut<'m, T>>>;

/// C where the plan has it.
#[expect(clippy::large_enum_variant, reason = "there is one in a run, and no allocation for it")]
pub(super) enum CHere<'m, T: 'static> {
    Matrix(&'m mut Matrix<T>),
    Lent(HeldMatrix<'m, T>),
}

/// The factors of a run on this rank, in the order of the plan's problem.
#[expect(clippy::large_enum_variant, reason = "there is one in a run, and no allocation for it")]
pub(super) enum FactorsHere<'m, T: 'static> {
    Whole([PlacedFactor<'m, T>; 2]),
    Made(&'m mut MakePart<'m, T>),
}

/// The matrices of a run on this rank.
pub(super) struct PlacedProduct<'m, T: 'static> {
    pub factors: FactorsHere<'m, T>,
    pub c: PlacedC<'m, T>,
}

impl<T: Element> Product<T> {
    /// Finds the places of A and B on this rank, in the order of the plan's problem.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] for whole factors where the plan has them in parts of k, for parts of k of a product
    /// that was prepared for distributions, and for a matrix or memory that does not suit the product, on this rank
    /// alone.
    pub(super) fn place_factors<'m>(
        &self,
        factors: Factors<'m, T>,
        rank: usize,
    ) -> Result<FactorsHere<'m, T>, Error> {
        let [a, b] = match factors.0 {
            Source::Whole(factors) => factors,
            Source::Made(make) => {
                self.check_of_plan("A and B are made in parts of k")?;
                return Ok(FactorsHere::Made(make));
            }
        };
        self.plan.check_whole()?;
        let is_transposed = self.is_transposed();
        let turn = usize::from(is_transposed);
        let a = self.place_factor("A", a, turn, rank)?;
        let b = self.place_factor("B", b, 1 - turn, rank)?;
        Ok(FactorsHere::Whole(if is_transposed { [b, a] } else { [a, b] }))
    }

    /// Finds the place of the factor that is called `name`, and is on this side of the plan's problem.
    fn place_factor<'m>(
        &self,
        name: &'static str,
        factor: Lent<'m, T>,
        side: usize,
        rank: usize,
    ) -> Result<PlacedFactor<'m, T>, Error> {
        let pieces = match factor.0 {
            LentMemory::Matrix(matrix) => {
                self.check_matrix(name, matrix, side, rank)?;
                return Ok(MatrixPlace::Here(matrix.show_again()));
            }
            LentMemory::Pieces(pieces) => self.fit_pieces(name, pieces, side, rank)?,
        };
        if !self.in_place[side] {
            return Ok(MatrixPlace::Elsewhere(pieces));
        }
        let (on, spread) = (&self.on[side], self.planned[side].clone());
        let local = (pieces.into_iter().next()).unwrap_or_else(|| View::empty(0, 0));
        let is_scattered = self.plan.scattered()[side];
        let shown = match on.only_spread().filter(|_| is_scattered) {
            Some(has) => HeldMatrix::show_scattered(spread, has, rank, local),
            None => HeldMatrix::show(spread, rank, local),
        };
        Ok(MatrixPlace::Here(shown?))
    }

    /// Finds the place of C on this rank.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] for a matrix or memory that does not suit the product, on this rank alone.
    pub(super) fn place_c<'m>(
        &self,
        c: Target<'m, T>,
        rank: usize,
    ) -> Result<PlacedC<'m, T>, Error> {
        let pieces = match c.0 {
            LentMemory::Matrix(matrix) => {
                self.check_matrix("C", matrix, 2, rank)?;
                return Ok(MatrixPlace::Here(CHere::Matrix(matrix)));
            }
            LentMemory::Pieces(pieces) => self.fit_pieces("C", pieces, 2, rank)?,
        };
        if !self.in_place[2] {
            return Ok(MatrixPlace::Elsewhere(pieces));
        }
        let local = (pieces.into_iter().next()).unwrap_or_else(|| ViewMut::empty(0, 0));
        let lent = HeldMatrix::lend(self.planned[2].clone(), rank, local)?;
        Ok(MatrixPlace::Here(CHere::Lent(lent)))
    }

    /// Returns the local matrices of the pieces on this side, as the plan's problem has them.
    fn fit_pieces<D: Deref<Target = [T]> + Into<NonNull<[T]>>>(
        &self,
        name: &str,
        pieces: Pieces<T, D>,
        side: usize,
        rank: usize,
    ) -> Result<Vec<MatrixView<T, D>>, Error> {
        let on = &self.on[side];
        let views = if self.flips[side] {
            // The pieces are those of the program's matrix.
            pieces
                .fit_to(&on.transposed(), rank)
                .map(|views| views.into_iter().map(MatrixView::transposed).collect())
        } else {
            pieces.fit_to(on, rank)
        };
        views.map_err(|error| Error::Shape(format!("the memory of {name}: {error}")))
    }

    /// Checks that a matrix of the runtime is spread as the plan says.
    fn check_matrix(
        &self,
        name: &'static str,
        matrix: &HeldMatrix<'_, T>,
        side: usize,
        rank: usize,
    ) -> Result<(), Error> {
        self.check_of_plan(&format!("{name} is a matrix of the runtime"))?;
        check_part(name, matrix, &self.planned[side], rank)
    }

    /// Checks that the product was prepared from a plan. Plans of other products may number rows and columns otherwise, or be for
    /// the transposed product.
    fn check_of_plan(&self, what: &str) -> Result<(), Error> {
        if self.origin == Origin::Plan {
            return Ok(());
        }
        let reason = "the product was prepared for distributions of the program's own memory";
        Err(Error::Shape(format!("{what}, and {reason}")))
    }

    /// Returns `true` if the plan is for the transposed product.
    pub(super) fn is_transposed(&self) -> bool {
        self.origin == Origin::Matrices { is_transposed: true }
    }
}
