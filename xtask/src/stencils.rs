//! The stencils in all languages for both MPI libraries, which the campaign `stencil` runs: `stencil-rust-openmpi`,
//! `stencil-python-mpich`, …

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, WITH_TESTS};
use crate::machine;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::find_python;
use crate::prefix;
use crate::steps::{Steps, execute};
use crate::wheel;
use crate::workspace::Workspace;

/// The beginning of their names.
pub const PREFIX: &str = "stencil-";

/// The program in Rust and the libraries of the other languages.
const PROGRAMS: &str = "--lib --example stencil";

/// The names of the programs of each MPI library.
const LANGUAGES: [&str; 4] = ["rust", "c", "fortran", "python"];

/// Builds the programs with both MPI libraries, and links them into `folder`.
///
/// # Errors
/// Fails when a step fails.
pub fn build(
    workspace: &Workspace,
    steps: &mut Steps,
    libraries: [&MpiInstallation; 2],
    folder: &Path,
) -> Result<()> {
    let stencils = workspace.target(Library::OpenMpi).join("stencils");
    for mpi in libraries {
        let selected = format!("{WITH_TESTS} {PROGRAMS}");
        build::release(workspace, steps, mpi, &selected)?;
    }
    steps.run("build the stencils", || {
        let kinds = libraries.map(|mpi| mpi.kind);
        prefix::write_files(workspace, &kinds, &stencils.join("installed"))?;
        for mpi in libraries {
            let name = mpi.kind.suffix().to_lowercase();
            let programs = stencils.join(&name);
            if programs.exists() {
                fs::remove_dir_all(&programs)?;
            }
            let builder = StencilBuilder {
                examples: workspace.root().join("runtime"),
                installed: stencils.join("installed"),
                programs,
                mpi,
            };
            builder.build_all(workspace)?;
            for language in LANGUAGES {
                let program = builder.programs.join(language);
                prefix::link(&program, &folder.join(format!("{PREFIX}{language}-{name}")))?;
            }
        }
        Ok(())
    })
}

/// Makes the programs of one MPI library.
struct StencilBuilder<'a> {
    /// The folder of the library and its interfaces.
    examples: PathBuf,
    /// The C interface.
    installed: PathBuf,
    programs: PathBuf,
    mpi: &'a MpiInstallation,
}

impl StencilBuilder<'_> {
    fn build_all(&self, workspace: &Workspace) -> Result<()> {
        fs::create_dir_all(&self.programs)?;
        let rust = workspace.binary(self.mpi.kind, "examples/stencil");
        symlink(rust, self.programs.join("rust"))?;
        self.compile_c()?;
        self.compile_fortran()?;
        self.install_python(workspace)
    }

    /// Starts a compiler in the folder of the programs, where Fortran leaves its modules.
    fn start_compiler(&self, compiler: &str, sources: &[&str]) -> Command {
        let mut command = Command::new(compiler);
        command.current_dir(&self.programs).arg("-O2");
        for source in sources {
            command.arg(self.examples.join("c/examples").join(source));
        }
        self.mpi.apply(&mut command);
        command
    }

    fn link_library(&self, command: &mut Command) {
        let folder = self.installed.join("lib").display().to_string();
        let name = self.mpi.kind.suffix().to_lowercase();
        command.arg("-I").arg(self.installed.join("include"));
        command.args([
            format!("-L{folder}"),
            format!("-lisochron-{name}"),
            format!("-Wl,-rpath,{folder}"),
        ]);
    }

    fn compile_c(&self) -> Result<()> {
        let mut command = self.start_compiler(&self.mpi.compiler, &["stencil.c", "slow_rank.c"]);
        self.link_library(&mut command);
        execute(command.args(["-o", "c"]))
    }

    fn compile_fortran(&self) -> Result<()> {
        let mut helper = self.start_compiler(&self.mpi.compiler, &["slow_rank.c"]);
        execute(helper.args(["-c", "-o", "slow_rank.o"]))?;
        let compiler = self.mpi.compiler.replace("mpicc", "mpifort");
        let mut command = self.start_compiler(&compiler, &[]);
        command.arg(self.installed.join("include/isochron.f90"));
        for source in ["slow_rank.f90", "halo.f90", "stencil.f90"] {
            command.arg(self.examples.join("c/examples").join(source));
        }
        command.arg("slow_rank.o");
        self.link_library(&mut command);
        execute(command.args(["-o", "fortran"]))
    }

    /// Installs the package and mpi4py, and writes a program that runs the example with them.
    fn install_python(&self, workspace: &Workspace) -> Result<()> {
        let wheel = wheel::pack(workspace, self.mpi)?;
        let packages = self.programs.join("packages");
        wheel::install_packages(workspace, &wheel, &packages)?;
        if self.mpi.kind == Library::Mpich {
            self.link_mpich(workspace, &packages)?;
        }
        let python = find_python().context("no Python was found")?;
        let text = format!(
            "#!/bin/sh\n\
             export PYTHONPATH='{packages}' MPI4PY_MPIABI={name}\n\
             export LD_LIBRARY_PATH='{packages}':\"$LD_LIBRARY_PATH\"\n\
             exec {python} '{script}' \"$@\"\n",
            packages = packages.display(),
            name = self.mpi.kind.suffix().to_lowercase(),
            script = self.examples.join("python/examples/stencil.py").display(),
        );
        let program = self.programs.join("python");
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Gives the MPICH of our programs the name by which mpi4py looks for it, which Debian does not have.
    fn link_mpich(&self, workspace: &Workspace, folder: &Path) -> Result<()> {
        let program = workspace.binary(self.mpi.kind, "examples/stencil");
        let program = program.display().to_string();
        let text = machine::read_output("ldd", &[&program]).context("ldd fails")?;
        let mut paths = text
            .lines()
            .filter(|line| line.trim().starts_with("libmpi"))
            .filter_map(|line| line.split_once("=> ")?.1.split(" (").next());
        let path = paths.next().context("the program has no MPI library")?;
        symlink(path, folder.join("libmpi.so.12"))?;
        Ok(())
    }
}
