//! `cargo xtask wheel`: the Python package as a wheel, for one MPI library.
//!
//! The module is compiled with all packages, as the tests are, so that nothing is compiled twice with other features. maturin
//! writes the metadata of the wheel from `runtime/python/pyproject.toml`, and `wheel` packs it with its checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, ISOCHRON_AND_CASES};
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::{Goal, find_python};
use crate::steps::{Steps, execute, show_path};
use crate::workspace::Workspace;

/// The tools that make a wheel.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "wheel==0.45.1"];

/// ReFrame, which `test --all` runs.
const REFRAME: &str = "ReFrame-HPC==4.10.4";

/// PyTorch, with which `test --all` trains.
pub const TORCH: [&str; 2] = ["torch==2.15.0", "numpy==2.4.6"];

/// An MPI library with the standard ABI.
const MPICH: &str = "mpich==5.0.2";

/// The packages that the tests install. mpi4py finds the MPI library of a process at run time.
const PACKAGES: [&str; 3] = ["mpi4py==4.1.2", "numpy==2.4.6", "scipy==1.17.1"];

/// Builds with this MPI library and packs the wheel; prints its path.
///
/// # Errors
/// Fails when a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, library: Library) -> Result<()> {
    install::ensure(Goal::Wheel, steps)?;
    let mpi = build::prepare(workspace, library)?;
    let packages = format!("{ISOCHRON_AND_CASES} --lib");
    build::release(workspace, steps, &mpi, &packages)?;
    let wheel = steps.run("wheel", || pack(workspace, &mpi))?;
    println!("\n{}", show_path(&wheel));
    Ok(())
}

/// Packs the module that was built with this MPI library. Returns the path of the wheel.
///
/// # Errors
/// Fails when a tool is missing and cannot be installed, or fails.
pub fn pack(workspace: &Workspace, mpi: &MpiInstallation) -> Result<PathBuf> {
    let tools = provide_tools(workspace)?;
    let name = mpi.kind.suffix().to_lowercase();
    let out = workspace.target(Library::OpenMpi).join("wheels").join(name);
    let content = out.join("content");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&content)?;
    let sources = workspace.root().join("runtime/python");
    let mut metadata = Command::new(tools.join("maturin"));
    metadata.args(["pep517", "write-dist-info", "--metadata-directory"]).arg(&content);
    metadata.arg("--interpreter").arg(tools.join("python"));
    execute(metadata.current_dir(&sources))?;
    copy_package(&sources.join("python/isochron"), &content.join("isochron"))?;
    let module = workspace.target(mpi.kind).join("release/libisochron_python.so");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg(&module).arg("-o");
    execute(strip.arg(content.join("isochron/_isochron.abi3.so")))?;
    let mut packer = Command::new(tools.join("python"));
    packer.args(["-m", "wheel", "pack"]).arg(&content).arg("--dest-dir");
    execute(packer.arg(&out))?;
    find_wheel(&out)
}

/// Copies the files of the package in Python.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in ["__init__.py", "__init__.pyi", "batches.py", "groups.py", "py.typed"] {
        fs::copy(from.join(file), to.join(file)).with_context(|| file.to_owned())?;
    }
    Ok(())
}

/// Returns the path of the wheel in a folder.
///
/// # Errors
/// Fails when there is none, or the folder cannot be read.
pub fn find_wheel(folder: &Path) -> Result<PathBuf> {
    let mut wheels = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels.next().with_context(|| format!("no wheel in {}", folder.display()))
}

/// Returns the folder of the tools' programs, and makes it if they are missing.
fn provide_tools(workspace: &Workspace) -> Result<PathBuf> {
    provide_environment(workspace, "python-tools", &TOOLS)
}

/// Returns the program of ReFrame, and installs it if it is missing.
///
/// # Errors
/// Fails when it cannot be installed.
pub fn provide_reframe(workspace: &Workspace) -> Result<PathBuf> {
    Ok(provide_environment(workspace, "reframe", &[REFRAME])?.join("reframe"))
}

/// Returns MPICH with the standard ABI, and installs it if it is missing.
///
/// # Errors
/// Fails when it cannot be installed.
pub fn provide_abi(workspace: &Workspace) -> Result<MpiInstallation> {
    let programs = provide_environment(workspace, "mpich-abi", &[MPICH])?;
    let [compiler, launcher] =
        ["mpicc_abi", "mpiexec"].map(|name| programs.join(name).display().to_string());
    Ok(MpiInstallation { kind: Library::Abi, compiler, launcher })
}

/// Fetches MPICH as a wheel, and compiles mpi4py for the standard ABI into another. Returns their folder.
///
/// # Errors
/// Fails when they cannot be fetched, or do not compile.
pub fn provide_abi_wheels(workspace: &Workspace, abi: &MpiInstallation) -> Result<PathBuf> {
    let [mpi4py, ..] = PACKAGES;
    let folder = workspace.target(Library::Abi).join(mpi4py);
    if find_wheel(&folder).is_err() {
        let mut build = call_pip(&provide_tools(workspace)?);
        build.args(["wheel", "--no-deps", "--no-binary", "mpi4py", "--wheel-dir"]);
        // Optimised it takes minutes.
        build.arg(&folder).args([mpi4py, MPICH]).env("MPICC", &abi.compiler).env("CFLAGS", "-O0");
        execute(&mut build)?;
    }
    Ok(folder)
}

/// Returns the folder of the programs of some packages, and makes an environment for them if they are missing.
///
/// # Errors
/// Fails when they cannot be installed.
pub fn provide_environment(
    workspace: &Workspace,
    name: &str,
    packages: &[&str],
) -> Result<PathBuf> {
    let environment = workspace.target(Library::OpenMpi).join(name);
    let (programs, note) = (environment.join("bin"), environment.join("tools.txt"));
    let wanted = packages.join("\n");
    if fs::read_to_string(&note).is_ok_and(|known| known == wanted) {
        return Ok(programs);
    }
    let python = find_python().context("no Python was found")?;
    execute(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))?;
    execute(call_pip(&programs).arg("install").args(packages))?;
    fs::write(note, wanted)?;
    Ok(programs)
}

/// Fetches the packages that the tests install. Returns their folder.
///
/// # Errors
/// Fails when they cannot be fetched.
pub fn fetch_packages(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target(Library::OpenMpi).join("python-packages");
    let (note, wanted) = (folder.join("packages.txt"), PACKAGES.join("\n"));
    if !fs::read_to_string(&note).is_ok_and(|known| known == wanted) {
        let programs = provide_tools(workspace)?;
        let mut fetch = call_pip(&programs);
        fetch.args(["download", "--no-deps", "--dest"]).arg(&folder);
        execute(fetch.args(PACKAGES))?;
        fs::write(note, wanted)?;
    }
    Ok(folder)
}

/// Installs a wheel and the packages of [`fetch_packages`] into an empty folder.
///
/// # Errors
/// Fails when they cannot be fetched or installed.
pub fn install_packages(workspace: &Workspace, wheel: &Path, folder: &Path) -> Result<()> {
    let fetched = fetch_packages(workspace)?;
    let mut install = call_pip(&provide_tools(workspace)?);
    install.args(["install", "--no-index", "--no-deps", "--find-links"]);
    install.arg(&fetched).arg("--target").arg(folder);
    execute(install.arg(wheel).arg("mpi4py"))
}

fn call_pip(programs: &Path) -> Command {
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    pip
}
