//! Plans on the command line: printed, kept, used again, and refused where they do not belong.

use std::path::Path;

use isochron::plan::Plan;
use isochron::report::Report;
use isochron_devices::{Blas as _, EmbeddedBlas};
use isochron_hierarchy::layout::Way;
use isochron_tests::launch::{Mpi, SOON, cluster_configs, libraries, run};
use serde_json::{Value, json};
use tempfile::TempDir;

const INPUT: i32 = 2;

fn mxm<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["mxm"], arguments].concat()
}

fn keep_plan(mpi: &Mpi, shape: &[&str], path: &Path) -> Plan {
    let keep = ["--plan", "--json", "--save-plan", path.to_str().unwrap()];
    let printed = mpi.isochron(2, &mxm(&[shape, &keep].concat())).success();
    let kept: Plan = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&printed).unwrap(), kept);
    kept
}

#[test]
fn a_plan_is_kept_and_used_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    for mpi in libraries() {
        // A run that learns would change the division.
        let shape = "--m 300 --n 210 --k 500 --op-a t --split c --strategy fpm";
        let shape: Vec<&str> = shape.split(' ').collect();
        let kept = keep_plan(&mpi, &shape, &path);
        assert_eq!((kept.nodes().len(), kept.division().shares()), (2, None));
        let report = multiply_exactly(&mpi, &["--load-plan", path.to_str().unwrap()]);
        assert_eq!((report.m, report.n, report.k), (300, 210, 500));
        for (node, planned) in report.nodes.iter().zip(&kept.predicted().unwrap().nodes) {
            assert_eq!(node.part, planned.part);
            assert_eq!(node.measured.measurements, 0);
        }
        assert_eq!(report.balance_s, 0.0);
        let loaded = report.loaded.expect("a plan of a file");
        assert_eq!((Path::new(&loaded.file), &loaded.made), (&*path, kept.made()));
    }
}

