//! Running the `isochron` command under mpirun.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// What `cargo xtask bench` says in the environment.
pub fn variable(name: &str) -> anyhow::Result<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .with_context(|| format!("{name} is not set: run campaigns by `cargo xtask bench NAME`"))
}

/// The programs of one MPI library, as `cargo xtask bench` names them in the environment.
pub struct Launcher {
    mpirun: PathBuf,
    isochron: PathBuf,
}

impl Launcher {
    /// Open MPI's.
    pub fn from_environment() -> anyhow::Result<Self> {
        Ok(Self {
            mpirun: variable("ISOCHRON_MPIRUN_OPENMPI")?,
            isochron: variable("ISOCHRON_BIN_OPENMPI")?,
        })
    }

    /// The JSON report of `isochron mxm` on `ranks` ranks.
    pub fn mxm(&self, ranks: usize, arguments: &[String]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.mpirun);
        command.args([
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            &ranks.to_string(),
        ]);
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
            .arg(&self.isochron)
            .arg("mxm")
            .args(arguments)
            .arg("--json");
        let output = command.output().with_context(|| format!("{command:?}"))?;
        if !output.status.success() {
            bail!(
                "{command:?}: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("the report")?;
        ensure!(
            report["verified"] == true,
            "{command:?}: the result is not verified"
        );
        Ok(report)
    }
}

/// What the samples were taken on.
pub fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    serde_json::json!({ "cpu": model, "cores": cores })
}
