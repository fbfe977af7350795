//! The rows of the tables: figures, a goal, and whether it is met.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::GpuPart;
use super::record::GpuResults;
use crate::statistics::MedianRange;

/// A row of a part's table. All rows of a part have the same cells.
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
    part: GpuPart,
    #[serde(flatten)]
    row: TableRow,
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
    #[must_use]
    pub fn with_text(mut self, name: &str, text: impl Into<String>) -> Self {
        self.cells.push((name.to_owned(), text.into()));
        self
    }

    /// Adds a cell of a median and its range; it is empty if nothing was measured.
    #[must_use]
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
    #[must_use]
    pub fn with_speed(self, name: &str, flops_per_s: MedianRange) -> Self {
        let gflops = flops_per_s.scale(1e-9);
        let decimals = if gflops.median >= 1000.0 { 0 } else { 1 };
        self.with_range(name, gflops, decimals)
    }

    /// Sets the goal, and whether the median meets it. Without a measurement there is no verdict.
    #[must_use]
    pub fn with_goal(mut self, goal: impl Into<String>, median: f64, is_met: bool) -> Self {
        self.goal = goal.into();
        self.met = median.is_finite().then_some(is_met);
        if self.met.is_none() {
            self.why = "not measured".to_owned();
        }
        self
    }

    /// Sets the reason why there is no verdict.
    #[must_use]
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

/// Makes the rows of all parts.
pub fn summarize(results: &GpuResults, parts: &[GpuPart]) -> Vec<RowRecord> {
    let mut records = Vec::new();
    for &part in parts {
        let rows = part.make_rows(results).into_iter();
        records.extend(rows.map(|row| RowRecord { part, row }));
    }
    records
}

/// Formats the table of a part with the text above it, from the summary. A part without rows has none.
pub fn format_table(part: GpuPart, results: &GpuResults) -> String {
    let records = results.summary.iter().filter(|record| record.part == part);
    let rows: Vec<&TableRow> = records.map(|record| &record.row).collect();
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!("\n{}\n\n| |", part.describe(results));
    let mut line = "\n|---|".to_owned();
    for (name, _) in &first.cells {
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, " {name} |");
        line.push_str("---|");
    }
    text.push_str(" goal | met |");
    text.push_str(&line);
    text.push_str("---|---|\n");
    for row in rows {
        let _ = write!(text, "| {} |", row.what);
        for (_, cell) in &row.cells {
            let _ = write!(text, " {cell} |");
        }
        let _ = writeln!(text, " {} | {} |", row.goal, row.verdict());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::record::make_test_results;
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
        let mut results = make_test_results(Vec::new());
        let part = GpuPart::Resident;
        results.summary = rows.map(|row| RowRecord { part, row }).into();
        let text = format_table(part, &results);
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
        assert_eq!(format_table(GpuPart::Link, &results), "");
    }
}
