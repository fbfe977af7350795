//! Plans on the command line: printed, kept, used again, and refused where they do not belong.

use std::fs;

use isochron::plan::Plan;
use isochron::report::Report;
use isochron_devices::{Blas as _, EmbeddedBlas};
use isochron_hierarchy::layout::Way;
use isochron_tests::launch::{Mpi, SOON, cluster_configs, libraries, open_mpi, run};
use serde_json::{Value, json};

use crate::command::Folder;

const INPUT: i32 = 2;

fn keep_plan(mpi: &Mpi, shape: &str, path: &str) -> Plan {
    let line = format!("mxm {shape} --plan --json --save-plan {path}");
    let printed = mpi.run_line(2, &line).success();
    let kept: Plan = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&printed).unwrap(), kept);
    kept
}

fn multiply_exactly(mpi: &Mpi, options: &str) -> Report {
    let line = format!("mxm --verify exact --json {options}");
    let report: Report = serde_json::from_str(&mpi.run_line(2, &line).success()).unwrap();
    assert_eq!(report.verified, Some(true));
    report
}

#[test]
fn a_plan_is_kept_and_used_again() {
    let folder = Folder::new();
    let path = folder.path("plan.json");
    for mpi in libraries() {
        // A run that learns would change the division.
        let shape = "--m 300 --n 210 --k 500 --op-a t --split c --strategy fpm";
        let kept = keep_plan(&mpi, shape, &path);
        assert_eq!((kept.nodes().len(), kept.division().shares()), (2, None));
        let report = multiply_exactly(&mpi, &format!("--load-plan {path}"));
        assert_eq!((report.m, report.n, report.k), (300, 210, 500));
        for (node, planned) in report.nodes.iter().zip(&kept.predicted().unwrap().nodes) {
            assert_eq!(node.part, planned.part);
            assert_eq!(node.measured.measurements, 0);
        }
        assert_eq!((report.balance_s, &*report.strategy), (0.0, "fpm"));
        let loaded = report.loaded.expect("a plan of a file");
        assert_eq!((&loaded.file, &loaded.made), (&path, kept.made()));
    }
}

#[test]
fn k_is_divided_where_that_is_asked_for_or_pays() {
    let folder = Folder::new();
    let path = folder.path("plan.json");
    let points = cluster_configs().join("models/cliff-60k.points");
    let node =
        format!("[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = {points:?}\n");
    let alike = folder.write("alike.toml", &format!("schema = 1\n{node}{node}"));
    for mpi in libraries() {
        // A and B are 6250 times as large as C. The times of the arithmetic are those of a file, 1.7 s either way, so the
        // messages alone decide, however slow the links seem: 400 MB, or 128 KB if k is divided.
        // A run that learns wants a clearer advantage.
        let long = "--strategy fpm --m 128 --n 128 --k 400000 --block 32 --platform";
        let kept = keep_plan(&mpi, &format!("{long} {alike}"), &path);
        assert!(kept.division().shares().is_some(), "{kept:?}");
        assert_eq!(kept.way(), Way::K);
        assert_eq!(kept.decision().candidates[0].way, Way::K, "{:?}", kept.decision().candidates);
        let asked = "mxm --size 100 --split k --block 8 --verify exact";
        let text = mpi.run_line(3, asked).success();
        assert!(text.contains("k divided") && text.contains("verified"), "{text}");
    }
}

/// A and B of 150 GB each, which no machine that runs the tests has, and a C of half a megabyte.
#[test]
fn a_and_b_that_do_not_fit_are_planned_in_parts() {
    let folder = Folder::new();
    let mpi = &open_mpi();
    let long = "--m 256 --n 256 --k 75000000";
    let kept = keep_plan(mpi, long, &folder.path("plan.json"));
    let whole = 2 * 8 * 256 * 75_000_000;
    let needed: u64 = kept.predicted().unwrap().nodes.iter().map(|node| node.memory_bytes).sum();
    assert!(kept.k_parts() > 4 && needed < whole / 2, "{kept:?}");
    let text = mpi.run_line(2, &format!("mxm --plan {long}")).success();
    assert!(text.contains(&format!("in {} parts of k", kept.k_parts())), "{text}");
    // Where k itself is divided, A and B stay where they are.
    run(mpi.line_command(2, &format!("mxm {long} --split k")), SOON).failure(INPUT);
}

