//! The programs that are compared, and where they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::hosts::Hosts;
use crate::launch::variable;

/// The BLAS that both sides of a comparison call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blas {
    /// OpenBLAS; its ScaLAPACK is Debian's.
    OpenBlas,
    /// Intel's, with a ScaLAPACK of its own.
    Mkl,
}

impl Blas {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OpenBlas, Self::Mkl];

    /// The name people know.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenBlas => "OpenBLAS",
            Self::Mkl => "MKL",
        }
    }

    /// The program that calls the library's `pdgemm`.
    pub fn pdgemm(self) -> &'static str {
        match self {
            Self::OpenBlas => "pdgemm",
            Self::Mkl => "pdgemm-mkl",
        }
    }
}

/// A multiplication `C (m×n) = A (m×k) · B (k×n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Shape {
    pub fn flop(self) -> f64 {
        2.0 * (self.m * self.n) as f64 * self.k as f64
    }

    /// As people write it.
    pub fn text(self) -> String {
        let Self { m, n, k } = self;
        format!("{m}×{n}×{k}")
    }

    fn words(self) -> [String; 3] {
        [self.m, self.n, self.k].map(|size| size.to_string())
    }
}

/// Where a program runs: ranks of this machine, or of emulated hosts.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// So many ranks of this machine.
    Here(usize),
    /// So many on each host.
    On(&'a Hosts, &'a [usize]),
}

/// How a program is started.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    pub place: Place<'a>,
    /// Threads of the BLAS in each rank of a peer; our own ranks use the cores that are theirs.
    pub threads: usize,
}

impl Start<'_> {
    pub fn ranks(&self) -> usize {
        match self.place {
            Place::Here(ranks) => ranks,
            Place::On(_, ranks) => ranks.iter().sum(),
        }
    }
}

/// The programs of the campaign, as `cargo xtask bench` names them in the environment.
pub struct Programs {
    mpirun: PathBuf,
    isochron: PathBuf,
    cluster: PathBuf,
    folder: PathBuf,
    /// Cores of this machine.
    pub cores: usize,
}

