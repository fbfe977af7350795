//! Running the `isochron` command under mpirun.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// What `cargo xtask bench` says in the environment.
pub fn variable(name: &str) -> anyhow::Result<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .with_context(|| format!("{name} is not set: run campaigns by `cargo xtask bench NAME`"))
}

/// The programs of one MPI library: those that `cargo xtask bench` names in the environment, or those of the bundle that
/// this program is started from.
pub struct Launcher {
    mpirun: PathBuf,
    isochron: PathBuf,
    /// What lets any number of ranks run, on whatever cores.
    options: &'static [&'static str],
}

/// How long a program that is told to end may take for it.
const ENDS: Duration = Duration::from_secs(5);

impl Launcher {
    /// Open MPI's, or the bundle's.
    pub fn from_environment() -> anyhow::Result<Self> {
        const OPEN_MPI: &[&str] = &["--oversubscribe", "--bind-to", "none"];
        let Some(bundle) = std::env::var_os("ISOCHRON_BUNDLE").map(PathBuf::from) else {
            return Ok(Self {
                mpirun: variable("ISOCHRON_MPIRUN_OPENMPI")?,
                isochron: variable("ISOCHRON_BIN_OPENMPI")?,
                options: OPEN_MPI,
            });
        };
        let mpirun = bundle.join("bin/mpirun");
        let told = Command::new(&mpirun).arg("--version").output();
        let told = told.with_context(|| mpirun.display().to_string())?;
        let is_hydra = String::from_utf8_lossy(&told.stdout).contains("HYDRA");
        Ok(Self {
            isochron: bundle.join("bin/isochron"),
            mpirun,
            options: if is_hydra { &[] } else { OPEN_MPI },
        })
    }

    /// The JSON report of `isochron mxm` on `ranks` ranks.
    pub fn mxm(&self, ranks: usize, arguments: &[String]) -> anyhow::Result<Value> {
        let (report, _) = self.mxm_within(ranks, arguments, &[], None)?;
        Ok(report)
    }

    /// The same with environment variables, ended after `limit` where there is one; beside the report, what was written to
    /// standard error.
    pub fn mxm_within(
        &self,
        ranks: usize,
        arguments: &[String],
        variables: &[(&str, &str)],
        limit: Option<Duration>,
    ) -> anyhow::Result<(Value, String)> {
        let mut command = Command::new(&self.mpirun);
        command
            .args(self.options)
            .args(["-n", &ranks.to_string()])
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .envs(variables.iter().copied())
            .arg(&self.isochron)
            .arg("mxm")
            .args(arguments)
            .arg("--json");
        let (text, errors) = finished(&mut command, limit)?;
        let report: Value = serde_json::from_str(&text).context("the report")?;
        ensure!(
            report["verified"] == true,
            "{command:?}: the result is not verified"
        );
        Ok((report, errors))
    }

    /// What `isochron` prints with these arguments, as one process; ended after `limit`.
    pub fn isochron(&self, arguments: &[String], limit: Duration) -> anyhow::Result<String> {
        let mut command = Command::new(&self.isochron);
        Ok(finished(command.args(arguments), Some(limit))?.0)
    }
}

/// What a program writes to standard output and standard error. After the limit it is told to end, and a little later
/// killed.
fn finished(command: &mut Command, limit: Option<Duration>) -> anyhow::Result<(String, String)> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    // Each is read while the other one may be full.
    let [output, errors] = [
        child.stdout.take().map(|pipe| reader(Box::new(pipe))),
        child.stderr.take().map(|pipe| reader(Box::new(pipe))),
    ];
    let begin = Instant::now();
    let mut told = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let late = limit.and_then(|limit| begin.elapsed().checked_sub(limit));
        if let Some(late) = late {
            if !told {
                told = true;
                // A launcher that is killed would leave its ranks behind.
                let _ = Command::new("kill").arg(child.id().to_string()).status();
            } else if late > ENDS {
                child.kill()?;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if told {
        bail!(
            "{command:?}: not done in {:.0} s",
            limit.unwrap_or_default().as_secs_f64()
        );
    }
    let [output, errors] = [output, errors]
        .map(|reader| reader.map_or_else(String::new, |reader| reader.join().unwrap_or_default()));
    ensure!(status.success(), "{command:?}: {status}\n{errors}");
    Ok((output, errors))
}

fn reader(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