#[test]
fn k_is_divided_where_that_is_asked_for_or_pays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let alike = folder.path().join("alike.toml");
    let points = cluster_configs().join("models/cliff-60k.points");
    let node =
        format!("[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = {points:?}\n");
    std::fs::write(&alike, format!("schema = 1\n{node}{node}")).unwrap();
    let alike = alike.to_str().unwrap();
    for mpi in libraries() {
        // A and B are 6250 times as large as C. The times of the arithmetic are those of a file, 1.7 s either way, so the
        // messages alone decide, however slow the links seem: 400 MB, or 128 KB if k is divided.
        // A run that learns wants a clearer advantage.
        let long = [
            "--strategy",
            "fpm",
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
        assert!(kept.division().shares().is_some(), "{kept:?}");
        assert_eq!(kept.way(), Way::K);
        assert_eq!(kept.decision().candidates[0].way, Way::K, "{:?}", kept.decision().candidates);
        let asked = mxm(&["--size", "100", "--split", "k", "--block", "8", "--verify", "exact"]);
        let text = mpi.isochron(3, &asked).success();
        assert!(text.contains("k divided") && text.contains("verified"), "{text}");
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
    let needed: u64 = kept.predicted().unwrap().nodes.iter().map(|node| node.memory_bytes).sum();
    assert!(kept.k_parts() > 4 && needed < whole / 2, "{kept:?}");
    let text = mpi.isochron(2, &mxm(&[&["--plan"], &long[..]].concat()));
    let text = text.success();
    assert!(text.contains(&format!("in {} parts of k", kept.k_parts())), "{text}");
    // Where k itself is divided, A and B stay where they are.
    let by_k = [&long[..], &["--split", "k"]].concat();
    run(mpi.command(2, &mpi.isochron, &mxm(&by_k)), SOON).failure(INPUT);
}

fn multiply_exactly(mpi: &Mpi, arguments: &[&str]) -> Report {
    let all = [&["--verify", "exact", "--json"], arguments].concat();
    let report = mpi.isochron(2, &mxm(&all)).success();
    let report: Report = serde_json::from_str(&report).unwrap();
    assert_eq!(report.verified, Some(true));
    report
}

/// Whole numbers in files of both formats, read whole and in parts: the product is the same.
#[test]
fn parts_of_files_are_multiplied_as_the_whole_is() {
    let folder = TempDir::new().unwrap();
    let [a, b, plan, whole, in_parts] = ["a.npy", "b.mtx", "plan.json", "whole.npy", "parts.npy"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let mpi = &libraries()[0];
    multiply_exactly(mpi, &["--m", "500", "--n", "90", "--k", "3", "--out", &a]);
    multiply_exactly(mpi, &["--m", "500", "--n", "70", "--k", "3", "--out", &b]);
    let files = ["--a", &a, "--b", &b];
    let how = ["--op-a", "t", "--split", "c", "--panel", "60"];
    let keep = ["--save-plan", &plan, "--out", &whole];
    let report = multiply_exactly(mpi, &[&files[..], &how, &keep].concat());
    assert!(report.k_parts == 1 && report.nodes.iter().all(|node| node.parts_s == 0.0));
    let text = std::fs::read_to_string(&plan).unwrap();
    let more = text.replace("\"k_parts\": 1", "\"k_parts\": 4");
    assert_ne!(more, text);
    std::fs::write(&plan, more).unwrap();
    let again = ["--op-a", "t", "--load-plan", &plan, "--out", &in_parts];
    let report = multiply_exactly(mpi, &[&files[..], &again].concat());
    assert!(report.k_parts == 4 && report.nodes.iter().all(|node| node.parts_s > 0.0));
    let [whole, in_parts] = [whole, in_parts].map(|path| std::fs::read(path).unwrap());
    assert!(whole == in_parts, "the products differ");
}

#[test]
fn a_plan_counts_the_messages_of_the_run() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let file = path.to_str().unwrap();
    let [mpi, _] = libraries();
    let shape = ["--m", "300", "--n", "210", "--k", "500", "--block", "16"];
    // Every rank has work.
    let even = ["--strategy", "homogeneous", "--plan", "--save-plan", file];
    for division in [["--split", "c", "--panel", "48"], ["--split", "k", "--panel", "48"]] {
        let keep = [&shape[..], &division, &even].concat();
        let text = mpi.isochron(3, &mxm(&keep)).success();
        let kept: Plan = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let report = mpi.isochron(3, &mxm(&["--load-plan", file, "--json"]));
        let report: Report = serde_json::from_str(&report.success()).unwrap();
        let nodes = &kept.predicted().unwrap().nodes;
        let messages: u64 = nodes.iter().map(|node| node.messages).sum();
        let bytes: u64 = nodes.iter().map(|node| node.bytes).sum();
        assert!(messages > 0 && text.contains(&format!(" in {messages} messages, ")), "{text}");
        assert_eq!((messages, bytes), (report.messages, report.bytes), "{kept:?}");
    }
}

#[test]
fn a_plan_says_what_it_was_chosen_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    // Two alike nodes that need a second each, whatever else runs: no messages are so slow that one works alone.
    std::fs::write(folder.path().join("slow.points"), "# block: 8\n1 0.004\n64 0.256\n").unwrap();
    let slow = folder.path().join("slow.toml");
    let node = "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = \"slow.points\"\n";
    std::fs::write(&slow, format!("schema = 1\n{node}{node}")).unwrap();
    let slow = slow.to_str().unwrap();
    for mpi in libraries() {
        let shape = ["--size", "64", "--block", "8", "--platform", slow];
        let kept = keep_plan(&mpi, &shape, &path);
        assert!(kept.decision().candidates.len() > 1, "{kept:?}");
        let seconds: Vec<f64> = kept.decision().candidates.iter().map(|way| way.wall_s).collect();
        assert!(seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
        assert!(kept.decision().candidates.iter().any(|way| way.way == kept.way()));
        // Read back it says the same in words, and hands it to the report.
        let file = path.to_str().unwrap();
        let load = ["--load-plan", file, "--platform", slow];
        let text = mpi.isochron(2, &mxm(&[&load[..], &["--plan"]].concat()));
        let text = text.success();
        assert!(text.contains("predicted with messages: "), "{text}");
        let report = mpi.isochron(2, &mxm(&[&load[..], &["--json"]].concat()));
        let report: Report = serde_json::from_str(&report.success()).unwrap();
        assert_eq!((report.way, &report.candidates), (kept.way(), &kept.decision().candidates));
        let asked = mxm(&["--size", "100", "--split", "c", "--block", "8", "--plan"]);
        let text = mpi.isochron(2, &asked).success();
        assert!(!text.contains("predicted with messages: "), "{text}");
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
    let folder = TempDir::new().unwrap();
    let [path, platform] = ["plan.json", "slow.toml"].map(|name| folder.path().join(name));
    // Two nodes that need 0.38 s each, whatever else runs.
    let points = folder.path().join("slow.points");
    std::fs::write(points, "# block: 8\n1 0.004\n64 0.256\n").unwrap();
    let node = "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = \"slow.points\"\n";
    std::fs::write(&platform, format!("schema = 1\n{node}{node}")).unwrap();
    let [file, platform] = [&path, &platform].map(|path| path.to_str().unwrap());
    let shape: Vec<&str> = "--m 64 --n 64 --k 24 --block 8 --platform".split(' ').collect();
    let shape = [&shape[..], &[platform]].concat();
    for (mpi, strategy) in libraries().into_iter().zip(["fpm", "adaptive"]) {
        let shape = [&shape[..], &["--strategy", strategy]].concat();
        keep_plan(&mpi, &shape, &path);
        let plan: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (factor, is_said) in [(1.0, false), (0.5, false), (0.05, true)] {
            let mut faster = plan.clone();
            let decision = &mut faster["decision"];
            scale_numbers(decision, &["candidates", "*", "wall_s"], factor);
            scale_numbers(decision, &["balance", "times_s", "*"], factor);
            std::fs::write(&path, faster.to_string()).unwrap();
            let none = ["--store", "none"];
            let load = [&["--load-plan", file, "--platform", platform], &none[..]].concat();
            let text = mpi.isochron(2, &mxm(&load)).success();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let words = format!("note: the plan in {file} predicts ");
            assert_eq!(text.contains(&words), is_said, "{factor}: {text}");
            assert_eq!(text.contains("times as long: devices or links"), is_said, "{text}");
            if is_said {
                let report = mpi.isochron(2, &mxm(&[&load[..], &["--json"]].concat())).success();
                let report: Report = serde_json::from_str(&report).unwrap();
                assert!(report.notices[0].contains("times as long"), "{:?}", report.notices);
            }
        }
    }
}

/// Expects that `mxm` on this number of ranks refuses its plan for `reason`, which it says once.
fn refuse_plan(mpi: &Mpi, ranks: usize, arguments: &[&str], reason: &str) {
    let command = mpi.command(ranks, &mpi.isochron, &mxm(arguments));
    let error = run(command, SOON).failure(INPUT);
    let told = error.matches(reason).count();
    assert_eq!(told, 1, "{}: {reason:?} once in {error}", mpi.name);
}

/// Writes a plan with another value at this place of its document.
fn write_changed(document: &Value, place: &str, value: Value, path: &Path) {
    let mut changed = document.clone();
    *changed.pointer_mut(place).expect(place) = value;
    std::fs::write(path, changed.to_string()).unwrap();
}

/// Makes a plan of a small product on 2 ranks, with more arguments, and returns its document.
fn make_document(mpi: &Mpi, more: &[&str], path: &Path) -> Value {
    let shape = ["--size", "100", "--block", "8", "--panel", "20", "--split", "c"];
    keep_plan(mpi, &[&shape, more].concat(), path);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_plan_for_another_multiplication_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let name = path.to_str().unwrap();
    for mpi in libraries() {
        make_document(&mpi, &["--strategy", "homogeneous"], &path);
        for (option, value, reason) in mpi.take_turns([
            ("--size", "99", "it is for m = 100, n = 100, k = 100, not for m = 99"),
            ("--block", "9", "it is for blocks of 8, not for blocks of 9"),
            ("--panel", "21", "it is for panels of 20, not of 21"),
            ("--type", "f32", "it is for matrices of f64, not for matrices of f32"),
            ("--op-a", "t", "it is for operation n on A, not for operation t on A"),
            ("--op-b", "c", "it is for operation n on B, not for operation c on B"),
            ("--split", "k", "it divides c, not k"),
            ("--strategy", "fpm", "it is of homogeneous and br, not of fpm and br"),
            ("--layout", "kl", "not of homogeneous and kl"),
            ("--min-reps", "3", "min-reps = 3: with a plan"),
        ]) {
            refuse_plan(&mpi, 2, &["--load-plan", name, option, value], reason);
        }
        let reason = "it is for 2 ranks, and there are 3";
        refuse_plan(&mpi, 3, &["--load-plan", name], reason);
        let same = "--size 100 --block 8 --panel 20 --type f64 --op-a n --split c";
        let same: Vec<&str> = same.split(' ').collect();
        let again = [&["--load-plan", name, "--plan", "--quiet"], &same[..]].concat();
        mpi.isochron(2, &mxm(&again)).success();
    }
}

#[test]
fn a_plan_for_other_hosts_or_devices_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let name = path.to_str().unwrap();
    for mpi in libraries() {
        let document = make_document(&mpi, &["--strategy", "homogeneous"], &path);
        let device = document["nodes"][1]["devices"][0]["name"].as_str().unwrap();
        let of_device = format!("device {device} of rank 1 is for ");
        let host = "rank 1 is for host elsewhere, and is on ".to_owned();
        let names = format!("it is for the devices gone of rank 1, which has {device}");
        for (place, value, reason) in mpi.take_turns([
            ("/nodes/1/host", json!("elsewhere"), host),
            ("/nodes/1/name", json!("fast"), "rank 1 is for node fast, and is no node".to_owned()),
            ("/nodes/1/devices/0/name", json!("gone"), names),
            (
                "/nodes/1/devices/0/kind",
                json!("cuda"),
                format!("{of_device}kind cuda, and has cpu"),
            ),
            ("/nodes/1/devices/0/blas", json!("B 1"), format!("{of_device}BLAS B 1, and has ")),
            (
                "/nodes/1/devices/0/paced",
                json!("slowdown 4"),
                format!("{of_device}pace slowdown 4, and has none"),
            ),
            (
                "/nodes/1/devices/0/cores",
                json!(999),
                format!("{of_device}number of cores 999, and has "),
            ),
        ]) {
            write_changed(&document, place, value, &path);
            refuse_plan(&mpi, 2, &["--load-plan", name], &reason);
        }
    }
}

/// Returns the BLAS of every device of a run.
fn list_blas(report: &Report) -> Vec<&str> {
    report.nodes.iter().flat_map(|node| &node.devices).map(|device| &*device.blas).collect()
}

#[test]
fn a_plan_brings_its_blas() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let name = path.to_str().unwrap();
    let embedded = EmbeddedBlas.name();
    for mpi in libraries() {
        let document =
            make_document(&mpi, &["--strategy", "homogeneous", "--blas", "openblas"], &path);
        let openblas = document["nodes"][0]["devices"][0]["blas"].as_str().unwrap();
        // Not even the ranks of one run need the same library.
        write_changed(&document, "/nodes/1/devices/0/blas", json!(embedded), &path);
        let report = multiply_exactly(&mpi, &["--load-plan", name]);
        assert_eq!(list_blas(&report), [openblas, embedded]);
        let refusal = format!("rank 1 is for BLAS {embedded}, and has {openblas}");
        refuse_plan(&mpi, 2, &["--load-plan", name, "--blas", "openblas"], &refusal);
    }
}

