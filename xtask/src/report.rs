//! The reports that the demo compares.

use anyhow::{Context, Result};
use serde_json::Value;

/// The first keys of a report.
#[derive(Debug, PartialEq)]
pub struct DemoReport {
    /// The strategy that divided the work.
    pub strategy: String,
    /// Duration of the multiplication alone, in seconds.
    pub wall_s: f64,
    /// Duration of measuring and partitioning, in seconds.
    pub balance_s: f64,
    /// Work over the sum of the speeds that the devices showed, in seconds.
    pub ideal_s: f64,
    /// Speed of the whole, in 10⁹ operations per second.
    pub gflops: f64,
    /// `max |t_i - t_j| / t_i` over the busy times.
    pub imbalance: f64,
    /// `true` if the result was found right; `None` if it was not checked.
    pub verified: Option<bool>,
}

impl DemoReport {
    /// Reads the JSON document that `isochron mxm --report` writes.
    ///
    /// # Errors
    /// If it is no JSON or lacks one of the keys; the message names the key.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text)?;
        let strategy = json.get("strategy").and_then(Value::as_str);
        Ok(Self {
            strategy: strategy.context("the report has no `strategy`")?.to_owned(),
            wall_s: read_number(&json, "wall_s")?,
            balance_s: read_number(&json, "balance_s")?,
            ideal_s: read_number(&json, "ideal_s")?,
            gflops: read_number(&json, "gflops")?,
            imbalance: read_number(&json, "imbalance")?,
            verified: json.get("verified").and_then(Value::as_bool),
        })
    }

    /// Returns the cells of its column in the comparison.
    fn cells(&self) -> [String; 7] {
        let verified = match self.verified {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not done",
        };
        [
            self.strategy.clone(),
            format!("{:.3} s", self.wall_s),
            format!("{:.3} s", self.balance_s),
            format!("{:.3} s", self.ideal_s),
            format!("{:.1}", self.gflops),
            format!("{:.0} %", 100.0 * self.imbalance),
            verified.to_owned(),
        ]
    }
}

fn read_number(json: &Value, key: &str) -> Result<f64> {
    let number = json.get(key).and_then(Value::as_f64);
    number.with_context(|| format!("the report has no number `{key}`"))
}

/// Returns a table of two reports, and the gain of balancing.
pub fn compare(even: &DemoReport, balanced: &DemoReport) -> String {
    let names = [
        "",
        "multiplication",
        "measuring and partitioning",
        "ideal at the speeds shown",
        "Gflop/s",
        "imbalance of busy times",
        "result verified",
    ];
    let rows: String = names
        .iter()
        .zip(even.cells().iter().zip(balanced.cells()))
        .map(|(name, (left, right))| format!("{name:<28}{left:>14}{right:>14}\n"))
        .collect();
    let alone = describe_ratio(even.wall_s, balanced.wall_s);
    let whole = describe_ratio(
        even.wall_s + even.balance_s,
        balanced.wall_s + balanced.balance_s,
    );
    rows + &format!("balanced, the multiplication is {alone}; with the measuring, {whole}\n")
}

fn describe_ratio(before_s: f64, after_s: f64) -> String {
    if before_s >= after_s {
        format!("{:.2} times as fast", before_s / after_s)
    } else {
        format!("{:.2} times slower", after_s / before_s)
    }
}
