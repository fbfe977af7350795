//! The wheels of the Python package in fresh virtual environments, with NumPy and mpi4py as pip installs them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use isochron_tests::launch::{
    HANGS, Mpi, Outcome, is_whole, native_libraries, open_mpi, python, python_packages, run,
    standard_abi, torch_programs, wheel_without_mpi, wheels_for_abi,
};
use serde_json::Value;

use super::docs::write_program;
use super::own_loops::{SWEEPS, StencilOutcome, check_batch, check_partition, check_ring};

/// A virtual environment with a wheel and NumPy.
#[derive(Clone, Copy)]
enum Environment {
    /// The wheel for Open MPI, and no mpi4py.
    Alone,
    /// The wheel that was built without MPI.
    WithoutMpi,
    /// The wheel for Open MPI, and mpi4py.
    OpenMpi,
    /// The wheel for MPICH, and mpi4py.
    Mpich,
    /// The wheel for the standard ABI, an mpi4py for it, and MPICH as pip installs it.
    Abi,
}

impl Environment {
    /// Returns the one with mpi4py for an MPI library.
    fn of(mpi: &Mpi) -> Self {
        match mpi.name {
            "mpich" => Self::Mpich,
            _ => Self::OpenMpi,
        }
    }

    fn name(self) -> &'static str {
        ["alone", "without-mpi", "openmpi", "mpich", "abi"][self as usize]
    }

    fn folder(self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("python").join(self.name())
    }

    /// Makes it, once for all tests. Returns its Python.
    fn python(self) -> &'static Path {
        static MADE: [OnceLock<PathBuf>; 5] = [const { OnceLock::new() }; 5];
        MADE[self as usize].get_or_init(|| self.make())
    }

    fn make(self) -> PathBuf {
        let folder = self.folder();
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new(python());
        // The pip of the tools installs, since another one would take seconds to come.
        command.args(["-m", "venv", "--without-pip"]).arg(&folder);
        run(command, HANGS).success();
        let python = folder.join("bin/python");
        let [open_mpi, mpich] = native_libraries().map(|mpi| mpi.wheel().display().to_string());
        install_wheels(
            &python,
            &match self {
                Self::Alone => vec![open_mpi],
                Self::WithoutMpi => vec![wheel_without_mpi().display().to_string()],
                Self::OpenMpi => vec![open_mpi + "[mpi]"],
                Self::Mpich => vec![mpich + "[mpi]"],
                Self::Abi => {
                    let others = std::fs::read_dir(wheels_for_abi()).expect("a folder");
                    let others = others.map(|entry| entry.expect("a wheel").path());
                    let wheels = [standard_abi().wheel()].into_iter().chain(others);
                    wheels.map(|wheel| wheel.display().to_string()).collect()
                }
            },
        );
        if let Self::Mpich = self {
            link_mpich(&folder);
        }
        python
    }
}

/// Installs wheels and what they need, from the packages that were fetched.
fn install_wheels(python: &Path, wheels: &[String]) {
    let tools = python_packages().with_file_name("python-tools");
    let mut command = Command::new(tools.join("bin/python"));
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    command.arg("--python").arg(python);
    // Python compiles what is imported, which is a part of NumPy.
    command.args(["install", "--no-compile", "--no-index", "--find-links"]);
    command.arg(python_packages()).args(wheels);
    run(command, HANGS).success();
}

/// Gives the MPICH of `isochron` the name by which mpi4py looks for it, which Debian does not have.
fn link_mpich(folder: &Path) {
    let [_, mpich] = native_libraries();
    let mut command = Command::new("ldd");
    command.arg(mpich.isochron);
    let text = run(command, HANGS).success();
    let line = text.lines().find(|line| line.trim().starts_with("libmpi"));
    let (_, path) = line.and_then(|line| line.split_once("=> ")).expect("an MPI library");
    let path = path.split(" (").next().expect("a path");
    symlink(path, folder.join("libmpi.so.12")).expect("a link");
}

