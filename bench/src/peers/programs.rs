//! The compared programs, and the ranks that they run on.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{Display, VariantArray};

use super::hosts::EmulatedHosts;
use crate::launch::MxmLauncher;
use crate::process::{path_variable, run_program};
use crate::report::MxmReport;
use crate::shape::ProductShape;

/// The BLAS that both sides of a comparison call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
pub enum PeerBlas {
    /// OpenBLAS; its ScaLAPACK is Debian's.
    #[serde(rename = "OpenBLAS")]
    #[strum(serialize = "OpenBLAS")]
    OpenBlas,
    /// Intel's, with its own ScaLAPACK.
    #[serde(rename = "MKL")]
    #[strum(serialize = "MKL")]
    Mkl,
}

impl PeerBlas {
    /// Returns the program that calls the library's `pdgemm`.
    pub fn pdgemm(self) -> &'static str {
        match self {
            Self::OpenBlas => "pdgemm",
            Self::Mkl => "pdgemm-mkl",
        }
    }
}

/// The start of a program on ranks.
#[derive(Clone)]
pub struct RankStart<'a> {
    /// The name of the ranks in the search for parameters.
    pub name: String,
    /// The hosts; `None` for this machine.
    pub hosts: Option<&'a EmulatedHosts>,
    /// Ranks on each host.
    pub ranks: Vec<usize>,
    /// Threads of the BLAS in each rank of a peer. Our own ranks find their cores themselves.
    pub threads: usize,
    pub blas: PeerBlas,
    /// Ranks of a peer on this machine are bound to cores of their own.
    pub is_bound: bool,
}

impl<'a> RankStart<'a> {
    /// Starts ranks of one thread on hosts.
    pub fn on_hosts(name: &str, hosts: &'a EmulatedHosts, ranks: Vec<usize>) -> Self {
        Self {
            name: name.to_owned(),
            hosts: Some(hosts),
            ranks,
            threads: 1,
            blas: PeerBlas::OpenBlas,
            is_bound: true,
        }
    }

    /// Returns the number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.ranks.iter().sum()
    }
}

/// A peer that is not there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AbsentPeer {
    pub peer: String,
    pub why: String,
}

/// The answer of a peer for one choice of its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PeerAnswer {
    /// Seconds of each repetition.
    pub seconds: Vec<f64>,
    /// `true` if the product passed its check.
    pub verified: bool,
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

