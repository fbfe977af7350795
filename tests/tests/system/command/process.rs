//! The command and its process: what it needs of MPI, and what other code in its process can do to its results.

use std::fs;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, Outcome, libraries, native_libraries, run};

use super::measure::compile;
use super::{Folder, check_told, json, points, read_json, run_line, single_ranks};

/// Runs each line of a file by the shell, on every rank, between the start and the end of MPI. What line I does on rank R goes to
/// `I.R.out`, `I.R.err` and `I.R.status`.
const STARTER: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
    char line[2000], command[5000], name[2000];
    int rank, number = 0;
    FILE *lines, *status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "%s/lines", argv[1]);
    lines = fopen(name, "r");
    while (fgets(line, sizeof line, lines)) {
        snprintf(command, sizeof command, "exec >%s/%d.%d.out 2>%s/%d.%d.err; %s",
                 argv[1], number, rank, argv[1], number, rank, line);
        snprintf(name, sizeof name, "%s/%d.%d.status", argv[1], number, rank);
        status = fopen(name, "w");
        fprintf(status, "%d", WEXITSTATUS(system(command)));
        fclose(status);
        number++;
    }
    MPI_Finalize();
    return 0;
}
"#;

/// Runs lines of the shell within the ranks of an MPI program. Returns their ends by line and rank.
fn run_within(mpi: &Mpi, ranks: usize, lines: &[String]) -> Vec<Vec<Outcome>> {
    let folder = Folder::new();
    let (source, program) = (folder.write("starter.c", STARTER), folder.path("starter"));
    let mut compiler = Command::new(mpi.compiler());
    compiler.args([&source, "-o", &program]);
    run(compiler, HANGS).success();
    folder.write("lines", &(lines.join("\n") + "\n"));
    let place = folder.path("");
    run(mpi.command(ranks, Path::new(&program), &[&place]), HANGS).success();
    let read = |name: String| fs::read_to_string(folder.path(&name)).expect("a file");
    (0..lines.len())
        .map(|line| {
            (0..ranks)
                .map(|rank| Outcome {
                    status: read(format!("{line}.{rank}.status")).parse().ok(),
                    stdout: read(format!("{line}.{rank}.out")),
                    stderr: read(format!("{line}.{rank}.err")),
                })
                .collect()
        })
        .collect()
}

/// Command lines that one process answers, with a part of the answer.
fn lines_of_one_process() -> Vec<(String, &'static str)> {
    let file = points("cliff-60k.points");
    [
        ("--version", "isochron 0"),
        ("--help", "Usage: isochron"),
        ("help mxm", "Usage: isochron mxm"),
        ("measure --help", "Usage: isochron measure"),
        ("partition --units 9 --models FILE", "9"),
        ("layout 4 2 1", "64×37"),
        ("models show FILE", "units/s"),
        ("topology --synthetic pu:2", "cores 0-1"),
    ]
    .map(|(line, part)| (line.replace("FILE", &file), part))
    .into()
}

/// Command lines that one process refuses, with a part of the message.
const REFUSED: [(&str, &str); 8] = [
    ("", "Usage: isochron"),
    ("mxm --sise 64", "unexpected argument '--sise'"),
    ("nonsense", "unrecognized subcommand 'nonsense'"),
    ("partition --units 9 --models nonexistent", "nonexistent"),
    ("check nonexistent --report nonexistent", "nonexistent"),
    ("trace-model nonexistent --event step --units 9", "nonexistent"),
    ("topology --file nonexistent", "nonexistent"),
    ("models list", "there is no store: ISOCHRON_STORE is empty"),
];

/// Command lines of all ranks of a job.
const OF_RANKS: [&str; 5] =
    ["mxm --size 50", "topology", "measure gemm", "balance gemm --units 9", "config"];

fn assert_answered(outcome: &Outcome, part: &str, what: &str) {
    assert_eq!(outcome.status, Some(0), "{what}: {outcome:#?}");
    assert!(outcome.stdout.contains(part), "{what}: {outcome:#?}");
}

fn assert_refused(outcome: &Outcome, part: &str, what: &str) {
    assert_eq!(outcome.status, Some(2), "{what}: {outcome:#?}");
    assert_eq!(outcome.stdout, "", "{what}");
    assert!(outcome.stderr.contains(part), "{what}: {outcome:#?}");
}

#[test]
fn every_command_within_a_rank_of_an_mpi_program_answers_or_says_why_not() {
    let (answered, of_ranks) = (lines_of_one_process(), OF_RANKS);
    for mpi in libraries() {
        let program = mpi.isochron.to_str().expect("a path");
        let call = |line: &str| format!("{program} {line}");
        let local = format!("ISOCHRON_COMM=local {program} mxm --size 50 --json");
        let lines: Vec<String> = answered
            .iter()
            .map(|(line, _)| call(line))
            .chain(REFUSED.iter().map(|(line, _)| call(line)))
            .chain(of_ranks.iter().map(|line| call(line)))
            .chain([local])
            .collect();
        let ends = run_within(&mpi, 2, &lines);
        let parts = answered.iter().map(|(_, part)| (0, *part));
        let parts = parts.chain(REFUSED.iter().map(|(_, part)| (2, *part)));
        let parts = parts.chain(of_ranks.iter().map(|_| (2, "MPI program starter (process ")));
        let parts = parts.chain([(0, "\"verified\": true")]);
        for ((line, ranks), (status, part)) in lines.iter().zip(&ends).zip(parts) {
            for (rank, end) in ranks.iter().enumerate() {
                let what = format!("{}: {line} on rank {rank}", mpi.name);
                match status {
                    0 => assert_answered(end, part, &what),
                    _ => assert_refused(end, part, &what),
                }
            }
        }
    }
}

