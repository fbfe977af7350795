//! `cargo xtask bundle`: one archive of the program, the libraries that it needs and a launcher.
//!
//! ```text
//! isochron-VERSION-ARCH-linux/
//!   bin/       isochron, mpirun and what mpirun starts: scripts that find the rest from where they lie
//!   libexec/   the programs themselves
//!   lib/       their libraries; lib/openmpi, lib/hwloc, lib/pmix, lib/prte, lib/ucx, lib/libfabric: what those load when
//!              they run; lib/glibc: the C library, for hosts with an older one
//!              lib/emulated-cuda: what stands for the CUDA driver and cuBLAS where there is no GPU, with the tests
//!   share/     texts of the MPI library
//!   etc/       the environment that the scripts set
//! ```
//!
//! An archive is tried out before it counts: [`trial`] runs it at another place, and looks at what is loaded.

mod contents;
mod files;
mod launcher;
mod libraries;
mod plugins;
mod trial;

use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;
use contents::Bundle;
use launcher::Launcher;

/// Programs of this project that go into every bundle.
const PROGRAMS: &[&str] = &["isochron"];

/// Those that a bundle for trying out a machine holds besides.
const TESTS: &[&str] = &["isochron-cases", "isochron-cuda-cases", "isochron-bench"];

/// Builds with this MPI library, gathers, packs and tries out; prints where the archive is.
///
/// # Errors
/// When a step fails: an MPI library that is not found or that no bundle can be made with, a library that is not found, no
/// `tar`, an archive that does not run by itself.
pub fn run(
    workspace: &Workspace,
    steps: &mut Steps,
    library: Library,
    with_tests: bool,
) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, library)?;
    let launcher = Launcher::find(&mpi)?;
    let packages = if with_tests {
        let cases = &["--bin", "isochron-cuda-cases"];
        [
            build::ISOCHRON_AND_CASES,
            cases,
            build::BENCH,
            build::EMULATOR,
        ]
        .concat()
    } else {
        // As the tests are built, so that nothing is compiled again with other features.
        build::ISOCHRON_AND_CASES.to_vec()
    };
    build::release(workspace, steps, &mpi, &packages)?;
    let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let ending = match library {
        Library::OpenMpi => String::new(),
        Library::Mpich => format!("-{}", library.suffix().to_lowercase()),
    };
    let name = format!("isochron-{version}-{arch}-linux{ending}");
    let folder = workspace.target(library).join("bundle");
    let archive = folder.join(format!("{name}.tar.gz"));
    let programs: Vec<&str> = match with_tests {
        true => PROGRAMS.iter().chain(TESTS).copied().collect(),
        false => PROGRAMS.to_vec(),
    };
    steps.run("gather", || {
        let mut bundle = Bundle::new(folder.join(&name), (&mpi, &launcher))?;
        bundle.add_programs(workspace, &programs)?;
        if with_tests {
            bundle.add_emulator(workspace)?;
        }
        bundle.add_mpi()?;
        bundle.add_blas()?;
        bundle.add_libraries()?;
        bundle.write_scripts(&programs)?;
        bundle.write_texts((version, arch), with_tests)
    })?;
    steps.run("pack", || {
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(&folder);
        execute(tar.arg(&name))
    })?;
    steps.run("try", || {
        let moved = trial::run(&archive, &folder.join("try"), launcher.kind)?;
        if with_tests {
            trial::run_on_emulated_gpu(&moved)?;
        }
        Ok(())
    })?;
    println!("\n{}", archive.display());
    Ok(())
}