/// Writes a program that is Python with the package and mpi4py, both for Open MPI.
pub fn write_python(path: &Path) {
    let python = Environment::OpenMpi.python().display();
    write_program(path, &format!("#!/bin/sh\nMPI4PY_MPIABI=openmpi exec {python} \"$@\"\n"));
}

/// Runs Python with mpi4py on some ranks.
fn run_ranks(mpi: &Mpi, ranks: usize, arguments: &[&str]) -> Outcome {
    let environment = Environment::of(mpi);
    let mut command = mpi.command(ranks, environment.python(), arguments);
    find_mpi(&mut command, mpi);
    run(command, HANGS)
}

/// Lets mpi4py find an MPI library.
fn find_mpi(command: &mut Command, mpi: &Mpi) {
    command.env("LD_LIBRARY_PATH", Environment::of(mpi).folder());
    command.env("MPI4PY_MPIABI", mpi.name);
}

/// Returns the path of a script next to this file, or in the package.
fn find_script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).to_str().expect("a name").to_owned()
}

/// Returns the program in the README of the package.
fn read_example() -> String {
    let readme = include_str!("../../../runtime/python/README.md");
    let (_, code) = readme.split_once("```python\n").expect("an example");
    code.split_once("```").expect("its end").0.to_owned()
}

/// The wheel that was built without MPI is tried if all is to be run. It is linked neither with an MPI library nor with hwloc, the other one is.
#[test]
fn wheels_run_their_readmes_example_without_mpi4py() {
    let without_mpi = is_whole().then_some((Environment::WithoutMpi, false));
    for (environment, has_mpi) in [(Environment::Alone, true)].into_iter().chain(without_mpi) {
        let script = "import isochron\nprint(isochron._isochron.__file__)";
        let threads = include_str!("../../../runtime/python/examples/threads.py");
        let outputs = [read_example().as_str(), script, threads].map(|code| {
            let mut command = Command::new(environment.python());
            command.arg("-c").arg(code);
            run(command, HANGS).success()
        });
        let output = &outputs[0];
        assert!(output.contains("rank 0 of 1 is done"), "{output}");
        assert!(outputs[2].starts_with("units of the devices: ["), "{}", outputs[2]);
        let mut command = Command::new("readelf");
        command.arg("-d").arg(outputs[1].trim());
        let needed = run(command, HANGS).success();
        assert!(needed.contains("NEEDED"), "{needed}");
        assert_eq!(needed.contains("[libmpi"), has_mpi, "{needed}");
        // Any Linux has the rest.
        assert_eq!(needed.contains("[libhwloc"), has_mpi, "{needed}");
    }
}

