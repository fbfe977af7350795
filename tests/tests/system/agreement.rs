//! Ranks that were started with different command lines are refused before anything else runs.

use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, Outcome, is_whole, libraries, open_mpi, run};

/// Options that describe a node: unlike nodes may have unlike ones.
const OF_A_NODE: [&str; 2] = ["--blas", "--group"];

/// Numbers of ranks of the launches.
const RANKS: [usize; 2] = [2, 3];

/// Runs `mpirun` with the first line on all ranks but the last, and the second line on that one.
fn launch(mpi: &Mpi, ranks: usize, lines: [&str; 2]) -> Outcome {
    let isochron = mpi.isochron.to_str().expect("a name");
    let [most, last] = lines.map(|line| -> Vec<&str> {
        line.split_whitespace()
            .map(|word| if word == "isochron" { isochron } else { word })
            .collect()
    });
    let tail = [&[":", "-n", "1"], last.as_slice()].concat();
    let (program, arguments) = most.split_first().expect("a program");
    let arguments = [arguments, &tail].concat();
    run(mpi.command(ranks - 1, Path::new(program), &arguments), HANGS)
}

/// Expects one message with `parts` from a launch with these two lines.
fn refused_on(mpi: &Mpi, ranks: usize, lines: [&str; 2], parts: &[&str]) {
    let outcome = launch(mpi, ranks, lines);
    let what = format!("{} on {ranks} ranks, {lines:?}", mpi.name);
    assert_eq!(outcome.stdout, "", "{what}");
    let stderr = outcome.failure(2);
    assert_eq!(stderr.matches("isochron: ").count(), 1, "{what}: {stderr}");
    let rank = format!("rank {}", ranks - 1);
    for part in parts.iter().copied().chain([rank.as_str()]) {
        assert!(stderr.contains(part), "{what}: {part:?} in {stderr}");
    }
}

/// Returns the long options that the help of a command lists.
fn list_options(command: &str) -> Vec<String> {
    let mpi = open_mpi();
    let mut program = Command::new(&mpi.isochron);
    program.args([command, "--help"]);
    run(program, HANGS)
        .success()
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| format!("--{name}"))
        .collect()
}

/// Returns arguments of `mxm` that differ in `option` alone.
fn differ_in(option: &str) -> [String; 2] {
    let size = "--size 8";
    let value = match option {
        "--size" => return [size.to_owned(), "--size 9".to_owned()],
        "--m" | "--n" | "--k" => {
            return ["8", "9"].map(|value| {
                let others = ["--m", "--n", "--k"].into_iter();
                let others = others.filter(|name| *name != option);
                let others: Vec<_> = others.map(|name| format!("{name} 8")).collect();
                format!("{} {option} {value}", others.join(" "))
            });
        }
        "--a" => return ["a.npy", "x.npy"].map(|a| format!("--a {a} --b b.npy")),
        "--b" => return ["b.npy", "x.npy"].map(|b| format!("--a a.npy --b {b}")),
        "--c" | "--out" | "--trace" | "--save-plan" | "--load-plan" | "--platform" | "--report"
        | "--models" => "x.npy",
        "--plan" | "--json" | "--quiet" => "",
        "--alpha" | "--beta" | "--block" | "--panel" | "--epsilon" | "--max-iterations"
        | "--seed" | "--min-reps" | "--max-reps" | "--precision" | "--max-seconds"
        | "--stall-timeout" => "3",
        "--confidence" => "0.5",
        "--type" => "c32",
        "--op-a" | "--op-b" => "t",
        "--split" => "k",
        "--store" => "read",
        "--strategy" => "multi-cpm",
        "--fit" => "akima",
        "--partitioner" => "npa",
        "--layout" => "kl",
        "--grid" => "1x2",
        "--verify" => "exact",
        "--blas" => "embedded",
        "--group" => "node",
        _ => panic!("say here how {option} is given differently"),
    };
    [size.to_owned(), format!("{size} {option} {value}")]
}

#[test]
fn every_option_of_a_multiplication_must_agree() {
    let launches: Vec<(Mpi, usize)> =
        libraries().into_iter().flat_map(|mpi| RANKS.map(|ranks| (mpi.clone(), ranks))).collect();
    let mut launches_in_turn = launches.iter().cycle();
    let options = list_options("mxm");
    assert!(options.len() > 30, "{options:?}");
    for option in options {
        if option == "--help" || OF_A_NODE.contains(&option.as_str()) {
            continue;
        }
        let lines = differ_in(&option).map(|line| format!("isochron mxm {line}"));
        let n_launches = if is_whole() { launches.len() } else { 1 };
        for (mpi, ranks) in launches_in_turn.by_ref().take(n_launches) {
            let parts = ["all ranks need the same", &format!("{option} is ")];
            refused_on(mpi, *ranks, lines.each_ref().map(String::as_str), &parts);
        }
    }
}

#[test]
fn unlike_lines_are_refused_with_the_rank_and_both_values() {
    let mxm = "isochron mxm --size 64";
    let both = |options: [&str; 2]| options.map(|option| format!("{mxm} {option}"));
    for (lines, parts) in [
        (both(["--beta 1", "--beta 3"]), &["--beta is 1 on rank", ", 3 on rank"][..]),
        (both(["", "--sise 64"]), &["unexpected argument '--sise'"]),
        (
            [mxm, "isochron topology"].map(str::to_owned),
            &["command is isochron mxm on", "isochron topology on"],
        ),
        ([mxm, "isochron --version"].map(str::to_owned), &["mxm on", "--version on"]),
        (
            [mxm.to_owned(), format!("env ISOCHRON_LOG=isochron=loud {mxm}")],
            &["ISOCHRON_LOG = isochron=loud"],
        ),
        ([mxm.to_owned(), format!("env ISOCHRON_COMM=local {mxm}")], &["ISOCHRON_COMM"]),
        (
            [mxm.to_owned(), format!("env ISOCHRON_COMM=mpi {mxm}")],
            &["ISOCHRON_COMM is not given on rank", "mpi on rank"],
        ),
    ] {
        for mpi in libraries() {
            for ranks in mpi.take_turns(RANKS) {
                refused_on(&mpi, ranks, lines.each_ref().map(String::as_str), parts);
            }
        }
    }
}

#[test]
fn unlike_nodes_may_have_unlike_libraries_groups_logs_and_stores() {
    let plain = "isochron mxm --size 64";
    let others = "env ISOCHRON_LOG=error ISOCHRON_BLAS=embedded ISOCHRON_STORE=/not/there isochron mxm --size 64 --group node --blas embedded";
    for mpi in libraries() {
        let text = launch(&mpi, 2, [plain, others]).success();
        assert!(text.contains("verified"), "{}: {text}", mpi.name);
    }
}
