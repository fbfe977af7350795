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

    /// Returns the name of the page's section with the tables: `bench thesis 3` in `thesis-3.md`.
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
        write_file(&self.path("json"), &to_json(results)?)
    }
}

/// The raw samples of a campaign, with the circumstances that all of them share.
pub trait CampaignResults: Serialize + DeserializeOwned {
    const PAGE: ResultsPage;

    /// Formats the tables of the page.
    ///
    /// # Errors
    /// If the samples make no table.
    fn format_tables(&self) -> anyhow::Result<String>;

    /// Publishes fresh results, or makes the page and the plot of the published ones again.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    fn publish(fresh: Option<Self>) -> anyhow::Result<()> {
        Self::PAGE.publish(
            fresh,
            |results| results.write_plot(Path::new(FOLDER)),
            Self::format_tables,
        )
    }

    /// Makes everything from samples outside the published places, and prints the tables.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn try_out(&self) -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join("isochron-bench");
        std::fs::create_dir_all(&folder)?;
        self.write_plot(&folder)?;
        let file = folder.join(format!("{}.json", Self::PAGE.name));
        write_file(&file, &to_json(self)?)?;
        println!("{}", self.format_tables()?);
        Ok(())
    }

    /// Draws the plots of the page into a folder, if it has any.
    ///
    /// # Errors
    /// If one cannot be written.
    fn write_plot(&self, _folder: &Path) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Writes a text file.
///
/// # Errors
/// If it cannot be written.
pub fn write_file(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| file.display().to_string())
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

/// Returns the contestants in the order of a round: every round begins with the next one.
pub fn list_in_turn<T>(contestants: &[T], round: usize) -> impl Iterator<Item = &T> {
    let first = round % contestants.len().max(1);
    let (last, begin) = contestants.split_at(first);
    begin.iter().chain(last)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Checks that the published file is read without loss, and that its page has the tables made from it.
    fn check_published<R: CampaignResults>() -> anyhow::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let [file, page] = ["json", "md"].map(|extension| R::PAGE.path(extension));
        if !root.join(&file).exists() {
            return check_unpublished::<R>(&root.join(&page));
        }
        let results: R = read_results(&root.join(&file))?;
        // Documents are compared, not texts: the spelling of a number may differ.
        let kept: Value = read_results(&root.join(&file))?;
        let read = serde_json::to_value(&results)?;
        if let Some(place) = find_difference("", &kept, &read) {
            anyhow::bail!("{} is read with losses at {place}", file.display());
        }
        let text = std::fs::read_to_string(root.join(&page))?;
        anyhow::ensure!(
            text.contains(&results.format_tables()?),
            "{} has other tables: make them again by --table-only",
            page.display()
        );
        Ok(())
    }

    /// Checks that the page of a campaign that was never measured waits for its tables.
    fn check_unpublished<R: CampaignResults>(page: &Path) -> anyhow::Result<()> {
        let section = R::PAGE.section();
        let waiting = format!("<!-- {section} -->\n<!-- /{section} -->");
        let text = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
        anyhow::ensure!(text.contains(&waiting), "{}", page.display());
        Ok(())
    }

    #[test]
    fn tables_without_samples_say_what_to_run_first() -> anyhow::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let refused = ResultsPage { name: "unmeasured" }.check_published(&root);
        let text = refused.err().context("no samples")?.to_string();
        assert!(text.contains("bench/results/unmeasured.json"), "{text}");
        assert!(text.contains("without --table-only first"), "{text}");
        ResultsPage { name: "hpopta" }.check_published(&root)
    }

    #[test]
    fn the_published_files_are_read_and_make_their_pages() -> anyhow::Result<()> {
        check_published::<crate::hpopta::HpoptaResults>()?;
        check_published::<crate::jacobi::JacobiResults>()?;
        check_published::<crate::thesis::ThesisResults>()
    }

    /// Returns the first place in which two documents differ, with both values.
    fn find_difference(place: &str, a: &Value, b: &Value) -> Option<String> {
        match (a, b) {
            (Value::Object(left), Value::Object(right)) => left
                .keys()
                .chain(right.keys())
                .into_iter()
                .find_map(|key| find_difference(&format!("{place}/{key}"), &a[key], &b[key])),
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                let mut pairs = left.iter().zip(right).enumerate();
                pairs.find_map(|(i, (a, b))| find_difference(&format!("{place}/{i}"), a, b))
            }
            _ => (a != b).then(|| format!("{place}: {a} became {b}")),
        }
    }
}
