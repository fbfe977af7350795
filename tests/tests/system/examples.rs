//! The examples of embedding, as programs of their own.

use isochron_hierarchy::{SplitOptions, split};
use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};
use serde_json::Value;

use super::command::{Folder, json};

/// The example plans a product of its own matrices once and runs it ten times in three types, on two of three ranks.
#[test]
fn a_program_multiplies_its_own_matrices_in_its_own_communicator() {
    for mpi in libraries() {
        let program = mpi.isochron.with_file_name("examples").join("block_cyclic");
        let none: [&str; 0] = [];
        run(mpi.command(3, &program, &none), HANGS).success();
    }
}

/// Runs an application on ranks with the words of `line`; returns its document.
fn run_application(mpi: &Mpi, ranks: usize, line: &str) -> Value {
    let mut words = line.split_whitespace();
    let program = mpi.isochron.with_file_name(words.next().expect("a program"));
    let words: Vec<&str> = words.chain(["--json"]).collect();
    json(&run(mpi.command(ranks, &program, &words), HANGS).success())
}

/// Writes a platform with a node for each list of points: pairs of units of 8×8 elements and seconds.
fn write_points_platform(folder: &Folder, nodes: &[&[(u64, f64)]]) -> String {
    let mut text = "schema = 1\n".to_owned();
    for (rank, points) in nodes.iter().enumerate() {
        let lines: String = points.iter().map(|(d, t_s)| format!("{d} {t_s}\n")).collect();
        folder.write(&format!("node{rank}.points"), &format!("# block: 8\n{lines}"));
        text += &format!("[[node]]\n[[node.device]]\ncores = 1\npoints = \"node{rank}.points\"\n");
    }
    folder.write("nodes.toml", &text)
}

/// Seconds of a node of constant speed.
fn make_points(unit_s: f64) -> [(u64, f64); 2] {
    [(1, unit_s), (1000, 1000.0 * unit_s)]
}

const STRATEGIES: [&str; 4] =
    ["--strategy cpm", "--strategy fpm", "--strategy fpm --partitioner npa", "--strategy adaptive"];

#[test]
fn a_slow_rank_gets_fewer_rows_by_every_strategy_and_the_result_is_the_same() {
    let folder = Folder::new();
    let [fast, slow] = [1e-4, 4e-4].map(make_points);
    let platform = write_points_platform(&folder, &[&fast, &fast, &slow]);
    let line = "jacobi --size 90 --tolerance 0 --max-iterations 40";
    let mpi = open_mpi();
    let alone = run_application(&mpi, 1, line);
    for mpi in libraries() {
        for strategy in mpi.take_turns(STRATEGIES) {
            let found =
                run_application(&mpi, 3, &format!("{line} --platform {platform} {strategy}"));
            assert_eq!(found["residual"], alone["residual"], "{found}");
            let history = found["history"].as_array().expect("iterations");
            let moves: Vec<usize> = (1..)
                .zip(history)
                .filter(|(_, iteration)| iteration["moved"] != 0)
                .map(|(number, _)| number)
                .collect();
            assert!((1..=5).contains(&moves.len()) && moves[0] <= 20, "{strategy}: {moves:?}");
            // The last rank is four times slower: 40, 40 and 10 rows take the same time.
            let rows = list_numbers(&history[39]["rows"]);
            assert_eq!((history.len(), rows.iter().sum::<u64>()), (40, 90), "{found}");
            let far = rows.iter().zip([40, 40, 10]).map(|(&rows, fair)| rows.abs_diff(fair));
            assert!(far.max() <= Some(2), "{strategy}: {rows:?}");
        }
    }
}

fn list_numbers(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
}

/// Seconds of a node that pages behind 40 units: with the fourth power of the size.
fn make_cliff(unit_s: f64) -> Vec<(u64, f64)> {
    let paged = (1..=16)
        .map(|step| 40 + 8 * step)
        .map(|d| (d, d as f64 * unit_s * (d as f64 / 40.0).powi(4)));
    [1, 20, 40].map(|d| (d, d as f64 * unit_s)).into_iter().chain(paged).collect()
}

