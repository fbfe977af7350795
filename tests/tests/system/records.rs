//! Runs that learn: recorded, repeated, and refused where a record does not belong.

use std::fs;
use std::path::Path;

use isochron::product::RunRecord;
use isochron::report::Report;
use isochron_hierarchy::learn::ChangeReason;
use isochron_tests::launch::{HANGS, Mpi, SOON, libraries, run};
use serde_json::{Value, json};

use crate::command::Folder;

const INPUT: i32 = 2;

/// Two nodes with three devices, each so slow that no message counts, whatever else the machine does.
pub const SLOW: &str = "--platform @slow.toml --m 64 --n 64 --k 96 --block 8 --panel 8";

/// Makes a folder with the platform of [`SLOW`].
pub fn make_folder() -> Folder {
    let folder = Folder::new();
    folder.write("s.points", "# block: 8\n1 0.002\n64 0.128\n");
    let device =
        |name| format!("[[node.device]]\nname = \"{name}\"\ncores = 1\npoints = \"s.points\"\n");
    let (a, b, c) = (device("a"), device("b"), device("c"));
    folder.write("slow.toml", &format!("schema = 1\n[[node]]\n{a}{b}[[node]]\n{c}"));
    folder
}

/// Returns the words of an `mxm` line, with the paths of the files `@NAME`.
fn words(folder: &Folder, line: &str) -> Vec<String> {
    let words = line.split_whitespace();
    let words = words.map(|word| match word.strip_prefix('@') {
        Some(name) => folder.path(name),
        None => word.to_owned(),
    });
    ["mxm".to_owned()].into_iter().chain(words).collect()
}

fn multiply(mpi: &Mpi, folder: &Folder, line: &str) -> Report {
    multiply_forced(mpi, folder, line, 0)
}

/// Multiplies with a change of the division every so many steps; 0 for none that does not pay.
fn multiply_forced(mpi: &Mpi, folder: &Folder, line: &str, every: u64) -> Report {
    let line = format!("{line} --verify exact --json");
    let report = run_forced(mpi, folder, &line, every);
    let report: Report = serde_json::from_str(&report).expect("a report");
    assert_eq!(report.verified, Some(true));
    report
}

fn run_forced(mpi: &Mpi, folder: &Folder, line: &str, every: u64) -> String {
    let mut command = mpi.command(2, &mpi.isochron, &words(folder, line));
    command.env("ISOCHRON_TEST_FORCED_CHANGES", every.to_string());
    run(command, HANGS).success()
}

/// Expects that `mxm` on 2 ranks refuses its input for `reason`, which it says once.
fn refuse(mpi: &Mpi, folder: &Folder, line: &str, reason: &str) {
    let command = mpi.command(2, &mpi.isochron, &words(folder, line));
    let error = run(command, SOON).failure(INPUT);
    let told = error.matches(reason).count();
    assert_eq!(told, 1, "{} {line}: {reason:?} once in {error}", mpi.name);
}

/// Returns the changes of a run as they were decided, and the work of every device.
fn list_decided(report: &Report) -> (Vec<Value>, Vec<f64>) {
    let changes = report
        .learning
        .as_ref()
        .expect("a run that learns")
        .changes
        .iter()
        .map(|change| json!([change.step, change.rank, change.why, change.moves_c]));
    let devices = report.nodes.iter().flat_map(|node| &node.devices);
    (changes.collect(), devices.map(|device| device.units).collect())
}

#[test]
fn a_recorded_run_is_repeated_with_the_same_divisions() {
    let folder = make_folder();
    for mpi in libraries() {
        for split in ["c", "k"] {
            let line = format!("{SLOW} --split {split} --record @run.json");
            let report = multiply_forced(&mpi, &folder, &line, 2);
            let (changes, units) = list_decided(&report);
            let learnt = report.learning.expect("a run that learns");
            let forced = learnt.changes.iter();
            let forced = forced.filter(|change| change.why == ChangeReason::Forced);
            assert!(forced.count() > 0 && !learnt.replayed, "{:?}", learnt.changes);

            let again = "--platform @slow.toml --replay @run.json --record @again.json";
            let report = multiply(&mpi, &folder, again);
            assert_eq!(list_decided(&report), (changes, units), "{} {split}", mpi.name);
            let learnt = report.learning.expect("a run that learns");
            assert!(learnt.replayed && report.balance_s == 0.0);
            let loaded = report.loaded.expect("a record");
            assert_eq!(loaded.file, folder.path("run.json"));
            // The record of the repetition has the same times, and so the same decisions.
            let [first, second] = ["run.json", "again.json"].map(|name| read_json(&folder, name));
            assert_eq!(first["decisions"], second["decisions"]);
        }
    }
}

