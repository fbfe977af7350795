//! `isochron balance`.

use isochron::store::StoreFolder;
use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};
use serde_json::Value;

use super::measure::compile;
use super::{Folder, json, read_json, refused, run_line, total};

/// Balances on two ranks with a model store of this library's runs.
fn balance(mpi: &Mpi, folder: &Folder, options: &str) -> Value {
    let line = format!(
        "balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 3 --json{options}"
    );
    let mut command = mpi.line_command(2, &line);
    command.env("ISOCHRON_STORE", folder.path(&format!("{}-store", mpi.name)));
    let found = json(&run(command, HANGS).success());
    assert_eq!(found["notices"], Value::Array(Vec::new()), "{found}");
    found
}

#[test]
fn every_unit_of_a_kernel_is_divided_and_the_next_command_starts_from_the_points() {
    let folder = Folder::new();
    for mpi in libraries() {
        let out = format!(" --out {}", folder.path(mpi.name));
        let mut points = 0;
        // Without files it starts from the model store.
        for (options, known) in [
            (&*out, "fresh".into()),
            (&out, Value::Null),
            ("", "store".into()),
            (" --store none", "fresh".into()),
        ] {
            let found = balance(&mpi, &folder, options);
            let resumed = if options.is_empty() || options.ends_with("none") { 0 } else { points };
            assert_eq!(found["resumed"], resumed, "{found}");
            let history = found["history"].as_array().expect("divisions");
            assert!((1..=3).contains(&history.len()), "{found}");
            for division in history {
                assert_eq!(total(&division["units"]), 301, "{found}");
            }
            let ranks = found["ranks"].as_array().expect("ranks");
            let units = ranks.iter().map(|rank| rank["units"].as_u64().expect("units"));
            assert_eq!((ranks.len(), units.sum::<u64>()), (2, 301), "{found}");
            // A rank without units has no point.
            let divided = history.iter().flat_map(|division| division["units"].as_array());
            points += divided.flatten().filter(|units| **units != 0).count();
            for rank in ranks {
                assert_eq!(rank["known"], known, "{found}");
            }
            if let Some(file) = ranks[1]["file"].as_str() {
                run_line(&format!("models show {file}")).success();
            }
        }
    }
}

/// Sleeps 10 microseconds for each unit, and 30 on the first rank. Thousands of units take longer than a busy machine
/// disturbs them.
pub const UNLIKE: &str = "const char *rank = getenv(\"OMPI_COMM_WORLD_RANK\");
if (!rank) rank = getenv(\"PMI_RANK\");
struct timespec pause = {0, (rank && rank[0] == '0' ? 30000L : 10000L) * (long)d};
nanosleep(&pause, 0);";

/// Reads the points of a file, a line each.
fn read_points(path: &str) -> Vec<String> {
    std::fs::read_to_string(path)
        .expect("a points file")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_balancing_that_is_killed_between_two_files_goes_on_from_the_points_in_them() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let kernel = compile(&folder, "unlike", UNLIKE);
    let out = folder.path("out");
    let line = format!(
        "balance {kernel} --units 9000 --min-reps 2 --max-reps 2 --max-iterations 4 --out {out} --json"
    );
    // Each division writes two files. The fourth, with the second point of the second rank, gets no name.
    let mut killed = mpi.line_command(2, &line);
    killed.env("ISOCHRON_TEST_KILLED_AT", "synced:4");
    assert_ne!(run(killed, HANGS).status, Some(0));
    let files = [0, 1].map(|rank| format!("{out}/rank{rank}-unlike.points"));
    let kept = files.each_ref().map(|file| read_points(file));
    assert_eq!([kept[0].len(), kept[1].len()], [2, 1], "{kept:?}");
    let found = json(&mpi.run_line(2, &line).success());
    assert_eq!(found["resumed"], 3, "{found}");
    // It does not begin with the even division again.
    assert_ne!(found["history"][0]["units"][0], 4500, "{found}");
    for division in found["history"].as_array().expect("divisions") {
        assert_eq!(total(&division["units"]), 9000, "{found}");
    }
    let points = files.each_ref().map(|file| read_points(file));
    for (points, kept) in points.iter().zip(&kept) {
        assert!(kept.iter().all(|point| points.contains(point)), "{points:?}");
    }
    // Both may have the same units again.
    assert!(points.concat().len() > kept.concat().len(), "{points:?}");
}

#[test]
fn a_balancing_that_is_killed_keeps_the_times_of_its_divisions() {
    let mpi = open_mpi();
    let folder = Folder::new();
    let kernel = compile(&folder, "unlike", UNLIKE);
    let line = format!(
        "balance {kernel} --units 9000 --min-reps 2 --max-reps 2 --max-iterations 4 --json"
    );
    let start = || {
        let mut command = mpi.line_command(2, &line);
        command.env("ISOCHRON_STORE", folder.path("store"));
        command
    };
    let mut command = start();
    // The head rank is killed when the store has the second division.
    command.env("ISOCHRON_TEST_KILLED_AT", "named:2");
    assert_ne!(run(command, HANGS).status, Some(0));
    let store = StoreFolder::new(folder.path("store").into(), false);
    let found = store.find_all().expect("a folder").into_iter();
    let sizes: Vec<usize> = found
        .flat_map(|segment| segment.runs.expect("a whole segment"))
        .map(|run| run.samples.len())
        .collect();
    assert_eq!(sizes, [2; 2], "of each rank");
    let found = json(&run(start(), HANGS).success());
    for rank in found["ranks"].as_array().expect("ranks") {
        assert_eq!(rank["known"], "store", "{found}");
    }
    // It does not begin with the even division again.
    assert_ne!(found["history"][0]["units"][0], 4500, "{found}");
}

#[test]
fn no_units_are_no_work_and_nonsense_is_refused() {
    let found = read_json("balance fft --units 0");
    assert_eq!(found["why"], "no-work", "{found}");
    assert_eq!(found["history"].as_array().map(Vec::len), Some(0), "{found}");
    for (line, parts) in [
        ("balance fft", &["--units"][..]),
        ("balance nothing --units 9", &["KERNEL = nothing", "naive-gemm)"]),
        ("balance mxm --units 9", &["only `isochron measure` has this kernel"]),
        ("balance fft --units 9 --blas mkl", &["--blas: goes with"]),
        ("balance fft --units 9 --partitioner best", &["best"]),
        ("balance fft --units 9 --partitioner hpopta", &["partitioner = hpopta", "measured times"]),
        ("balance fft --units 9 --epsilon 0", &["--epsilon", "above 0"]),
        ("balance fft --units 9 --out Cargo.toml", &["Cargo.toml", "is not a folder"]),
    ] {
        refused(line, &[], parts);
    }
}
