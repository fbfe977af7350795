//! Trying out an archive: unpacked elsewhere and moved, with nothing of this machine but its C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::files::{file_name, files, write_program};
use super::launcher::Kind;
use super::libraries::is_of_the_c_library;
use crate::steps::execute;

const MULTIPLICATION: [&str; 5] = ["mxm", "--size", "300", "--verify", "probe"];

/// Unpacks the archive, moves what was unpacked, and multiplies with it on one rank and on two, each of which may load
/// nothing that is not in the bundle or of the C library; then as on a host with an older C library. Returns where it lies now.
///
/// # Errors
/// When a run fails, or loads a library of this machine, which is named.
pub fn run(archive: &Path, folder: &Path, kind: Kind) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let (unpacked, moved) = (folder.join("unpacked"), folder.join("elsewhere/bundle"));
    fs::create_dir_all(&unpacked)?;
    fs::create_dir_all(folder.join("elsewhere"))?;
    let mut tar = Command::new("tar");
    execute(
        tar.arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(&unpacked)
            .arg("--strip-components=1"),
    )?;
    execute(bare(&unpacked.join("bin/isochron")).args(MULTIPLICATION))?;
    fs::rename(&unpacked, &moved)?;
    let [isochron, mpirun] = ["isochron", "mpirun"].map(|name| moved.join("bin").join(name));
    let mut one = bare(&isochron);
    one.args(MULTIPLICATION);
    let mut two = bare(&mpirun);
    two.args(kind.two_ranks())
        .arg(&isochron)
        .args(MULTIPLICATION);
    // Each program says what it loads in a file of its own.
    let trace = folder.join("loaded");
    for command in [&mut one, &mut two] {
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

/// Proves the GPU path, and runs the campaign on the GPU, from a bundle with the tests and on the CUDA that is emulated.
///
/// # Errors
/// When one of them fails, or has left no results.
pub fn run_on_emulated_gpu(bundle: &Path) -> Result<()> {
    let results = bundle.join("results");
    let program = |name: &str| {
        let mut command = bare(&bundle.join("bin").join(name));
        command.env("LD_LIBRARY_PATH", bundle.join("lib/emulated-cuda"));
        command
    };
    execute(&mut program("isochron-gpu-check"))?;
    let words = ["gpu", "--small", "--rounds", "1", "--out"];
    execute(program("isochron-bench").args(words).arg(&results))?;
    for name in ["gpu.json", "gpu.md", "gpu.svg", "gpu-step.svg"] {
        ensure!(
            results.join(name).is_file(),
            "the campaign has not left {name}"
        );
    }
    Ok(())
}

/// A program with nothing of our environment but what every user has, and leave to run as root.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// What a program loaded, as the loader tells it with `LD_DEBUG=libs`.
#[derive(Debug, PartialEq, Eq)]
struct Loaded {
    program: PathBuf,
    libraries: Vec<PathBuf>,
}

/// Reads the loader's account of one process, which may have become one program after another.
fn read(told: &str) -> Vec<Loaded> {
    let mut all: Vec<Loaded> = Vec::new();
    let mut libraries = Vec::new();
    for line in told.lines() {
        let text = line.split_once(':').map_or(line, |(_, text)| text).trim();
        let path = |what: &str| {
            text.strip_prefix(what)
                .map(|path| PathBuf::from(path.trim()))
        };
        if let Some(library) = path("calling init:") {
            libraries.push(library);
        } else if let Some(program) = path("initialize program:") {
            let libraries = std::mem::take(&mut libraries);
            all.push(Loaded { program, libraries });
        }
    }
    // What comes after the last program was started is what it has opened by itself.
    if let Some(last) = all.last_mut() {
        last.libraries.extend(libraries);
    }
    all
}

/// Makes sure that the programs of the bundle have loaded what is in it, and of this machine the C library alone.
fn ensure_own(trace: &Path, bundle: &Path) -> Result<()> {
    let bundle = bundle.canonicalize()?;
    let mut programs = Vec::new();
    for file in files(trace)? {
        let told = fs::read(&file).with_context(|| file.display().to_string())?;
        for loaded in read(&String::from_utf8_lossy(&told)) {
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
    println!(
        "loaded nothing but the bundle and the C library: {}",
        programs.join(", ")
    );
    Ok(())
}

impl Loaded {
    /// A library that is neither in the bundle nor of the C library.
    fn foreign(&self, bundle: &Path) -> Option<&Path> {
        let own = |library: &Path| {
            library.starts_with(bundle) || is_of_the_c_library(&file_name(library))
        };
        let mut libraries = self.libraries.iter().map(PathBuf::as_path);
        libraries.find(|library| !own(library))
    }
}

/// Runs the ranks as on a host whose C library is older: it says so once, and uses the bundle's.
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
    let lines = stderr.lines();
    let told: Vec<_> = lines
        .filter(|line| line.starts_with("isochron: the C library"))
        .collect();
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
        let loaded = read(TOLD);
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
        assert!(
            error.contains("isochron has loaded /usr/lib/libblis.so.4"),
            "{error}"
        );
        fs::write(trace.join("by.7"), told.replace("libblis", "libm.so")).unwrap();
        assert!(ensure_own(&trace, &bundle).is_ok());
        fs::write(trace.join("by.7"), "").unwrap();
        assert!(ensure_own(&trace, &bundle).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