/// Returns the seconds of the slowest rank in each iteration.
fn list_longest(found: &Value) -> Vec<f64> {
    let times = found["history"]
        .as_array()
        .expect("iterations")
        .iter()
        .filter_map(|iteration| iteration["times_s"].as_array());
    times.map(|times| times.iter().filter_map(Value::as_f64).fold(0.0, f64::max)).collect()
}

#[test]
fn at_a_memory_cliff_constant_speeds_swing_and_speed_functions_settle() {
    let folder = Folder::new();
    let (cliff, fast, slow) = (make_cliff(5e-5), make_points(1e-4), make_points(1.5e-4));
    let platform = write_points_platform(&folder, &[&cliff, &fast, &slow]);
    // 144 units in all: with 48 of them the first rank pages.
    let line = format!("jacobi --size 96 --tolerance 0 --max-iterations 16 --platform {platform}");
    for mpi in libraries() {
        let swinging = run_application(&mpi, 3, &format!("{line} --strategy cpm"));
        let last = &swinging["history"].as_array().expect("iterations")[8..15];
        assert!(last.iter().all(|one| one["moved"].as_u64() > Some(9)), "{swinging}");
        let swinging = list_longest(&swinging);
        for partitioner in mpi.take_turns(["gpa", "npa"]) {
            let settled = format!("{line} --strategy fpm --partitioner {partitioner}");
            let settled = run_application(&mpi, 3, &settled);
            let last = &settled["history"].as_array().expect("iterations")[12..];
            assert!(last.iter().all(|one| one["moved"] == 0), "{settled}");
            let settled = list_longest(&settled);
            // All three are equal at about 50 units of the first one.
            assert!(settled[15] < 0.007, "{settled:?}");
            assert!(settled[8..].iter().sum::<f64>() < 0.5 * swinging[8..].iter().sum::<f64>());
        }
    }
}

/// Recorded times of three ranks by rows. More rows may take less time.
const TIMES: [&[(u64, f64)]; 3] = [
    &[(16, 1.0), (32, 4.0), (48, 3.0)],
    &[(16, 2.95), (32, 3.5), (48, 3.2)],
    &[(16, 9.0), (32, 2.9)],
];

#[test]
fn recorded_times_of_any_shape_divide_rows_and_the_result_is_right() {
    let folder = Folder::new();
    let balanced = split(48, &TIMES, &SplitOptions::default()).expect("a division").units;
    let mut line = "--size 48 --runs 2 --verify --models".to_owned();
    for (rank, times) in TIMES.iter().enumerate() {
        let lines: String =
            times.iter().map(|(rows, time_s)| format!("{rows} {time_s}\n")).collect();
        line += &format!(" {}", folder.write(&format!("rank{rank}.points"), &lines));
    }
    for mpi in libraries() {
        for (program, passes) in mpi.take_turns([("fft2d", 2.0), ("dgemv", 1.0)]) {
            for (strategy, rows) in
                [("hpopta", vec![16, 0, 32]), ("balanced", balanced.clone()), ("even", vec![16; 3])]
            {
                let line = format!("{program} {line} --strategy {strategy}");
                let found = run_application(&mpi, 3, &line);
                let ranks = found["ranks"].as_array().expect("ranks").iter();
                let divided: Vec<u64> = ranks.filter_map(|rank| rank["rows"].as_u64()).collect();
                assert_eq!(divided, rows, "{found}");
                if strategy == "hpopta" {
                    assert_eq!(found["predicted_s"], passes * 2.9, "{found}");
                }
                assert_eq!(found["wall"]["runs_s"].as_array().map(Vec::len), Some(2));
            }
        }
    }
}

#[test]
fn ranks_without_rows_wait() {
    let mut lines: Vec<String> = Vec::new();
    for size in 1..=2 {
        lines.extend(STRATEGIES.map(|strategy| format!("jacobi --size {size} {strategy}")));
        for program in ["fft2d", "dgemv"] {
            lines.extend(["hpopta", "balanced", "even"].map(|strategy| {
                format!("{program} --size {size} --runs 1 --verify --strategy {strategy}")
            }));
        }
    }
    for mpi in libraries() {
        for line in mpi.take_turns(&lines) {
            run_application(&mpi, 3, line);
        }
    }
}
