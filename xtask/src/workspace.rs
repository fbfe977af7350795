//! The folders of sources and products, and cargo in them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::mpi::Library;

/// The checkout, with the target directory that cargo would use.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Asks cargo, which knows `CARGO_TARGET_DIR` and every configuration file.
    ///
    /// # Errors
    /// Fails when cargo does not start, or its answer lacks the two folders.
    pub fn locate() -> Result<Self> {
        Self::locate_from(env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from))
    }

    /// Finds the project of the package in this folder, or of the current folder.
    ///
    /// Cargo names the folder when it runs the program. That of its compilation may be another one: a copy of a project takes
    /// over what was compiled there.
    fn locate_from(package: Option<PathBuf>) -> Result<Self> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(package) = package {
            command.arg("--manifest-path");
            command.arg(package.join("Cargo.toml"));
        }
        let output = command.output().context("cargo metadata did not start")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        Ok(Self {
            root: find_folder(&metadata, "workspace_root")?,
            target: find_folder(&metadata, "target_directory")?,
        })
    }

    /// The folder of the virtual manifest; every command runs here.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The target directory of builds against `library`.
    ///
    /// Each library has its own, because the MPI bindings are not rebuilt when the compiler
    /// changes.
    pub fn target(&self, library: Library) -> PathBuf {
        target_for(&self.target, library)
    }

    /// The target directory of builds without MPI.
    pub fn target_without_mpi(&self) -> PathBuf {
        append_name(&self.target, "-without-mpi")
    }

    /// An executable of the release profile, built against `library`.
    pub fn binary(&self, library: Library, name: &str) -> PathBuf {
        let file = format!("{name}{}", env::consts::EXE_SUFFIX);
        self.target(library).join("release").join(file)
    }

    /// A cargo command at the root, with the target directory of `library`; the words of `line` are separated by
    /// spaces.
    pub fn cargo(&self, library: Library, line: &str) -> Command {
        let mut command = Command::new(cargo());
        command.args(line.split_whitespace()).current_dir(&self.root);
        command.env("CARGO_TARGET_DIR", self.target(library));
        command
    }
}

fn find_folder(metadata: &Value, key: &str) -> Result<PathBuf> {
    metadata
        .get(key)
        .and_then(Value::as_str)
        .map(PathBuf::from)
        .with_context(|| format!("cargo metadata has no `{key}`"))
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn target_for(base: &Path, library: Library) -> PathBuf {
    match library {
        Library::OpenMpi => base.to_owned(),
        Library::Mpich => append_name(base, "-mpich"),
        Library::Abi => append_name(base, "-abi"),
    }
}

fn append_name(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the project takes over the compiled program, which works on the copy.
    #[test]
    fn the_project_is_found_when_the_program_runs() -> Result<()> {
        let folder = env::temp_dir().join(format!("isochron-copy-{}", std::process::id()));
        let package = folder.join("xtask");
        std::fs::create_dir_all(package.join("src"))?;
        std::fs::write(
            folder.join("Cargo.toml"),
            "[workspace]\nmembers = [\"xtask\"]\nresolver = \"3\"\n",
        )?;
        std::fs::write(
            package.join("Cargo.toml"),
            "[package]\nname = \"xtask\"\nedition = \"2024\"\n",
        )?;
        std::fs::write(package.join("src/main.rs"), "fn main() {}\n")?;
        let found = Workspace::locate_from(Some(package));
        let root = std::fs::canonicalize(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(found?.root(), root);
        assert!(Workspace::locate_from(None)?.root().join("xtask").exists());
        Ok(())
    }
}
