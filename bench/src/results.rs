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
            self.write(&fresh)?;
        }
        let text = std::fs::read_to_string(self.file).context(self.file)?;
        let mut results: Value = serde_json::from_str(&text).context(self.file)?;
        sum_up(&mut results)?;
        self.write(&results)?;
        let text = tables(&results);
        println!("{text}");
        replace_section(Path::new(self.page), self.section, &text)
    }

    fn write(&self, results: &Value) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(results)? + "\n";
        std::fs::write(self.file, text).context(self.file)
    }
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

/// A median with its spread, as [`Spread::json`] wrote it.
pub fn spread(value: &Value) -> Spread {
    Spread {
        median: number(value, "/median"),
        min: number(value, "/min"),
        max: number(value, "/max"),
    }
}
