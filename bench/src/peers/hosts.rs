//! Emulated hosts for a family of comparisons.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::programs::output;
use crate::results::{list, number};

/// A cluster of this machine, which goes when the value does.
pub struct Hosts {
    program: PathBuf,
    name: String,
}

impl Hosts {
    /// Brings a cluster up; `options` are those of `cargo xtask cluster up`. One that a campaign before left behind is
    /// taken down.
    pub fn up(program: &Path, name: &str, count: usize, options: &[&str]) -> anyhow::Result<Self> {
        let hosts = Self {
            program: program.to_owned(),
            name: name.to_owned(),
        };
        hosts.down();
        let mut command = Command::new(program);
        command.args(["up", &count.to_string(), "--name", name]);
        output(command.args(options))?;
        Ok(hosts)
    }

    /// A command that starts `ranks[i]` ranks on host i.
    pub fn mpirun(&self, program: &Path, ranks: &[usize]) -> Command {
        let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let mut command = Command::new(program);
        command.args(["run", "--name", &self.name]);
        // A single number would be dealt over all hosts.
        command.args(["--ranks", &ranks.join(","), "--"]);
        command
    }

    /// What the network and the hosts really give, as `cargo xtask cluster check` finds it.
    pub fn check(&self) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(["check", "--json", "--name", &self.name]);
        serde_json::from_str(&output(&mut command)?.0).context("the check of the hosts")
    }

    fn down(&self) {
        let mut command = Command::new(&self.program);
        command.args(["down", "--name", &self.name]);
        if let Err(error) = output(&mut command) {
            eprintln!("warning: {error:#}");
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.down();
    }
}

/// The slowest link of a check: latency in seconds, and bytes per second.
pub fn slowest_link(check: &Value) -> (f64, f64) {
    let links = || list(check, "links");
    let latency_s = links().map(|link| number(link, "/latency_median_s"));
    let speeds = links().flat_map(|link| {
        ["/there_bits_per_s", "/back_bits_per_s"].map(|way| number(link, way) / 8.0)
    });
    (
        latency_s.fold(0.0, f64::max),
        speeds.fold(f64::INFINITY, f64::min),
    )
}
