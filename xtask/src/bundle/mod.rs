//! `cargo xtask bundle`: one archive of the program, the libraries that it needs and a launcher.
//!
//! ```text
//! isochron-VERSION-ARCH-linux/
//!   bin/       isochron, mpirun and the programs that mpirun starts: scripts that find the rest from their own place
//!   libexec/   the programs themselves
//!   lib/       their libraries; lib/openmpi, lib/hwloc, lib/pmix, lib/prte, lib/ucx, lib/libfabric: plugins of those;
//!              lib/glibc: the C library, for hosts with an older one
//!              lib/kernels: the example kernels in C
//!              lib/emulated-cuda: the emulated CUDA driver and cuBLAS, in a bundle with the tests
//!   include/   the header of kernels in C
//!   share/     texts of the MPI library; man pages, shell completions, schemas of documents; the sources of the example kernels
//!   bench/campaigns, cluster-configs: the campaigns of a GPU, in a bundle with the tests
//!   etc/       the environment that the scripts set
//! ```
//!
//! With `--image` the same folder becomes a container image, too ([`image`]).
//!
//! An archive is tried before it counts: [`trial`] runs it in another place and checks the libraries that are loaded.

mod contents;
mod files;
mod image;
mod kernels;
mod launcher;
mod libraries;
mod plugins;
mod trial;

use std::process::Command;

use anyhow::Result;

use crate::build::{self, ISOCHRON_AND_CASES};
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute, show_path};
use crate::workspace::Workspace;
use contents::Bundle;
use launcher::BundledLauncher;

/// Programs of this project that go into every bundle.
const PROGRAMS: &[&str] = &["isochron"];

/// Programs of a bundle with the tests, which tries out a machine.
const TESTS: &[&str] = &["isochron-cases", "isochron-cuda-cases", "isochron-bench"];

/// Builds with this MPI library, gathers, packs and tries out the bundle, and the image if it is wanted; prints their paths.
///
/// # Errors
/// Fails if a step fails. The MPI library may be missing or not supported, another library or `tar` may be missing, or
/// the archive may not run by itself.
pub fn run(
    workspace: &Workspace,
    steps: &mut Steps,
    library: Library,
    with_tests: bool,
    with_image: bool,
) -> Result<()> {
    install::ensure(if with_image { Goal::Image } else { Goal::Run }, steps)?;
    let mpi = build::prepare(workspace, library)?;
    let launcher = BundledLauncher::find(&mpi)?;
    let more =
        if with_tests { " --bin isochron-cuda-cases --bin isochron-bench --lib" } else { "" };
    let packages = format!("{ISOCHRON_AND_CASES}{more}");
    build::release(workspace, steps, &mpi, &packages)?;
    let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let ending = match library {
        Library::OpenMpi => String::new(),
        Library::Mpich | Library::Abi => format!("-{}", library.suffix().to_lowercase()),
    };
    let name = format!("isochron-{version}-{arch}-linux{ending}");
    let folder = workspace.target(library).join("bundle");
    let archive = folder.join(format!("{name}.tar.gz"));
    let programs: Vec<&str> = if with_tests {
        PROGRAMS.iter().chain(TESTS).copied().collect()
    } else {
        PROGRAMS.to_vec()
    };
    steps.run("gather", || {
        let mut bundle = Bundle::new(folder.join(&name), &mpi, &launcher)?;
        bundle.add_programs(workspace, &programs)?;
        if with_tests {
            bundle.add_emulator(workspace)?;
            bundle.add_campaigns(workspace)?;
        }
        bundle.add_mpi()?;
        bundle.add_blas()?;
        bundle.add_kernels(workspace)?;
        bundle.add_libraries()?;
        bundle.write_scripts(&programs)?;
        bundle.add_manuals(workspace)?;
        bundle.write_texts(version, arch, with_tests)
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
    println!("\n{}", show_path(&archive));
    if with_image {
        let image = folder.join(format!("{name}-oci.tar"));
        steps.run("image", || image::pack(&folder.join(&name), &image))?;
        steps.run("try the image", || {
            image::try_out(&image, &folder.join("try-image"), launcher.kind)
        })?;
        println!("\n{}", show_path(&image));
    }
    Ok(())
}