/// Writes a platform of two nodes with these names and paces.
fn write_platform(path: &Path, nodes: [(&str, f64); 2]) {
    let nodes = nodes.map(|(name, pace)| {
        format!("[[node]]\nname = \"{name}\"\n[[node.device]]\nname = \"d\"\ncores = 1\npace = {pace:?}\n")
    });
    std::fs::write(path, format!("schema = 1\n{}", nodes.concat())).unwrap();
}

#[test]
fn a_plan_for_nodes_that_were_swapped_is_refused() {
    let folder = TempDir::new().unwrap();
    let [path, platform] = ["plan.json", "p.toml"].map(|name| folder.path().join(name));
    let [name, platform_name] = [&path, &platform].map(|path| path.to_str().unwrap());
    for mpi in libraries() {
        write_platform(&platform, [("fast", 1.0), ("slow", 8.0)]);
        let with_platform = ["--platform", platform_name];
        make_document(&mpi, &with_platform, &path);
        let again = [&["--load-plan", name][..], &with_platform].concat();
        mpi.isochron(2, &mxm(&[&again[..], &["--plan", "--quiet"]].concat())).success();
        write_platform(&platform, [("slow", 8.0), ("fast", 1.0)]);
        refuse_plan(&mpi, 2, &again, "rank 0 is for node fast, and is node slow");
        write_platform(&platform, [("fast", 8.0), ("slow", 1.0)]);
        let reason = "device d of rank 0 is for pace ";
        refuse_plan(&mpi, 2, &again, reason);
        refuse_plan(&mpi, 2, &["--load-plan", name], "rank 0 is for node fast, and is no node");
    }
}

