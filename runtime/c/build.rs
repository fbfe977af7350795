//! Gives the shared library its soname, which cargo does not. Those of several MPI libraries can be installed beside each
//! other.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let has_mpi = env::var_os("CARGO_FEATURE_MPI").is_some();
    let ending = if has_mpi { name_mpi() } else { "" };
    if is_linux {
        let major = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        let name = format!("libisochron{ending}.so.{major}");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    }
}

/// Returns the ending for the MPI library whose compiler the MPI bindings use too.
fn name_mpi() -> &'static str {
    let compiler = env::var_os("MPICC").unwrap_or_else(|| "mpicc".into());
    let mut command = Command::new(compiler);
    command.args(["-dM", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]);
    let macros = command.output().map(|output| output.stdout).unwrap_or_default();
    let macros = String::from_utf8_lossy(&macros);
    [(" OPEN_MPI ", "-openmpi"), (" MPICH_NAME ", "-mpich"), (" MPI_ABI_VERSION ", "-abi")]
        .into_iter()
        .find(|(name, _)| macros.contains(name))
        .map_or("-mpi", |(_, ending)| ending)
}