/// Whole numbers in files of both formats, read whole and in parts: the product is the same.
#[test]
fn parts_of_files_are_multiplied_as_the_whole_is() {
    let folder = Folder::new();
    let [a, b, plan, whole, in_parts] =
        ["a.npy", "b.mtx", "plan.json", "whole.npy", "parts.npy"].map(|name| folder.path(name));
    let mpi = &open_mpi();
    multiply_exactly(mpi, &format!("--m 500 --n 90 --k 3 --out {a}"));
    multiply_exactly(mpi, &format!("--m 500 --n 70 --k 3 --out {b}"));
    let files = format!("--a {a} --b {b} --op-a t");
    let keep = format!("{files} --split c --panel 60 --save-plan {plan} --out {whole}");
    let report = multiply_exactly(mpi, &keep);
    assert!(report.k_parts == 1 && report.nodes.iter().all(|node| node.parts_s == 0.0));
    let text = fs::read_to_string(&plan).unwrap();
    let more = text.replace("\"k_parts\": 1", "\"k_parts\": 4");
    assert_ne!(more, text);
    fs::write(&plan, more).unwrap();
    let report = multiply_exactly(mpi, &format!("{files} --load-plan {plan} --out {in_parts}"));
    assert!(report.k_parts == 4 && report.nodes.iter().all(|node| node.parts_s > 0.0));
    let [whole, in_parts] = [whole, in_parts].map(|path| fs::read(path).unwrap());
    assert!(whole == in_parts, "the products differ");
}

/// Writes a platform of two alike nodes that need long, whatever else runs: no messages are so slow that one works alone.
fn write_slow_platform(folder: &Folder) -> String {
    folder.write("slow.points", "# block: 8\n1 0.004\n64 0.256\n");
    let node = "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = \"slow.points\"\n";
    folder.write("slow.toml", &format!("schema = 1\n{node}{node}"))
}

