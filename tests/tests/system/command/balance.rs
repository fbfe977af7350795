//! `isochron balance`.

use isochron_tests::launch::libraries;

use super::{Folder, isochron, json, refused, total};

#[test]
fn every_unit_of_a_kernel_is_divided_and_the_next_command_starts_from_the_points() {
    let folder = Folder::new();
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line = format!(
            "balance jacobi --units 301 --width 64 --max-reps 3 --max-iterations 3 --out {out} --json"
        );
        let words: Vec<&str> = line.split(' ').collect();
        let mut points = 0;
        for _ in 0..2 {
            let found = json(&mpi.isochron(2, &words).success());
            assert_eq!(found["resumed"], points, "{found}");
            let history = found["history"].as_array().expect("divisions");
            assert!((1..=3).contains(&history.len()), "{found}");
            for division in history {
                assert_eq!(total(&division["units"]), 301, "{found}");
            }
            let ranks = found["ranks"].as_array().expect("ranks");
            let units = ranks
                .iter()
                .map(|rank| rank["units"].as_u64().expect("units"));
            assert_eq!((ranks.len(), units.sum::<u64>()), (2, 301), "{found}");
            // A rank without units has no point.
            let divided = history
                .iter()
                .flat_map(|division| division["units"].as_array());
            points += divided.flatten().filter(|units| **units != 0).count();
            let file = ranks[1]["file"].as_str().expect("a file");
            isochron(&["model", file]).success();
        }
    }
}

#[test]
fn no_units_are_no_work_and_nonsense_is_refused() {
    let found = json(&isochron(&["balance", "fft", "--units", "0", "--json"]).success());
    assert_eq!(
        (&found["why"], found["history"].as_array().map(Vec::len)),
        (&"no-work".into(), Some(0))
    );
    refused("balance fft", &[], &["--units"]);
    refused(
        "balance nothing --units 9",
        &[],
        &["KERNEL = nothing", "naive-gemm)"],
    );
    refused(
        "balance mxm --units 9",
        &[],
        &["only `isochron measure` has this kernel"],
    );
    refused("balance fft --units 9 --partitioner best", &[], &["best"]);
    refused(
        "balance fft --units 9 --epsilon 0",
        &[],
        &["--epsilon", "above 0"],
    );
    refused(
        "balance fft --units 9 --out Cargo.toml",
        &[],
        &["Cargo.toml", "is not a folder"],
    );
}
