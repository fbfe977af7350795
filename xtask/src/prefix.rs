//! `cargo xtask install`: the library for programs in C, C++ and Fortran, in a folder of its own.
//!
//! ```text
//! DIR/include/        isochron.h, isochron_kernel.h, isochron.f90
//! DIR/lib/            libisochron-openmpi.so.0 and libisochron-mpich.so.0, with links to them
//! DIR/lib/pkgconfig/  isochron-openmpi.pc and isochron-mpich.pc, which find the rest from their own place
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::install;
use crate::machine;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute, show_path};
use crate::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files for compilers, which are the same with every MPI library.
pub const SOURCES: [&str; 3] = [
    "runtime/c/include/isochron.h",
    "devices/kernel/include/isochron_kernel.h",
    "runtime/c/fortran/isochron.f90",
];

/// The folder, and the libraries that are installed.
#[derive(Debug, clap::Args)]
pub struct PrefixOptions {
    /// The folder; its parts are made if they do not exist
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// An MPI library, which may be given several times [default: all that are installed]
    #[arg(long, value_enum)]
    mpi: Vec<Library>,
}

/// Builds with each MPI library and installs the results.
///
/// # Errors
/// Fails if a step fails; if there is no MPI library.
pub fn run(workspace: &Workspace, steps: &mut Steps, options: &PrefixOptions) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let found =
        [Library::OpenMpi, Library::Mpich].into_iter().filter(|library| library.find().is_some());
    let libraries = if options.mpi.is_empty() { found.collect() } else { options.mpi.clone() };
    ensure!(!libraries.is_empty(), "there is no MPI library");
    for &library in &libraries {
        let mpi = build::prepare(workspace, library)?;
        build::release(workspace, steps, &mpi, "-p isochron-c --lib")?;
    }
    steps.run("install", || write_files(workspace, &libraries, &options.prefix))?;
    println!("\n{}", show_path(&options.prefix));
    Ok(())
}

/// Copies what was built with these MPI libraries into a folder.
///
/// # Errors
/// Fails when a file cannot be read or written.
pub fn write_files(workspace: &Workspace, libraries: &[Library], prefix: &Path) -> Result<()> {
    for folder in ["include", "lib/pkgconfig"] {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    for source in SOURCES {
        copy_into(&workspace.root().join(source), &prefix.join("include"))?;
    }
    for &library in libraries {
        write_library(workspace, library, &prefix.join("lib"))?;
        let (name, text) = describe_package(library);
        fs::write(prefix.join("lib/pkgconfig").join(name), text)?;
    }
    Ok(())
}

/// Copies the library of one MPI library, and makes the links by which the linker and the loader find it.
fn write_library(workspace: &Workspace, library: Library, folder: &Path) -> Result<()> {
    let built = workspace.target(library).join("release/libisochron_c.so");
    let stem = format!("lib{}.so", name_library(library));
    let copied = folder.join(format!("{stem}.{VERSION}"));
    // A program may have the old file open.
    remove_file(&copied)?;
    fs::copy(&built, &copied).with_context(|| built.display().to_string())?;
    // Line numbers in backtraces are not worth two thirds of the size.
    if machine::can_run("strip", &["--version"]) {
        execute(Command::new("strip").arg("--strip-debug").arg(&copied))?;
    }
    let (major, _) = VERSION.split_once('.').unwrap_or((VERSION, ""));
    let soname = format!("{stem}.{major}");
    for (link, target) in [(&soname, format!("{stem}.{VERSION}")), (&stem, soname.clone())] {
        self::link(Path::new(&target), &folder.join(link))?;
    }
    Ok(())
}

/// Returns the library's name for the linker.
fn name_library(library: Library) -> String {
    format!("isochron-{}", library.suffix().to_lowercase())
}

/// Returns name and text of the file for pkg-config.
fn describe_package(library: Library) -> (String, String) {
    let name = name_library(library);
    let text = format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         # Compile it with your program.\n\
         fortran=${{includedir}}/isochron.f90\n\
         \n\
         Name: Isochron\n\
         Description: Matrix products and loops balanced over unlike nodes, over {}\n\
         Version: {VERSION}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -l{name}\n",
        library.name()
    );
    (format!("{name}.pc"), text)
}

fn copy_into(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default();
    fs::copy(file, folder.join(name)).with_context(|| file.display().to_string())?;
    Ok(())
}

/// Makes a link of this name, in place of one that is there.
///
/// # Errors
/// Fails if the old one cannot be removed, or the new one cannot be made.
pub fn link(target: &Path, name: &Path) -> Result<()> {
    remove_file(name)?;
    symlink(target, name).with_context(|| name.display().to_string())
}

fn remove_file(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => fs::remove_file(path).with_context(|| path.display().to_string()),
        Err(_) => Ok(()),
    }
}