impl PeerAnswer {
    /// Returns the seconds of the fastest repetition.
    pub fn best_s(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// The programs of the campaign, as `cargo xtask bench` names them in the environment.
pub struct PeerPrograms {
    launcher: MxmLauncher,
    /// The program that emulates hosts.
    pub cluster: PathBuf,
    folder: PathBuf,
    /// Cores of this machine.
    pub cores: usize,
}

impl PeerPrograms {
    /// Finds the programs.
    ///
    /// # Errors
    /// If a variable is not set.
    pub fn from_environment() -> anyhow::Result<Self> {
        Ok(Self {
            launcher: MxmLauncher::from_environment()?,
            cluster: path_variable("ISOCHRON_CLUSTER")?,
            folder: path_variable("ISOCHRON_PEERS")?,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// Returns `true` if a peer was built.
    pub fn has(&self, peer: &str) -> bool {
        self.folder.join(peer).is_file()
    }

    /// Returns the peers of `names` that are not there, and reports them.
    pub fn find_absent(&self, names: &[&str]) -> Vec<AbsentPeer> {
        names
            .iter()
            .filter(|name| !self.has(name))
            .map(|name| {
                let note = self.folder.join(format!("{name}.absent"));
                let why = std::fs::read_to_string(note);
                AbsentPeer::report(name, why.unwrap_or_else(|_| "it was not built".to_owned()))
            })
            .collect()
    }

    /// Returns the file of a library, for our own `--blas` and for peers of one process.
    fn blas_file(&self, blas: PeerBlas) -> anyhow::Result<String> {
        if blas == PeerBlas::OpenBlas {
            return Ok("libopenblas.so.0".to_owned());
        }
        let root = self.folder.join("mkl");
        let mut files = std::fs::read_dir(&root)
            .context("the package of MKL")?
            .flatten()
            .filter_map(|package| std::fs::read_dir(package.path().join("data/lib")).ok())
            .flat_map(|files| files.flatten().map(|file| file.path()));
        Ok(files
            .find(|path| {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .starts_with("libmkl_rt.so")
            })
            .context("MKL without libmkl_rt")?
            .display()
            .to_string())
    }

    /// Makes a command that starts ranks with `variables`. A peer's ranks are bound to cores; ours bind themselves.
    fn mpirun(
        &self,
        start: &RankStart<'_>,
        is_peer: bool,
        variables: &[(&str, String)],
    ) -> Command {
        let ranks = start.n_ranks();
        let mut command = match start.hosts {
            Some(hosts) => hosts.mpirun(&start.ranks),
            None if is_peer && start.is_bound => self.mpirun_bound(ranks, start.threads),
            None => self.launcher.mpirun(ranks, self.launcher.options),
        };
        for (name, value) in variables {
            command.args(["-x", &format!("{name}={value}")]);
        }
        command
    }

    fn mpirun_bound(&self, ranks: usize, threads: usize) -> Command {
        if ranks * threads <= self.cores {
            let slots = format!("slot:PE={threads}");
            let options = ["--map-by", &slots, "--bind-to", "core"];
            return self.launcher.mpirun(ranks, &options);
        }
        let options = [
            "--map-by",
            "core:OVERSUBSCRIBE",
            "--bind-to",
            "core:overload-allowed",
        ];
        self.launcher.mpirun(ranks, &options)
    }

    /// Runs `isochron mxm` with more options and environment variables; returns the report and standard error.
    ///
    /// # Errors
    /// If it fails, or its result does not pass the check.
    pub fn run_mxm(
        &self,
        start: &RankStart<'_>,
        shape: ProductShape,
        options: &[&str],
        variables: &[(&str, String)],
    ) -> anyhow::Result<(MxmReport, String)> {
        let mut command = self.make_mxm(start, shape, options, variables)?;
        MxmReport::of_run(run_program(&mut command)?, &command)
    }

    /// Makes the command of `isochron mxm --json` with more options and environment variables.
    ///
    /// # Errors
    /// If the library is not there.
    pub fn make_mxm(
        &self,
        start: &RankStart<'_>,
        shape: ProductShape,
        options: &[&str],
        variables: &[(&str, String)],
    ) -> anyhow::Result<Command> {
        let choice = match start.blas {
            PeerBlas::OpenBlas => "openblas".to_owned(),
            PeerBlas::Mkl => self.blas_file(PeerBlas::Mkl)?,
        };
        let [m, n, k] = size_words(shape);
        // Environment variables do not reach emulated hosts. Learning counts whole, without what earlier runs have learnt.
        let words = [
            "--m", &m, "--n", &n, "--k", &k, "--blas", &choice, "--store", "none",
        ];
        let words = words.map(str::to_owned);
        let mut command = self.mpirun(start, false, variables);
        self.launcher.add_mxm(&mut command, &words);
        command.args(options);
        Ok(command)
    }

    /// Runs `pdgemm` once for each of `candidates` (`BLOCK:ROWSxCOLS`).
    ///
    /// # Errors
    /// If it fails, or a product is wrong.
    pub fn run_pdgemm(
        &self,
        start: &RankStart<'_>,
        shape: ProductShape,
        repetitions: usize,
        candidates: &[String],
    ) -> anyhow::Result<Vec<PeerAnswer>> {
        let mut command = self.mpirun(start, true, &thread_variables(start.threads));
        command.arg(self.folder.join(start.blas.pdgemm()));
        command.args(size_words(shape)).arg(repetitions.to_string());
        read_answers(command.args(candidates), candidates.len())
    }

    /// Calls the library on all cores.
    ///
    /// # Errors
    /// If it fails, or the product is wrong.
    pub fn run_dgemm(
        &self,
        blas: PeerBlas,
        shape: ProductShape,
        calls: usize,
    ) -> anyhow::Result<Vec<PeerAnswer>> {
        let mut command = Command::new(self.folder.join("dgemm"));
        command
            .envs(thread_variables(self.cores))
            .arg(self.blas_file(blas)?);
        read_answers(command.args(size_words(shape)).arg(calls.to_string()), 1)
    }

    /// Runs a prepared square product whose matrices lie as planned. Returns the seconds of each call.
    ///
    /// # Errors
    /// If it fails.
    pub fn run_prepared(
        &self,
        ranks: usize,
        size: usize,
        calls: usize,
    ) -> anyhow::Result<Vec<f64>> {
        #[derive(Deserialize)]
        struct Calls {
            calls_s: Vec<f64>,
        }
        let mut command = self.launcher.mpirun(ranks, self.launcher.options);
        command.args(["-x", "ISOCHRON_BLAS=openblas"]);
        self.launcher.add_example(&mut command, "prepared");
        command.args([&*size.to_string(), &calls.to_string(), "planned", "f64"]);
        let Calls { calls_s } = serde_json::from_str(&run_program(&mut command)?.0)?;
        Ok(calls_s)
    }

    /// Runs the tiled multiplication on StarPU on all cores, once for each of `candidates` (`TILExDEPTH`).
    ///
    /// # Errors
    /// If it fails, or a product is wrong.
    pub fn run_starpu(
        &self,
        shape: ProductShape,
        repetitions: usize,
        candidates: &[String],
    ) -> anyhow::Result<Vec<PeerAnswer>> {
        let mut command = Command::new(self.folder.join("starpu"));
        command
            .envs(thread_variables(1))
            .env("STARPU_NCPU", self.cores.to_string())
            .arg(self.blas_file(PeerBlas::OpenBlas)?)
            .args(size_words(shape))
            .arg(repetitions.to_string());
        read_answers(command.args(candidates), candidates.len())
    }

    /// Measures every rank's BLAS while all compute for some seconds; returns flop/s by rank.
    ///
    /// # Errors
    /// If it fails.
    pub fn measure_speeds(&self, start: &RankStart<'_>, seconds: f64) -> anyhow::Result<Vec<f64>> {
        let mut command = self.mpirun(start, true, &thread_variables(1));
        command
            .arg(self.folder.join("speed"))
            .arg(seconds.to_string());
        serde_json::from_str(&run_program(&mut command)?.0).context("speeds")
    }
}

impl AbsentPeer {
    /// Reports a peer that is not there.
    pub fn report(peer: &str, why: String) -> Self {
        eprintln!("absent: {peer}: {why}");
        Self {
            peer: peer.to_owned(),
            why,
        }
    }
}

fn size_words(shape: ProductShape) -> [String; 3] {
    [shape.m, shape.n, shape.k].map(|size| size.to_string())
}

/// Returns the variables that set the libraries' number of threads; those of MKL stay on their cores.
fn thread_variables(count: usize) -> Vec<(&'static str, String)> {
    let count = count.to_string();
    vec![
        ("OPENBLAS_NUM_THREADS", count.clone()),
        ("MKL_NUM_THREADS", count),
        ("MKL_THREADING_LAYER", "GNU".to_owned()),
        ("OMP_PROC_BIND", "true".to_owned()),
    ]
}

/// Runs a peer; returns the `n` answers that it writes as lines of JSON.
fn read_answers(command: &mut Command, n: usize) -> anyhow::Result<Vec<PeerAnswer>> {
    let (text, _) = run_program(command)?;
    let answers: Vec<PeerAnswer> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    ensure!(
        answers.len() == n,
        "{command:?}: {} answers of {n}",
        answers.len()
    );
    for answer in &answers {
        ensure!(answer.verified, "{command:?}: a wrong product: {answer:?}");
    }
    Ok(answers)
}
