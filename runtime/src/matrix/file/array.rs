//! The elements of Matrix Market's format `array`, column after column. With a symmetry they are those of the lower triangle.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::banner::{MarketBanner, Symmetry};
use super::lines::NumberedLines;
use super::losses::Losses;

/// The elements of a file, read as those of a dense matrix, column after column.
pub(super) struct ArrayElements<T> {
    lines: NumberedLines,
    banner: MarketBanner,
    rows: usize,
    /// Number of elements in the file.
    total: usize,
    /// Number of elements that were read.
    read: usize,
    /// Place, column after column, of the next element to be handed out.
    place: usize,
    /// With a symmetry, the lower triangle as far as it was read, the diagonal with it.
    triangle: Vec<T>,
}

impl<T: Scalar> ArrayElements<T> {
    pub fn new(lines: NumberedLines, banner: MarketBanner, rows: usize, total: usize) -> Self {
        Self { lines, banner, rows, total, read: 0, place: 0, triangle: Vec::new() }
    }

    /// Fills `out` with the next elements.
    ///
    /// # Errors
    /// Returns the line and the reason.
    pub fn read_next(&mut self, out: &mut [T]) -> Result<Losses, String> {
        let mut losses = Losses::default();
        for element in out.iter_mut() {
            *element = match self.banner.symmetry {
                Symmetry::General => self.read_element(&mut losses)?.0,
                _ => self.find_element(&mut losses)?,
            };
            self.place += 1;
        }
        if self.read == self.total && self.lines.next_data()?.is_some() {
            let (number, total) = (self.lines.number, self.total);
            return Err(format!("line {number}: more than {total} elements"));
        }
        Ok(losses)
    }

    /// Returns the next element of a matrix with a symmetry.
    fn find_element(&mut self, losses: &mut Losses) -> Result<T, String> {
        let (row, col) = (self.place % self.rows, self.place / self.rows);
        if row < col {
            // In the columns before, col' of them, are rows - col' elements each.
            let place = row * self.rows - row * (row + 1) / 2 + col;
            let value = self.banner.mirror(self.triangle[place].value());
            return Ok(T::of(value));
        }
        let is_told = row > col || self.banner.symmetry != Symmetry::SkewSymmetric;
        let element = if is_told {
            let (element, value) = self.read_element(losses)?;
            if row == col {
                (self.banner.check_diagonal(value)).map_err(|reason| self.blame_line(&reason))?;
            }
            element
        } else {
            T::ZERO
        };
        self.triangle.push(element);
        Ok(element)
    }

    /// Reads an element, as it becomes and as it is in the file.
    fn read_element(&mut self, losses: &mut Losses) -> Result<(T, Complex64), String> {
        let Some(text) = self.lines.next_data()? else {
            return Err(format!("truncated: {} elements of {}", self.read, self.total));
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let value = self
            .banner
            .parse_element::<T>(&words, losses)
            .map_err(|reason| self.blame_line(&reason))?;
        self.read += 1;
        Ok((losses.convert(value), value))
    }

    fn blame_line(&self, reason: &str) -> String {
        format!("line {}: {reason}", self.lines.number)
    }
}
