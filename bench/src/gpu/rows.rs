//! The rows of the tables: figures, a goal, and whether it is met.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GpuPart;
use crate::statistics::MedianRange;

/// A row of a part's table. All rows of a part have the same cells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableRow {
    pub what: String,
    /// Names of columns with the text of the cells.
    pub cells: Vec<(String, String)>,
    figures: BTreeMap<String, MedianRange>,
    pub goal: String,
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

    pub fn verdict(&self) -> &str {
        match self.met {
            Some(true) => "yes",
            Some(false) => "no",
            None => &self.why,
        }
    }
}
