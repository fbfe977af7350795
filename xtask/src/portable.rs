//! `cargo xtask wheel --without-mpi`: the Python package without MPI, for any Linux with the GNU C library 2.28 or newer.
//!
//! The compiler of zig links with the C library of that version, also for another processor. hwloc becomes a part of the module, compiled
//! from the sources that the system's package was made of. maturin packs the wheel, and checks that it loads nothing else.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::install;
use crate::machine;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute, show_path};
use crate::wheel;
use crate::workspace::Workspace;

/// The compiler, and the tool that makes the wheel.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.1"];

/// The version of the GNU C library.
const GLIBC: &str = "2.28";

/// Of hwloc: the library with what the kernel tells, and nothing that other libraries would be loaded for.
const WITHOUT: [&str; 10] =
    ["shared", "pci", "libudev", "libxml2", "cairo", "opencl", "cuda", "nvml", "rsmi", "levelzero"];

/// Builds the wheel for a processor, and prints its path.
///
/// # Errors
/// Fails when a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, processor: &str) -> Result<()> {
    install::ensure(Goal::WheelWithoutMpi, steps)?;
    let wheel = steps.run("wheel without MPI", || pack(workspace, processor))?;
    println!("\n{}", show_path(&wheel));
    Ok(())
}

/// Builds the wheel for a processor. Returns its path.
///
/// # Errors
/// Fails when a tool, the sources of hwloc or the standard library of another processor are missing and cannot be had.
pub fn pack(workspace: &Workspace, processor: &str) -> Result<PathBuf> {
    let tools = wheel::provide_environment(workspace, "portable-tools", &TOOLS)?;
    let target = workspace.target_without_mpi();
    let hwloc = build_hwloc(&tools, &target.join(format!("hwloc-{processor}")), processor)?;
    let triple = format!("{processor}-unknown-linux-gnu");
    if processor != env::consts::ARCH {
        execute(Command::new("rustup").args(["target", "add", &triple]))?;
    }
    let out = workspace.target(Library::OpenMpi).join("wheels/without-mpi").join(processor);
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let mut build = Command::new(tools.join("maturin"));
    build.args(["build", "--release", "--locked", "--no-default-features", "--zig"]);
    build.args(["--target", &triple, "--compatibility"]);
    build.arg(format!("manylinux_{}", GLIBC.replace('.', "_"))).arg("--out").arg(&out);
    build.arg("--manifest-path").arg(workspace.root().join("runtime/python/Cargo.toml"));
    build.env("CARGO_TARGET_DIR", &target);
    machine::put_first(&mut build, "PATH", &tools);
    build.env("PKG_CONFIG_LIBDIR", hwloc.join("lib/pkgconfig")).env("PKG_CONFIG_ALLOW_CROSS", "1");
    execute(&mut build)?;
    wheel::find_wheel(&out)
}

/// Compiles hwloc as a static library into `prefix`, if it is not there. Returns the folder.
fn build_hwloc(tools: &Path, prefix: &Path, processor: &str) -> Result<PathBuf> {
    if prefix.join("lib/pkgconfig/hwloc.pc").exists() {
        return Ok(prefix.to_owned());
    }
    let sources = prefix.with_extension("sources");
    if sources.exists() {
        fs::remove_dir_all(&sources)?;
    }
    fs::create_dir_all(&sources)?;
    let archive = match machine::read_variable("ISOCHRON_HWLOC_SOURCES") {
        Some(archive) => PathBuf::from(archive),
        None => fetch_sources(&sources)?,
    };
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(archive).arg("-C").arg(&sources).arg("--strip-components=1");
    execute(&mut unpack)?;
    let zig = format!("{} -m ziglang", tools.join("python").display());
    let mut configure = Command::new("./configure");
    configure.args(["--quiet", "--enable-static", "--with-pic"]);
    configure.args(WITHOUT.map(|part| format!("--disable-{part}")));
    configure.arg(format!("--host={processor}-linux-gnu"));
    configure.arg(format!("--prefix={}", prefix.display()));
    configure.arg(format!("CC={zig} cc -target {processor}-linux-gnu.{GLIBC}"));
    configure.arg(format!("AR={zig} ar")).arg(format!("RANLIB={zig} ranlib"));
    execute(configure.current_dir(&sources))?;
    let mut make = Command::new("make");
    execute(make.args(["--silent", "install", "SUBDIRS=include hwloc"]).current_dir(&sources))?;
    Ok(prefix.to_owned())
}

/// Fetches the archive of hwloc's sources that the system's package was made of. Where it is listed is read into a folder of our
/// own, so that the system stays as it is.
fn fetch_sources(folder: &Path) -> Result<PathBuf> {
    let wanted = "name the archive of hwloc's sources (2.8 or newer) by ISOCHRON_HWLOC_SOURCES";
    ensure!(machine::can_run("apt-get", &["--version"]), "this system has no apt-get: {wanted}");
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let parts = folder.join("sources.list.d");
    fs::create_dir_all(&parts)?;
    let mut copied = Vec::new();
    for file in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
        copied.push(file.path());
    }
    copied.push(PathBuf::from("/etc/apt/sources.list"));
    for file in copied.iter().filter(|file| file.is_file()) {
        let text = fs::read_to_string(file)?;
        let name = file.file_name().unwrap_or_default();
        fs::write(parts.join(name), list_sources(&text))?;
    }
    let settings = [
        format!("Dir::State::lists={}", lists.display()),
        format!("Dir::Cache={}", folder.display()),
        format!("Dir::Etc::sourceparts={}", parts.display()),
        "Dir::Etc::sourcelist=-".to_owned(),
    ];
    for words in [&["update"][..], &["source", "--download-only", "hwloc"]] {
        let mut command = Command::new("apt-get");
        command.arg("-q").args(settings.iter().flat_map(|setting| ["-o", setting])).args(words);
        execute(command.current_dir(folder)).context(wanted)?;
    }
    let mut files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let archive = files.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".orig.tar.") && !name.ends_with(".asc")
    });
    archive.context(wanted)
}

/// Returns a list of packages, in either format of apt's, as the list of their sources.
fn list_sources(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(char::is_whitespace) {
        Some(("deb", rest)) => format!("deb-src {rest}\n"),
        Some(("deb-src", _)) => String::new(),
        Some(("Types:", _)) => "Types: deb-src\n".to_owned(),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_where_the_packages_are() {
        let old = "deb http://mirror/debian bookworm main\ndeb-src http://mirror/debian bookworm main\n# a word\n";
        assert_eq!(list_sources(old), "deb-src http://mirror/debian bookworm main\n# a word\n");
        let new = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\n";
        assert_eq!(
            list_sources(new),
            "Types: deb-src\nURIs: http://mirror/debian\nSuites: bookworm\n"
        );
    }
}