#[test]
fn a_plan_says_what_it_was_chosen_from() {
    let folder = Folder::new();
    let (path, slow) = (folder.path("plan.json"), write_slow_platform(&folder));
    for mpi in libraries() {
        let kept = keep_plan(&mpi, &format!("--size 64 --block 8 --platform {slow}"), &path);
        let candidates = &kept.decision().candidates;
        assert!(candidates.len() > 1, "{kept:?}");
        let seconds: Vec<f64> = candidates.iter().map(|way| way.wall_s).collect();
        assert!(seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
        assert!(candidates.iter().any(|way| way.way == kept.way()));
        // Read back it says the same in words, and hands it to the report.
        let load = format!("--load-plan {path} --platform {slow}");
        let text = mpi.run_line(2, &format!("mxm {load} --plan")).success();
        assert!(text.contains("predicted with messages: "), "{text}");
        let report = multiply_exactly(&mpi, &load);
        assert_eq!((report.way, &report.candidates), (kept.way(), candidates));
    }
}

/// Multiplies every number at `path` in a document, of which `*` stands for all elements of a list.
fn scale_numbers(document: &mut Value, path: &[&str], factor: f64) {
    match (path, document) {
        ([], number) => *number = json!(number.as_f64().expect("a number") * factor),
        (["*", rest @ ..], Value::Array(list)) => {
            list.iter_mut().for_each(|value| scale_numbers(value, rest, factor));
        }
        ([key, rest @ ..], document) => scale_numbers(&mut document[*key], rest, factor),
    }
}

#[test]
fn a_loaded_plan_that_takes_ten_times_its_prediction_is_said() {
    let folder = Folder::new();
    let (path, platform) = (folder.path("plan.json"), write_slow_platform(&folder));
    let shape = format!("--m 64 --n 64 --k 24 --block 8 --platform {platform}");
    for (mpi, strategy) in libraries().into_iter().zip(["fpm", "adaptive"]) {
        keep_plan(&mpi, &format!("{shape} --strategy {strategy}"), &path);
        let plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for (factor, is_said) in [(0.5, false), (0.05, true)] {
            let mut faster = plan.clone();
            let decision = &mut faster["decision"];
            scale_numbers(decision, &["candidates", "*", "wall_s"], factor);
            scale_numbers(decision, &["balance", "times_s", "*"], factor);
            fs::write(&path, faster.to_string()).unwrap();
            let options = format!("--load-plan {path} --platform {platform} --store none");
            let notices = multiply_exactly(&mpi, &options).notices;
            let told = notices.iter().any(|notice| {
                notice.starts_with(&format!("the plan in {path} predicts "))
                    && notice.contains("times as long: devices or links")
            });
            assert_eq!(told, is_said, "{factor}: {notices:?}");
        }
    }
}

/// Expects that `mxm` on this number of ranks refuses its plan for `reason`, which it says once.
fn refuse_plan(mpi: &Mpi, ranks: usize, options: &str, reason: &str) {
    let command = mpi.line_command(ranks, &format!("mxm --load-plan {options}"));
    let error = run(command, SOON).failure(INPUT);
    let told = error.matches(reason).count();
    assert_eq!(told, 1, "{}: {reason:?} once in {error}", mpi.name);
}

/// Writes a plan with another value at this place of its document.
fn write_changed(document: &Value, place: &str, value: Value, path: &str) {
    let mut changed = document.clone();
    *changed.pointer_mut(place).expect(place) = value;
    fs::write(path, changed.to_string()).unwrap();
}

/// Makes a plan of a small product on 2 ranks, with more options, and returns its document.
fn make_document(mpi: &Mpi, more: &str, path: &str) -> Value {
    let shape = "--size 100 --block 8 --panel 20 --split c --strategy homogeneous";
    keep_plan(mpi, &format!("{shape} {more}"), path);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_plan_for_another_multiplication_is_refused() {
    let folder = Folder::new();
    let path = folder.path("plan.json");
    for mpi in libraries() {
        make_document(&mpi, "", &path);
        for (option, reason) in mpi.take_turns([
            ("--size 99", "it is for m = 100, n = 100, k = 100, not for m = 99"),
            ("--block 9", "it is for blocks of 8, not for blocks of 9"),
            ("--panel 21", "it is for panels of 20, not of 21"),
            ("--type f32", "it is for matrices of f64, not for matrices of f32"),
            ("--op-a t", "it is for operation n on A, not for operation t on A"),
            ("--split k", "it divides c, not k"),
            ("--strategy fpm", "it is of homogeneous and br, not of fpm and br"),
            ("--min-reps 3", "min-reps = 3: with a plan"),
        ]) {
            refuse_plan(&mpi, 2, &format!("{path} {option}"), reason);
        }
        refuse_plan(&mpi, 3, &path, "it is for 2 ranks, and there are 3");
        let same = "--plan --quiet --size 100 --block 8 --panel 20 --type f64 --op-a n --split c";
        mpi.run_line(2, &format!("mxm --load-plan {path} {same}")).success();
    }
}

#[test]
fn a_plan_that_is_broken_or_for_other_devices_is_refused() {
    let folder = Folder::new();
    let path = folder.path("plan.json");
    for mpi in libraries() {
        let document = make_document(&mpi, "", &path);
        let device = document["nodes"][1]["devices"][0]["name"].as_str().unwrap();
        let names = format!("it is for the devices gone of rank 1, which has {device}");
        let blas = format!("device {device} of rank 1 is for BLAS B 1, and has ");
        for (place, value, reason) in mpi.take_turns([
            ("/nodes/1/host", json!("elsewhere"), "rank 1 is for host elsewhere, and is on "),
            ("/nodes/1/name", json!("fast"), "rank 1 is for node fast, and is no node"),
            ("/nodes/1/devices/0/name", json!("gone"), &names),
            ("/nodes/1/devices/0/blas", json!("B 1"), &blas),
            ("/schema", json!(1), "it is of version 1, not 4"),
            ("/schema", json!("2"), "no plan: invalid type"),
            ("/problem/block", json!(0), "block = 0"),
            ("/tuning/k_parts", json!(99), "it holds A and B in 99 parts of k, not 1 to 5"),
            ("/nodes/1/devices/0/columns", json!(101), "the slices of rank 1 have 101 columns"),
            ("/nodes", json!([]), "it has 0 nodes, and parts for 2"),
        ]) {
            write_changed(&document, place, value, &path);
            refuse_plan(&mpi, 2, &path, reason);
        }
        let text = document.to_string();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        refuse_plan(&mpi, 2, &path, "plan.json: no plan: EOF");
        fs::remove_file(&path).unwrap();
        refuse_plan(&mpi, 2, &path, "plan.json: ");
    }
}

/// Returns the BLAS of every device of a run.
fn list_blas(report: &Report) -> Vec<&str> {
    report.nodes.iter().flat_map(|node| &node.devices).map(|device| &*device.blas).collect()
}

#[test]
fn a_plan_brings_its_blas() {
    let folder = Folder::new();
    let path = folder.path("plan.json");
    let embedded = EmbeddedBlas.name();
    for mpi in libraries() {
        let document = make_document(&mpi, "--blas openblas", &path);
        let openblas = document["nodes"][0]["devices"][0]["blas"].as_str().unwrap();
        // Not even the ranks of one run need the same library.
        write_changed(&document, "/nodes/1/devices/0/blas", json!(embedded), &path);
        let report = multiply_exactly(&mpi, &format!("--load-plan {path}"));
        assert_eq!(list_blas(&report), [openblas, embedded]);
        let refusal = format!("rank 1 is for BLAS {embedded}, and has {openblas}");
        refuse_plan(&mpi, 2, &format!("{path} --blas openblas"), &refusal);
    }
}
