//! What was measured so far, kept in a file.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Part;
use crate::results::{list, series};

/// The results, and the file that they are kept in.
pub struct Record {
    file: PathBuf,
    pub results: Value,
}

impl Record {
    /// Results that begin with `header`.
    pub fn new(file: PathBuf, header: Value) -> Self {
        Self {
            file,
            results: header,
        }
    }

    /// Adds to a list of the results.
    pub fn push(&mut self, list: &str, item: Value) {
        match &mut self.results[list] {
            Value::Array(items) => items.push(item),
            other => *other = json!([item]),
        }
    }

    /// Adds a sample of a part's round, by `who`, and tells it in a line.
    pub fn sample(&mut self, (part, round): (Part, usize), who: &str, mut sample: Value) {
        sample["part"] = json!(part.name());
        sample["round"] = json!(round);
        sample["who"] = json!(who);
        let what = sample["what"].as_str().unwrap_or_default();
        eprintln!("round {round} {what} {who}");
        self.push("samples", sample);
    }

    /// Writes the file. A run that is ended leaves the last one that was written whole.
    pub fn keep(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.results)? + "\n";
        let partial = self.file.with_extension("partial");
        std::fs::write(&partial, text).with_context(|| partial.display().to_string())?;
        std::fs::rename(&partial, &self.file).with_context(|| self.file.display().to_string())
    }
}

/// What the samples of a part are of, each once, in the order in which they came.
pub fn whats(results: &Value, part: Part) -> Vec<String> {
    let name = part.name();
    let mut found: Vec<String> = Vec::new();
    for sample in list(results, "samples").filter(|sample| sample["part"] == *name) {
        let what = sample["what"].as_str().unwrap_or_default();
        if !found.iter().any(|known| known == what) {
            found.push(what.to_owned());
        }
    }
    found
}

/// A figure of a part's samples of something by somebody, by round.
pub fn figures(
    results: &Value,
    part: Part,
    (what, who): (&str, &str),
    figure: impl Fn(&Value) -> f64,
) -> Vec<f64> {
    let name = part.name();
    let is =
        |sample: &Value| sample["part"] == *name && sample["what"] == what && sample["who"] == who;
    series(results, is, figure)
}
