//! The elements of Matrix Market's format `coordinate`, in which each line has a row, a column and a value.

use std::vec;

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::market::{MarketBanner, NumberedLines, parse_element};

/// Returns the fewest bytes of a line with an element: three digits or four, spaces between them, and a line break.
pub(super) fn find_shortest_entry(banner: MarketBanner) -> u64 {
    6 + 2 * u64::from(banner.element.is_complex())
}

/// An element with its place, column after column.
#[derive(Debug, Clone, Copy)]
struct PlacedElement {
    place: usize,
    value: Complex64,
}

/// The elements of a file, read as those of a dense matrix, column after column. The lines may be in any order, so all are
/// read before the first element is known.
pub(super) struct CoordinateElements {
    lines: NumberedLines,
    banner: MarketBanner,
    rows: usize,
    cols: usize,
    entries: usize,
    /// The elements that were not handed out yet, once they are read.
    left: Option<vec::IntoIter<PlacedElement>>,
    /// Elements of the dense matrix that were handed out.
    done: usize,
}

impl CoordinateElements {
    /// Begins to read this number of `entries`, the lines that follow.
    pub fn new(
        lines: NumberedLines,
        banner: MarketBanner,
        (rows, cols): (usize, usize),
        entries: usize,
    ) -> Self {
        Self {
            lines,
            banner,
            rows,
            cols,
            entries,
            left: None,
            done: 0,
        }
    }

    /// Fills `out` with the next elements of the dense matrix.
    ///
    /// # Errors
    /// The line and the reason.
    pub fn read_next<T: Scalar>(&mut self, out: &mut [T]) -> Result<(), String> {
        if self.left.is_none() {
            self.left = Some(self.read_all()?.into_iter());
        }
        out.fill(T::ZERO);
        let end = self.done + out.len();
        let left = self.left.iter_mut().flat_map(|left| {
            let here = left
                .as_slice()
                .partition_point(|element| element.place < end);
            left.take(here)
        });
        for element in left {
            out[element.place - self.done] = T::of(element.value);
        }
        self.done = end;
        Ok(())
    }

    /// Reads all lines; returns the elements by place.
    fn read_all(&mut self) -> Result<Vec<PlacedElement>, String> {
        let mut elements = Vec::new();
        for read in 0..self.entries {
            let Some(text) = self.lines.next_data()? else {
                return Err(format!("truncated: {read} elements of {}", self.entries));
            };
            let parsed = parse_entry(text, self.banner.element.is_complex());
            let placed = parsed.and_then(|(row, col, value)| self.place_element(row, col, value));
            let (first, mirrored) =
                placed.map_err(|reason| format!("line {}: {reason}", self.lines.number))?;
            elements.push(first);
            elements.extend(mirrored);
        }
        if self.lines.next_data()?.is_some() {
            let (number, entries) = (self.lines.number, self.entries);
            return Err(format!("line {number}: more than {entries} elements"));
        }
        elements.sort_unstable_by_key(|element| element.place);
        let mut pairs = elements.windows(2);
        match pairs.find(|pair| pair[0].place == pair[1].place) {
            Some(pair) => Err(format!(
                "element ({}, {}) is given twice",
                1 + pair[0].place % self.rows,
                1 + pair[0].place / self.rows
            )),
            None => Ok(elements),
        }
    }

    /// Places an element by its row and column, counted from 1, and the one across the diagonal.
    fn place_element(
        &self,
        row: usize,
        col: usize,
        value: Complex64,
    ) -> Result<(PlacedElement, Option<PlacedElement>), String> {
        let (rows, cols) = (self.rows, self.cols);
        if !(1..=rows).contains(&row) || !(1..=cols).contains(&col) {
            return Err(format!("({row}, {col}) lies outside {rows}×{cols}"));
        }
        let place = (row - 1) + (col - 1) * rows;
        if !self.banner.is_symmetric || row == col {
            return Ok((PlacedElement { place, value }, None));
        }
        if rows != cols {
            return Err(format!("a symmetric matrix is square, not {rows}×{cols}"));
        }
        let across = PlacedElement {
            place: (col - 1) + (row - 1) * rows,
            value,
        };
        Ok((PlacedElement { place, value }, Some(across)))
    }
}