#[test]
fn a_plan_that_is_broken_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let name = path.to_str().unwrap();
    let load = ["--load-plan", name];
    for mpi in libraries() {
        let document = make_document(&mpi, &["--strategy", "homogeneous"], &path);
        for (place, value, reason) in mpi.take_turns([
            ("/schema", json!(1), "it is of version 1, not 3"),
            ("/schema", json!("2"), "no plan: invalid type"),
            ("/problem/block", json!(0), "block = 0"),
            ("/decision/kernel_width", json!(0), "its measurements make no sense"),
            ("/decision/division", json!("k"), "no plan: "),
            ("/tuning/lookahead", json!(99), "its lookahead is 99 steps, not 2 to 8"),
            ("/tuning/k_parts", json!(99), "it holds A and B in 99 parts of k, not 1 to 5"),
            ("/nodes/1/devices/0/columns", json!(101), "the slices of rank 1 have 101 columns"),
            ("/nodes", json!([]), "it has 0 nodes, and parts for 2"),
        ]) {
            write_changed(&document, place, value, &path);
            refuse_plan(&mpi, 2, &load, reason);
        }
        let text = document.to_string();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        refuse_plan(&mpi, 2, &load, "plan.json: no plan: EOF");
        std::fs::remove_file(&path).unwrap();
        refuse_plan(&mpi, 2, &load, "plan.json: ");
    }
}

#[test]
fn a_loaded_plan_is_reported_under_its_own_strategy() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.json");
    let name = path.to_str().unwrap();
    for mpi in libraries() {
        let kept = make_document(&mpi, &["--strategy", "homogeneous"], &path);
        let load = ["--load-plan", name, "--strategy", "homogeneous"];
        let json = mpi.isochron(2, &mxm(&[&load[..], &["--json"]].concat())).success();
        let report: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(report.strategy, "homogeneous");
        assert_eq!(report.balance.expect("a balance").epsilon, 0.05);
        let at = kept["made"]["at"].as_str().unwrap();
        for more in [&[][..], &["--plan"]] {
            let text = mpi.isochron(2, &mxm(&[&load[..], more].concat())).success();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let host = &report.nodes[0].host;
            let origin = format!(
                "made at {at} by isochron {} with strategy homogeneous on {host}",
                report.version
            );
            assert!(text.contains(&format!("plan loaded from {name}, {origin}")), "{text}");
        }
    }
}
