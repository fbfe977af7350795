//! Programs in C and Fortran, compiled against the installed library as pkg-config says, under both MPI libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use isochron_devices::Topology;
use isochron_tests::launch::{
    HANGS, Mpi, is_whole, libraries, native_libraries, open_mpi, prefix, run,
};

use super::docs::find_root;
use super::memcheck::{check_program, check_ranks};
use super::own_loops::{SWEEPS, StencilOutcome, check_batch, check_partition, check_ring};

/// Options under which the sources compile without a warning.
const C_OPTIONS: &[&str] = &["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"];
const FORTRAN_OPTIONS: &[&str] = &["-std=f2018", "-Wall", "-Wextra", "-Werror", "-O2"];

/// Returns a file of the C interface.
fn find_source(name: &str) -> PathBuf {
    find_root().join("runtime/c").join(name)
}

/// Returns the answer of pkg-config about the library of an MPI library.
fn ask_pkg_config(mpi: &Mpi, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    command.args(words).arg(format!("isochron-{}", mpi.name));
    run(command, HANGS).success().split_whitespace().map(str::to_owned).collect()
}

/// A compiler of an MPI library, which compiles in a folder.
fn start_compiler(mpi: &Mpi, language: &str, folder: &Path) -> Command {
    let compiler = mpi.compiler().display().to_string();
    let (compiler, options) = match language {
        "f90" => (compiler.replace("mpicc", "mpifort"), FORTRAN_OPTIONS),
        _ => (compiler, C_OPTIONS),
    };
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(options);
    if mpi.name == "abi" {
        // It has names of Fortran for conversions, which some programs use.
        command.arg("-I").arg(find_root().join("xtask/abi"));
    }
    command
}

/// Returns the name of the program that is made of a source.
fn name_program(mpi: &Mpi, source: &str) -> String {
    source.replace(['/', '.'], "-") + mpi.name
}

/// Compiles and links `program`, with other sources, objects and options that it needs.
fn compile(mpi: &Mpi, folder: &Path, program: &str, others: &[&str]) -> PathBuf {
    let made = folder.join(name_program(mpi, program));
    let language = if program.ends_with(".f90") { "f90" } else { "c" };
    let mut command = start_compiler(mpi, language, folder);
    if language == "f90" {
        command.args(ask_pkg_config(mpi, &["--variable=fortran"]));
    }
    for word in others.iter().chain([&program]) {
        command.arg(match word {
            option if option.starts_with('-') => PathBuf::from(option),
            object if object.ends_with(".o") => folder.join(object),
            source => find_source(source),
        });
    }
    command.args(ask_pkg_config(mpi, &["--cflags", "--libs"]));
    let libdir = ask_pkg_config(mpi, &["--variable=libdir"]);
    command.arg(format!("-Wl,-rpath,{}", libdir[0])).arg("-o").arg(&made);
    run(command, HANGS).success();
    made
}

/// Compiles the stencil in C or in Fortran.
fn compile_stencil(mpi: &Mpi, folder: &Path, language: &str) -> PathBuf {
    let mut command = start_compiler(mpi, "c", folder);
    command.arg("-c").arg(find_source("examples/slow_rank.c"));
    run(command, HANGS).success();
    match language {
        "f90" => compile(
            mpi,
            folder,
            "examples/stencil.f90",
            &["examples/slow_rank.f90", "examples/halo.f90", "slow_rank.o"],
        ),
        _ => compile(mpi, folder, "examples/stencil.c", &["slow_rank.o"]),
    }
}

/// Samples of a batch go to the faster ranks within 20 steps: nothing has to move, so nothing has to be won back.
#[test]
fn batches_in_c_and_fortran_are_shared_by_speed() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let sources = ["examples/batch.c", "examples/batch.f90"];
        for program in sources.into_iter().filter(|source| mpi.has_language(source)) {
            let program = compile(&mpi, folder.path(), program, &[]);
            let none: [&str; 0] = [];
            check_batch(&run(mpi.command(3, &program, &none), HANGS).success());
        }
    }
}

/// Programs that divide their work by a kernel of their own, from nothing, compute all of it.
#[test]
fn partitions_in_c_and_fortran_have_all_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let sources = mpi.take_turns([("partition.c", 500), ("partition.f90", 1000)]);
        for (program, of_row) in sources.filter(|(source, _)| mpi.has_language(source)) {
            let program = compile(&mpi, folder.path(), &format!("examples/{program}"), &[]);
            check_partition(&run(mpi.command::<&str>(3, &program, &[]), HANGS).success(), of_row);
        }
    }
}

/// An algorithm of the program's own is predicted, chosen and run.
#[test]
fn a_ring_in_c_runs_on_the_ranks_that_it_has_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let program = compile(&mpi, folder.path(), "examples/predict.c", &[]);
        check_ring(&run(mpi.command::<&str>(4, &program, &[]), HANGS).success(), 4);
    }
}