/// Variables of launchers as they are left over from earlier jobs.
const LEFT_OVER: [&[(&str, &str)]; 4] = [
    &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")],
    &[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_FD", "77")],
    &[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "7"), ("PMIX_SERVER_URI2", "7.0;tcp4://127.0.0.1:1")],
    &[("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "4")],
];

fn isochron_with(mpi: &Mpi, variables: &[(&str, &str)], line: &str) -> Outcome {
    let mut command = Command::new(&mpi.isochron);
    command.envs(variables.iter().copied());
    command.args(line.split_whitespace());
    run(command, HANGS)
}

#[test]
fn variables_left_over_from_a_launcher_silence_nothing() {
    let answered = lines_of_one_process();
    for mpi in libraries() {
        for variables in LEFT_OVER {
            let what = |line: &str| format!("{} {variables:?} {line}", mpi.name);
            for (line, part) in &answered {
                assert_answered(&isochron_with(&mpi, variables, line), part, &what(line));
            }
            for (line, part) in REFUSED {
                assert_refused(&isochron_with(&mpi, variables, line), part, &what(line));
            }
            // Only MPI knows if its launcher is there.
            let end = isochron_with(&mpi, variables, "mxm --size 50 --json");
            let told =
                end.stderr.contains("isochron: ") && end.stderr.contains("ISOCHRON_COMM=local");
            assert!(end.status == Some(0) || told, "{}: {end:#?}", mpi.name);
            let local = [variables, &[("ISOCHRON_COMM", "local")]].concat();
            let end = isochron_with(&mpi, &local, "mxm --size 50 --json");
            assert_answered(&end, "\"verified\": true", "local");
        }
    }
}

#[test]
fn ranks_of_a_launcher_answer_once_below_a_shell_too() {
    for mpi in libraries() {
        let program = mpi.isochron.to_str().expect("a path");
        for line in ["--version", "layout 4 2 1"] {
            let script = format!("{program} {line}; exit $?");
            let shell = mpi.command(3, Path::new("/bin/sh"), &["-c", &script]);
            for text in [run(shell, HANGS).success(), mpi.run_line(3, line).success()] {
                let first = text.lines().next().expect("an answer");
                assert_eq!(text.matches(first).count(), 1, "{}: {text}", mpi.name);
            }
        }
    }
    let [openmpi, mpich] = native_libraries();
    let text = run(single_ranks(&mpich, &openmpi.isochron, &["--version"]), HANGS).success();
    assert_eq!(text.matches("isochron 0").count(), 1, "{text}");
}

/// Prints at each run, and ends the process in the third.
const PRINTS_AND_LEAVES: &str = "static int runs; puts(\"noise\"); if (++runs == 3) END; (void)d;";

#[test]
fn a_kernel_that_prints_does_not_write_into_the_result() {
    let folder = Folder::new();
    let prints = compile(&folder, "prints", "puts(\"noise\"); (void)d;");
    let line = format!("measure {prints} --to 2 --points 2 --max-reps 3");
    for mpi in libraries() {
        for ranks in [1, 2] {
            let text = mpi.run_line(ranks, &format!("{line} --json")).success();
            assert_eq!(json(&text)["schema"], 1, "{text}");
        }
        let text = mpi.run_line(2, &line).success();
        assert!(text.contains("units") && !text.contains("noise"), "{text}");
    }
    assert!(read_json(&format!("{line} --isolate"))["ranks"].is_array());
    let alone = run_line(&format!("{line} --json"));
    assert!(alone.stderr.contains("noise"), "{alone:#?}");
    json(&alone.success());
}

#[test]
fn a_kernel_that_ends_the_process_is_an_error_with_a_message() {
    let folder = Folder::new();
    let ends = [
        ("exits", "exit(0)"),
        ("leaves", "_exit(0)"),
        ("quits", "{ extern void quick_exit(int); quick_exit(0); }"),
        ("fails", "exit(7)"),
    ];
    let kernels =
        ends.map(|(name, end)| compile(&folder, name, &PRINTS_AND_LEAVES.replace("END", end)));
    for kernel in &kernels {
        for options in ["", "--json"] {
            let line = format!("measure {kernel} --to 4 --points 2 {options}");
            let alone = run_line(&line);
            assert_eq!(alone.stdout, "", "{line}");
            check_told(&alone.failure(1), &[&name_end(kernel), "--isolate"], &line);
        }
    }
    for mpi in libraries() {
        for kernel in mpi.take_turns(&kernels) {
            let end = mpi.run_line(2, &format!("measure {kernel} --to 4 --points 2 --json"));
            assert_ne!(end.status, Some(0), "{end:#?}");
            assert!(end.stderr.contains(&name_end(kernel)), "{end:#?}");
            // Launchers may write there.
            assert!(!end.stdout.contains("noise") && !end.stdout.contains("schema"), "{end:#?}");
        }
    }
}

fn name_end(kernel: &str) -> String {
    format!("kernel {kernel}: ended the process before the result was there")
}
