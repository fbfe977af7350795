//! The file that keeps a campaign's samples, and the page made from it.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::markdown::replace_section;

/// The beginning of every file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the file: 1 as long as the files in the repository are the only ones, which change with the program.
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
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut lines = text.lines();
        let cpu = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            schema: 1,
            command,
            machine: MachineInfo {
                cpu: cpu.map(|(_, name)| name.to_owned()),
                cores: std::thread::available_parallelism().map_or(0, usize::from),
            },
        }
    }
}

/// The folder of the samples, the pages and their plots, relative to the repository.
const FOLDER: &str = "bench/results";

/// The place of a campaign's samples (`NAME.json`), of the page with its tables (`NAME.md`), and of its plot
/// (`NAME.svg`).
pub struct ResultsPage {
    pub name: &'static str,
}

impl ResultsPage {
    /// Returns the path of the file with this extension, relative to the repository.
    fn path(&self, extension: &str) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.{extension}", self.name))
    }

    /// Writes `fresh` samples, if there are any, then lets `finish` complete the file, and writes the tables to the
    /// page.
    ///
    /// The samples are written before anything is made from them.
    ///
    /// # Errors
    /// The errors of the files, of `finish` and of `format_tables`.
    pub fn publish<R: Serialize + DeserializeOwned>(
        &self,
        fresh: Option<R>,
        finish: impl FnOnce(&mut R) -> anyhow::Result<()>,
        format_tables: impl FnOnce(&R) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        match fresh {
            Some(fresh) => self.write(&fresh)?,
            None => self.check_published(Path::new(""))?,
        }
        let mut results: R = self.read()?;
        finish(&mut results)?;
        self.write(&results)?;
        let text = format_tables(&results)?;
        println!("{text}");
        replace_section(&self.path("md"), &self.section(), &text)
    }

    /// Returns the name of the page's section with the tables: `bench gpu` in `gpu.md`.
    fn section(&self) -> String {
        format!("bench {}", self.name.replace('-', " "))
    }

    /// Describes the origin of the tables: the command, the `cores` of the machine, `more`, and the file of the
    /// samples.
    pub fn describe_origin(&self, origin: &Origin, cores: &str, more: &str) -> String {
        format!(
            "Measured by `{}`{cores} ({}){more}; median (smallest to largest) over the rounds, raw samples in [`{}`]({}.json).",
            origin.command,
            origin.machine.cpu.as_deref().unwrap_or("unknown"),
            self.path("json").display(),
            self.name,
        )
    }

    /// Checks that there are published samples below `root`, the folder of the repository.
    ///
    /// # Errors
    /// If there are none; the text says what to run first.
    fn check_published(&self, root: &Path) -> anyhow::Result<()> {
        let file = self.path("json");
        ensure!(
            root.join(&file).exists(),
            "{} is missing: nothing was measured yet that tables can be made of. Run the same command without --table-only first, in the folder of the repository",
            file.display()
        );
        Ok(())
    }

    /// Reads the published samples.
    ///
    /// # Errors
    /// If the file cannot be read, or is of another form.
    pub fn read<R: DeserializeOwned>(&self) -> anyhow::Result<R> {
        read_results(&self.path("json"))
    }

    /// Writes the file of the samples. A long campaign calls it between rounds too, so that an abort loses little.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, results: &impl Serialize) -> anyhow::Result<()> {
        let file = self.path("json");
        std::fs::write(&file, to_json(results)?).with_context(|| file.display().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_samples_say_what_to_run_first() -> anyhow::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let refused = ResultsPage { name: "unmeasured" }.check_published(&root);
        let text = refused.err().context("no samples")?.to_string();
        assert!(text.contains("bench/results/unmeasured.json"), "{text}");
        assert!(text.contains("without --table-only first"), "{text}");
        Ok(())
    }
}
