//! The time account of `mxm`, and what it prints for people.

use std::time::Instant;

use isochron::report::{Account, Report};
use isochron_tests::launch::{Mpi, cluster_configs, libraries, open_mpi};

use super::{Folder, check_told, json, path_text, read_json, run_line};

/// Runs `mxm` with the words of `line`; returns its report, and the seconds of the whole.
fn time_report(mpi: &Mpi, ranks: usize, line: &str) -> (Report, f64) {
    let start = Instant::now();
    let printed = mpi.run_line(ranks, &format!("mxm {line} --json")).success();
    let report = serde_json::from_str(&printed).expect("a report");
    (report, start.elapsed().as_secs_f64())
}

fn phases(account: &Account) -> [f64; 8] {
    [
        account.start_s,
        account.devices_s,
        account.plan_s,
        account.matrices_s,
        account.multiply_s,
        account.check_s,
        account.write_s,
        account.end_s,
    ]
}

/// Checks that the phases of the account make up the process, which is part of what the caller has timed.
fn check_account(report: &Report, whole_s: f64) {
    let account = report.account.expect("an account");
    let phases = phases(&account);
    assert!(phases.iter().all(|&seconds| seconds >= 0.0), "{account:?}");
    let sum: f64 = phases.iter().sum();
    assert!((sum - account.process_s).abs() < 1e-6, "{sum} {account:?}");
    assert!(account.process_s <= whole_s, "{account:?}");
    assert!(account.plan_s >= report.balance_s, "{account:?}");
    let made_s = report.nodes[0].parts_s;
    assert!(account.multiply_s >= report.wall_s - made_s, "{account:?}");
    assert!(account.matrices_s > 0.0 && account.start_s > 0.0);
}

#[test]
fn the_account_adds_up_to_the_time_of_the_process() {
    let folder = Folder::new();
    let [a, b, c] = ["a.npy", "b.npy", "c.npy"].map(|name| folder.path(name));
    let shape = "--m 300 --n 200 --k 250 --block 32";
    run_line(&format!("mxm --m 300 --n 250 --k 8 --out {a}")).success();
    run_line(&format!("mxm --m 250 --n 200 --k 8 --out {b}")).success();
    let files = format!("--a {a} --b {b} --out {c} --block 32");
    for mpi in libraries() {
        for ranks in [1, 4] {
            for line in [shape, &files] {
                let (report, whole_s) = time_report(&mpi, ranks, line);
                check_account(&report, whole_s);
            }
        }
    }
}

#[test]
fn parts_of_k_count_as_reading_and_checking() {
    let folder = Folder::new();
    let plan = folder.path("plan.json");
    let mpi = open_mpi();
    let shape = "--m 90 --n 80 --k 20000 --block 16 --panel 100 --plan --save-plan";
    run_line(&format!("mxm {shape} {plan}")).success();
    let mut document = json(&std::fs::read_to_string(&plan).expect("a document"));
    document["tuning"]["k_parts"] = 4.into();
    std::fs::write(&plan, document.to_string()).expect("a writable folder");
    let (report, whole_s) = time_report(&mpi, 1, &format!("--load-plan {plan}"));
    assert_eq!((report.k_parts, report.verified), (4, Some(true)));
    check_account(&report, whole_s);
    let account = report.account.expect("an account");
    let made_s = report.nodes[0].parts_s;
    // One rank waits for no other, so nearly all of it was reading and checking.
    assert!(account.matrices_s + account.check_s >= 0.5 * made_s, "{account:?} {made_s}");
}

/// Returns the values of the line that is for regular expressions, as its description in the documentation tells.
fn read_result(printed: &str) -> [&str; 3] {
    let last = printed.lines().last().expect("lines");
    let values = last
        .strip_prefix("isochron.result gflops=")
        .and_then(|rest| rest.split_once(" wall_s="))
        .and_then(|(gflops, rest)| Some((gflops, rest.split_once(" verified=")?)));
    let (gflops, (wall_s, verified)) = values.unwrap_or_else(|| panic!("{printed}"));
    [gflops, wall_s, verified]
}