/// The stencils have the right cells in both languages. Their rows follow a slow rank in a few moves, and one that becomes
/// slow within 20 sweeps. A rank may be without rows.
#[test]
fn stencils_in_c_and_fortran_follow_a_slow_rank_in_a_few_moves() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweeps = SWEEPS.to_string();
    for mpi in libraries() {
        // Rows that stay together in two halves leave one of three ranks without any.
        let halves: Vec<&str> = mpi.take_turns(["c", "f90"]).collect();
        for language in ["c", "f90"].into_iter().filter(|language| mpi.has_language(language)) {
            let program = compile_stencil(&mpi, folder.path(), language);
            let halves = halves.contains(&language).then_some((0, "600"));
            for (slow_from, granule) in [(0, "1"), (35, "1")].into_iter().chain(halves) {
                let from = slow_from.to_string();
                let words = ["--slow-from", &from, "--granule", granule, "--made-up"];
                let words = [&[sweeps.as_str()], &words[..]].concat();
                let output = run(mpi.command(3, &program, &words), HANGS).success();
                let outcome = StencilOutcome::read(&output);
                if granule == "1" {
                    outcome.check_answer(slow_from);
                }
            }
        }
    }
}

/// The example plans a product of its own matrices once and runs it ten times in three types, on two of three ranks.
#[test]
fn a_c_program_multiplies_its_own_matrices_in_its_own_communicator() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let program = compile(&mpi, folder.path(), "examples/block_cyclic.c", &[]);
        let output = run(mpi.command::<&str>(3, &program, &[]), HANGS).success();
        let counts = output.lines().filter_map(|line| line.split_once(" elements of this rank"));
        let counts = counts.map(|(count, _)| count.parse::<usize>().expect("a number"));
        assert_eq!(counts.sum::<usize>(), 3 * 200 * 100, "{}: {output}", mpi.name);
    }
}

/// Block-cyclic on both kinds of grids with sources, rectangles, blocks and on one rank; row- and column-major with gaps; all
/// types and operations; submatrices as ScaLAPACK describes them, and short first blocks. Shares, flags and blocks of loops. Partitions
/// by kernels and models of the program. Algorithms of the program, right and wrong, and groups.
/// From Fortran, what each call answers, and the sizes of structs. The devices of a later session come from the store.
#[test]
fn programs_in_c_and_fortran_find_every_answer_right() {
    let folder = tempfile::tempdir().expect("a folder");
    for (program, ranks, line) in [
        ("tests/values.c", 6, "9 products are right"),
        ("tests/submatrices.c", 4, "the submatrices are right"),
        ("tests/loops.c", 3, "the loops are balanced"),
        ("tests/partitions.c", 3, "the partitions are right"),
        ("tests/predictions.c", 1, "the predictions are right"),
        ("tests/predictions.c", 2, "the predictions are right"),
        ("tests/predictions.c", 4, "the predictions are right"),
        ("tests/calls.f90", 3, "all calls are right"),
    ] {
        for mpi in libraries().into_iter().filter(|mpi| mpi.has_language(program)) {
            let compiled = compile(&mpi, folder.path(), program, &[]);
            let mut command = mpi.command::<&str>(ranks, &compiled, &[]);
            let store = folder.path().join(name_program(&mpi, program) + "-store");
            command.env("ISOCHRON_STORE", store);
            let outcome = run(command, HANGS);
            assert!(outcome.stdout.contains(line), "{program}, {}: {outcome:#?}", mpi.name);
            outcome.success();
        }
    }
}

/// A program with OpenMP threads computes at the same time as its session, on cores that are reserved for them. The devices of
/// ranks that outnumber the other cores keep off the reserved ones as well.
#[test]
fn threads_of_the_program_and_of_its_session_have_different_cores() {
    let topology = Topology::discover().expect("this machine");
    let cores = topology.cores();
    if cores.len() < 2 || !topology.should_pin() {
        eprintln!("skipped: threads are not bound, or there is no core to reserve");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let program = compile(&mpi, folder.path(), "tests/openmp_host.c", &["-fopenmp"]);
        // One core is reserved, and then all but one, which two ranks share.
        for (ranks, n_reserved) in [(1, 1), (2, cores.len() - 1)] {
            let reserved = &cores[..n_reserved];
            let words = [
                join_numbers(reserved.iter().map(|core| core.core)),
                join_numbers(reserved.iter().flat_map(|core| core.pus.iter().copied())),
                (cores.len() - n_reserved).to_string(),
            ];
            let outcome = run(mpi.command(ranks, &program, &words), HANGS);
            let line = "computed beside each other";
            assert!(outcome.stdout.contains(line), "{}, {ranks}: {outcome:#?}", mpi.name);
            outcome.success();
        }
    }
}

fn join_numbers(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(",")
}

