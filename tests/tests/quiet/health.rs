//! `isochron health`.

use std::path::Path;

use isochron_tests::command::{Folder, check_told, json, refused};
use isochron_tests::emulator::run_emulated;
use isochron_tests::launch::{HANGS, Mpi, Outcome, libraries, open_mpi, run};
use serde_json::Value;

use crate::take_turn;

/// Points of blocks of 16: times by decree, which the arithmetic of a busy machine does not reach.
const USUAL: &str = "# block: 16\n1 0.000003\n100000 0.3\n";
const HALF: &str = "# block: 16\n1 0.000006\n100000 0.6\n";
const VERY_SLOW: &str = "# block: 16\n1 0.003\n100000 300\n";
const LARGE: &str = "# block: 16\n1 0.000003\n10 0.00003\n40 0.00024\n100000 0.6\n";

/// Writes a platform file with a device that follows each of these points.
fn write_devices(folder: &Folder, points: &[&str]) -> String {
    let mut text = "schema = 1\n".to_owned();
    for (index, points) in points.iter().enumerate() {
        folder.write(&format!("{index}.points"), points);
        text += &format!(
            "[[node]]\n[[node.device]]\nname = \"cpu\"\ncores = 1\npoints = \"{index}.points\"\n"
        );
    }
    folder.write("devices.toml", &text)
}

/// Checks these devices, a rank each.
fn check(mpi: &Mpi, folder: &Folder, points: &[&str], options: &str) -> Outcome {
    let platform = write_devices(folder, points);
    let line = format!("health --seconds 4 --platform {platform} {options}");
    let mut command = mpi.line_command(points.len(), &line);
    command.env("ISOCHRON_STORE", folder.path(&format!("{}-store", mpi.name)));
    run(command, HANGS)
}

/// Returns a field of every device.
fn list<'d>(document: &'d Value, field: &str) -> Vec<&'d Value> {
    let devices = document["devices"].as_array().expect("devices");
    devices.iter().map(|device| &device[field]).collect()
}

#[test]
fn a_slow_device_is_named_with_its_cause_and_the_status_says_it() {
    let _turn = take_turn();
    for mpi in libraries() {
        let folder = Folder::new();
        for (last, status, cause, words) in [
            (USUAL, 0, Value::Null, "healthy: 5 devices on 1 host"),
            (
                HALF,
                1,
                "clock".into(),
                "of its class: slower at every size (clock, quota or power cap)",
            ),
            (LARGE, 1, "memory".into(), "of its class: slower at large sizes (its memory)"),
        ] {
            let points = [USUAL, USUAL, USUAL, USUAL, last];
            let outcome = check(&mpi, &folder, &points, "--json --store none");
            assert_eq!(outcome.status, Some(status), "{outcome:?}");
            let document = json(&outcome.stdout);
            let mut causes = vec![&Value::Null; 4];
            causes.push(&cause);
            assert_eq!(list(&document, "cause"), causes, "{document}");
            let line = document["line"].as_str().expect("a line");
            assert!(line.ends_with(words) && !line.contains('\n'), "{line}");
            // A busy machine may have no time for all ten.
            let rounds = document["rounds"].as_u64().expect("a number");
            assert!(rounds == 5 || status == 1 && (2..=10).contains(&rounds), "{document}");
            assert!(list(&document, "compared_with").iter().all(|with| **with == "class"));
        }
    }
}

#[test]
fn a_device_that_would_exceed_the_seconds_is_named() {
    let _turn = take_turn();
    for mpi in libraries() {
        let points = [USUAL, USUAL, USUAL, USUAL, VERY_SLOW];
        let outcome = check(&mpi, &Folder::new(), &points, "--store none");
        assert!(matches!(outcome.status, Some(1 | 2)), "{outcome:?}");
        let last = outcome.stdout.lines().last().expect("lines");
        assert!(last.contains(": cpu of rank 4 on "), "{last}");
    }
}

#[test]
fn the_last_line_of_the_text_is_the_reason() {
    let _turn = take_turn();
    let mpi = open_mpi();
    let folder = Folder::new();
    let points = [USUAL, USUAL, HALF, USUAL];
    let outcome = check(&mpi, &folder, &points, "--store none");
    assert_eq!(outcome.status, Some(1), "{outcome:?}");
    let last = outcome.stdout.lines().last().expect("lines");
    assert!(last.starts_with("slow: cpu of rank 2 on "), "{last}");
    let parts = ["speed in % of", "together", "alone", " rounds of 7 sizes"];
    check_told(&outcome.stdout, &parts, "the text");
}