#[test]
fn the_last_line_is_for_regular_expressions() {
    let folder = Folder::new();
    let file = folder.path("report.json");
    for (check, verified) in [("none", "none"), ("probe", "true"), ("exact", "true")] {
        let line = format!("mxm --size 64 --store none --verify {check} --report {file}");
        let printed = run_line(&line).success();
        let text = std::fs::read_to_string(&file).expect("a report");
        let report: Report = serde_json::from_str(&text).expect("a report");
        let expected =
            [format!("{:.6}", report.gflops), format!("{:.9}", report.wall_s), verified.to_owned()];
        assert_eq!(read_result(&printed), expected.each_ref().map(String::as_str));
    }
    for option in ["--json", "--quiet"] {
        let printed = run_line(&format!("mxm --size 64 --store none {option}")).success();
        assert!(!printed.contains("isochron.result"), "{printed}");
    }
}

/// Runs `mxm` on four unlike nodes with the words of `line`; returns what it prints.
fn print_emulated(line: &str) -> String {
    let mpi = open_mpi();
    let platform = path_text(&cluster_configs().join("emulated-4.toml"));
    mpi.run_line(4, &format!("mxm --platform {platform} {line}")).success()
}

#[test]
fn the_text_says_what_was_planned_learnt_and_measured() {
    let folder = Folder::new();
    let plan = folder.path("p.json");
    let shape = "--m 1000 --n 800 --k 900 --block 32";
    let alone = run_line("mxm --size 600 --plan").success();
    assert!(alone.contains("\n1 node; nothing was measured\n"), "{alone}");
    let planned = print_emulated(&format!("{shape} --plan --save-plan {plan}"));
    let learnt = print_emulated(shape);
    let loaded = print_emulated(&format!("--load-plan {plan} --block 32"));
    let measured = print_emulated(&format!("{shape} --strategy fpm --max-iterations 2"));
    assert!(!loaded.contains("iteration"), "{loaded}");
    for (text, parts) in [
        (&planned, &["left to the run: ", "known now: "][..]),
        (&learnt, &["\nlooked at all devices in ", "  learnt  "]),
        (&loaded, &["plan loaded from "]),
        (&measured, &["longest busy time over the shortest", "planned in ", "\nprocess "]),
    ] {
        check_told(text, parts, shape);
        let widths = text.lines().filter(|line| !line.contains(&plan));
        assert!(widths.map(|line| line.chars().count()).max() <= Some(80), "{text}");
    }
}

#[test]
fn quiet_prints_one_line() {
    let shape = "mxm --m 60 --n 50 --k 40 --quiet";
    let line = run_line(shape).success();
    assert!(line.starts_with("60×50×40 f64: ") && line.ends_with(", verified\n"), "{line}");
    let plan = run_line(&format!("{shape} --plan")).success();
    assert!(plan.starts_with("nothing was measured; "), "{plan}");
    assert_eq!((line.lines().count(), plan.lines().count()), (1, 1));
    assert_eq!(read_json(shape)["verified"], true);
}

#[test]
fn a_grid_that_is_given_has_all_nodes_whatever_they_cost() {
    let platform = path_text(&cluster_configs().join("emulated-4.toml"));
    let mpi = &open_mpi();
    for layout in ["kl", "cartesian-sums", "fpm-kl"] {
        let strategies = if layout == "fpm-kl" { &["fpm"][..] } else { &["fpm", "adaptive"] };
        for strategy in strategies {
            let line =
                format!("--size 256 --block 16 --grid 2x2 --layout {layout} --strategy {strategy}");
            let line = format!("{line} --platform {platform} --store none --verify exact");
            let (report, _) = time_report(mpi, 4, &line);
            assert_eq!(report.verified, Some(true), "{line}");
            let balance = report.balance.expect("measured times");
            assert_eq!(balance.layout.to_string(), format!("{layout} in 2x2"));
            let mut corners: Vec<usize> = report.nodes.iter().map(|node| node.part.col).collect();
            corners.sort_unstable();
            corners.dedup();
            assert!(corners.len() <= 2, "{line} {corners:?}");
        }
    }
    let wrong = "mxm --size 64 --platform";
    for (grid, told) in [
        ("--grid 2x3", "a grid of 2x3 has 6 places, and there are 4 nodes"),
        ("--grid 2x2 --layout br", "the layout method br takes no columns"),
        ("--grid 2x2 --split k", "a grid of 2x2 divides C, and k is to be divided"),
    ] {
        let outcome = mpi.run_line(4, &format!("{wrong} {platform} {grid}"));
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        check_told(&outcome.stderr, &[told], grid);
    }
}