#[test]
fn small_programs_in_c_and_fortran_multiply() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let sources = mpi.take_turns(["examples/product.c", "examples/product.f90"]);
        for example in sources.filter(|source| mpi.has_language(source)) {
            let program = compile(&mpi, folder.path(), example, &[]);
            let output = run(mpi.command::<&str>(2, &program, &[]), HANGS).success();
            assert!(output.contains("each element of C is 100"), "{}: {output}", mpi.name);
        }
    }
}

/// The header and the library are of one version, and the program needs no MPI to see it.
#[test]
fn a_c_program_knows_the_version_of_the_library() {
    let mpi = open_mpi();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&mpi, folder.path(), "examples/version.c", &[]);
    let output = run(Command::new(program), HANGS).success();
    assert!(output.starts_with("libisochron has version 0."), "{output}");
}

/// The program checks itself that each call returns a status and a sentence.
#[test]
fn every_wrong_call_is_a_status_on_every_rank() {
    let folder = tempfile::tempdir().expect("a folder");
    for mpi in libraries() {
        let program = compile(&mpi, folder.path(), "tests/wrong_calls.c", &[]);
        let outcome = run(mpi.command(2, &program, &["mpi"]), HANGS);
        assert_eq!(
            outcome.stdout.matches("calls were refused").count(),
            2,
            "{}: {outcome:#?}",
            mpi.name
        );
        outcome.success();
    }
}

/// With MPI on one rank, which tries wrong communicators too. If all is to be run, also without MPI, and on two ranks of each
/// MPI library.
#[test]
fn valgrind_finds_nothing_in_wrong_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let [open_mpi, mpich] = native_libraries();
    let mut jobs = vec![(&open_mpi, 1)];
    if is_whole() {
        jobs.extend([(&open_mpi, 2), (&mpich, 2)]);
    }
    for (mpi, ranks) in jobs {
        let program = compile(mpi, folder.path(), "tests/wrong_calls.c", &[]);
        let output = check_ranks(mpi, ranks, &program, &["mpi", "tidy"]);
        assert_eq!(output.matches("calls were refused").count(), ranks, "{output}");
        if is_whole() && ranks == 1 {
            let output = check_program(&program, &[]);
            assert!(output.contains("calls were refused"), "{output}");
        }
    }
}

/// Returns the words of a text that begin as the names of calls do.
fn list_names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("isochron_"))
        .map(str::to_owned)
        .collect()
}

/// Returns the calls that a header declares.
fn list_calls(header: &str) -> BTreeSet<String> {
    header
        .lines()
        .filter(|line| !line.starts_with("//"))
        .filter_map(|line| line.split_once('(').map(|(before, _)| before))
        .flat_map(list_names)
        .filter(|name| !["isochron_open_comm", "isochron_group_comm"].contains(&name.as_str()))
        .collect()
}

#[test]
fn the_libraries_export_the_calls_of_the_header_alone() {
    let header = prefix().join("include/isochron.h");
    let calls = list_calls(&fs::read_to_string(header).expect("the header"));
    assert!(calls.len() > 20, "{calls:?}");
    for mpi in libraries() {
        let name = format!("libisochron-{}.so.0", mpi.name);
        let library = prefix().join("lib").join(&name);
        let mut command = Command::new("nm");
        command.args(["-D", "--defined-only", "--format=posix"]).arg(&library);
        let symbols = run(command, HANGS).success();
        let symbols = symbols.lines().filter_map(|line| line.split(' ').next());
        assert_eq!(symbols.map(str::to_owned).collect::<BTreeSet<_>>(), calls, "{name}");
        let mut command = Command::new("readelf");
        command.arg("-d").arg(&library);
        let soname = run(command, HANGS).success();
        assert!(soname.contains(&format!("soname: [{name}]")), "{soname}");
    }
}

#[test]
fn every_call_is_tried_wrongly_and_is_made_from_fortran() {
    let header = fs::read_to_string(find_source("include/isochron.h")).expect("the header");
    for file in ["tests/wrong_calls.c", "fortran/isochron.f90", "tests/calls.f90"] {
        let names = list_names(&fs::read_to_string(find_source(file)).expect("a source"));
        let missing: Vec<String> = list_calls(&header).difference(&names).cloned().collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}

/// The constants have the same values in C and in Fortran.
#[test]
fn constants_are_the_same_in_fortran() {
    let header = fs::read_to_string(find_source("include/isochron.h")).expect("the header");
    let module = fs::read_to_string(find_source("fortran/isochron.f90")).expect("the module");
    let constants = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define ISOCHRON_"))
        .filter_map(|line| line.split_once(' '));
    let mut n_constants = 0;
    for (name, value) in constants {
        let line = format!(" :: ISOCHRON_{name} = {value}\n");
        assert!(module.contains(&line), "{line}");
        n_constants += 1;
    }
    assert!(n_constants > 15);
}
