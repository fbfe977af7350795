//! The elements of Matrix Market's format `coordinate`, in which each line has a row, a column and a value.

use std::vec;

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::banner::{MarketBanner, Symmetry};
use super::lines::NumberedLines;
use super::losses::Losses;
use crate::watch::LongCall;

/// Seconds to sort an element, at most.
const SORTED_S: f64 = 2e-7;

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
        rows: usize,
        cols: usize,
        entries: usize,
    ) -> Self {
        Self { lines, banner, rows, cols, entries, left: None, done: 0 }
    }

    /// Fills `out` with the next elements of the dense matrix.
    ///
    /// # Errors
    /// Returns the line and the reason.
    pub fn read_next<T: Scalar>(&mut self, out: &mut [T]) -> Result<Losses, String> {
        let mut losses = Losses::default();
        if self.left.is_none() {
            self.left = Some(self.read_all::<T>(&mut losses)?.into_iter());
        }
        out.fill(T::ZERO);
        let end = self.done + out.len();
        let left = self.left.iter_mut().flat_map(|left| {
            let here = left.as_slice().partition_point(|element| element.place < end);
            left.take(here)
        });
        for element in left {
            out[element.place - self.done] = losses.convert(element.value);
        }
        self.done = end;
        Ok(losses)
    }

    /// Reads all lines; returns the elements by place, each once.
    fn read_all<T: Scalar>(&mut self, losses: &mut Losses) -> Result<Vec<PlacedElement>, String> {
        let mut elements = Vec::new();
        let mut halves = HalvesSeen::default();
        for read in 0..self.entries {
            let Some(text) = self.lines.next_data()? else {
                return Err(format!("truncated: {read} elements of {}", self.entries));
            };
            let placed = parse_entry::<T>(self.banner, text, losses)
                .and_then(|entry| self.place_entry(entry, &mut halves));
            let number = self.lines.number;
            elements.push(placed.map_err(|reason| format!("line {number}: {reason}"))?);
        }
        if self.lines.next_data()?.is_some() {
            let (number, entries) = (self.lines.number, self.entries);
            return Err(format!("line {number}: more than {entries} elements"));
        }
        let _sorting = LongCall::begin(elements.len() as f64 * SORTED_S);
        // Equal places stay in the order of their lines, so that their sum is always the same.
        elements.sort_by_key(|element| element.place);
        let lines = elements.len();
        elements.dedup_by(|next, first| {
            let is_same = next.place == first.place;
            first.value += if is_same { next.value } else { Complex64::ZERO };
            is_same
        });
        losses.added += (lines - elements.len()) as u64;
        self.mirror(&mut elements);
        Ok(elements)
    }

    /// Places an entry.
    fn place_entry(
        &self,
        MarketEntry { row, col, value }: MarketEntry,
        halves: &mut HalvesSeen,
    ) -> Result<PlacedElement, String> {
        let (rows, cols) = (self.rows, self.cols);
        if !(1..=rows).contains(&row) || !(1..=cols).contains(&col) {
            return Err(format!("({row}, {col}) lies outside {rows}×{cols}"));
        }
        if self.banner.symmetry != Symmetry::General {
            halves.lower |= row > col;
            halves.upper |= row < col;
            if row == col {
                self.banner.check_diagonal(value)?;
            }
            if halves.lower && halves.upper {
                let symmetry = self.banner.symmetry;
                return Err(format!(
                    "({row}, {col}) lies across the diagonal from other elements; a {symmetry} matrix is given by one half"
                ));
            }
        }
        Ok(PlacedElement { place: (row - 1) + (col - 1) * rows, value })
    }

    /// Adds the elements across the diagonal.
    fn mirror(&self, elements: &mut Vec<PlacedElement>) {
        if self.banner.symmetry == Symmetry::General {
            return;
        }
        let rows = self.rows;
        let across = |element: &PlacedElement| PlacedElement {
            place: element.place / rows + element.place % rows * rows,
            value: self.banner.mirror(element.value),
        };
        let mirrored: Vec<_> = (elements.iter())
            .filter(|element| element.place / rows != element.place % rows)
            .map(across)
            .collect();
        elements.extend(mirrored);
        elements.sort_unstable_by_key(|element| element.place);
    }
}

/// The halves of a matrix with a symmetry that have elements off the diagonal.
#[derive(Debug, Default)]
struct HalvesSeen {
    lower: bool,
    upper: bool,
}

/// An element with its row and column, counted from 1.
struct MarketEntry {
    row: usize,
    col: usize,
    value: Complex64,
}

/// Parses `row column value`.
fn parse_entry<T: Scalar>(
    banner: MarketBanner,
    text: &str,
    losses: &mut Losses,
) -> Result<MarketEntry, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wanted = ["row column", "row column value", "row column real imaginary"];
    let wanted = wanted[banner.count_words()];
    let [row, col, value @ ..] = &words[..] else {
        return Err(format!("`{text}`; wanted `{wanted}`"));
    };
    let (Ok(row), Ok(col), true) = (row.parse(), col.parse(), value.len() == banner.count_words())
    else {
        return Err(format!("`{text}`; wanted `{wanted}`"));
    };
    let value = banner.parse_element::<T>(value, losses)?;
    Ok(MarketEntry { row, col, value })
}
