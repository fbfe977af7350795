//! The file that keeps a campaign's samples, and the page made from it.

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::markdown::replace_section;

/// The beginning of every file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the file.
    pub schema: u32,
    /// The command that measured.
    pub command: String,
    /// The machine that was measured.
    pub machine: MachineInfo,
}

/// The machine that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineInfo {
    /// The model of its processor; `None` if the system does not tell it.
    pub cpu: Option<String>,
    /// The cores that this process may use.
    pub cores: usize,
}

impl Origin {
    /// Makes the beginning of a file that `command` measures on this machine.
    pub fn new(command: String) -> Self {
        Self {
            schema: 1,
            command,
            machine: MachineInfo::find(),
        }
    }
}

impl MachineInfo {
    fn find() -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = text
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map(|(_, name)| name.to_owned());
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Self { cpu, cores }
    }
}

/// The places of a campaign's samples and tables, relative to the repository.
pub struct ResultsPage {
    /// The file of the samples.
    pub file: &'static str,
    /// The page of the tables.
    pub page: &'static str,
    /// The section of that page.
    pub section: &'static str,
}

impl ResultsPage {
    /// Writes `fresh` samples, if there are any, then adds the summary to the file and the tables to the page.
    ///
    /// The samples are written before anything is made from them.
    ///
    /// # Errors
    /// Those of the files and of `sum_up`.
    pub fn publish<R: Serialize + DeserializeOwned>(
        &self,
        fresh: Option<R>,
        sum_up: impl FnOnce(&mut R) -> anyhow::Result<()>,
        format_tables: impl FnOnce(&R) -> String,
    ) -> anyhow::Result<()> {
        if let Some(fresh) = fresh {
            self.write(&fresh)?;
        }
        let mut results: R = read_results(Path::new(self.file))?;
        sum_up(&mut results)?;
        self.write(&results)?;
        let text = format_tables(&results);
        println!("{text}");
        replace_section(Path::new(self.page), self.section, &text)
    }

    /// Describes the origin of the tables: the command, the `cores` of the machine, `more`, and the file of the samples.
    pub fn describe_origin(&self, origin: &Origin, cores: &str, more: &str) -> String {
        let folder = Path::new(self.page).parent().unwrap_or(Path::new(""));
        let file = Path::new(self.file);
        format!(
            "Measured by `{}`{cores} ({}){more}; median (smallest to largest) over the rounds, raw samples in [`{}`]({}).",
            origin.command,
            origin.machine.cpu.as_deref().unwrap_or("unknown"),
            self.file,
            file.strip_prefix(folder).unwrap_or(file).display(),
        )
    }

    /// Writes the file of the samples. A long campaign calls it between rounds too, so that an abort loses little.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, results: &impl Serialize) -> anyhow::Result<()> {
        std::fs::write(self.file, to_json(results)?).context(self.file)
    }
}

/// Reads a file of results.
///
/// # Errors
/// If it cannot be read, or is of another form.
pub fn read_results<R: DeserializeOwned>(file: &Path) -> anyhow::Result<R> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Formats results as they are kept: keys in alphabetical order, one a line.
///
/// # Errors
/// If a map has keys that are no text.
pub fn to_json(results: &impl Serialize) -> anyhow::Result<String> {
    let sorted = serde_json::to_value(results)?;
    Ok(serde_json::to_string_pretty(&sorted)? + "\n")
}

/// A sample of one round.
pub trait RoundSample {
    /// Returns the round.
    fn round(&self) -> usize;
}

/// Returns a figure of samples in the order of their rounds.
pub fn figures_by_round<'a, S: RoundSample + 'a>(
    samples: impl Iterator<Item = &'a S>,
    figure: impl Fn(&S) -> f64,
) -> Vec<f64> {
    let mut sorted: Vec<&S> = samples.collect();
    sorted.sort_by_key(|sample| sample.round());
    sorted.into_iter().map(figure).collect()
}

/// Returns `yes` or `no`.
pub fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// Checks that the published file is read without loss, and that its page has the tables made from it.
#[cfg(test)]
pub fn check_published<R: Serialize + DeserializeOwned>(
    page: &ResultsPage,
    format_tables: impl FnOnce(&R) -> String,
) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let results: R = read_results(&root.join(page.file))?;
    // Documents are compared, not texts: the spelling of a number may differ.
    let kept: serde_json::Value = read_results(&root.join(page.file))?;
    let read = serde_json::to_value(&results)?;
    if let Some(place) = find_difference("", &kept, &read) {
        anyhow::bail!("{} is read with losses at {place}", page.file);
    }
    let text = std::fs::read_to_string(root.join(page.page))?;
    anyhow::ensure!(
        text.contains(&format_tables(&results)),
        "{} has other tables: make them again by --table-only",
        page.page
    );
    Ok(())
}

/// Returns the first place in which two documents differ, with both values.
#[cfg(test)]
fn find_difference(place: &str, a: &serde_json::Value, b: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys());
            keys.into_iter()
                .find_map(|key| find_difference(&format!("{place}/{key}"), &a[key], &b[key]))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(i, (a, b))| find_difference(&format!("{place}/{i}"), a, b))
        }
        _ => (a != b).then(|| format!("{place}: {a} became {b}")),
    }
}
