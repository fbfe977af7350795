//! Plans on the command line: printed, kept, used again, and refused where they do not belong.

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
            assert_eq!(node.part, planned.part);
            assert_eq!(node.measured.measurements, 0);
        }
    }
}

#[test]
fn k_is_divided_where_that_is_asked_for_or_pays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let alike = folder.path().join("alike.toml");
    let node = "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npace = 4.0\n";
    std::fs::write(&alike, format!("schema = 1\n{node}{node}")).unwrap();
    let alike = alike.to_str().unwrap();
    for mpi in libraries() {
        // A and B are 6250 times as large as C, and the arithmetic takes a hundred times as long as a message that waits for its
        // turn. Whoever else has the cores, two alike nodes are alike: their pace is one of CPU time.
        let long = [
            "--m",
            "128",
            "--n",
            "128",
            "--k",
            "400000",
            "--block",
            "32",
            "--platform",
            alike,
        ];
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

/// A and B of 150 GB each, which no machine that runs the tests has, and a C of half a megabyte.
#[test]
fn a_and_b_that_do_not_fit_are_planned_in_parts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let mpi = &libraries()[0];
    let long = ["--m", "256", "--n", "256", "--k", "75000000"];
    let kept = keep_plan(mpi, &long, &path);
    let whole = 2 * 8 * 256 * 75_000_000;
    let needed: u64 = kept.nodes.iter().map(|node| node.memory_bytes).sum();
    assert!(kept.k_parts > 4 && needed < whole / 2, "{kept:?}");
    let text = mpi.isochron(2, &mxm(&[&["--plan"], &long[..]].concat()));
    let text = text.success();
    assert!(
        text.contains(&format!("in {} parts of k", kept.k_parts)),
        "{text}"
    );
    // Where k itself is divided, A and B stay where they are.
    let by_k = [&long[..], &["--split", "k"]].concat();
    run(mpi.command(2, &mpi.isochron, &mxm(&by_k)), SOON).failure(INPUT);
}

/// Whole numbers in files of both formats, read whole and in parts: the product is the same.
#[test]
fn parts_of_files_are_multiplied_as_the_whole_is() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (a, b, plan) = (path("a.npy"), path("b.mtx"), path("plan.json"));
    let [whole, in_parts] = ["whole.npy", "parts.npy"].map(path);
    let mpi = &libraries()[0];
    let multiply = |arguments: &[&str]| {
        let all = [&["--verify", "exact", "--json"], arguments].concat();
        let report = mpi.isochron(2, &mxm(&all)).success();
        let report: Report = serde_json::from_str(&report).unwrap();
        assert_eq!(report.verified, Some(true));
        report
    };
    multiply(&["--m", "500", "--n", "90", "--k", "3", "--out", &a]);
    multiply(&["--m", "500", "--n", "70", "--k", "3", "--out", &b]);
    let files = ["--a", &a, "--b", &b];
    let how = ["--op-a", "t", "--split", "c", "--panel", "60"];
    let keep = ["--save-plan", &plan, "--out", &whole];
    let report = multiply(&[&files[..], &how, &keep].concat());
    assert!(report.k_parts == 1 && report.nodes.iter().all(|node| node.parts_s == 0.0));
    let text = std::fs::read_to_string(&plan).unwrap();
    let more = text.replace("\"k_parts\": 1", "\"k_parts\": 4");
    assert_ne!(more, text);
    std::fs::write(&plan, more).unwrap();
    let again = ["--op-a", "t", "--load-plan", &plan, "--out", &in_parts];
    let report = multiply(&[&files[..], &again].concat());
    assert!(report.k_parts == 4 && report.nodes.iter().all(|node| node.parts_s > 0.0));
    let [whole, in_parts] = [whole, in_parts].map(|path| std::fs::read(path).unwrap());
    assert!(whole == in_parts, "the products differ");
}

#[test]
fn a_plan_says_what_it_was_chosen_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    for mpi in libraries() {
        let long = ["--m", "64", "--n", "64", "--k", "400000", "--block", "32"];
        let kept = keep_plan(&mpi, &long, &path);
        assert!(kept.candidates.len() > 1);
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
