//! Aligned columns of text.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use isochron_hierarchy::printable::show_name;

/// A table with words in its first columns and numbers in the others.
pub struct TextTable {
    n_words: usize,
    /// The cells of all rows, one after the other.
    text: String,
    /// The bytes of each cell.
    cells: Vec<u32>,
    /// The number of cells in each row.
    rows: Vec<u32>,
}

impl TextTable {
    /// Makes a table with this heading, its columns separated by `|`. The first `n_words` of them are aligned left, the
    /// others right.
    pub fn new(n_words: usize, heading: &str) -> Self {
        let mut table = Self { n_words, text: String::new(), cells: Vec::new(), rows: Vec::new() };
        table.add_row(heading.split('|').map(str::to_owned));
        table
    }

    /// Adds a row. Its cells are printed as [names](show_name).
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        let before = self.cells.len();
        for cell in cells {
            let cell = show_name(&cell);
            self.text += &cell;
            self.cells.push(cell.len() as u32);
        }
        self.rows.push((self.cells.len() - before) as u32);
    }

    /// Calls `visit` with each row: its cells with their widths.
    fn visit_rows(
        &self,
        mut visit: impl FnMut(&[(&str, usize)]) -> std::fmt::Result,
    ) -> std::fmt::Result {
        let (mut cells, mut rest) = (self.cells.iter(), self.text.as_str());
        let mut row = Vec::new();
        for &length in &self.rows {
            row.clear();
            for &bytes in cells.by_ref().take(length as usize) {
                let (cell, after) = rest.split_at(bytes as usize);
                row.push((cell, cell.chars().count()));
                rest = after;
            }
            visit(&row)?;
        }
        Ok(())
    }
}

impl Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut widths: Vec<usize> = Vec::new();
        self.visit_rows(|row| {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, &(_, own)) in widths.iter_mut().zip(row) {
                *width = own.max(*width);
            }
            Ok(())
        })?;
        let mut line = String::new();
        self.visit_rows(|row| {
            line.clear();
            for (column, (&(cell, own), &width)) in row.iter().zip(&widths).enumerate() {
                let space = std::iter::repeat_n(' ', width - own);
                if column < self.n_words {
                    line += cell;
                    line.extend(space);
                } else {
                    line.extend(space);
                    line += cell;
                }
                line += "  ";
            }
            writeln!(f, "{}", line.trim_end())
        })
    }
}

/// A row of numbers and fixed words.
#[derive(Default)]
pub struct NumberRow {
    text: String,
    /// The end of each cell.
    ends: Vec<usize>,
}

impl NumberRow {
    /// Adds a cell.
    pub fn add(&mut self, cell: impl Display) {
        // A text takes everything.
        let _ = write!(self.text, "{cell}");
        self.ends.push(self.text.len());
    }

    /// Removes all cells.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn cells(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end])
    }
}

/// Writes a table of numbers under a heading, its columns separated by `|`. All are aligned right. There may be millions of
/// rows, so none is kept: `visit_rows` calls its argument with each row, once for the widths and once more to write.
pub fn write_numbers(
    out: &mut dyn Write,
    heading: &str,
    visit_rows: impl Fn(&mut dyn FnMut(&NumberRow) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let mut widths: Vec<usize> = heading.split('|').map(str::len).collect();
    visit_rows(&mut |row| {
        for (width, cell) in widths.iter_mut().zip(row.cells()) {
            *width = cell.len().max(*width);
        }
        Ok(())
    })?;
    let mut line = String::new();
    let mut write_row = |cells: &mut dyn Iterator<Item = &str>| {
        line.clear();
        for (cell, width) in cells.zip(&widths) {
            let gap = if line.is_empty() { 0 } else { 2 };
            line.extend(std::iter::repeat_n(' ', gap + width - cell.len()));
            line += cell;
        }
        writeln!(out, "{line}")
    };
    write_row(&mut heading.split('|'))?;
    visit_rows(&mut |row| write_row(&mut row.cells()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_on_the_left_and_numbers_on_the_right() {
        let mut table = TextTable::new(1, "name|s");
        table.add_row(["b", "10.5"].map(str::to_owned));
        assert_eq!(table.to_string(), "name     s\nb     10.5\n");
    }

    #[test]
    fn numbers_are_aligned_as_in_a_table_that_keeps_them() {
        let rows = [vec!["1", "2.25", "too slow"], vec!["1000000", "3"], vec![]];
        let mut table = TextTable::new(0, "d|time s|flag");
        for row in &rows {
            table.add_row(row.iter().map(|&cell| cell.to_owned()));
        }
        let mut written = Vec::new();
        write_numbers(&mut written, "d|time s|flag", |visit| {
            let mut numbers = NumberRow::default();
            rows.iter().try_for_each(|row| {
                numbers.clear();
                row.iter().for_each(|cell| numbers.add(cell));
                visit(&numbers)
            })
        })
        .unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), table.to_string());
    }

    #[test]
    fn names_that_others_chose_keep_to_their_cells() {
        let mut table = TextTable::new(1, "name|s");
        for name in ["x".repeat(100_000), "a\u{202e}\nb".to_owned()] {
            table.add_row([name, "1".to_owned()]);
        }
        let [half, rest] = [40, 39].map(|length| "x".repeat(length));
        let (heading, blank) = (" ".repeat(76), " ".repeat(68));
        assert_eq!(
            table.to_string(),
            format!("name{heading}  s\n{half}…{rest}  1\na\\u{{202e}}\\nb{blank}  1\n")
        );
    }
}
