//! Plans on the command line: printed, kept, used again, and refused where they do not belong.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::path::Path;

use isochron::multiply::Split;
use isochron::session::{Report, SavedPlan};
use isochron_hierarchy::predict::Way;
use isochron_tests::launch::{Mpi, SOON, libraries, run};
use tempfile::TempDir;

const INPUT: i32 = 2;

fn mxm<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["mxm"], arguments].concat()
}

fn keep_plan(mpi: &Mpi, shape: &[&str], path: &Path) -> SavedPlan {
    let keep = ["--plan", "--json", "--save-plan", path.to_str().unwrap()];
    let printed = mpi.isochron(2, &mxm(&[shape, &keep].concat())).success();
    let kept: SavedPlan = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<SavedPlan>(&printed).unwrap(), kept);
    kept
}

#[test]
fn a_plan_is_kept_and_used_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    for mpi in libraries() {
        let shape = [
            "--m", "300", "--n", "210", "--k", "500", "--op-a", "t", "--split", "c",
        ];
        let kept = keep_plan(&mpi, &shape, &path);
        assert_eq!((kept.nodes.len(), kept.split), (2, Split::C));
        let use_again = [
            "--load-plan",
            path.to_str().unwrap(),
            "--verify",
            "exact",
            "--json",
        ];
        let report = mpi.isochron(2, &mxm(&use_again)).success();
        let report: Report = serde_json::from_str(&report).unwrap();
        assert_eq!((report.m, report.n, report.k), (300, 210, 500));
        assert_eq!(report.verified, Some(true));
        for (node, planned) in report.nodes.iter().zip(&kept.nodes) {
            assert_eq!((node.row, node.col), (planned.row, planned.col));
            assert_eq!((node.rows, node.cols), (planned.rows, planned.cols));
            assert_eq!(node.measured.measurements, 0);
        }
    }
}

#[test]
fn k_is_divided_where_that_is_asked_for_or_pays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    for mpi in libraries() {
        // A and B are 250 times as large as C.
        let long = ["--m", "64", "--n", "64", "--k", "16000", "--block", "32"];
        let kept = keep_plan(&mpi, &long, &path);
        assert!(matches!(kept.split, Split::K(_)), "{:?}", kept.split);
        assert_eq!(kept.way(), Way::K);
        assert_eq!(kept.candidates[0].way, Way::K, "{:?}", kept.candidates);
        let asked = mxm(&[
            "--size", "100", "--split", "k", "--block", "8", "--verify", "exact",
        ]);
        let text = mpi.isochron(3, &asked).success();
        assert!(
            text.contains("k divided") && text.contains("verified"),
            "{text}"
        );
    }
}

#[test]
fn a_plan_says_what_it_was_chosen_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    for mpi in libraries() {
        let thin = ["--m", "4096", "--n", "64", "--k", "64", "--block", "32"];
        let kept = keep_plan(&mpi, &thin, &path);
        assert!(!kept.candidates.is_empty());
        let seconds: Vec<f64> = kept.candidates.iter().map(|way| way.wall_s).collect();
        assert!(seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
        assert!(kept.candidates.iter().any(|way| way.way == kept.way()));
        // Read back it says the same in words, and hands it to the report.
        let file = path.to_str().unwrap();
        let text = mpi.isochron(2, &mxm(&["--load-plan", file, "--plan"]));
        let text = text.success();
        assert!(text.contains("predicted with messages: "), "{text}");
        let report = mpi.isochron(2, &mxm(&["--load-plan", file, "--json"]));
        let report: Report = serde_json::from_str(&report.success()).unwrap();
        assert_eq!(
            (report.way, &report.candidates),
            (kept.way(), &kept.candidates)
        );
        // One of before there were candidates.
        let mut older = serde_json::to_value(&kept).unwrap();
        older.as_object_mut().unwrap().remove("candidates");
        std::fs::write(&path, older.to_string()).unwrap();
        let text = mpi.isochron(2, &mxm(&["--load-plan", file, "--plan"]));
        let text = text.success();
        assert!(!text.contains("predicted with messages: "), "{text}");
        let asked = mxm(&["--size", "100", "--split", "c", "--block", "8", "--plan"]);
        let text = mpi.isochron(2, &asked).success();
        assert!(!text.contains("predicted with messages: "), "{text}");
    }
}

#[test]
fn plans_for_something_else_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let mpi = &libraries()[0];
    keep_plan(mpi, &["--size", "100"], &path);
    let name = path.to_str().unwrap();
    let refused = |ranks, arguments: &[&str], reason: &str| {
        let command = mpi.command(ranks, &mpi.isochron, &mxm(arguments));
        let error = run(command, SOON).failure(INPUT);
        assert_eq!(
            error.matches(reason).count(),
            1,
            "{reason:?} once in {error}"
        );
    };
    refused(
        3,
        &["--load-plan", name],
        "it is for 2 ranks, and there are 3",
    );
    refused(
        2,
        &["--load-plan", name, "--size", "99"],
        "it is for m = 100",
    );
    let missing = folder.path().join("missing.json");
    refused(
        2,
        &["--load-plan", missing.to_str().unwrap()],
        "missing.json",
    );
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    refused(2, &["--load-plan", name], "no plan: EOF");
    std::fs::write(&path, text.replace("\"schema\": 1", "\"schema\": 9")).unwrap();
    refused(2, &["--load-plan", name], "it is of version 9");
    let width = text
        .lines()
        .find(|line| line.contains("\"kernel_width\""))
        .unwrap();
    std::fs::write(&path, text.replace(width, "\"kernel_width\": 0,")).unwrap();
    refused(2, &["--load-plan", name], "its measurements make no sense");
    std::fs::write(&path, text.replace("\"columns\": ", "\"columns\": 1")).unwrap();
    refused(2, &["--load-plan", name], "the slices have");
}
