//! Aligned columns of text.

use isochron_hierarchy::printable::show_name;

/// A table with words in its first columns and numbers in the others.
pub struct TextTable {
    n_words: usize,
    /// The cells of all rows, one after the other: a table may have millions of rows.
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
        let mut table = Self {
            n_words,
            text: String::new(),
            cells: Vec::new(),
            rows: Vec::new(),
        };
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

impl std::fmt::Display for TextTable {
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
