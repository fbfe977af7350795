//! The report of a run, as far as the demo compares it.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// The fixed first keys of a report.
#[derive(Debug, PartialEq)]
pub struct Report {
    /// How the units were shared out.
    pub strategy: String,
    /// The multiplication alone, in seconds.
    pub wall_s: f64,
    /// Measuring and partitioning, in seconds.
    pub balance_s: f64,
    /// Work over the sum of the speeds that the devices showed, in seconds.
    pub ideal_s: f64,
    /// Speed of the whole, in 10⁹ operations per second.
    pub gflops: f64,
    /// `max |t_i - t_j| / t_i` over the busy times.
    pub imbalance: f64,
    /// Whether the result was found right; `None` when it was not looked at.
    pub verified: Option<bool>,
}

impl Report {
    /// Reads the JSON document that `isochron mxm --report` writes.
    ///
    /// # Errors
    /// When it is no JSON, or lacks one of the keys; the message names the key.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text)?;
        let number = |key: &str| {
            json.get(key)
                .and_then(Value::as_f64)
                .with_context(|| format!("the report has no number `{key}`"))
        };
        let strategy = json.get("strategy").and_then(Value::as_str);
        Ok(Self {
            strategy: strategy.context("the report has no `strategy`")?.to_owned(),
            wall_s: number("wall_s")?,
            balance_s: number("balance_s")?,
            ideal_s: number("ideal_s")?,
            gflops: number("gflops")?,
            imbalance: number("imbalance")?,
            verified: json.get("verified").and_then(Value::as_bool),
        })
    }

    fn verdict(&self) -> &'static str {
        match self.verified {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not done",
        }
    }
}

/// The two reports side by side, and what balancing gained.
pub fn comparison(even: &Report, balanced: &Report) -> String {
    let mut text = String::new();
    let mut row = |name: &str, left: String, right: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<28}{left:>14}{right:>14}");
    };
    let seconds = |value: f64| format!("{value:.3} s");
    row("", even.strategy.clone(), balanced.strategy.clone());
    row(
        "multiplication",
        seconds(even.wall_s),
        seconds(balanced.wall_s),
    );
    row(
        "measuring and partitioning",
        seconds(even.balance_s),
        seconds(balanced.balance_s),
    );
    row(
        "ideal at the speeds shown",
        seconds(even.ideal_s),
        seconds(balanced.ideal_s),
    );
    row(
        "Gflop/s",
        format!("{:.1}", even.gflops),
        format!("{:.1}", balanced.gflops),
    );
    row(
        "imbalance of busy times",
        format!("{:.0} %", 100.0 * even.imbalance),
        format!("{:.0} %", 100.0 * balanced.imbalance),
    );
    row(
        "result verified",
        even.verdict().to_owned(),
        balanced.verdict().to_owned(),
    );
    let alone = ratio(even.wall_s, balanced.wall_s);
    let whole = ratio(
        even.wall_s + even.balance_s,
        balanced.wall_s + balanced.balance_s,
    );
    text + &format!("balanced, the multiplication is {alone}; with the measuring, {whole}\n")
}

fn ratio(before_s: f64, after_s: f64) -> String {
    if before_s >= after_s {
        format!("{:.2} times as fast", before_s / after_s)
    } else {
        format!("{:.2} times slower", after_s / before_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(strategy: &str, wall_s: f64, verified: &str) -> String {
        format!(
            r#"{{"schema": 1, "m": 8, "n": 8, "k": 8, "block": 2, "strategy": "{strategy}",
                "wall_s": {wall_s}, "balance_s": 0.5, "ideal_s": 1, "gflops": 3.5,
                "imbalance": 2.25, "verified": {verified}, "nodes": []}}"#
        )
    }

    #[test]
    fn keys_are_read_whole_numbers_included() {
        let report = Report::parse(&document("fpm", 1.5, "true")).unwrap();
        assert_eq!(report.strategy, "fpm");
        assert_eq!((report.wall_s, report.ideal_s), (1.5, 1.0));
        assert_eq!(report.verified, Some(true));
    }

    #[test]
    fn unverified_is_told_from_wrong() {
        let verified = |word| Report::parse(&document("x", 1.0, word)).unwrap().verified;
        assert_eq!(verified("null"), None);
        assert_eq!(verified("false"), Some(false));
    }

    #[test]
    fn missing_key_is_named() {
        let text = document("fpm", 1.0, "true").replace("imbalance", "other");
        let error = Report::parse(&text).unwrap_err().to_string();
        assert!(error.contains("imbalance"), "{error}");
    }

    #[test]
    fn comparison_shows_ratio_imbalance_and_verdict() {
        let even = Report::parse(&document("homogeneous", 3.0, "true")).unwrap();
        let balanced = Report::parse(&document("fpm", 1.2, "false")).unwrap();
        let text = comparison(&even, &balanced);
        for part in [
            "homogeneous",
            "is 2.50 times as fast",
            "with the measuring, 2.06 times as fast",
            "225 %",
            "NO",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(comparison(&balanced, &even).contains("2.50 times slower"));
    }
}
