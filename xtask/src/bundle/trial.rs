//! The trial of an archive: unpacked elsewhere and moved, with nothing of this machine but its C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::files::{file_name, list_files, write_program};
use super::kernels::{HEADER, LIBRARIES, SOURCES};
use super::launcher::LauncherKind;
use super::libraries::is_of_the_c_library;
use crate::steps::execute;

/// Some of the manuals, one of each kind.
const MANUALS: [&str; 7] = [
    "man/man1/isochron.1",
    "man/man1/isochron-models-show.1",
    "bash-completion/completions/isochron",
    "zsh/site-functions/_isochron",
    "fish/vendor_completions.d/isochron.fish",
    "isochron/schemas/report.schema.json",
    "isochron/schemas/report.md",
];

/// The words of a kernel's measurement in a process of its own, before the path of its library.
const MEASUREMENT: [&str; 8] =
    ["measure", "--isolate", "--from", "2", "--to", "4", "--points", "2"];

/// A small product that is checked.
pub const MULTIPLICATION: [&str; 5] = ["mxm", "--size", "300", "--verify", "probe"];

/// Unpacks the archive and moves it. Then it multiplies with it on one rank and on two, and measures each of its kernels. They
/// may load nothing but the bundle and the C library. Then it multiplies as on a host with an older C library. Returns the bundle's folder.
///
/// # Errors
/// Fails if a run fails, or loads a library of this machine; the message names it.
pub fn run(archive: &Path, folder: &Path, kind: LauncherKind) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let (unpacked, moved) = (folder.join("unpacked"), folder.join("elsewhere/bundle"));
    fs::create_dir_all(&unpacked)?;
    fs::create_dir_all(folder.join("elsewhere"))?;
    let mut tar = Command::new("tar");
    execute(tar.arg("-xzf").arg(archive).arg("-C").arg(&unpacked).arg("--strip-components=1"))?;
    let mut first = bare_command(&unpacked.join("bin/isochron"));
    first.args(MULTIPLICATION).arg("--out").arg(folder.join("c.npy"));
    // A program for users obeys no variable of tests: with this one the run would fail.
    execute(first.env("ISOCHRON_TEST_FLIPPED_AT", "digested"))?;
    fs::rename(&unpacked, &moved)?;
    let manuals = MANUALS.map(|manual| format!("share/{manual}"));
    let jacobi = format!("{SOURCES}/jacobi.c");
    for file in manuals.iter().map(String::as_str).chain([HEADER, &jacobi]) {
        ensure!(moved.join(file).is_file(), "the bundle lacks {file}");
    }
    let kernels = list_files(&moved.join(LIBRARIES))?;
    ensure!(!kernels.is_empty(), "the bundle lacks {LIBRARIES}");
    let [isochron, mpirun] = ["isochron", "mpirun"].map(|name| moved.join("bin").join(name));
    let mut one = bare_command(&isochron);
    one.args(MULTIPLICATION);
    let mut two = bare_command(&mpirun);
    two.args(kind.two_ranks()).arg(&isochron).args(MULTIPLICATION);
    // The loader writes a file for each program.
    let trace = folder.join("loaded");
    let mut measured: Vec<Command> = kernels.iter().map(|_| bare_command(&isochron)).collect();
    for (command, kernel) in measured.iter_mut().zip(&kernels) {
        command.args(MEASUREMENT).arg(kernel);
    }
    for command in [&mut one, &mut two].into_iter().chain(&mut measured) {
        fs::create_dir_all(&trace)?;
        command.env("LD_DEBUG", "libs");
        command.env("LD_DEBUG_OUTPUT", trace.join("by"));
        execute(command)?;
        ensure_own(&trace, &moved)?;
        fs::remove_dir_all(&trace)?;
    }
    with_old_c_library(folder, two, &moved)?;
    Ok(moved)
}