#[test]
fn a_record_brings_its_blas() {
    let folder = make_folder();
    for mpi in libraries() {
        let mut found = Vec::new();
        for library in ["openblas", "embedded"] {
            let line = format!("{SLOW} --split c --blas {library} --record @run.json");
            let names = list_blas(&multiply(&mpi, &folder, &line));
            let replay = "--platform @slow.toml --replay @run.json";
            assert_eq!(list_blas(&multiply(&mpi, &folder, replay)), names);
            found.push(names[0].clone());
        }
        let [openblas, embedded] = &found[..] else {
            panic!("{found:?}");
        };
        let line = "--platform @slow.toml --replay @run.json --blas openblas";
        let reason = format!("is for BLAS {embedded}, and has {openblas}");
        refuse(&mpi, &folder, line, &reason);
    }
}

/// Returns the BLAS of every device of a run.
fn list_blas(report: &Report) -> Vec<String> {
    report.nodes.iter().flat_map(|node| &node.devices).map(|device| device.blas.clone()).collect()
}

fn read_json(folder: &Folder, name: &str) -> Value {
    let text = fs::read_to_string(folder.path(name)).expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

/// Records a short run with forced changes.
fn record(mpi: &Mpi, folder: &Folder) -> Value {
    let line = format!("{SLOW} --split c --record @run.json");
    multiply_forced(mpi, folder, &line, 2);
    read_json(folder, "run.json")
}

/// Writes a record with another value at this place of its document.
fn write_changed(folder: &Folder, document: &Value, place: &str, value: Value) {
    let mut changed = document.clone();
    *changed.pointer_mut(place).expect(place) = value;
    folder.write("changed.json", &changed.to_string());
}

#[test]
fn a_record_of_another_run_is_refused() {
    let folder = make_folder();
    for mpi in libraries() {
        let document = record(&mpi, &folder);
        let replay = "--platform @slow.toml --replay @run.json";
        for (more, reason) in mpi.take_turns([
            ("--size 99", "it is for m = 64, n = 64, k = 96, not for m = 99"),
            ("--block 9", "it is for blocks of 8, not for blocks of 9"),
            ("--type f32", "it is for matrices of f64, not for matrices of f32"),
            ("--split k", "it divides c, not k"),
            ("--plan", "'--plan'"),
            ("--load-plan @run.json", "'--load-plan <FILE>'"),
        ]) {
            refuse(&mpi, &folder, &format!("{replay} {more}"), reason);
        }
        refuse(&mpi, &folder, "--replay @run.json", "the record cannot be replayed: ");
        let replay = "--platform @slow.toml --replay @changed.json";
        for (place, value, reason) in mpi.take_turns([
            (
                "/plan/nodes/1/host",
                json!("elsewhere"),
                "replayed: rank 1 is for host elsewhere, and is on ",
            ),
            (
                "/plan/nodes/1/devices/0/paced",
                json!("slowdown 4"),
                "replayed: device c of rank 1 is for pace slowdown 4, and has ",
            ),
            ("/plan/nodes", json!([]), "it has 0 nodes, and parts for 2"),
            ("/plan/look", Value::Null, "its plan leaves nothing to the run"),
            (
                "/decisions/0/ranks/0/0/devices",
                json!([]),
                "the times of its decision 0 are not those of its devices",
            ),
            (
                "/decisions/0/directive/steps",
                json!(77),
                "its times lead to another decision on step ",
            ),
            ("/decisions", json!([]), "it has no decision on step "),
            // A leaner plan would fit, and lead to other decisions.
            ("/plan/problem/k", json!(1_000_000_000_000_u64), " lacks "),
        ]) {
            write_changed(&folder, &document, place, value);
            refuse(&mpi, &folder, replay, reason);
        }
    }
}

#[test]
fn a_file_that_is_no_record_is_refused() {
    let folder = make_folder();
    for mpi in libraries() {
        let document = record(&mpi, &folder);
        let text = document.to_string();
        let plan = document["plan"].to_string();
        let newer = json!({"schema": 2, "decisions": {}}).to_string();
        for (text, reason) in mpi.take_turns([
            (&text[..text.len() / 2], "changed.json: no record of a run: EOF"),
            ("{}", "changed.json: no record of a run: missing field"),
            (&plan, "changed.json: no record of a run: missing field `decisions`"),
            ("C 9×9", "changed.json: no record of a run: expected value"),
            (&newer, "it is of version 2, not 1"),
        ]) {
            folder.write("changed.json", text);
            refuse(&mpi, &folder, "--replay @changed.json", reason);
        }
        refuse(&mpi, &folder, "--replay @gone.json", "gone.json: ");
    }
}

#[test]
fn a_run_with_nothing_to_learn_is_not_recorded() {
    let folder = make_folder();
    folder.write("one.toml", "schema = 1\n[[node]]\n[[node.device]]\ncores = 1\npace = 2.0\n");
    for mpi in libraries() {
        let line = format!("{SLOW} --strategy homogeneous --plan --save-plan @plan.json");
        mpi.isochron(2, &words(&folder, &line)).success();
        for (line, reason) in mpi.take_turns([
            ("--size 64 --strategy fpm", "strategy fpm decides all before the run"),
            (
                "--platform @slow.toml --load-plan @plan.json",
                "strategy homogeneous decides all before the run",
            ),
            ("--m 0 --n 9 --k 9", "one device does all, or nothing is to be done"),
            ("--size 64 --plan", "'--plan'"),
        ]) {
            refuse(&mpi, &folder, &format!("{line} --record @run.json"), reason);
        }
        let line = "--size 64 --platform @one.toml --record @run.json";
        let error = run(mpi.command(1, &mpi.isochron, &words(&folder, line)), SOON).failure(INPUT);
        assert!(error.contains("there is nothing to learn: one device does all"), "{error}");
        assert!(!Path::new(&folder.path("run.json")).exists());
    }
}

#[test]
fn an_old_record_stays_if_the_run_fails() {
    let folder = make_folder();
    let [mpi, _] = libraries();
    let document = record(&mpi, &folder);
    write_changed(&folder, &document, "/decisions", json!([]));
    folder.write("old.json", "old");
    let line = "--platform @slow.toml --replay @changed.json --record @old.json";
    refuse(&mpi, &folder, line, "it has no decision on step ");
    assert_eq!(fs::read_to_string(folder.path("old.json")).expect("a file"), "old");
    multiply(&mpi, &folder, "--platform @slow.toml --replay @run.json --record @old.json");
    let replaced = fs::read_to_string(folder.path("old.json")).expect("a file");
    serde_json::from_str::<RunRecord>(&replaced).expect("a record");
}

/// Prints a run with a change every so many steps, of 30.
fn print_run(mpi: &Mpi, folder: &Folder, every: u64) -> String {
    let line = format!("{SLOW} --k 240 --split c").replace("--k 96 ", "");
    let text = run_forced(mpi, folder, &line, every);
    let widths = text.lines().map(|line| line.chars().count());
    assert!(widths.max() <= Some(80), "{text}");
    text
}

#[test]
fn what_was_learnt_is_said() {
    let folder = make_folder();
    let [mpi, _] = libraries();
    let plan = mpi.isochron(2, &words(&folder, &format!("{SLOW} --split c --plan")));
    let plan = plan.success().split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "left to the run: the borders between devices of a node and the layout of C between nodes",
        "decided at most 2 steps apart; known now: ",
    ] {
        assert!(plan.contains(said), "{said:?} in {plan}");
    }
    let few = print_run(&mpi, &folder, 7);
    let many = print_run(&mpi, &folder, 1);
    for text in [&few, &many] {
        assert!(text.contains("  learnt  ") && text.contains("±"), "{text}");
        assert!(text.contains("\nlooked at all devices in "), "{text}");
        assert!(text.contains("\nchanged in the run ") && text.contains("  forced  "), "{text}");
        assert!(text.contains("\nlearning in the run cost "), "{text}");
    }
    assert!(many.contains(" more changes ") && !few.contains(" more changes "), "{many}{few}");
}
