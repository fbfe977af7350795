//! The search for elements that are no finite numbers.

use std::fmt;

use isochron_devices::{ElementType, Scalar};

use super::{HeldMatrix, Region};
use crate::comm::{CollectiveCall, Comm};
use crate::error::Error;

/// Elements of a matrix that are NaN or infinite, such as numbers beyond the range of their type.
#[derive(Debug, Clone, PartialEq)]
pub struct NotFinite {
    /// Number of such elements on all ranks.
    pub count: u64,
    /// Row and column of the first one, row by row, counted from 0.
    pub first: (usize, usize),
    /// The first one as text.
    pub text: String,
    /// Type of the elements.
    pub element: ElementType,
    /// The elements that were searched, if they are a [window](super::Spread::within).
    pub window: Option<Region>,
}

/// Number of such elements on one rank, and place and text of the first one.
type Found = (u64, Option<((usize, usize), String)>);

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "elements that are not finite as {}", self.element)?;
        if let Some(window) = &self.window {
            let (rows, cols) = (window.row_range(), window.col_range());
            write!(
                f,
                ", of rows {}..{} and columns {}..{}",
                rows.start, rows.end, cols.start, cols.end
            )?;
        }
        let (row, col) = self.first;
        let (count, text) = (self.count, &self.text);
        write!(f, ": {count}; the first is {text} in row {row}, column {col} (counted from 0)")
    }
}

impl<T: Scalar> HeldMatrix<'_, T> {
    /// Finds the elements of all ranks that are NaN or infinite; `None` if there are none.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank if the ranks run different programs.
    ///
    /// # Collective
    /// All ranks.
    pub fn find_not_finite(&self, comm: &dyn Comm) -> Result<Option<NotFinite>, Error> {
        let _call = CollectiveCall::new(comm, "looking for elements that are not finite")
            .with("element", &T::TYPE)
            .with("shape", &(self.spread.rows(), self.spread.cols()))
            .enter()?;
        let all = comm.gather(&self.find_on_this_rank())?;
        let count = all.iter().map(|(count, _)| count).sum();
        let first = all.into_iter().filter_map(|(_, first)| first).min();
        let window = self.spread.is_window().then(|| self.spread.window());
        Ok(first.map(|(first, text)| NotFinite { count, first, text, element: T::TYPE, window }))
    }

    fn find_on_this_rank(&self) -> Found {
        let Region { row, col, .. } = self.part();
        let (mut count, mut first) = (0, None);
        for (j, column) in self.columns().enumerate() {
            let Some(i) = column.iter().copied().position(|x| is_not_finite(&x)) else {
                continue;
            };
            count += column[i..].iter().copied().filter(is_not_finite).count() as u64;
            let found = ((row + i, col + j), format_element(column[i]));
            first = first.into_iter().chain([found]).min();
        }
        (count, first)
    }
}

fn is_not_finite<T: Scalar>(value: &T) -> bool {
    !value.value().is_finite()
}

fn format_element<T: Scalar>(element: T) -> String {
    if T::TYPE.is_complex() { element.value().to_string() } else { element.value().re.to_string() }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex32;

    use super::super::{Matrix, Spread};
    use crate::comm::LocalComm;

    #[test]
    fn the_first_row_comes_before_the_first_column() {
        let mut matrix: Matrix = Matrix::zeros(Spread::whole(5, 4), 0).unwrap();
        assert_eq!(matrix.find_not_finite(&LocalComm::new()).unwrap(), None);
        matrix.fill(|i, j| match (i, j) {
            (3, 0) => f64::NAN,
            (1, 2) => f64::NEG_INFINITY,
            (1, 3) | (4, 2) => f64::INFINITY,
            _ => f64::MAX,
        });
        let found = matrix.find_not_finite(&LocalComm::new()).unwrap().unwrap();
        let text = "elements that are not finite as f64: 4; the first is -inf in row 1, column 2 (counted from 0)";
        assert_eq!(found.to_string(), text);
    }

    #[test]
    fn parts_of_complex_numbers_and_windows_are_searched() {
        let window = Spread::whole(2, 3).within((0, 6), (2, 12));
        let mut matrix: Matrix<Complex32> = Matrix::zeros(window, 0).unwrap();
        matrix.fill(|i, j| match (i, j) {
            (1, 7) => Complex32::new(1.0, f32::NAN),
            _ => Complex32::new(1.0, f32::MAX),
        });
        let found = matrix.find_not_finite(&LocalComm::new()).unwrap().unwrap();
        assert_eq!((found.count, found.first), (1, (1, 7)));
        let text = found.to_string();
        assert!(
            text.contains("c32, of rows 0..2 and columns 6..9: 1; the first is 1+NaNi"),
            "{text}"
        );
    }
}
