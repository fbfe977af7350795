//! `isochron app fft2d` and `isochron app dgemv`.

use isochron_hierarchy::{SplitOptions, split};
use isochron_tests::launch::{HANGS, Mpi, SOON, libraries, run};
use serde_json::Value;

use super::{Folder, isochron, json};

/// Recorded times of three ranks by rows. More rows may take less time.
const TIMES: [&[(u64, f64)]; 3] = [
    &[(16, 1.0), (32, 4.0), (48, 3.0)],
    &[(16, 2.95), (32, 3.5), (48, 3.2)],
    &[(16, 9.0), (32, 2.9)],
];

/// Rows that the recorded times divide.
const ROWS: u64 = 48;

/// The applications, and the times that each runs its kernel.
const APPLICATIONS: [(&str, f64); 2] = [("fft2d", 2.0), ("dgemv", 1.0)];

/// Writes a points file of each of the first `ranks` ranks.
fn write_times(folder: &Folder, ranks: usize) -> Vec<String> {
    TIMES[..ranks]
        .iter()
        .enumerate()
        .map(|(rank, times)| {
            let lines = times.iter().map(|(rows, time_s)| format!("{rows} {time_s}\n"));
            folder.write(&format!("rank{rank}.points"), &lines.collect::<String>())
        })
        .collect()
}

/// Runs an application with the recorded times, and returns its result, which is checked.
fn divide(mpi: &Mpi, application: &str, files: &[String], strategy: &str) -> Value {
    let line = format!(
        "app {application} --size {ROWS} --runs 2 --verify --json --strategy {strategy} --models"
    );
    let words: Vec<&str> = line.split(' ').chain(files.iter().map(String::as_str)).collect();
    let found = json(&mpi.isochron(files.len(), &words).success());
    assert_eq!(found["verified"], true, "{found}");
    found
}

fn list_rows(found: &Value) -> Vec<u64> {
    found["ranks"]
        .as_array()
        .expect("ranks")
        .iter()
        .map(|rank| rank["rows"].as_u64().expect("rows"))
        .collect()
}

#[test]
fn recorded_times_of_any_shape_divide_the_rows_and_the_result_is_right() {
    let folder = Folder::new();
    for (mpi, of_dgemv) in libraries().into_iter().zip([3, 2]) {
        for (ranks, rows, time_s) in [(2, vec![48, 0], 3.0), (3, vec![16, 0, 32], 2.9)] {
            let files = write_times(&folder, ranks);
            let applications = APPLICATIONS.iter();
            for (application, passes) in
                applications.filter(|(name, _)| *name == "fft2d" || ranks == of_dgemv)
            {
                let found = divide(&mpi, application, &files, "hpopta");
                assert_eq!(list_rows(&found), rows, "{found}");
                assert_eq!(found["predicted_s"], passes * time_s, "{found}");
                assert_eq!(found["ranks"][1]["predicted_s"], 0.0, "{found}");
                assert_eq!(found["wall"]["runs_s"].as_array().map(Vec::len), Some(2));
            }
        }
    }
}

#[test]
fn rows_are_balanced_by_smooth_models_or_divided_evenly() {
    let folder = Folder::new();
    for ((mpi, ranks), (application, _)) in libraries().into_iter().zip([2, 3]).zip(APPLICATIONS) {
        let files = write_times(&folder, ranks);
        let balanced = split(ROWS, &TIMES[..ranks], &SplitOptions::default()).expect("a division");
        let found = divide(&mpi, application, &files, "balanced");
        assert_eq!(list_rows(&found), balanced.units, "{found}");
        let found = divide(&mpi, application, &files, "even");
        assert_eq!(list_rows(&found), vec![ROWS / ranks as u64; ranks], "{found}");
    }
}

#[test]
fn measured_rows_add_up_and_the_next_command_takes_the_times_that_are_there() {
    let folder = Folder::new();
    let store = folder.path("store");
    let quick = "--granule 16 --min-reps 2 --max-reps 2 --runs 1 --verify --json";
    for ((mpi, ranks), (application, _)) in libraries().into_iter().zip([3, 2]).zip(APPLICATIONS) {
        let out = folder.path(application);
        // 30 is no multiple of the granule: sizes with a rest of 14 complete it.
        let line = format!("app {application} --size 30 {quick}");
        let words: Vec<&str> = line.split(' ').collect();
        let in_files = [&words[..], &["--out", &out]].concat();
        let mut files: Vec<Vec<String>> = Vec::new();
        for (words, known) in [(&in_files, "fresh"), (&in_files, "fresh"), (&words, "store")] {
            let mut command = mpi.command(ranks, &mpi.isochron, words);
            command.env("ISOCHRON_STORE", &store);
            let found = json(&run(command, HANGS).success());
            assert_eq!(found["verified"], true, "{found}");
            assert_eq!(found["ranks"][1]["known"], known, "{found}");
            // What the store has is not measured.
            assert_eq!(found["measured_with"].is_null(), known == "store", "{found}");
            assert_eq!(found["notices"], Value::Array(Vec::new()), "{found}");
            let rows = list_rows(&found);
            assert_eq!(rows.iter().sum::<u64>(), 30, "{found}");
            let sizes = [0, 14, 16, 30];
            assert!(rows.iter().all(|rows| sizes.contains(rows)), "{found}");
            let paths = found["ranks"].as_array().expect("ranks").iter();
            let paths = paths.filter_map(|rank| rank["file"].as_str());
            files.push(paths.map(|path| std::fs::read_to_string(path).expect("points")).collect());
        }
        assert!(files[0] == files[1] && files[0].len() == ranks, "{files:?}");
    }
}

