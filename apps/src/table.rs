//! Aligned columns of text.

/// A table with words in its first columns and numbers in the others.
pub struct TextTable {
    n_words: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Makes a table with this heading, its columns separated by `|`. The first `n_words` of them are aligned left, the
    /// others right.
    pub fn new(n_words: usize, heading: &str) -> Self {
        let heading = heading.split('|').map(str::to_owned);
        Self {
            n_words,
            rows: vec![heading.collect()],
        }
    }

    /// Adds a row.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // A width in a format may be at most 65535.
                let space = " ".repeat(width - cell.chars().count());
                line += &match column < self.n_words {
                    true => format!("{cell}{space}  "),
                    false => format!("{space}{cell}  "),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
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
    fn a_column_may_have_any_width() {
        let long = "x".repeat(100_000);
        let mut table = TextTable::new(1, "name|s");
        table.add_row([long.clone(), "1".to_owned()]);
        assert!(table.to_string().ends_with(&format!("\n{long}  1\n")));
    }
}
