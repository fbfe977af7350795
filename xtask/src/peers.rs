//! Other programs, with which campaigns compare.
//!
//! Small drivers in `bench/peers` are compiled against the installed libraries, and against Intel's MKL from the Python
//! package index, which is unpacked in the target directory. A missing peer is no failure here: one line says why, and the
//! campaign's report has it among the failures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::STARPU;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The version of Intel's package that we compare with.
const MKL: &str = "mkl==2026.2.0";

/// The libraries that MKL's ScaLAPACK is linked with, in the linker's order, without their versions.
const MKL_LIBRARIES: [&str; 5] = [
    "libmkl_scalapack_lp64",
    "libmkl_blacs_openmpi_lp64",
    "libmkl_intel_lp64",
    "libmkl_gnu_thread",
    "libmkl_core",
];

/// Builds every driver that can be built; the folder of the programs.
///
/// # Errors
/// Fails when the folder cannot be written.
pub fn build(workspace: &Workspace, steps: &mut Steps, mpi: &MpiInstallation) -> Result<PathBuf> {
    let builder = Builder {
        sources: workspace.root().join("bench/peers"),
        folder: workspace.target(Library::OpenMpi).join("peers"),
        mpi,
    };
    fs::create_dir_all(&builder.folder)?;
    steps.run("build the peers", || {
        builder.attempt("dgemm", Builder::dgemm)?;
        builder.attempt("speed", Builder::speed)?;
        builder.attempt("pdgemm", Builder::pdgemm)?;
        builder.attempt("starpu", Builder::starpu)?;
        builder.attempt("pdgemm-mkl", Builder::pdgemm_mkl)
    })?;
    Ok(builder.folder)
}

struct Builder<'a> {
    sources: PathBuf,
    folder: PathBuf,
    mpi: &'a MpiInstallation,
}

impl Builder<'_> {
    /// Builds one program, or says why it is not there.
    fn attempt(&self, name: &str, build: fn(&Self, &str) -> Result<()>) -> Result<()> {
        let old = self.folder.join(name);
        if old.exists() {
            fs::remove_file(old)?;
        }
        if let Err(error) = build(self, name) {
            println!("going on without the peer {name}: {error:#}");
        }
        Ok(())
    }

    fn compile(&self, compiler: &str, name: &str, source: &str, options: &[String]) -> Result<()> {
        let mut command = Command::new(compiler);
        self.mpi.apply(&mut command);
        command
            .args(["-O2", "-Wall", "-march=native"])
            .arg(self.sources.join(source))
            .arg("-o")
            .arg(self.folder.join(name))
            .arg("-Wl,--no-as-needed")
            .args(options)
            .args(["-ldl", "-lm"]);
        execute(&mut command)
    }

    fn dgemm(&self, name: &str) -> Result<()> {
        self.compile("cc", name, "dgemm.c", &[])
    }

    fn speed(&self, name: &str) -> Result<()> {
        let options = words(OPENBLAS);
        self.compile(&self.mpi.compiler, name, "speed.c", &options)
    }

    /// Linked with the library that our own devices open before any other BLAS, which ScaLAPACK may come with.
    fn pdgemm(&self, name: &str) -> Result<()> {
        let mut errors = Vec::new();
        for library in ["-lscalapack-openmpi", "-lscalapack"] {
            let options = words(&format!("-DLOGICAL_BLOCK=256 {OPENBLAS} {library}"));
            match self.compile(&self.mpi.compiler, name, "pdgemm.c", &options) {
                Ok(()) => return Ok(()),
                Err(error) => errors.push(format!("{error:#}")),
            }
        }
        bail!("ScaLAPACK: {}", errors.join("; "))
    }

    fn starpu(&self, name: &str) -> Result<()> {
        let flags = machine::read_output("pkg-config", &["--cflags", "--libs", STARPU]);
        let flags = flags.with_context(|| format!("pkg-config finds no {STARPU}"))?;
        self.compile("cc", name, "starpu.c", &words(&flags))
    }

    fn pdgemm_mkl(&self, name: &str) -> Result<()> {
        let folder = self.mkl()?;
        let mut options = words(&format!("-L{0} -Wl,-rpath,{0}", folder.display()));
        for library in MKL_LIBRARIES {
            let file = file_in(&folder, library)
                .with_context(|| format!("{MKL} has no {library}.so.*"))?;
            options.push(format!("-l:{file}"));
        }
        options.push("-lgomp".to_owned());
        self.compile(&self.mpi.compiler, name, "pdgemm.c", &options)?;
        // Its ScaLAPACK reaches MPI by a layer that is made for one MPI library, which one multiplication shows.
        let mut trial = self.mpi.launch(1, &self.folder.join(name));
        execute(trial.args(["64", "64", "64", "1", "32", "1"]))
    }

    /// The folder of MKL's libraries. pip installs them outside of the folder that it is told, so the package is
    /// unpacked here.
    fn mkl(&self) -> Result<PathBuf> {
        let root = self.folder.join("mkl");
        if let Some(found) = mkl_folder(&root) {
            return Ok(found);
        }
        let mut download = Command::new("python3");
        let options = "-m pip download --quiet --no-deps --only-binary :all: --dest";
        execute(download.args(options.split(' ')).args([&root, Path::new(MKL)]))?;
        let wheel = file_in(&root, "mkl-").context("pip left no package")?;
        let mut unpack = Command::new("python3");
        let unpack = unpack.args(["-m", "zipfile", "-e"]);
        execute(unpack.args([&root.join(wheel), &root]))?;
        mkl_folder(&root).with_context(|| format!("{MKL} has no folder of libraries"))
    }
}

/// OpenBLAS without the file that only its development package has.
const OPENBLAS: &str = "-l:libopenblas.so.0";

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Finds the libraries of MKL in the folder of the programs.
pub fn find_mkl(folder: &Path) -> Option<PathBuf> {
    mkl_folder(&folder.join("mkl"))
}

/// Finds the libraries in the unpacked package: `mkl-VERSION.data/data/lib`.
fn mkl_folder(root: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(root).ok()?.flatten();
    entries.find_map(|entry| {
        let folder = entry.path().join("data/lib");
        folder.is_dir().then_some(folder)
    })
}

/// A file in `folder` whose name begins so, followed by a dot or a digit.
fn file_in(folder: &Path, start: &str) -> Option<String> {
    let mut entries = fs::read_dir(folder).ok()?.flatten();
    entries.find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(start)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let fits = rest.starts_with(|c: char| c == '.' || c.is_ascii_digit());
        (is_file && fits).then_some(name)
    })
}
