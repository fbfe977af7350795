//! The GPU path on the emulated CUDA, and on a real GPU where there is one.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking, and one that is skipped says so"
)]

use std::path::Path;
use std::process::Command;

use isochron_tests::emulator::{emulate, replace_driver};
use isochron_tests::launch::{HANGS, Outcome, run};

fn cases(case: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochron-cuda-cases"));
    command.arg(case);
    command
}

/// Runs a case on the emulator, with the settings given.
fn emulated(case: &str, settings: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cases(case);
    emulate(&mut command, folder.path());
    for (name, value) in settings {
        command.env(format!("ISOCHRON_CUDA_EMULATOR_{name}"), value);
    }
    run(command, HANGS)
}

/// Runs a case under every schedule: a wait that is missing shows in one of them.
fn under_every_schedule(case: &str, memory: &str) {
    for schedule in ["threads", "late", "early"] {
        let output = emulated(case, &[("MEMORY", memory), ("SCHEDULE", schedule)]).success();
        assert!(
            output.contains("on Emulated CUDA device 0"),
            "{schedule}: {output}"
        );
    }
}

#[test]
fn the_contract_holds_on_the_gpu_and_in_tiles() {
    under_every_schedule("conformance", "1M");
}

#[test]
fn matrices_of_eight_times_the_memory_are_exact() {
    under_every_schedule("out-of-core", "2M");
}

#[test]
fn every_element_type_is_exact() {
    under_every_schedule("elements", "1M");
}

#[test]
fn taken_memory_leads_to_smaller_tiles() {
    under_every_schedule("taken-memory", "1M");
}

#[test]
fn every_failing_call_ends_in_a_result_or_an_error_and_leaks_nothing() {
    under_every_schedule("failures", "1M");
}

/// The line that says what was found.
fn finding(output: &Outcome) -> &str {
    assert_eq!(output.status, Some(0), "{output:#?}");
    assert!(output.stderr.is_empty(), "{output:#?}");
    output.stdout.lines().next().unwrap_or_default()
}

#[test]
fn what_was_found_is_one_line() {
    let said = |settings: &[(&str, &str)], parts: &[&str]| {
        let output = emulated("survey", settings);
        let line = finding(&output);
        for part in parts {
            assert!(line.contains(part), "{part:?} in {line:?}");
        }
    };
    let two = [("DEVICES", "2"), ("PCI", "0000:3B:00.0,0000:AF:00.0")];
    said(
        &two,
        &[
            "CUDA 13.0",
            "Emulated CUDA device 0 at 0000:3b:00.0",
            "device 1 at 0000:af:00.0",
        ],
    );
    said(
        &[("DEVICES", "0")],
        &["no GPU", "CUDA_VISIBLE_DEVICES", "GPUs are not used"],
    );
    said(
        &[("VERSION", "10020")],
        &["CUDA 10.2", "11.4", "update the driver"],
    );
    said(
        &[("FAIL", "cuInit:1=803")],
        &[
            "cuInit",
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "restart the host",
        ],
    );
    said(&[("FAIL", "cuInit:1=999")], &["CUDA_ERROR_UNKNOWN (999)"]);
    said(
        &[("FAIL", "cuDeviceGetName:1=214")],
        &["CUDA_ERROR_ECC_UNCORRECTABLE"],
    );
    said(
        &[("MIG", "1"), ("DEVICES", "2")],
        &["MIG 1g slice 0", "MIG 1g slice 1 at 0000:17:00.0"],
    );
}

#[test]
fn a_library_that_is_no_driver_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    // Any library without the driver's functions.
    let other = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
        "/usr/lib64/libm.so.6",
    ];
    let Some(other) = other.map(Path::new).into_iter().find(|path| path.exists()) else {
        eprintln!("skipped: the C library's folder is not known on this system");
        return;
    };
    let mut command = cases("survey");
    replace_driver(&mut command, folder.path(), other);
    let output = run(command, HANGS);
    let line = finding(&output);
    assert!(line.contains("no function `cuDriverGetVersion`"), "{line}");
}

#[test]
fn a_driver_without_cublas_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cases("survey");
    emulate(&mut command, folder.path());
    for name in ["libcublas.so", "libcublas.so.12", "libcublas.so.13"] {
        std::fs::remove_file(folder.path().join(name)).expect("it was there");
    }
    let output = run(command, HANGS);
    let line = finding(&output);
    // Where a real cuBLAS is installed, that one is found.
    assert!(
        line.contains("1 GPU(s), but cuBLAS") || line.contains("Emulated CUDA device 0 at"),
        "{line}"
    );
}

#[test]
fn a_machine_without_cuda_is_told_so() {
    let output = run(cases("survey"), HANGS);
    let line = finding(&output).to_owned();
    assert!(!line.is_empty());
    // The same cases on the real one, if there is one.
    for case in ["conformance", "out-of-core", "elements"] {
        let output = run(cases(case), HANGS).success();
        if output.starts_with("skipped: ") {
            assert!(
                std::env::var_os("ISOCHRON_REQUIRE_GPU").is_none_or(|value| value != "1"),
                "a GPU is required: {output}"
            );
            eprintln!("{case} on a real GPU: {output}");
        }
    }
}
