//! The interface of kernels, and the example kernels in C: their sources and their libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::files::{copy, list_files};
use crate::steps::execute;
use crate::workspace::Workspace;

/// The places of the header, of the sources and of the libraries in a bundle.
pub const HEADER: &str = "include/isochron_kernel.h";
pub const SOURCES: &str = "share/isochron/kernels";
pub const LIBRARIES: &str = "lib/kernels";

/// Copies the header and the sources into the bundle at `root`, and compiles the libraries from these copies. Returns the
/// paths of the libraries.
///
/// # Errors
/// Fails if a file cannot be copied, or the C compiler refuses one.
pub fn add_kernels(workspace: &Workspace, root: &Path) -> Result<Vec<PathBuf>> {
    let [sources, libraries] = [SOURCES, LIBRARIES].map(|folder| root.join(folder));
    let include = root.join("include");
    for folder in [&include, &sources, &libraries] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let checkout = workspace.root();
    let name = Path::new(HEADER).file_name().unwrap_or_default();
    copy(&checkout.join("devices/kernel/include").join(name), &include)?;
    for file in list_files(&checkout.join("apps/kernels/c"))? {
        let is_source = file.extension().is_some_and(|end| end == "c" || end == "h");
        if is_source {
            copy(&file, &sources)?;
        }
    }
    let mut compiled = Vec::new();
    for source in list_files(&sources)? {
        if source.extension().is_none_or(|end| end != "c") {
            continue;
        }
        let stem = source.file_stem().unwrap_or_default();
        let library = libraries.join(stem).with_extension("so");
        let mut compiler = Command::new("cc");
        // Without the instructions of this machine's processor: others run it too.
        compiler.args(["-std=c99", "-O2", "-shared", "-fPIC", "-I"]);
        execute(compiler.arg(&include).arg(&source).arg("-o").arg(&library))?;
        compiled.push(library);
    }
    Ok(compiled)
}