/// Checks the GPU path and measures two of its campaigns from a bundle with the tests, on the emulated CUDA: that of the link, and
/// that of ranks with smaller products. The others would take long there.
///
/// # Errors
/// Fails if one of them fails or leaves no results.
pub fn run_on_emulated_gpu(bundle: &Path) -> Result<()> {
    execute(&mut command_on_emulator(bundle, "isochron-gpu-check"))?;
    let file = bundle.join("bench/campaigns/gpu-ranks.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    fs::write(&file, text.replace("8192", "192").replace("24576", "384"))?;
    let results = bundle.join("results");
    let mut campaigns = command_on_emulator(bundle, "isochron-gpu-bench");
    campaigns.env("ISOCHRON_CUDA_EMULATOR_MEMORY", "1G");
    execute(campaigns.arg(&results).args(["link", "ranks"]))
}

fn command_on_emulator(bundle: &Path, program: &str) -> Command {
    let mut command = bare_command(&bundle.join("bin").join(program));
    command.env("LD_LIBRARY_PATH", bundle.join("lib/emulated-cuda"));
    // These programs allow root themselves.
    command.env_remove("OMPI_ALLOW_RUN_AS_ROOT");
    command.env_remove("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    command
}

/// Makes a command with the environment that every user has, and the permission to run as root.
fn bare_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// The libraries that a program loaded, as the loader tells with `LD_DEBUG=libs`.
#[derive(Debug, PartialEq, Eq)]
struct Loaded {
    program: PathBuf,
    libraries: Vec<PathBuf>,
}

/// Reads the loader's account of one process, which may have become one program after another.
fn parse_trace(told: &str) -> Vec<Loaded> {
    let mut all: Vec<Loaded> = Vec::new();
    let mut libraries = Vec::new();
    for line in told.lines() {
        let text = line.split_once(':').map_or(line, |(_, text)| text).trim();
        if let Some(library) = text.strip_prefix("calling init:") {
            libraries.push(library.trim().into());
        } else if let Some(program) = text.strip_prefix("initialize program:") {
            let libraries = std::mem::take(&mut libraries);
            let program = program.trim().into();
            all.push(Loaded { program, libraries });
        }
    }
    // The libraries after the last program were opened by it.
    if let Some(last) = all.last_mut() {
        last.libraries.extend(libraries);
    }
    all
}

/// Checks that the programs of the bundle have loaded nothing but the bundle and the C library.
fn ensure_own(trace: &Path, bundle: &Path) -> Result<()> {
    let bundle = bundle.canonicalize()?;
    let mut programs = Vec::new();
    for file in list_files(trace)? {
        let told = fs::read(&file).with_context(|| file.display().to_string())?;
        for loaded in parse_trace(&String::from_utf8_lossy(&told)) {
            if !loaded.program.starts_with(&bundle) {
                continue;
            }
            if let Some(foreign) = loaded.foreign(&bundle) {
                bail!(
                    "{} has loaded {}, which is not in the bundle",
                    loaded.program.display(),
                    foreign.display()
                );
            }
            programs.push(file_name(&loaded.program));
        }
    }
    ensure!(
        programs.iter().any(|program| program == "isochron"),
        "the loader does not tell what isochron has loaded"
    );
    println!("loaded nothing but the bundle and the C library: {}", programs.join(", "));
    Ok(())
}

impl Loaded {
    /// Returns a library that is neither in the bundle nor part of the C library.
    fn foreign(&self, bundle: &Path) -> Option<&Path> {
        let mut libraries = self.libraries.iter().map(PathBuf::as_path);
        libraries.find(|library| {
            !library.starts_with(bundle) && !is_of_the_c_library(&file_name(library))
        })
    }
}

/// Runs the ranks as on a host with an older C library: one message says so, and the bundle's own is used.
fn with_old_c_library(folder: &Path, mut ranks: Command, bundle: &Path) -> Result<()> {
    let programs = folder.join("old");
    fs::create_dir_all(&programs)?;
    write_program(&programs.join("getconf"), "#!/bin/sh\necho glibc 2.5\n")?;
    ranks.env_remove("LD_DEBUG").env_remove("LD_DEBUG_OUTPUT");
    ranks.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    println!("$ the same with an older C library");
    let output = ranks.output().context("the launcher did not start")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {stderr}", output.status);
    let told: Vec<_> =
        stderr.lines().filter(|line| line.starts_with("isochron: the C library")).collect();
    ensure!(
        told.len() == 1 && told[0].contains("2.5") && told[0].contains("the bundle's own"),
        "on a host with an older C library {} says: {stderr}",
        bundle.display()
    );
    println!("{}", told[0]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "
        7:\tfind library=libc.so.6 [0]; searching
        7:\t  trying file=/usr/lib/libelsewhere.so.1
        7:\tcalling init: /lib64/ld-linux-x86-64.so.2
        7:\tcalling init: /lib/x86_64-linux-gnu/libc.so.6
        7:\tinitialize program: /bin/sh
        7:\ttransferring control: /bin/sh
        7:\tcalling init: /b/lib/glibc/ld-linux-x86-64.so.2
        7:\tcalling init: /b/lib/libmpi.so.40
        7:\tinitialize program: /b/libexec/isochron
        7:\ttransferring control: /b/libexec/isochron
        7:\tcalling init: /usr/lib/libblis.so.4
        7:\tcalling fini: /usr/lib/libblis.so.4 [0]
    ";

    #[test]
    fn what_a_program_has_loaded_is_its_own() {
        let loaded = parse_trace(TOLD);
        let programs: Vec<_> = loaded.iter().map(|l| file_name(&l.program)).collect();
        assert_eq!(programs, ["sh", "isochron"]);
        let bundle = Path::new("/b");
        assert_eq!(loaded[0].foreign(bundle), None);
        let foreign = Path::new("/usr/lib/libblis.so.4");
        assert_eq!(loaded[1].foreign(bundle), Some(foreign));
        assert_eq!(loaded[1].libraries.len(), 3);
    }

    #[test]
    fn a_library_of_this_machine_is_named() {
        let folder = std::env::temp_dir().join(format!("isochron-trial-{}", std::process::id()));
        let (trace, bundle) = (folder.join("trace"), folder.join("bundle"));
        fs::create_dir_all(&trace).unwrap();
        fs::create_dir_all(&bundle).unwrap();
        let own = bundle.canonicalize().unwrap();
        let told = TOLD.replace("/b/", &format!("{}/", own.display()));
        fs::write(trace.join("by.7"), &told).unwrap();
        let error = ensure_own(&trace, &bundle).unwrap_err().to_string();
        assert!(error.contains("isochron has loaded /usr/lib/libblis.so.4"), "{error}");
        fs::write(trace.join("by.7"), told.replace("libblis", "libm.so")).unwrap();
        assert!(ensure_own(&trace, &bundle).is_ok());
        fs::write(trace.join("by.7"), "").unwrap();
        assert!(ensure_own(&trace, &bundle).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
