//! Aligned columns of text.

/// A table whose first columns are words and whose other columns are numbers.
pub struct Table {
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with the given heading; the first `words` columns are aligned left, the others right.
    pub fn new(words: usize, heading: &[&str]) -> Self {
        Self {
            words,
            rows: vec![heading.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..n_columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let cell = if column < self.words {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                };
                line = if column == 0 {
                    cell
                } else {
                    format!("{line}  {cell}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
