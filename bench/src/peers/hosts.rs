//! Emulated hosts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::process::run_program;

/// The name of the cluster.
const NAME: &str = "peers";

/// A cluster emulated on this machine by `program`, which is taken down when the value is dropped.
pub struct EmulatedHosts {
    program: PathBuf,
}

/// The network and the hosts as `cargo xtask cluster check` finds them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostsCheck {
    /// The links between hosts.
    links: Vec<LinkCheck>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A link between two hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LinkCheck {
    there_bits_per_s: f64,
    back_bits_per_s: f64,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl EmulatedHosts {
    /// Brings a cluster up; `options` are those of `cargo xtask cluster up`. A cluster of this name that an earlier
    /// campaign left behind is taken down.
    ///
    /// # Errors
    /// If the hosts cannot be emulated.
    pub fn bring_up(program: &Path, count: usize, options: &[&str]) -> anyhow::Result<Self> {
        let hosts = Self {
            program: program.to_owned(),
        };
        hosts.take_down();
        let count = count.to_string();
        run_program(hosts.command(&["up", &count, "--name", NAME]).args(options))?;
        Ok(hosts)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words);
        command
    }

    /// Makes a command that starts `ranks[i]` ranks on host i.
    pub fn mpirun(&self, ranks: &[usize]) -> Command {
        let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
        // A single number would be dealt over all hosts.
        self.command(&["run", "--name", NAME, "--ranks", &ranks.join(","), "--"])
    }

    /// Changes the CPU quota of a host, also while programs run on it.
    ///
    /// # Errors
    /// If the host is not there.
    pub fn change_quota(&self, host: &str, quota: &str) -> anyhow::Result<()> {
        run_program(&mut self.command(&["quota", host, quota, "--name", NAME]))?;
        Ok(())
    }

    /// Measures the network and the hosts.
    ///
    /// # Errors
    /// If the check fails.
    pub fn check(&self) -> anyhow::Result<HostsCheck> {
        let (text, _) = run_program(&mut self.command(&["check", "--json", "--name", NAME]))?;
        serde_json::from_str(&text).context("the check of the hosts")
    }

    fn take_down(&self) {
        if let Err(error) = run_program(&mut self.command(&["down", "--name", NAME])) {
            eprintln!("warning: {error:#}");
        }
    }
}

impl Drop for EmulatedHosts {
    fn drop(&mut self) {
        self.take_down();
    }
}

impl HostsCheck {
    /// Returns the bytes per second of the slowest link.
    pub fn slowest_bytes_per_s(&self) -> f64 {
        self.links
            .iter()
            .map(|link| link.there_bits_per_s.min(link.back_bits_per_s) / 8.0)
            .fold(f64::INFINITY, f64::min)
    }
}