#[test]
fn few_devices_are_compared_with_the_store_and_a_slow_one_does_not_enter_it() {
    let _turn = take_turn();
    for mpi in libraries() {
        let folder = Folder::new();
        let compared = |points: &[&str], status: i32| {
            let outcome = check(&mpi, &folder, points, "--json");
            assert_eq!(outcome.status, Some(status), "{outcome:?}");
            let document = json(&outcome.stdout);
            let compared = list(&document, "compared_with");
            let compared: Vec<String> = compared.iter().map(ToString::to_string).collect();
            (compared, document["line"].as_str().expect("a line").to_owned())
        };
        let (with, line) = compared(&[USUAL, USUAL], 3);
        assert_eq!(with, ["\"nothing\""; 2]);
        assert!(line.starts_with("unknown: cpu of rank 0 on "), "{line}");
        let (with, line) = compared(&[USUAL, USUAL], 0);
        assert_eq!(with, ["\"history\""; 2]);
        assert_eq!(line, "healthy: 2 devices on 1 host");
        // Other points are other devices, of which nothing is known.
        let (with, _) = compared(&[USUAL, HALF], 3);
        assert_eq!(with, ["\"nothing\""; 2]);
    }
}

#[test]
fn a_device_that_fails_is_named_and_the_others_are_checked() {
    let _turn = take_turn();
    for mpi in libraries() {
        let settings = [("DEVICES", "2"), ("FAIL", "cublasDgemm_v2:40=719")];
        let line = "health --seconds 4 --store none --json";
        let outcome = run_emulated(&mpi, 1, line, &settings);
        assert_eq!(outcome.status, Some(2), "{outcome:?}");
        let document = json(&outcome.stdout);
        let failed = list(&document, "failure");
        assert_eq!(failed.iter().filter(|it| !it.is_null()).count(), 1, "{document}");
        let line = document["line"].as_str().expect("a line");
        assert!(line.starts_with("failed: cuda") && line.contains("cublasDgemm_v2"), "{line}");
        // Copies of the other GPU were timed.
        let devices = document["devices"].as_array().expect("devices");
        assert!(devices.iter().all(|device| device["sizes"].as_array().map(Vec::len) == Some(7)));
    }
}

#[test]
fn what_cannot_be_checked_has_the_status_of_a_failure() {
    let _turn = take_turn();
    for seconds in ["0", "-1", "inf", "nan", "soon"] {
        refused(&format!("health --seconds={seconds}"), &[], &["--seconds"]);
    }
    refused("health --store maybe", &[], &["--store"]);
    refused("health --platform", &["no-such-file.toml"], &["no-such-file.toml"]);
    let folder = Folder::new();
    let platform = write_devices(&folder, &[USUAL]);
    let mpi = open_mpi();
    // Two ranks and one node.
    let told = mpi.run_line(2, &format!("health --platform {platform}")).failure(2);
    assert!(told.contains("devices.toml"), "{told}");
    // An answer that nobody can read is no slow device, and neither is a check without a round.
    let platform = write_devices(&folder, &[USUAL; 4]);
    let line = format!("health --store none --platform {platform}");
    for (more, to) in [("", "/dev/full"), (" --seconds 1e-6", "/dev/null")] {
        let words = format!("exec {} {line}{more} >{to}", mpi.isochron.display());
        let outcome = run(mpi.command(4, Path::new("sh"), &["-c", &words]), HANGS);
        assert_eq!(outcome.status, Some(2), "{words} {outcome:?}");
    }
    // Among devices that are alike none is named.
    let told = mpi.run_line(4, &format!("{line} --seconds 1e-6")).stdout;
    assert!(told.contains("cut off") && !told.contains("takes longest"), "{told}");
}

#[test]
fn a_check_that_stands_still_ends_with_the_status_of_a_failure() {
    let _turn = take_turn();
    for mpi in libraries() {
        let folder = Folder::new();
        let platform = write_devices(&folder, &[USUAL; 2]);
        let line = format!("health --store none --stall-timeout 3 --platform {platform}");
        let mut command = mpi.line_command(2, &line);
        command.env("ISOCHRON_TEST_STOPPED_AT", "plan:1");
        let outcome = run(command, HANGS);
        // MPICH's launcher may report the signal by which it has killed the stopped rank.
        let is_failed = outcome.status == Some(2)
            || mpi.name != "openmpi" && !matches!(outcome.status, Some(0 | 1));
        let told = "; the job ends, after 3 s without progress";
        assert!(is_failed && outcome.stderr.contains(told), "{} {outcome:?}", mpi.name);
    }
}
