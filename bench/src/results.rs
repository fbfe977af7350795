//! The file that keeps a campaign's samples, and what is made of it.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::markdown::replace_section;
use crate::statistics::Spread;

/// Where a campaign's samples and tables are.
pub struct Results {
    /// The file of the samples.
    pub file: &'static str,
    /// The page of the tables.
    pub page: &'static str,
    /// The section of that page.
    pub section: &'static str,
}

impl Results {
    /// Keeps `fresh` samples, if there are, before anything is made of them; then adds to the file what `sum_up` finds
    /// in it, and writes the tables into the page.
    pub fn publish(
        &self,
        fresh: Option<Value>,
        sum_up: impl FnOnce(&mut Value) -> anyhow::Result<()>,
        tables: impl FnOnce(&Value) -> String,
    ) -> anyhow::Result<()> {
        if let Some(fresh) = fresh {
            self.keep(&fresh)?;
        }
        let text = std::fs::read_to_string(self.file).context(self.file)?;
        let mut results: Value = serde_json::from_str(&text).context(self.file)?;
        sum_up(&mut results)?;
        self.keep(&results)?;
        let text = tables(&results);
        println!("{text}");
        replace_section(Path::new(self.page), self.section, &text)
    }

    /// What stands above the tables: who measured on which `cores` of the machine, with what `more`, and where the samples
    /// are.
    pub fn origin(&self, results: &Value, cores: &str, more: &str) -> String {
        let folder = Path::new(self.page).parent().unwrap_or(Path::new(""));
        let file = Path::new(self.file);
        format!(
            "Measured by `{}`{cores} ({}){more}; median (smallest to largest) over the rounds, raw samples in [`{}`]({}).",
            word(results, "/command"),
            word(results, "/machine/cpu"),
            self.file,
            file.strip_prefix(folder).unwrap_or(file).display(),
        )
    }

    /// Writes the file of the samples; in a long campaign also in between, for fear that it does not end well.
    pub fn keep(&self, results: &Value) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(results)? + "\n";
        std::fs::write(self.file, text).context(self.file)
    }
}

/// The items of a list; none if there is no list.
pub fn list<'a>(results: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    results[key].as_array().into_iter().flatten()
}

/// A figure of the samples that are so, by round.
pub fn series(
    results: &Value,
    is: impl Fn(&Value) -> bool,
    figure: impl Fn(&Value) -> f64,
) -> Vec<f64> {
    let mut samples: Vec<&Value> = list(results, "samples").filter(|s| is(s)).collect();
    samples.sort_by_key(|sample| sample["round"].as_u64());
    samples.into_iter().map(figure).collect()
}

/// Whether something is so, in a word.
pub fn yes(value: &Value) -> &'static str {
    if value == true { "yes" } else { "no" }
}

/// A number; not a number if there is none.
pub fn number(value: &Value, pointer: &str) -> f64 {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or(f64::NAN)
}

/// A text; `unknown` if there is none.
pub fn word<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("unknown")
}

/// A median with its range, as [`Spread::json`] wrote it.
pub fn spread(value: &Value) -> Spread {
    Spread {
        median: number(value, "/median"),
        min: number(value, "/min"),
        max: number(value, "/max"),
    }
}
