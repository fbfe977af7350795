//! Aligned columns of text.

/// A table with words in its first columns and numbers in the others.
pub struct TextTable {
    n_words: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Makes a table with this heading. The first `n_words` columns are aligned left, the others right.
    pub fn new(n_words: usize, heading: &[&str]) -> Self {
        Self {
            n_words,
            rows: vec![heading.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row.
    pub fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the characters of the longest cell in a column.
    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..n_columns).map(|i| self.column_width(i)).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let aligned: Vec<String> = cells
                .map(|(column, (cell, &width))| match column < self.n_words {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                })
                .collect();
            writeln!(f, "{}", aligned.join("  ").trim_end())?;
        }
        Ok(())
    }
}
