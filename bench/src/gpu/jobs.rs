//! Multiplications of `isochron mxm` on devices of this host, by platform files.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use super::GpuCampaign;
use super::budget::TimeBudget;
use crate::launch::MxmLauncher;
use crate::report::MxmReport;
use crate::shape::ProductShape;

/// The time that a job may always take, even if the parts before it took too long.
pub const LEAST: Duration = Duration::from_secs(20);

/// A device in a platform file.
#[derive(Debug, Clone)]
pub struct PlatformDevice {
    /// Its name, also in reports.
    pub name: String,
    /// The `share` flag of a GPU: `true` if other nodes have it too. `None` for a group of cores.
    pub gpu_share: Option<bool>,
    /// The numbers of its cores, or of the GPU's host cores.
    pub cores: Vec<u32>,
}

impl PlatformDevice {
    pub fn new(name: impl Into<String>, gpu_share: Option<bool>, cores: &[u32]) -> Self {
        Self {
            name: name.into(),
            gpu_share,
            cores: cores.to_vec(),
        }
    }
}

/// Formats a platform file with the devices of each node.
fn format_platform(nodes: &[Vec<PlatformDevice>]) -> String {
    let mut text = "schema = 1\n".to_owned();
    for (rank, devices) in nodes.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n[[node]]\nname = \"{rank}\"");
        for device in devices {
            let PlatformDevice {
                name,
                gpu_share,
                cores,
            } = device;
            let _ = writeln!(
                text,
                "\n[[node.device]]\nname = \"{name}\"\ncores = {cores:?}"
            );
            if let Some(is_shared) = gpu_share {
                let _ = writeln!(text, "kind = \"cuda\"\nshare = {is_shared}");
            }
        }
    }
    text
}

/// A multiplication by `isochron mxm`, with a rank for each node of a platform file.
pub struct MxmJob<'a> {
    pub platform: PathBuf,
    pub ranks: usize,
    pub shape: ProductShape,
    pub block: usize,
    /// More words of the command line.
    pub words: Vec<&'a str>,
    /// The value of `ISOCHRON_LOG`.
    pub log: &'a str,
}

impl GpuCampaign {
    /// Writes a platform file and keeps its text with the results.
    pub(super) fn write_platform(
        &mut self,
        name: &str,
        nodes: &[Vec<PlatformDevice>],
    ) -> anyhow::Result<PathBuf> {
        let path = self.work.join(format!("{name}.toml"));
        let text = format_platform(nodes);
        std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
        let platforms = &mut self.record.results.platforms;
        platforms.insert(name.to_owned(), text);
        Ok(path)
    }
}

impl MxmJob<'_> {
    /// Multiplies; returns the report and the log.
    ///
    /// # Errors
    /// If the command fails or takes too long.
    pub fn run(
        &self,
        launcher: &MxmLauncher,
        budget: TimeBudget,
    ) -> anyhow::Result<(MxmReport, String)> {
        let ProductShape { m, n, k } = self.shape;
        let mut words: Vec<String> = Vec::new();
        for (option, value) in [("--m", m), ("--n", n), ("--k", k), ("--block", self.block)] {
            words.extend([option.to_owned(), value.to_string()]);
        }
        words.extend(["--platform".to_owned(), self.platform.display().to_string()]);
        words.extend(self.words.iter().map(|&word| word.to_owned()));
        let variables = [("ISOCHRON_LOG", self.log), ("NO_COLOR", "1")];
        let limit = budget.left().max(LEAST);
        launcher.run_mxm_within(self.ranks, &words, &variables, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_files_name_devices_and_cores() {
        let shared = PlatformDevice::new("gpu", Some(true), &[0]);
        let cpu = PlatformDevice::new("cpu", None, &[1, 2]);
        let text = format_platform(&[vec![shared, cpu], vec![]]);
        for part in [
            "[[node.device]]\nname = \"gpu\"\ncores = [0]\nkind = \"cuda\"\nshare = true\n",
            "[[node.device]]\nname = \"cpu\"\ncores = [1, 2]\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.matches("[[node]]").count(), 2);
    }
}
