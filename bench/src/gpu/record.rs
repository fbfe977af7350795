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
    /// What went wrong.
    pub errors: Vec<String>,
}

impl Record {
    /// Results that begin with `header`.
    pub fn new(file: PathBuf, header: Value) -> Self {
        Self {
            file,
            results: header,
            errors: Vec::new(),
        }
    }

    /// Adds to a list of the results.
    pub fn push(&mut self, list: &str, item: Value) {
        match &mut self.results[list] {
            Value::Array(items) => items.push(item),
            other => *other = json!([item]),
        }
    }

    /// Tells what went wrong, and remembers it.
    pub fn fail(&mut self, error: String) {
        eprintln!("{error}");
        self.errors.push(error);
    }

    /// Whether `who` has failed with `what` in this part.
    pub fn has_failed(&self, part: Part, about: (&str, &str)) -> bool {
        let about = failure(part, about);
        self.errors.iter().any(|error| error.starts_with(&about))
    }

    /// Adds what `who` did of `what` in a part's round, tells it in a line, and keeps it. What fails is told and not tried
    /// again, and others go on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sample(
        &mut self,
        (part, round): (Part, usize),
        (what, who): (&str, &str),
        measure: impl FnOnce() -> anyhow::Result<Value>,
    ) -> anyhow::Result<()> {
        if self.has_failed(part, (what, who)) {
            return Ok(());
        }
        let mut sample = match measure() {
            Ok(sample) => sample,
            Err(error) => {
                self.fail(format!("{}{error:#}", failure(part, (what, who))));
                return Ok(());
            }
        };
        eprintln!("round {round} {what} {who}");
        sample["part"] = json!(part.name());
        sample["round"] = json!(round);
        sample["what"] = json!(what);
        sample["who"] = json!(who);
        self.push("samples", sample);
        self.keep()
    }

    /// Writes the file. A run that is ended leaves the last one that was written whole.
    pub fn keep(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.results)? + "\n";
        let partial = self.file.with_extension("partial");
        std::fs::write(&partial, text).with_context(|| partial.display().to_string())?;
        std::fs::rename(&partial, &self.file).with_context(|| self.file.display().to_string())
    }
}

/// How the error of `who` with `what` begins.
fn failure(part: Part, (what, who): (&str, &str)) -> String {
    format!("{}: {what}, {who}: ", part.name())
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