impl Programs {
    pub fn from_environment() -> anyhow::Result<Self> {
        Ok(Self {
            mpirun: variable("ISOCHRON_MPIRUN_OPENMPI")?,
            isochron: variable("ISOCHRON_BIN_OPENMPI")?,
            cluster: variable("ISOCHRON_CLUSTER")?,
            folder: variable("ISOCHRON_PEERS")?,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// The program that emulates hosts.
    pub fn cluster(&self) -> &Path {
        &self.cluster
    }

    /// Why a peer is not there; `None` if it is.
    pub fn absent(&self, peer: &str) -> Option<String> {
        if self.folder.join(peer).is_file() {
            return None;
        }
        let note = self.folder.join(format!("{peer}.absent"));
        Some(std::fs::read_to_string(note).unwrap_or_else(|_| "it was not built".to_owned()))
    }

    /// The peers of `names` that are not there, with a line for each; for the record.
    pub fn absences(&self, names: &[&str]) -> Vec<Value> {
        let absent = names.iter().filter_map(|name| {
            let why = self.absent(name)?;
            eprintln!("absent: the peer {name}: {why}");
            Some(json!({ "peer": name, "why": why }))
        });
        absent.collect()
    }

    /// What our own `--blas`, and the peers of one process, call the library.
    fn blas_name(&self, blas: Blas) -> anyhow::Result<String> {
        match blas {
            Blas::OpenBlas => Ok("libopenblas.so.0".to_owned()),
            Blas::Mkl => {
                let root = self.folder.join("mkl");
                let packages = std::fs::read_dir(&root).context("the package of MKL")?;
                let mut files = packages
                    .flatten()
                    .filter_map(|package| std::fs::read_dir(package.path().join("data/lib")).ok())
                    .flat_map(|files| files.flatten().map(|file| file.path()));
                let is_runtime = |path: &PathBuf| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    name.starts_with("libmkl_rt.so")
                };
                let found = files.find(is_runtime).context("MKL without libmkl_rt")?;
                Ok(found.display().to_string())
            }
        }
    }

    /// A command that starts ranks with `variables`; a peer's ranks are bound to cores of their own, which ours see to
    /// themselves.
    fn mpirun(&self, start: &Start<'_>, is_peer: bool, variables: &[(&str, String)]) -> Command {
        let mut command = match start.place {
            Place::Here(ranks) => {
                let mut command = Command::new(&self.mpirun);
                command
                    .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                    .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                    .args(["-n", &ranks.to_string()]);
                let spread = format!("slot:PE={}", start.threads);
                if !is_peer {
                    command.args(["--oversubscribe", "--bind-to", "none"]);
                } else if ranks * start.threads <= self.cores {
                    command.args(["--map-by", &spread, "--bind-to", "core"]);
                } else {
                    command.args(["--map-by", "core:OVERSUBSCRIBE"]);
                    command.args(["--bind-to", "core:overload-allowed"]);
                }
                command
            }
            Place::On(hosts, ranks) => hosts.mpirun(&self.cluster, ranks),
        };
        for (name, value) in variables {
            command.args(["-x", &format!("{name}={value}")]);
        }
        command
    }

    /// The report of `isochron mxm`, checked. `more` are words of its command line.
    pub fn mxm(
        &self,
        start: &Start<'_>,
        blas: Blas,
        shape: Shape,
        more: &[&str],
    ) -> anyhow::Result<Value> {
        let (report, _) = self.mxm_with(start, blas, shape, more, &[])?;
        Ok(report)
    }

    /// As [`mxm`](Self::mxm) with environment variables, and what it wrote to standard error.
    pub fn mxm_with(
        &self,
        start: &Start<'_>,
        blas: Blas,
        shape: Shape,
        more: &[&str],
        variables: &[(&str, String)],
    ) -> anyhow::Result<(Value, String)> {
        let choice = match blas {
            Blas::OpenBlas => "openblas".to_owned(),
            Blas::Mkl => self.blas_name(blas)?,
        };
        let mut command = self.mpirun(start, false, variables);
        command.arg(&self.isochron).arg("mxm");
        for (option, size) in ["--m", "--n", "--k"].into_iter().zip(shape.words()) {
            command.args([option, &size]);
        }
        command.args(["--blas", &choice, "--json"]).args(more);
        let (output, errors) = output(&mut command)?;
        let report: Value = serde_json::from_str(&output).context("the report")?;
        ensure!(
            report["verified"] == true,
            "{command:?}: the result is not verified"
        );
        Ok((report, errors))
    }

    /// The answers of a `pdgemm`, one for each of `candidates` (`BLOCK:ROWSxCOLS`).
    pub fn pdgemm(
        &self,
        start: &Start<'_>,
        blas: Blas,
        shape: Shape,
        repetitions: usize,
        candidates: &[String],
    ) -> anyhow::Result<Vec<Value>> {
        let mut command = self.mpirun(start, true, &threads(start.threads));
        command.arg(self.folder.join(blas.pdgemm()));
        command.args(shape.words()).arg(repetitions.to_string());
        answers(command.args(candidates))
    }

    /// The answer of one call of the library on all cores.
    pub fn dgemm(&self, blas: Blas, shape: Shape) -> anyhow::Result<Value> {
        let mut command = Command::new(self.folder.join("dgemm"));
        command.envs(threads(self.cores)).arg(self.blas_name(blas)?);
        command.args(shape.words()).arg("1");
        let mut answers = answers(&mut command)?;
        answers.pop().context("an answer of dgemm")
    }

    /// The answers of the tiled multiplication on StarPU on all cores, one for each of `candidates` (`TILExDEPTH`).
    pub fn starpu(
        &self,
        shape: Shape,
        repetitions: usize,
        candidates: &[String],
    ) -> anyhow::Result<Vec<Value>> {
        let mut command = Command::new(self.folder.join("starpu"));
        command
            .envs(threads(1))
            .env("STARPU_NCPU", self.cores.to_string())
            .arg(self.blas_name(Blas::OpenBlas)?)
            .args(shape.words())
            .arg(repetitions.to_string());
        answers(command.args(candidates))
    }

    /// The speed in flop/s of every rank's BLAS while all compute for some seconds.
    pub fn speeds(&self, start: &Start<'_>, seconds: f64) -> anyhow::Result<Vec<f64>> {
        let mut command = self.mpirun(start, true, &threads(1));
        let command = command
            .arg(self.folder.join("speed"))
            .arg(seconds.to_string());
        serde_json::from_str(&output(command)?.0).context("speeds")
    }
}

/// How the libraries are told their number of threads; those of MKL stay on their cores.
fn threads(count: usize) -> Vec<(&'static str, String)> {
    let count = count.to_string();
    vec![
        ("OPENBLAS_NUM_THREADS", count.clone()),
        ("MKL_NUM_THREADS", count),
        ("MKL_THREADING_LAYER", "GNU".to_owned()),
        ("OMP_PROC_BIND", "true".to_owned()),
    ]
}

/// The JSON objects that a peer writes, each of them of a right product.
fn answers(command: &mut Command) -> anyhow::Result<Vec<Value>> {
    let (text, _) = output(command)?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let answers: Vec<Value> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(!answers.is_empty(), "{command:?}: no answer");
    for answer in &answers {
        ensure!(
            answer["verified"] == true,
            "{command:?}: a wrong product: {answer}"
        );
    }
    Ok(answers)
}

/// What a program writes to standard output and standard error.
pub fn output(command: &mut Command) -> anyhow::Result<(String, String)> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, text(&output.stderr));
    }
    Ok((text(&output.stdout), text(&output.stderr)))
}

/// The first of the times in an answer.
pub fn seconds(answer: &Value) -> f64 {
    answer["seconds"][0].as_f64().unwrap_or(f64::NAN)
}
