//! Commands in the pages: each `sh` block runs.
//!
//! The blocks of a page run in order in one folder, which looks like a clone that has been built:
//! `target/release/isochron` and `cluster-configs` are there, and `isochron` and `mpirun` are found by name. A comment
//! above a block says how it runs if that is not possible here:
//!
//! * `<!-- run: without cluster -->`: `mpirun` and `srun` start nothing on other hosts, and `isochron mxm` only plans;
//! * `<!-- run: without GPU -->`: the same, and `nvidia-smi` lists two made-up slices;
//! * `<!-- run: never, REASON -->`: it does not run.
//!
//! `cargo xtask` is parsed by xtask's own tests; `cargo xtask install` and `cargo xtask wheel` find what was made for the tests.
//! The options of `cluster` and `bench` are parsed by their programs, and campaigns are planned. `pip` only looks whether there is
//! a wheel, since the tests of the Python package install it; `python` is the one that has it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, cluster_program, open_mpi, prefix, python, run};

use super::pages::{CodeBlock, Page, find_root, read_pages};
use crate::python::write_python;

/// Stands for cargo: asks the programs behind `cargo xtask` for help about the options that they are given.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2" in
"xtask cluster") program=$ISOCHRON_CLUSTER ;;
"xtask bench") campaign=bench/campaigns/$3.toml; shift 3; exec isochron campaign plan "$campaign" "$@" ;;
"xtask install") exec ln -s "$ISOCHRON_PREFIX" "$4" ;;
"xtask wheel")
    [ "$4" = mpich ] && wheel=$ISOCHRON_WHEEL_MPICH || wheel=$ISOCHRON_WHEEL_OPENMPI
    mkdir -p "target/wheels/${4:-openmpi}"
    exec ln -sf "$wheel" "target/wheels/${4:-openmpi}" ;;
xtask\ * | "bench -p" | "build --release") exit 0 ;;
*) echo "cargo $*: the test of the documentation does not know this command" >&2; exit 2 ;;
esac
shift 2
words=$#
helped=
while [ $words -gt 0 ]; do
    if [ "$1" = -- ] && [ -z "$helped" ]; then set -- "$@" --help; helped=yes; fi
    word=$1; shift; set -- "$@" "$word"; words=$((words - 1))
done
[ -n "$helped" ] || set -- "$@" --help
exec "$program" "$@"
"#;

/// Stands for a launcher: runs what it would start, once.
const LAUNCHER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    isochron | */isochron) shift; exec isochron "$@" ;;
    *.sh) exec "$@" ;;
    esac
    shift
done
echo "no program of ours to start" >&2
exit 2
"#;

/// Stands for `isochron`: makes a plan in place of a product, and knows no second part of a command line.
const PLANNER: &str = r#"#!/bin/sh
words=$#
ended=
while [ $words -gt 0 ]; do
    word=$1; shift; words=$((words - 1))
    case $word in
    :) ended=yes ;;
    --report) shift; words=$((words - 1)) ;;
    --out) shift; words=$((words - 1)) ;;
    *) [ -n "$ended" ] || set -- "$@" "$word" ;;
    esac
done
[ "$1" != mxm ] || set -- "$@" --plan
exec "$ISOCHRON_REAL" "$@"
"#;

/// Stands for pip: the wheels of its words exist.
const PIP: &str = r#"#!/bin/sh
for word; do
    case $word in
    *.whl) [ -f "$word" ] || { echo "there is no $word" >&2; exit 1; } ;;
    esac
done
"#;

const SLICES: &str = r#"#!/bin/sh
echo "GPU 0: NVIDIA H100 (UUID: GPU-0)"
echo "  MIG 3g.40gb Device 0: (UUID: MIG-first)"
echo "  MIG 3g.40gb Device 1: (UUID: MIG-second)"
"#;

#[test]
fn every_command_runs() {
    for page in read_pages() {
        run_page(&page);
    }
}

/// Runs the `sh` blocks of a page in one folder.
fn run_page(page: &Page) {
    let blocks = page.blocks();
    let mut blocks = blocks.iter().filter(|block| block.language == "sh").peekable();
    if blocks.peek().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    set_up(folder.path());
    if page.text.contains(" python runtime/") {
        write_python(&folder.path().join("bin/python"));
    }
    for block in blocks {
        let at = format!("{}:{}", page.path.display(), block.line);
        match block.run.as_deref() {
            None => run_block(block, folder.path(), "bin", &at),
            Some("without cluster" | "without GPU") => {
                run_block(block, folder.path(), "elsewhere", &at);
            }
            Some(other) => assert!(other.starts_with("never, "), "{at}: run: {other}?"),
        }
    }
}

/// Runs one block with the programs of the folder `bin`.
fn run_block(block: &CodeBlock, folder: &Path, bin: &str, at: &str) {
    let mpi = open_mpi();
    let path = std::env::var("PATH").unwrap_or_default();
    let python = python();
    let script = block.code.replace("/usr/bin/python3", python.to_str().expect("a path"));
    let mut command = Command::new("sh");
    command
        .args(["-e", "-u", "-c", &script])
        .current_dir(folder)
        .env("PATH", format!("{}/{bin}:{path}", folder.display()))
        .env("ISOCHRON_REAL", &mpi.isochron)
        .env("ISOCHRON_CLUSTER", cluster_program())
        .env("ISOCHRON_PREFIX", prefix())
        .env("ISOCHRON_STORE", folder.join("models"))
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let outcome = run(command, HANGS);
    assert_eq!(outcome.status, Some(0), "{at}:\n{script}\n{}{}", outcome.stdout, outcome.stderr);
}

/// Makes a folder look like a clone that has been built.
fn set_up(folder: &Path) {
    let mpi = open_mpi();
    let move_cost = mpi.isochron.with_file_name("examples").join("move_cost");
    for name in ["target/release/examples", "bin", "elsewhere"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    for name in ["apps", "bench", "cluster-configs", "devices", "runtime"] {
        symlink(find_root().join(name), folder.join(name)).expect("a link");
    }
    for (program, place) in [
        (&mpi.isochron, "target/release/isochron"),
        (&mpi.isochron, "bin/isochron"),
        (&mpi.stencil, "target/release/examples/stencil"),
        (&move_cost, "target/release/examples/move_cost"),
    ] {
        symlink(program, folder.join(place)).expect("a link");
    }
    for name in ["jacobi", "fft2d", "dgemv"] {
        let place = folder.join("target/release").join(name);
        symlink(mpi.isochron.with_file_name(name), place).expect("a link");
    }
    let compiler = mpi.compiler().display().to_string();
    for (name, program) in [
        ("mpirun", mpi.mpirun().display().to_string()),
        ("mpifort", compiler.replace("mpicc", "mpifort")),
        ("mpicc", compiler),
    ] {
        let script = format!("#!/bin/sh\nexec {program} \"$@\"\n");
        write_program(&folder.join("bin").join(name), &script);
    }
    write_program(&folder.join("bin/cargo"), CARGO);
    write_program(&folder.join("bin/pip"), PIP);
    write_program(&folder.join("elsewhere/cargo"), CARGO);
    write_program(&folder.join("elsewhere/isochron"), PLANNER);
    write_program(&folder.join("elsewhere/nvidia-smi"), SLICES);
    for name in ["mpirun", "srun"] {
        write_program(&folder.join("elsewhere").join(name), LAUNCHER);
    }
}

/// Writes a program that can be started.
pub fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a writable folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
}
