//! `cargo xtask vendor`: one archive of the last commit and of all crates, which builds without a network.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The folder in the archive.
const NAME: &str = concat!("isochron-", env!("CARGO_PKG_VERSION"));

/// Makes cargo take crates from the folder `vendor`, in the archive's `.cargo/config.toml`.
const SOURCE: &str = r#"
[source.crates-io]
replace-with = "vendored"

[source.vendored]
directory = "vendor"
"#;

/// The build by which the archive is tried; the recipe for Spack has the same.
const BUILD: &str = "build --release --offline --frozen -p isochron-cli -p isochron-c --features isochron-cli/schemars";

/// Packs the last commit with its crates, and builds from the archive in another place; prints its path and SHA-256.
///
/// # Errors
/// Fails if the folder is no checkout, a crate cannot be fetched, or the archive does not build by itself.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let folder = workspace.target(Library::OpenMpi).join("vendor");
    let sources = folder.join(NAME);
    let archive = folder.join(format!("{NAME}-vendored.tar.gz"));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&sources)?;
    steps.run("sources", || copy_commit(workspace.root(), &sources))?;
    steps.run("crates", || add_crates(workspace, &sources))?;
    steps.run("pack", || {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=a+rX,go-w"]);
        // The time of the commit, which git has given it.
        tar.arg(format!("--mtime={}", sources.join("Cargo.lock").display()));
        tar.args(["--use-compress-program=gzip -n", "-cf"]);
        execute(tar.arg(&archive).arg("-C").arg(&folder).arg(NAME))?;
        Ok(fs::remove_dir_all(&sources)?)
    })?;
    steps.run("try", || try_out(workspace, &archive, &folder.join("to try")))?;
    println!();
    execute(Command::new("sha256sum").arg(&archive))
}

/// Copies the files of the last commit, and lists changes since then.
fn copy_commit(root: &Path, sources: &Path) -> Result<()> {
    execute(Command::new("git").arg("-C").arg(root).args(["status", "--short"]))?;
    let tree = sources.with_extension("tar");
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["archive", "--format=tar", "-o"]).arg(&tree);
    execute(git.arg("HEAD"))?;
    execute(Command::new("tar").arg("-xf").arg(&tree).arg("-C").arg(sources))?;
    Ok(fs::remove_file(tree)?)
}

/// Adds the sources of all crates of `Cargo.lock`, of every platform: cargo looks for them all.
fn add_crates(workspace: &Workspace, sources: &Path) -> Result<()> {
    let mut vendor = workspace.cargo(Library::OpenMpi, "vendor --quiet --locked vendor");
    execute(vendor.current_dir(sources))?;
    let config = sources.join(".cargo/config.toml");
    Ok(fs::write(&config, fs::read_to_string(&config)? + SOURCE)?)
}

/// Builds in a folder whose name has a blank, with no crate from elsewhere.
fn try_out(workspace: &Workspace, archive: &Path, folder: &Path) -> Result<()> {
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    let home = folder.join("cargo");
    fs::create_dir_all(&home)?;
    execute(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))?;
    let sources = folder.join(NAME);
    let mut build = build::cargo(workspace, &mpi, BUILD);
    build.current_dir(&sources).env("CARGO_HOME", &home).env_remove("CARGO_TARGET_DIR");
    execute(&mut build)?;
    execute(Command::new(sources.join("target/release/isochron")).arg("--version"))?;
    Ok(fs::remove_dir_all(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;
    use crate::needs::find_python;
    use crate::prefix::SOURCES;

    #[test]
    fn the_recipe_for_spack_builds_and_installs_what_there_is() {
        let workspace = Workspace::locate().unwrap();
        let recipe =
            workspace.root().join("xtask/spack_repo/isochron/packages/isochron/package.py");
        let recipe = recipe.display().to_string();
        if let Some(python) = find_python() {
            let parse = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
            assert!(machine::can_run(&python, &["-c", parse, &recipe]), "{recipe}");
        }
        let text = fs::read_to_string(recipe).unwrap();
        let manifest = fs::read_to_string(workspace.root().join("Cargo.toml")).unwrap();
        let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
        let rust = format!("\"rust@{}:\"", rust.unwrap().trim_matches('"'));
        let version = format!("version(\"{}\")", env!("CARGO_PKG_VERSION"));
        let archive = format!("/{NAME}-vendored.tar.gz\"");
        let joined = text.replace("\"\n    \"", "");
        for part in SOURCES.into_iter().chain([BUILD, &rust, &version, &archive]) {
            assert!(joined.contains(part), "the recipe lacks {part}");
        }
    }
}
