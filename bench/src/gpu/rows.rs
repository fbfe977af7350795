//! The rows of the tables: figures, a goal, and whether it is met.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Part;
use crate::results::list;
use crate::statistics::Spread;

/// A row of a part's table. All rows of a part have the same cells.
#[derive(Debug, Clone)]
pub struct Row {
    what: String,
    cells: Vec<(&'static str, String)>,
    figures: Value,
    goal: String,
    met: Option<bool>,
    why: String,
}

impl Row {
    /// A row about `what`, without a goal.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cells: Vec::new(),
            figures: json!({}),
            goal: String::new(),
            met: None,
            why: String::new(),
        }
    }

    /// A cell of words.
    #[must_use]
    pub fn words(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.cells.push((name, text.into()));
        self
    }

    /// A cell of a median and its range; empty where nothing was measured.
    #[must_use]
    pub fn spread(self, name: &'static str, spread: Spread, decimals: usize) -> Self {
        let text = if spread.median.is_finite() {
            spread.text(decimals)
        } else {
            String::new()
        };
        let mut row = self.words(name, text);
        row.figures[name] = spread.json();
        row
    }

    /// A cell of a speed in 10⁹ flop/s, from flop/s.
    #[must_use]
    pub fn speed(self, name: &'static str, flops_per_s: Spread) -> Self {
        let gflops = flops_per_s.scaled(1e-9);
        let decimals = if gflops.median >= 1000.0 { 0 } else { 1 };
        self.spread(name, gflops, decimals)
    }

    /// What is to be reached, and whether it is. Where nothing was measured it is not known.
    #[must_use]
    pub fn goal(mut self, goal: impl Into<String>, median: f64, is_met: bool) -> Self {
        self.goal = goal.into();
        self.met = median.is_finite().then_some(is_met);
        if self.met.is_none() {
            self.why = "not measured".to_owned();
        }
        self
    }

    /// Why there is nothing to be reached.
    #[must_use]
    pub fn no_goal(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// As JSON.
    fn json(&self, part: Part) -> Value {
        let cells: Vec<Value> = self.cells.iter().map(|cell| json!(cell)).collect();
        json!({
            "part": part.name(), "what": self.what, "cells": cells, "figures": self.figures,
            "goal": self.goal, "met": self.met, "why": self.why,
        })
    }
}

/// The rows of all parts as JSON.
pub fn summary(results: &Value, parts: &[Part]) -> Value {
    let rows = parts.iter().flat_map(|&part| {
        let rows = part.rows(results).into_iter();
        rows.map(move |row| row.json(part))
    });
    Value::Array(rows.collect())
}

/// The table of a part with what stands above it, from the summary; nothing for a part without rows.
pub fn table(part: Part, results: &Value) -> String {
    let name = part.name();
    let rows: Vec<&Value> = list(results, "summary")
        .filter(|row| row["part"] == *name)
        .collect();
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!("\n{}\n\n| |", part.words(results));
    let mut line = "\n|---|".to_owned();
    for cell in list(first, "cells") {
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, " {} |", cell[0].as_str().unwrap_or_default());
        line.push_str("---|");
    }
    text.push_str(" goal | met |");
    text.push_str(&line);
    text.push_str("---|---|\n");
    for row in rows {
        let _ = write!(text, "| {} |", row["what"].as_str().unwrap_or_default());
        for cell in list(row, "cells") {
            let _ = write!(text, " {} |", cell[1].as_str().unwrap_or_default());
        }
        let met = match row["met"].as_bool() {
            Some(true) => "yes",
            Some(false) => "no",
            None => row["why"].as_str().unwrap_or_default(),
        };
        let _ = writeln!(
            text,
            " {} | {met} |",
            row["goal"].as_str().unwrap_or_default()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_of_a_table() {
        let two = Spread::of([2e9, 4e9]);
        let rows = [
            Row::new("first")
                .speed("GFLOP/s", two)
                .goal("≥ 2", 3.0, true),
            Row::new("second")
                .speed("GFLOP/s", Spread::of([]))
                .goal("≥ 2", f64::NAN, false),
            Row::new("third")
                .words("GFLOP/s", "none")
                .no_goal("it is absent"),
        ];
        let summary: Vec<Value> = rows.iter().map(|row| row.json(Part::Ranks)).collect();
        let results = json!({ "summary": summary });
        let text = table(Part::Ranks, &results);
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
        assert_eq!(table(Part::Link, &results), "");
    }
}
