//! Release builds against one MPI library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::mpi::{Library, MpiInstallation};
use crate::steps::{Steps, execute};
use crate::wheel;
use crate::workspace::Workspace;

/// The multiplying program.
pub const ISOCHRON: &str = "-p isochron-cli --bin isochron";
/// The same, selected so that nothing is compiled again after [`EVERYTHING`].
pub const ISOCHRON_ALONE: &str = "--workspace --bin isochron --test command";
/// The same, with the multi-rank cases and the examples that the tests launch, selected so that nothing is compiled again after
/// [`EVERYTHING`]: of all packages, and with a small test, since the features of dependencies follow from both.
pub const ISOCHRON_AND_CASES: &str = "--workspace --bin isochron --bin isochron-cases --bin isochron-embedded --bin jacobi --bin fft2d --bin dgemv --example stencil --example block_cyclic --example move_cost --test command";
/// Makes the program obey the variables by which tests inject faults. Bundles, wheels and what is installed are built without.
pub const TEST_HOOKS: &str = "--features isochron-cli/test-hooks";
/// Our packages that do not use MPI, each after `isochron-`: their products are the same with every MPI library.
const WITHOUT_MPI: [&str; 10] = [
    "hierarchy",
    "kernel",
    "kernels",
    "devices",
    "core",
    "campaign",
    "command",
    "plot",
    "bench",
    "cluster",
];
/// Builds with the same features of dependencies as [`EVERYTHING`], so that nothing is compiled twice.
pub const WITH_TESTS: &str = "--workspace --test header";
/// Libraries, programs and tests of all packages.
pub const EVERYTHING: &str = "--workspace --lib --bins --tests --examples";

/// Finds `library`, and makes its target directory ready for builds with it.
///
/// The MPI bindings are not rebuilt when the compiler changes, so we note which one they were built
/// with, and clean them when it is another.
///
/// If the system has no library with the standard ABI, one is fetched.
///
/// # Errors
/// Fails when the library is not found, or the target directory cannot be written.
pub fn prepare(workspace: &Workspace, library: Library) -> Result<MpiInstallation> {
    let mpi = match library.find() {
        None if library == Library::Abi => wheel::provide_abi(workspace)?,
        found => found.with_context(|| format!("{} was not found", library.name()))?,
    };
    let target = workspace.target(library);
    if library != Library::OpenMpi {
        copy_products(&workspace.target(Library::OpenMpi), &target)?;
    }
    let note = target.join("mpicc.txt");
    let identity = describe_compiler(&mpi);
    if fs::read_to_string(&note).is_ok_and(|known| known == identity) {
        return Ok(mpi);
    }
    if target.exists() {
        for profile in ["dev", "release"] {
            let line = format!("clean --quiet -p mpi-sys -p isochron-c --profile {profile}");
            execute(&mut workspace.cargo(library, &line))?;
        }
    }
    fs::create_dir_all(&target)?;
    fs::write(&note, identity).with_context(|| note.display().to_string())?;
    Ok(mpi)
}

/// Copies the products of release builds with another MPI library: all into a new folder, and otherwise those that do not
/// depend on MPI. All of these, because cargo compiles a package again if a dependency is newer.
fn copy_products(from: &Path, to: &Path) -> Result<()> {
    let is_new = !to.exists();
    for folder in [".fingerprint", "build", "deps"] {
        let [source, copy] = [from, to].map(|target| target.join("release").join(folder));
        let mut entries = list_products(&source)?;
        entries.retain(|path| is_new || is_without_mpi(path) || is_of_others(path));
        for some in entries.chunks(1000) {
            fs::create_dir_all(&copy)?;
            // Cargo compares times, so they are kept.
            let mut command = Command::new("cp");
            let status = command.args(["-a", "-t"]).arg(&copy).args(some).status()?;
            ensure!(status.success(), "cp to {}: {status}", copy.display());
        }
    }
    Ok(())
}

/// Returns what lies in a folder of cargo's, programs of tests aside; nothing when the folder does not exist.
fn list_products(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut products =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    products.retain(|path| path.is_dir() || path.extension().is_some());
    Ok(products)
}

/// Returns the name of a product without the prefix of libraries.
fn name_product(product: &Path) -> String {
    let name = product.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("lib").unwrap_or(&name).replace('_', "-")
}

/// Returns `true` if a product is of a package that is neither ours nor a binding of MPI.
fn is_of_others(product: &Path) -> bool {
    let name = name_product(product);
    !["isochron", "xtask", "mpi-"].iter().any(|ours| name.starts_with(ours))
}

/// Returns `true` if a product is of a package in [`WITHOUT_MPI`].
fn is_without_mpi(product: &Path) -> bool {
    let name = name_product(product);
    let rest = name.strip_prefix("isochron-").unwrap_or_default();
    let package = rest.split_once('-').map_or(rest, |(package, _)| package);
    WITHOUT_MPI.contains(&package)
}

/// The compiler and what it runs: `-show` prints include and library folders under every MPI.
fn describe_compiler(mpi: &MpiInstallation) -> String {
    let shown = machine::read_output(&mpi.compiler, &["-show"]).unwrap_or_default();
    format!("{}\n{shown}", mpi.compiler)
}

/// Builds the chosen packages in release, as one step.
///
/// # Errors
/// Fails when cargo fails.
pub fn release(
    workspace: &Workspace,
    steps: &mut Steps,
    mpi: &MpiInstallation,
    packages: &str,
) -> Result<()> {
    let name = format!("build with {}", mpi.kind.name());
    steps.run(&name, || execute(&mut cargo(workspace, mpi, &format!("build --release {packages}"))))
}

/// A cargo command that builds against `mpi`.
pub fn cargo(workspace: &Workspace, mpi: &MpiInstallation, line: &str) -> Command {
    let mut command = workspace.cargo(mpi.kind, line);
    mpi.apply(&mut command);
    if mpi.kind == Library::Abi {
        command.env("MPICC", workspace.root().join("xtask/abi/mpicc"));
        command.env("ISOCHRON_MPICC_ABI", &mpi.compiler);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_that_depend_on_mpi_are_not_shared() {
        for shared in [
            "libisochron_devices-0a1b.rlib",
            "isochron_hierarchy-0a1b.d",
            "libisochron_command-0a1b.rlib",
            "isochron-plot-0a1b",
        ] {
            assert!(is_without_mpi(Path::new(shared)), "{shared}");
        }
        for other in [
            "libisochron-0a1b.rlib",
            "isochron-0a1b",
            "isochron-tests-0a1b",
            "isochron_cli-0a1b.d",
            "libmpi-0a1b.rlib",
        ] {
            assert!(!is_without_mpi(Path::new(other)), "{other}");
            assert!(!is_of_others(Path::new(other)), "{other}");
        }
        assert!(is_of_others(Path::new("libnalgebra-0a1b.rlib")));
        assert!(is_of_others(Path::new("build-probe-mpi-0a1b")));
    }
}