#[test]
fn one_rank_divides_nothing() {
    for (application, _) in APPLICATIONS {
        for size in [1, 9] {
            let line =
                format!("app {application} --size {size} --strategy even --runs 1 --verify --json");
            let words: Vec<&str> = line.split(' ').collect();
            let found = json(&isochron(&words).success());
            assert_eq!((&found["verified"], list_rows(&found)), (&true.into(), vec![size]));
            assert_eq!(
                (&found["predicted_s"], &found["wall"]["ci_s"]),
                (&Value::Null, &Value::Null)
            );
        }
    }
}

#[test]
fn ranks_without_rows_wait() {
    let lines: Vec<String> =
        ["app fft2d --size 1", "app fft2d --size 2", "app dgemv --size 1", "app dgemv --size 2"]
            .iter()
            .flat_map(|line| {
                ["hpopta", "balanced", "even"]
                    .map(|strategy| format!("{line} --strategy {strategy}"))
            })
            .collect();
    for mpi in libraries() {
        for line in mpi.take_turns(&lines) {
            let reps = if line.ends_with("even") { "" } else { " --min-reps 2 --max-reps 2" };
            let line = format!("{line} --runs 1 --verify --json{reps} --store none");
            let found = json(&mpi.isochron(3, &line.split(' ').collect::<Vec<_>>()).success());
            assert_eq!(found["verified"], true, "{line}: {found}");
            let size = line.split(' ').nth(3).and_then(|size| size.parse::<u64>().ok());
            assert_eq!(Some(list_rows(&found).iter().sum()), size, "{line}: {found}");
        }
    }
}

#[test]
fn wrong_input_is_one_message_of_all_ranks() {
    let folder = Folder::new();
    let short = folder.write("short.points", "8 1\n16 2\n");
    let uneven = folder.write("uneven.points", "8 1\n16 2\n32 5\n");
    let empty = folder.write("empty.points", "# kernel: fft\n8 1 0\n");
    let other = folder.write("other.points", "# kernel: jacobi\n64 1\n");
    let narrow = folder.write("narrow.points", "# kernel: fft\n# width: 32\n64 1\n");
    let cases = [
        ("--size 0".to_owned(), "from 1 to"),
        ("--size 1000000000".to_owned(), "the ranks have memory for"),
        ("--size 64 --strategy fastest".to_owned(), "'fastest' for '--strategy"),
        (
            "--size 64 --strategy even --estimate mean".to_owned(),
            "--estimate: goes with --strategy hpopta alone, not with even",
        ),
        (
            "--size 64 --strategy even --granule 8".to_owned(),
            "--granule: strategy even measures nothing without --out",
        ),
        (
            format!("--size 64 --models {short} --store read"),
            "--store: nothing is measured with --models",
        ),
        (format!("--size 64 --models {short}"), "64 units, and the time functions reach 48"),
        (format!("--size 63 --models {uneven}"), "63 units are no sum of possible sizes"),
        (format!("--size 64 --models {empty}"), "empty.points: holds no measured points"),
        (format!("--size 64 --models {other}"), "its kernel is jacobi, and fft is needed"),
        (format!("--size 64 --models {narrow}"), "its width is 32, and 64 is needed"),
        (format!("--size 64 --models {short} {short}"), "2 files for 3 ranks"),
        ("--size 64 --models missing.points".to_owned(), "missing.points"),
        (format!("--size 64 --models {short} --granule 8"), "cannot be used with"),
    ];
    for mpi in libraries() {
        for (line, message) in mpi.take_turns(&cases) {
            let words: Vec<&str> = ["app", "fft2d"].into_iter().chain(line.split(' ')).collect();
            let stderr = run(mpi.command(3, &mpi.isochron, &words), SOON).failure(2);
            assert_eq!(stderr.matches(message).count(), 1, "{message:?} once in {stderr}");
        }
    }
}