#[test]
fn wheels_run_their_readmes_example_with_mpi4py() {
    let example = read_example();
    for mpi in native_libraries() {
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

#[test]
fn every_matrix_market_file_of_scipy_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let packages = folder.path().join("packages");
    let tools = python_packages().with_file_name("python-tools");
    let mut install = Command::new(tools.join("bin/python"));
    install.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
    install.args(["--no-compile", "--no-deps", "--no-index", "--find-links"]);
    install.arg(python_packages()).args(["scipy", "numpy", "--target"]).arg(&packages);
    run(install, HANGS).success();
    let mpi = open_mpi();
    let mut command = Command::new(python());
    command.arg(find_script("tests/system/python/matrix_market.py"));
    command.arg(&mpi.isochron).arg(folder.path()).env("PYTHONPATH", packages);
    run(command, HANGS).success();
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
    let mut command = Command::new(Environment::Alone.python());
    command.arg(find_script("tests/system/python/one_rank.py"));
    let output = run(command, HANGS).success();
    assert!(output.ends_with("test_elements_are_listed_and_filled\n"), "{output}");
}

#[test]
fn the_python_package_works_on_three_ranks_over_mpi4py() {
    for mpi in native_libraries() {
        let script = find_script("tests/system/python/three_ranks.py");
        check_three_ranks(&run_ranks(&mpi, 3, &[&script]).success());
    }
}

/// Everything comes from pip, the MPI library too, which lies in the environment.
#[test]
fn the_python_package_works_with_the_standard_abi() {
    if !is_whole() {
        return;
    }
    let python = Environment::Abi.python();
    let mut command = Command::new(python.with_file_name("mpiexec"));
    command.args(["-n", "3"]).arg(python).arg(find_script("tests/system/python/three_ranks.py"));
    check_three_ranks(&run(command, HANGS).success());
}

/// The module says what to install if its MPI library is missing.
#[test]
fn a_missing_mpi_library_is_told() {
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    // A file of that name that is no library stands for a missing one.
    let mut command = Command::new("ldd");
    command.arg(mpi.isochron);
    let text = run(command, HANGS).success();
    let library = text.split_whitespace().find(|word| word.starts_with("libmpi"));
    std::fs::write(folder.path().join(library.expect("an MPI library")), "").expect("a file");
    let mut command = Command::new(Environment::Alone.python());
    command.args(["-c", "import isochron"]).env("LD_LIBRARY_PATH", folder.path());
    let told = run(command, HANGS).failure(1);
    assert!(told.contains("a wheel without MPI needs none"), "{told}");
}

fn check_three_ranks(output: &str) {
    // UCX writes lines of its own if a rank leaves with messages under way.
    let done = output.lines().filter(|line| line.starts_with("test_"));
    assert_eq!(done.count(), 14, "{output}");
}

#[test]
fn an_mpi4py_of_another_library_is_refused() {
    let [open_mpi, mpich] = native_libraries();
    Environment::Mpich.python();
    let code = "from mpi4py import MPI\nimport isochron\nisochron.Session(MPI.COMM_WORLD)";
    let mut command = mpich.command(1, Environment::OpenMpi.python(), &["-c", code]);
    find_mpi(&mut command, &mpich);
    let error = run(command, HANGS).stderr;
    for words in ["isochron.InputError", "Open MPI v", "MPICH", "the same MPI library"] {
        assert!(error.contains(words), "{}: {error}", open_mpi.name);
    }
}

#[test]
fn a_batch_in_python_is_shared_by_speed() {
    let script = find_script("../runtime/python/examples/batch.py");
    for mpi in native_libraries() {
        check_batch(&run_ranks(&mpi, 3, &[&script]).success());
    }
}

/// Runs if all is to be run, since PyTorch is large.
#[test]
fn training_with_shares_by_speed_has_the_losses_of_even_batches() {
    if !is_whole() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(torch_programs().join("python"));
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]);
    command.arg("--target").arg(folder.path()).arg(wheel_without_mpi());
    run(command, HANGS).success();
    let mut command = Command::new(torch_programs().join("torchrun"));
    command.env("PYTHONPATH", folder.path());
    command.args(["--nproc-per-node", "4", &find_script("../bench/peers/training.py")]);
    command.args(["1,1,2,4", "80", "3"]);
    let found: Value = serde_json::from_str(&run(command, HANGS).success()).expect("a document");
    assert!(found["largest_difference"].as_f64() < Some(1e-12), "{found}");
    // The fourth rank is twice as fast even when it is slowed down, from the middle on.
    assert!(found["shares"][3].as_u64() > found["shares"][0].as_u64(), "{found}");
}

#[test]
fn a_partition_in_python_has_all_rows() {
    let script = find_script("../runtime/python/examples/partition.py");
    let mpi = open_mpi();
    check_partition(&run_ranks(&mpi, 3, &[&script]).success(), 500);
}

#[test]
fn a_ring_in_python_runs_on_the_ranks_that_it_has_chosen() {
    let script = find_script("../runtime/python/examples/predict.py");
    for (mpi, ranks) in native_libraries().iter().zip([2, 1]) {
        check_ring(&run_ranks(mpi, ranks, &[&script]).success(), ranks);
    }
}

#[test]
fn rows_of_the_stencil_in_python_follow_a_slow_rank() {
    let script = find_script("../runtime/python/examples/stencil.py");
    let sweeps = SWEEPS.to_string();
    for mpi in native_libraries() {
        // Rows that stay together in two halves leave one of three ranks without any.
        let halves = mpi.take_turns([(0, "600")]);
        for (slow_from, granule) in [(0, "1"), (35, "1")].into_iter().chain(halves) {
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
