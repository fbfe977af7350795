//! The tables: rows of figures, a goal, and whether it is met.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::GpuPart;
use crate::statistics::MedianRange;

/// The table of a part. Nothing is published of a part without rows.
#[derive(Debug, Default)]
pub struct PartTable {
    /// The measurements and the columns in words.
    pub about: String,
    pub rows: Vec<TableRow>,
    /// The name of a picture below the table, and its text.
    pub picture: Option<(&'static str, String)>,
}

impl PartTable {
    pub fn new(about: impl Into<String>, rows: Vec<TableRow>) -> Self {
        Self {
            about: about.into(),
            rows,
            picture: None,
        }
    }

    /// Formats the text and the rows; empty without rows.
    pub fn format(&self) -> String {
        let Some(first) = self.rows.first() else {
            return String::new();
        };
        let mut text = format!("\n{}\n\n| |", self.about);
        for (name, _) in &first.cells {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, " {name} |");
        }
        let line = "---|".repeat(first.cells.len());
        let _ = writeln!(text, " goal | met |\n|---|{line}---|---|");
        for row in &self.rows {
            let _ = write!(text, "| {} |", row.what);
            for (_, cell) in &row.cells {
                let _ = write!(text, " {cell} |");
            }
            let _ = writeln!(text, " {} | {} |", row.goal, row.verdict());
        }
        text
    }
}

/// A row of a part's table. All rows of a part have the same cells.
#[must_use]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableRow {
    what: String,
    /// Names of columns with the text of the cells.
    cells: Vec<(String, String)>,
    figures: BTreeMap<String, MedianRange>,
    goal: String,
    /// `None` without a goal or a measurement.
    met: Option<bool>,
    /// The reason why there is no verdict.
    why: String,
}

/// A row with its part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowRecord {
    pub part: GpuPart,
    #[serde(flatten)]
    pub row: TableRow,
}

impl TableRow {
    /// Makes a row about `what`, without cells and without a goal.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cells: Vec::new(),
            figures: BTreeMap::new(),
            goal: String::new(),
            met: None,
            why: String::new(),
        }
    }

    /// Adds a cell of text.
    pub fn with_text(mut self, name: &str, text: impl Into<String>) -> Self {
        self.cells.push((name.to_owned(), text.into()));
        self
    }

    /// Adds a cell of a median and its range; it is empty if nothing was measured.
    pub fn with_range(mut self, name: &str, range: MedianRange, decimals: usize) -> Self {
        self.figures.insert(name.to_owned(), range);
        let text = if range.median.is_finite() {
            range.text(decimals)
        } else {
            String::new()
        };
        self.with_text(name, text)
    }

    /// Adds a cell of a speed in 10⁹ flop/s, given in flop/s.
    pub fn with_speed(self, name: &str, flops_per_s: MedianRange) -> Self {
        let gflops = flops_per_s.scale(1e-9);
        let decimals = if gflops.median >= 1000.0 { 0 } else { 1 };
        self.with_range(name, gflops, decimals)
    }

    /// Sets the goal, and whether the median meets it. Without a measurement there is no verdict.
    pub fn with_goal(mut self, goal: impl Into<String>, median: f64, is_met: bool) -> Self {
        self.goal = goal.into();
        self.met = median.is_finite().then_some(is_met);
        if self.met.is_none() {
            self.why = "not measured".to_owned();
        }
        self
    }

    /// Sets the reason why there is no verdict.
    pub fn without_goal(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Returns `true` if the goal is met.
    #[cfg(test)]
    pub fn is_met(&self) -> Option<bool> {
        self.met
    }

    fn verdict(&self) -> &str {
        match self.met {
            Some(true) => "yes",
            Some(false) => "no",
            None => &self.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_of_a_table() {
        let two = MedianRange::of([2e9, 4e9]);
        let rows = [
            TableRow::new("first")
                .with_speed("GFLOP/s", two)
                .with_goal("≥ 2", 3.0, true),
            TableRow::new("second")
                .with_speed("GFLOP/s", MedianRange::NONE)
                .with_goal("≥ 2", f64::NAN, false),
            TableRow::new("third")
                .with_text("GFLOP/s", "none")
                .without_goal("it is absent"),
        ];
        let text = PartTable::new("", rows.into()).format();
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .collect();
        assert_eq!(
            lines,
            [
                "| | GFLOP/s | goal | met |",
                "|---|---|---|---|",
                "| first | 3.0 (2.0 to 4.0) | ≥ 2 | yes |",
                "| second |  | ≥ 2 | not measured |",
                "| third | none |  | it is absent |",
            ]
        );
        assert_eq!(PartTable::default().format(), "");
    }
}
