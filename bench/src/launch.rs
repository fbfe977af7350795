//! The `isochron` command under mpirun.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::path_variable;
use crate::report::MxmReport;

/// The programs of one MPI library: those that `cargo xtask bench` names in the environment, or those of the bundle from
/// which this program is started.
pub struct MxmLauncher {
    mpirun: PathBuf,
    isochron: PathBuf,
    /// Options that let any number of ranks run on any cores.
    options: &'static [&'static str],
}

/// The time that a program may take to end after it was told to.
const GRACE: Duration = Duration::from_secs(5);

impl MxmLauncher {
    /// Finds the programs of Open MPI or of the bundle.
    ///
    /// # Errors
    /// If a variable is not set, or the launcher of the bundle cannot be run.
    pub fn from_environment() -> anyhow::Result<Self> {
        const OPEN_MPI: &[&str] = &["--oversubscribe", "--bind-to", "none"];
        let Some(bundle) = std::env::var_os("ISOCHRON_BUNDLE").map(PathBuf::from) else {
            return Ok(Self {
                mpirun: path_variable("ISOCHRON_MPIRUN_OPENMPI")?,
                isochron: path_variable("ISOCHRON_BIN_OPENMPI")?,
                options: OPEN_MPI,
            });
        };
        let mpirun = bundle.join("bin/mpirun");
        let version = Command::new(&mpirun)
            .arg("--version")
            .output()
            .with_context(|| mpirun.display().to_string())?;
        let is_hydra = String::from_utf8_lossy(&version.stdout).contains("HYDRA");
        Ok(Self {
            isochron: bundle.join("bin/isochron"),
            mpirun,
            options: if is_hydra { &[] } else { OPEN_MPI },
        })
    }

    /// Runs `isochron mxm` on `ranks` ranks; returns its report.
    ///
    /// # Errors
    /// If it fails, or its result does not pass the check.
    pub fn run_mxm(&self, ranks: usize, arguments: &[String]) -> anyhow::Result<MxmReport> {
        let (report, _) = self.run_mxm_within(ranks, arguments, &[], None)?;
        Ok(report)
    }

    /// Does the same with environment variables, and ends the program after `limit`. Returns the report and standard error.
    ///
    /// # Errors
    /// If it fails, takes too long, or its result does not pass the check.
    pub fn run_mxm_within(
        &self,
        ranks: usize,
        arguments: &[String],
        variables: &[(&str, &str)],
        limit: Option<Duration>,
    ) -> anyhow::Result<(MxmReport, String)> {
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
        let (text, errors) = run_within(&mut command, limit)?;
        let report = MxmReport::parse(&text).with_context(|| format!("{command:?}"))?;
        Ok((report, errors))
    }

    /// Runs `isochron` as one process and ends it after `limit`; returns its standard output.
    ///
    /// # Errors
    /// If it fails or takes too long.
    pub fn run_isochron(&self, arguments: &[String], limit: Duration) -> anyhow::Result<String> {
        let mut command = Command::new(&self.isochron);
        Ok(run_within(command.args(arguments), Some(limit))?.0)
    }
}

/// Runs a program; returns its standard output and standard error. After the limit it is told to end, and later killed.
fn run_within(command: &mut Command, limit: Option<Duration>) -> anyhow::Result<(String, String)> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    // Both are read at once, so that neither pipe fills up.
    let readers = [
        child.stdout.take().map(|pipe| read_all(Box::new(pipe))),
        child.stderr.take().map(|pipe| read_all(Box::new(pipe))),
    ];
    let begin = Instant::now();
    let mut was_told = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let late = limit.and_then(|limit| begin.elapsed().checked_sub(limit));
        if let Some(late) = late {
            if !was_told {
                was_told = true;
                // A launcher that is killed would leave its ranks behind.
                let _ = Command::new("kill").arg(child.id().to_string()).status();
            } else if late > GRACE {
                child.kill()?;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if was_told {
        bail!(
            "{command:?}: not done in {:.0} s",
            limit.unwrap_or_default().as_secs_f64()
        );
    }
    let [output, errors] = readers
        .map(|reader| reader.map_or_else(String::new, |reader| reader.join().unwrap_or_default()));
    ensure!(status.success(), "{command:?}: {status}\n{errors}");
    Ok((output, errors))
}

fn read_all(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
