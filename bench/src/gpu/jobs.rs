//! Multiplications of `isochron mxm` on devices of this host, as platform files say.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Campaign;
use super::clock::Clock;
use crate::direct::Shape;

/// A job may take so long also where the parts before took more than theirs.
pub const LEAST: Duration = Duration::from_secs(20);

/// A device in a platform file.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its name, also in reports.
    pub name: String,
    /// Whether it is the GPU; with `true` inside where others have it too.
    pub gpu: Option<bool>,
    /// The numbers of its cores.
    pub cores: Vec<u32>,
}

impl Device {
    /// A group of these cores.
    pub fn cpu(name: impl Into<String>, cores: &[u32]) -> Self {
        Self {
            name: name.into(),
            gpu: None,
            cores: cores.to_vec(),
        }
    }

    /// The GPU with these host cores.
    pub fn gpu(name: impl Into<String>, cores: &[u32]) -> Self {
        Self {
            gpu: Some(false),
            ..Self::cpu(name, cores)
        }
    }
}

/// The text of a platform file: the devices of each node.
fn platform_text(nodes: &[Vec<Device>]) -> String {
    let mut text = "schema = 1\n".to_owned();
    for (rank, devices) in nodes.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n[[node]]\nname = \"{rank}\"");
        for device in devices {
            let Device { name, gpu, cores } = device;
            let _ = writeln!(
                text,
                "\n[[node.device]]\nname = \"{name}\"\ncores = {cores:?}"
            );
            if let Some(is_shared) = gpu {
                let _ = writeln!(text, "kind = \"cuda\"\nshare = {is_shared}");
            }
        }
    }
    text
}

/// A multiplication: nodes, a shape, and more words of the command line.
pub struct Job<'a> {
    pub nodes: &'a [Vec<Device>],
    pub shape: Shape,
    pub block: usize,
    pub words: &'a [&'a str],
    /// What `ISOCHRON_LOG` asks for.
    pub log: &'a str,
}

impl Campaign {
    /// Writes a platform file, whose text is kept with the results.
    pub(super) fn platform(
        &mut self,
        name: &str,
        nodes: &[Vec<Device>],
    ) -> anyhow::Result<PathBuf> {
        let (path, text) = (self.work.join(format!("{name}.toml")), platform_text(nodes));
        std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
        self.record.results["platforms"][name] = json!(text);
        Ok(path)
    }

    /// Runs a multiplication, a rank for each node, on the platform called `name`: what of its report counts here, and the
    /// log.
    pub(super) fn multiply(
        &mut self,
        name: &str,
        job: &Job<'_>,
        clock: Clock,
    ) -> anyhow::Result<(Value, String)> {
        let platform = self.platform(name, job.nodes)?;
        let Shape { m, n, k } = job.shape;
        let mut words: Vec<String> = Vec::new();
        for (option, value) in [("--m", m), ("--n", n), ("--k", k), ("--block", job.block)] {
            words.extend([option.to_owned(), value.to_string()]);
        }
        words.extend(["--platform".to_owned(), platform.display().to_string()]);
        words.extend(job.words.iter().map(|&word| word.to_owned()));
        let variables = [("ISOCHRON_LOG", job.log), ("NO_COLOR", "1")];
        let limit = Some(clock.left().max(LEAST));
        let ranks = job.nodes.len();
        let (report, log) = self.launcher.mxm_within(ranks, &words, &variables, limit)?;
        Ok((brief(&report), log))
    }
}

/// What of a report is kept.
fn brief(report: &Value) -> Value {
    const KEYS: [&str; 16] = [
        "m",
        "n",
        "k",
        "block",
        "panel",
        "way",
        "split",
        "strategy",
        "wall_s",
        "balance_s",
        "ideal_s",
        "gflops",
        "imbalance",
        "balance",
        "mpi",
        "nodes",
    ];
    let mut brief = json!({});
    for key in KEYS {
        brief[key] = report[key].clone();
    }
    for node in brief["nodes"].as_array_mut().into_iter().flatten() {
        for device in node["devices"].as_array_mut().into_iter().flatten() {
            if let Some(device) = device.as_object_mut() {
                device.remove("threads");
            }
        }
    }
    brief
}

/// The devices of a report, over all nodes.
pub fn devices(report: &Value) -> impl Iterator<Item = &Value> {
    let nodes = crate::results::list(report, "nodes");
    nodes.flat_map(|node| crate::results::list(node, "devices"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_files_name_devices_and_cores() {
        let shared = Device {
            gpu: Some(true),
            ..Device::gpu("gpu", &[0])
        };
        let text = platform_text(&[vec![shared, Device::cpu("cpu", &[1, 2])], vec![]]);
        for part in [
            "[[node.device]]\nname = \"gpu\"\ncores = [0]\nkind = \"cuda\"\nshare = true\n",
            "[[node.device]]\nname = \"cpu\"\ncores = [1, 2]\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.matches("[[node]]").count(), 2);
    }
}