/// Parses `row column value`.
fn parse_entry(text: &str, is_complex: bool) -> Result<(usize, usize, Complex64), String> {
    let mut words = text.splitn(3, char::is_whitespace);
    let (row, col, value) = (words.next(), words.next(), words.next());
    let place = row.and_then(|row| row.parse().ok());
    let place = place.zip(col.and_then(|col| col.parse().ok()));
    let Some(((row, col), value)) = place.zip(value) else {
        return Err(format!("`{text}`; wanted `row column value`"));
    };
    Ok((row, col, parse_element(value.trim(), is_complex)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::open;
    use crate::comm::LocalComm;
    use crate::error::Error;
    use crate::matrix::Spread;

    /// Reads a file with this text; returns its shape and its elements, column after column.
    fn read_text(text: &str) -> Result<(usize, usize, Vec<f64>), Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mtx");
        std::fs::write(&path, text).unwrap();
        read_file(&path)
    }

    fn read_file(path: &Path) -> Result<(usize, usize, Vec<f64>), Error> {
        let comm = LocalComm::new();
        let file = open(&comm, path)?;
        let shape = file.shape();
        let (matrix, _) = file.read::<f64>(&comm, Spread::whole(shape.rows, shape.cols))?;
        let local = matrix.local();
        let elements = (0..shape.cols)
            .flat_map(|col| local.col(col).to_vec())
            .collect();
        Ok((shape.rows, shape.cols, elements))
    }

    #[test]
    fn elements_without_a_line_are_zero_and_lines_have_any_order() {
        let text = "%%MatrixMarket matrix coordinate real general\n% words\n2 3 3\n2 3 7\n1 1  -1e0\n2 1 4\n";
        let (rows, cols, elements) = read_text(text).unwrap();
        assert_eq!((rows, cols), (2, 3));
        assert_eq!(elements, [-1.0, 4.0, 0.0, 0.0, 0.0, 7.0]);
        let empty = "%%MatrixMarket matrix coordinate integer general\n2 1 0\n";
        assert_eq!(read_text(empty).unwrap().2, [0.0, 0.0]);
    }

    #[test]
    fn a_symmetric_file_has_one_half() {
        let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 3\n2 1 5\n";
        assert_eq!(read_text(text).unwrap().2, [3.0, 5.0, 5.0, 0.0]);
    }

    #[test]
    fn broken_files_are_told_with_line_and_reason() {
        let real = "%%MatrixMarket matrix coordinate real general\n";
        for (text, reason) in [
            (
                format!("{real}2 2\n"),
                "line 2: `2 2`; wanted `rows cols elements`",
            ),
            (
                format!("{real}2 2 2\n1 1 1.25\n"),
                "truncated: 1 elements of 2",
            ),
            (format!("{real}9 9 90\n1 1 1\n"), "truncated: "),
            (
                format!("{real}2 2 1\n1 1 1\n2 2 2\n"),
                "line 4: more than 1 elements",
            ),
            (
                format!("{real}2 2 1\n3 1 1\n"),
                "line 3: (3, 1) lies outside 2×2",
            ),
            (
                format!("{real}2 2 1\n0 1 1\n"),
                "line 3: (0, 1) lies outside 2×2",
            ),
            (
                format!("{real}2 2 1\n1 1\n% long enough\n"),
                "line 3: `1 1`; wanted `row column value`",
            ),
            (
                format!("{real}2 2 1\n1 1 one\n"),
                "line 3: `one` is not a number",
            ),
            (
                format!("{real}2 2 2\n2 1 1\n2 1 2\n"),
                "element (2, 1) is given twice",
            ),
            (
                "%%MatrixMarket matrix coordinate real symmetric\n1 2 1\n1 2 1\n".to_owned(),
                "a symmetric matrix is square",
            ),
            (
                "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n".to_owned(),
                "wanted `matrix array real general`, or `coordinate`",
            ),
            (
                "%%MatrixMarket matrix array real symmetric\n1 1\n1\n".to_owned(),
                "wanted `matrix array real general`",
            ),
        ] {
            let error = read_text(&text).unwrap_err().to_string();
            assert!(
                error.contains(reason),
                "{error:?} should contain {reason:?}"
            );
        }
    }
}
