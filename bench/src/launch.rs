//! The `isochron` command under mpirun.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::process::{path_variable, run_program, run_within};
use crate::report::MxmReport;

/// The programs of one MPI library: those that `cargo xtask bench` names in the environment, or those of the bundle
/// from which this program is started.
pub struct MxmLauncher {
    mpirun: PathBuf,
    isochron: PathBuf,
    /// Options that let any number of ranks run on any cores.
    pub options: &'static [&'static str],
}

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
        let (version, _) = run_program(Command::new(&mpirun).arg("--version"))?;
        let is_hydra = version.contains("HYDRA");
        Ok(Self {
            isochron: bundle.join("bin/isochron"),
            mpirun,
            options: if is_hydra { &[] } else { OPEN_MPI },
        })
    }

    /// Makes a command that starts ranks with these options of `mpirun`.
    pub fn mpirun(&self, ranks: usize, options: &[&str]) -> Command {
        let mut command = Command::new(&self.mpirun);
        command
            .args(options)
            .args(["-n", &ranks.to_string()])
            // A campaign measures what learning costs, and leaves nothing to the user.
            .env("ISOCHRON_STORE", "")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// Runs `isochron mxm` on `ranks` ranks with environment variables, and ends the program after `limit`. Returns its report
    /// and standard error.
    ///
    /// # Errors
    /// If it fails, takes too long, or its result does not pass the check.
    pub fn run_mxm_within(
        &self,
        ranks: usize,
        arguments: &[String],
        variables: &[(&str, &str)],
        limit: Duration,
    ) -> anyhow::Result<(MxmReport, String)> {
        let mut command = self.mpirun(ranks, self.options);
        command.envs(variables.iter().copied());
        command.arg(&self.isochron).args(["mxm", "--json"]);
        command.args(arguments);
        let (output, errors) = run_within(&mut command, limit)?;
        let report = MxmReport::parse(&output).with_context(|| format!("{command:?}"))?;
        Ok((report, errors))
    }

    /// Runs `isochron` as one process and ends it after `limit`; returns its standard output.
    ///
    /// # Errors
    /// If it fails or takes too long.
    pub fn run_isochron(&self, arguments: &[String], limit: Duration) -> anyhow::Result<String> {
        let mut command = Command::new(&self.isochron);
        Ok(run_within(command.args(arguments), limit)?.0)
    }
}
