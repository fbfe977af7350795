//! The whole path under valgrind: no invalid read or write, no use of memory without a value, nothing lost. By default two
//! programs of one rank, and all with `cargo xtask test --all`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, Mpi, is_whole, open_mpi, run};

/// The exit status of a program that succeeds but for errors in its use of memory.
const ERRORS: &str = "--error-exitcode=99";

/// The options of valgrind.
const OPTIONS: [&str; 9] = [
    "--quiet",
    ERRORS,
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
    concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/valgrind.supp"),
    // Deep enough to see from which call of ours a library allocates, and in one that is unloaded by then too.
    "--num-callers=40",
    "--keep-debuginfo=yes",
    // Half of the time in which a program starts.
    "--read-inline-info=no",
];

/// The words after `valgrind` that run a program with its arguments.
fn checked<'a>(program: &'a Path, arguments: &[&'a str]) -> Vec<&'a OsStr> {
    let mut words: Vec<&OsStr> = OPTIONS.iter().map(OsStr::new).collect();
    words.push(program.as_os_str());
    words.extend(arguments.iter().copied().map(OsStr::new));
    words
}

/// The standard output of a program that valgrind finds nothing in.
fn clean(command: Command) -> String {
    let outcome = run(command, HANGS);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

/// Runs a program under valgrind, which finds nothing. Returns its standard output.
pub fn check_program(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("valgrind");
    command.args(checked(program, arguments));
    clean(command)
}

/// Runs a program under valgrind, which finds nothing, on some ranks. Returns its standard output.
pub fn check_ranks(mpi: &Mpi, ranks: usize, program: &Path, arguments: &[&str]) -> String {
    let words = checked(program, arguments);
    clean(mpi.command(ranks, Path::new("valgrind"), &words))
}

/// Runs a case of the GPU path on one emulated GPU with little memory.
fn cuda_case(name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_isochron-cuda-cases"));
    let mut command = Command::new("valgrind");
    command.args(checked(program, &[name]));
    emulate(&mut command, folder.path());
    command.env("ISOCHRON_CUDA_EMULATOR_MEMORY", "1M");
    let output = clean(command);
    assert!(output.contains("on Emulated CUDA device 0"), "{output}");
}

#[test]
fn valgrind_finds_nothing_where_gpus_stream_or_lack_memory() {
    cuda_case("elements");
    if is_whole() {
        cuda_case("taken-memory");
    }
}

#[test]
fn valgrind_finds_nothing_in_a_multiplication_on_one_rank() {
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.npy");
    let words = "mxm --m 70 --n 90 --k 110 --block 16 --blas openblas --type f32 --op-b t --verify exact --out";
    let words: Vec<&str> = words.split(' ').chain(file.to_str()).collect();
    let output = check_program(&mpi.isochron, &words);
    assert!(output.contains("verified by exact"), "{output}");
}

#[test]
fn valgrind_finds_nothing_in_a_multiplication_on_two_ranks_with_gpus() {
    if !is_whole() {
        return;
    }
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    let words = "mxm --m 130 --n 170 --k 150 --block 32 --panel 32 --blas embedded --type c64 --op-a c --verify exact";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = mpi.command(2, Path::new("valgrind"), &checked(&mpi.isochron, &words));
    emulate(&mut command, folder.path());
    command.env("ISOCHRON_CUDA_EMULATOR_DEVICES", "2").env("ISOCHRON_CUDA_EMULATOR_MEMORY", "300K");
    let output = clean(command);
    for part in ["verified by exact", "cuda0", "cuda1"] {
        assert!(output.contains(part), "{part} in {output}");
    }
}

#[test]
fn valgrind_finds_nothing_where_matrices_are_redistributed() {
    if !is_whole() {
        return;
    }
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a name");
    // Messages of 40 bytes at most, so that they travel in pieces.
    let words = checked(&mpi.cases, &[folder, "--longest", "40"]);
    let command = mpi.command(2, Path::new("valgrind"), &words);
    let output = clean(command);
    assert!(output.contains("short pieces: 3 cases on 2 ranks"), "{output}");
}
