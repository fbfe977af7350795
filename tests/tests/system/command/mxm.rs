//! The time account of `mxm`, and what it prints for people.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use isochron::report::{Account, Report};
use isochron_tests::launch::{HANGS, Mpi, cluster_configs, libraries, python, run};

use super::{Folder, isochron, json, refused};

/// Runs `mxm` with the words of `line`; returns its report, and the seconds of the whole.
fn time_report(mpi: &Mpi, ranks: usize, line: &str) -> (Report, f64) {
    let words: Vec<&str> =
        ["mxm"].into_iter().chain(line.split_whitespace()).chain(["--json"]).collect();
    let start = Instant::now();
    let printed = mpi.isochron(ranks, &words).success();
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
    isochron(&["mxm", "--m", "300", "--n", "250", "--k", "8", "--out", &a]).success();
    isochron(&["mxm", "--m", "250", "--n", "200", "--k", "8", "--out", &b]).success();
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
    let [mpi, _] = libraries();
    let shape = "--m 90 --n 80 --k 20000 --block 16 --panel 100 --plan --save-plan";
    let words = format!("mxm {shape} {plan}");
    isochron(&words.split_whitespace().collect::<Vec<_>>()).success();
    set_k_parts(Path::new(&plan), 4);
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
        let printed = isochron(&line.split(' ').collect::<Vec<_>>()).success();
        let text = std::fs::read_to_string(&file).expect("a report");
        let report: Report = serde_json::from_str(&text).expect("a report");
        let expected =
            [format!("{:.6}", report.gflops), format!("{:.9}", report.wall_s), verified.to_owned()];
        assert_eq!(read_result(&printed), expected.each_ref().map(String::as_str));
    }
    for option in ["--json", "--quiet"] {
        let printed = isochron(&["mxm", "--size", "64", "--store", "none", option]).success();
        assert!(!printed.contains("isochron.result"), "{printed}");
    }
}

/// Gives a plan file another number of parts of k.
fn set_k_parts(path: &Path, k_parts: usize) {
    let mut document = json(&std::fs::read_to_string(path).expect("a document"));
    document["tuning"]["k_parts"] = k_parts.into();
    std::fs::write(path, document.to_string()).expect("a writable folder");
}

/// Runs `mxm` on four unlike nodes with the words of `line`; returns what it prints.
fn print_emulated(line: &str) -> String {
    let [mpi, _] = libraries();
    let platform = cluster_configs().join("emulated-4.toml");
    let words = ["mxm", "--platform", platform.to_str().expect("a name")];
    let words: Vec<&str> = words.into_iter().chain(line.split_whitespace()).collect();
    mpi.isochron(4, &words).success()
}

#[test]
fn what_is_printed_fits_80_columns() {
    let folder = Folder::new();
    let plan = folder.path("p.json");
    let shape = "--m 1000 --n 800 --k 900 --block 32";
    let printed = [
        isochron(&["mxm", "--size", "600"]).success(),
        isochron(&["mxm", "--size", "600", "--plan"]).success(),
        print_emulated(&format!("{shape} --plan --save-plan {plan}")),
        print_emulated(shape),
        print_emulated("--m 64 --n 64 --k 4000 --block 32 --split k"),
        print_emulated(&format!("--load-plan {plan} --block 32")),
        print_emulated(&format!("{shape} --strategy fpm --max-iterations 2")),
    ];
    for text in &printed {
        let widths =
            text.lines().filter(|line| !line.contains(&plan)).map(|line| line.chars().count());
        assert!(widths.max() <= Some(80), "{text}");
    }
    let drawn = printed.iter().map(|text| text.contains('┌'));
    assert_eq!(drawn.collect::<Vec<_>>(), [false, false, true, true, true, true, true]);
    let [_, alone, planned, learnt, _, loaded, measured] = &printed;
    assert!(alone.contains("\n1 node; nothing was measured\n"), "{alone}");
    assert_eq!(measured.matches("\nBLAS ").count(), 1, "{measured}");
    assert!(measured.contains("(longest busy time over the shortest, less 1)"));
    assert!(measured.contains("planned in ") && measured.contains("\nprocess "));
    assert!(loaded.contains("plan loaded from ") && !loaded.contains("iteration"));
    assert!(planned.contains("left to the run: ") && planned.contains("known now: "));
    assert!(learnt.contains("\nlooked at all devices in ") && learnt.contains("  learnt  "));
}

#[test]
fn quiet_prints_one_line() {
    let shape = ["mxm", "--m", "60", "--n", "50", "--k", "40", "--quiet"];
    let line = isochron(&shape).success();
    assert!(line.starts_with("60×50×40 f64: ") && line.ends_with(", verified\n"), "{line}");
    let plan = isochron(&[&shape[..], &["--plan"]].concat()).success();
    assert!(plan.starts_with("nothing was measured; "), "{plan}");
    assert_eq!((line.lines().count(), plan.lines().count()), (1, 1));
    let report = json(&isochron(&[&shape[..], &["--json"]].concat()).success());
    assert_eq!(report["verified"], true);
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let [mpi, _] = libraries();
    let hybrid = cluster_configs().join("emulated-hybrid.toml");
    let arguments = ["mxm", "--size", "300", "--panel", "32", "--platform"];
    let arguments = [&arguments[..], &[hybrid.to_str().expect("a name")]].concat();
    let silent = isochron(&arguments);
    assert_eq!((silent.status, silent.stderr.as_str()), (Some(0), ""));

    let mut command = Command::new(python());
    let on_terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    command.args(["-c", on_terminal]).arg(&mpi.isochron).args(arguments);
    let text = run(command, HANGS).success();
    for shown in ["\rmeasuring: iteration 1\x1b[K", "\rmultiplying: step 1 of 10\x1b[K"] {
        assert!(text.contains(shown), "{text:?}");
    }
    // The report begins on a cleared line.
    assert!(text.contains("\r\x1b[KC 300×300"), "{text:?}");
}

#[test]
fn factors_that_are_no_numbers_are_refused_as_they_were_given() {
    let finite = ": a factor must be a finite number";
    refused("mxm --size 9 --alpha NaN", &[], &["alpha = NaN", finite]);
    refused("mxm --size 9 --beta -inf", &[], &["beta = -inf", finite]);
    let forms = "'x' for '--alpha <ALPHA>': expected a number, or a complex one";
    refused("mxm --size 9 --alpha x", &[], &[forms]);
    let real = "beta = 2-0.5i: matrices of f64 have real factors";
    refused("mxm --size 9 --beta 2-0.5i", &[], &[real]);
}
