//! The GPU path on the emulated CUDA, and on a real GPU where there is one.

use std::process::Command;

use isochron_tests::emulator::{
    driver_is_installed, emulate, incomplete_driver, replace_driver, run_emulated, slice_uuid,
};
use isochron_tests::launch::{HANGS, HANGS_WHOLE, Outcome, is_whole, open_mpi, run};
use serde_json::Value;

use crate::command::{Folder, check_told, json};

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
    run(command, if is_whole() { HANGS_WHOLE } else { HANGS })
}

/// Runs a case under schedules of the emulator: a wait that is missing shows in one of them.
fn run_under(schedules: &[&str], case: &str, memory: &str) {
    for schedule in schedules {
        let output = emulated(case, &[("MEMORY", memory), ("SCHEDULE", schedule)]).success();
        assert!(output.contains("on Emulated CUDA device 0"), "{schedule}: {output}");
    }
}

const SCHEDULES: [&str; 3] = ["threads", "late", "early"];

/// Runs a case under every schedule.
fn under_every_schedule(case: &str, memory: &str) {
    run_under(&SCHEDULES, case, memory);
}

/// Runs a case under one schedule by default, and under all with `cargo xtask test --all`.
fn under_schedule(schedule: &str, case: &str, memory: &str) {
    if is_whole() {
        under_every_schedule(case, memory);
    } else {
        run_under(&[schedule], case, memory);
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
fn every_failing_call_ends_in_a_result_or_an_error_and_leaks_nothing() {
    under_schedule("early", "failures", "1M");
}

#[test]
fn products_are_exact_whatever_the_memory_is() {
    for (schedule, case, memory) in [
        ("threads", "paced", "1M"),
        ("late", "little-memory", "1M"),
        // Panels that may not be pinned are not gathered, and less is gathered with less host memory.
        ("early", "narrow-limits", "1M"),
        ("early", "less-host-memory", "2M"),
        ("late", "taken-memory", "1M"),
        // cuBLAS has no memory for products.
        ("early", "refused-products", "1M"),
        ("late", "last-update", "2M"),
    ] {
        under_schedule(schedule, case, memory);
    }
}

#[test]
fn codes_of_newer_libraries_are_told_and_the_link_and_the_peak_are_measured() {
    run_under(&["threads"], "unknown-codes", "1M");
    run_under(&["threads"], "speeds", "300M");
}

/// The line that says what was found.
fn finding(output: &Outcome) -> &str {
    assert_eq!(output.status, Some(0), "{output:#?}");
    assert!(output.stderr.is_empty(), "{output:#?}");
    output.stdout.lines().next().unwrap_or_default()
}

/// Expects these parts in what is found with these settings.
fn said(settings: &[(&str, &str)], parts: &[&str]) {
    let output = emulated("survey", settings);
    check_told(finding(&output), parts, "what was found");
}

#[test]
fn what_was_found_is_one_line() {
    let two = [("DEVICES", "2"), ("PCI", "0000:3B:00.0,0000:AF:00.0")];
    said(
        &two,
        &["CUDA 13.0", "Emulated CUDA device 0 at 0000:3b:00.0", "device 1 at 0000:af:00.0"],
    );
    said(&[("DEVICES", "0")], &["no GPU", "CUDA_VISIBLE_DEVICES", "GPUs are not used"]);
    said(&[("VERSION", "10020")], &["CUDA 10.2", "11.4", "update the driver"]);
    let one_is_silent = [("DEVICES", "3"), ("FAIL", "cuDeviceGetName:2=999")];
    said(&one_is_silent, &["device 0 at", "device 2 at", "1 more do not answer and are not used"]);
    said(
        &[("FAIL", "cuInit:1=803")],
        &["cuInit", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the host"],
    );
    said(&[("FAIL", "cuInit:1=999")], &["CUDA_ERROR_UNKNOWN (999)"]);
    said(&[("FAIL", "cuDeviceGetName:1=214")], &["CUDA_ERROR_ECC_UNCORRECTABLE"]);
    said(&[("MIG", "1+1")], &["instance 0.0 at 0000:17:00.0", "instance 1.0 at 0000:17:00.0"]);
}

/// Returns the GPUs that a process sees with a driver of this version.
fn seen(version: &str, visible: Option<&str>) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cases("survey");
    emulate(&mut command, folder.path());
    command
        .env("ISOCHRON_CUDA_EMULATOR_DEVICES", "2")
        .env("ISOCHRON_CUDA_EMULATOR_MIG", "2+1,0")
        .env("ISOCHRON_CUDA_EMULATOR_VERSION", version);
    if let Some(visible) = visible {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    }
    let output = run(command, HANGS);
    finding(&output);
    let list = output.stdout.lines().nth(1).expect("a list");
    let read_uuid = |gpu: &Value| {
        let uuid = gpu["uuid"].as_str().expect("a text").to_owned();
        assert_eq!(gpu["is_slice"], uuid.starts_with("MIG-"), "{gpu}");
        uuid
    };
    json(list).as_array().expect("a list").iter().map(read_uuid).collect()
}

#[test]
fn a_process_sees_the_slices_that_its_driver_shows() {
    let whole = "GPU-e0e0e0e0-e0e0-e0e0-e0e0-e0e0e0010000";
    let [first, second, last] = [(0, 0), (0, 1), (1, 0)].map(|(i, c)| slice_uuid(0, i, c));
    // R525 and R570.
    assert_eq!(seen("12000", None), [&*first]);
    assert_eq!(seen("12000", Some("1")), [whole]);
    assert_eq!(seen("12000", Some(&last)), [&*last]);
    assert_eq!(seen("12080", None), [&*first, &*last, whole]);
    assert_eq!(seen("12080", Some(&second)), [&*second]);
    assert!(seen("12080", Some("")).is_empty());
}

#[test]
fn a_driver_that_lacks_functions_is_told_to_be_old_or_incomplete() {
    let old =
        ["it is for CUDA 10.2", "11.4 is the oldest", "update the driver", "GPUs are not used"];
    let incomplete = ["no function `cuInit`", "not a complete driver"];
    for (version, parts) in [(10_020, &old[..]), (12_040, &incomplete)] {
        let folder = tempfile::tempdir().expect("a folder");
        let driver = incomplete_driver(folder.path(), version);
        let mut command = cases("survey");
        replace_driver(&mut command, folder.path(), &driver);
        let output = run(command, HANGS);
        assert_eq!(output.stdout.lines().nth(1), Some("[]"));
        check_told(finding(&output), parts, "what was found");
    }
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
    if driver_is_installed() {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    let output = run(cases("survey"), HANGS);
    assert_eq!(finding(&output), "no CUDA driver: libcuda was not found; GPUs are not used");
    assert_eq!(output.stdout.lines().nth(1), Some("[]"));
}

#[test]
fn the_real_gpu_conforms() {
    for case in ["conformance", "paced", "out-of-core", "elements", "narrow-limits", "speeds"] {
        // Where `ISOCHRON_REQUIRE_GPU` is 1, a case that is skipped has failed.
        let output = run(cases(case), HANGS).success();
        if output.starts_with("skipped: ") {
            eprintln!("{case}: {output}");
        }
    }
}

/// The report of a multiplication on emulated GPUs with these settings.
fn multiplied(ranks: usize, options: &str, settings: &[(&str, &str)]) -> Value {
    let mpi = open_mpi();
    let line = format!("mxm --size 500 --block 64 --verify exact --json {options}");
    let report = json(&run_emulated(&mpi, ranks, &line, settings).success());
    assert_eq!(report["verified"], true, "{report}");
    report
}

#[test]
fn what_is_made_smaller_for_lack_of_memory_is_told() {
    let mpi = open_mpi();
    for (setting, says) in [
        (("FAIL", "cuMemAlloc_v2:2=2"), "trying smaller tiles"),
        (("PRODUCT", "100000"), "trying smaller products"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = mpi.line_command(1, "mxm --size 300 --verify exact");
        emulate(&mut command, folder.path());
        command
            .env("ISOCHRON_LOG", "warn")
            .env("ISOCHRON_CUDA_EMULATOR_MEMORY", "1M")
            .env(format!("ISOCHRON_CUDA_EMULATOR_{}", setting.0), setting.1);
        let output = run(command, HANGS);
        assert_eq!(output.stderr.matches(says).count(), 1, "{output:#?}");
        assert!(output.success().contains("verified"), "{setting:?}");
    }
}

/// The devices of a kind in a report.
fn devices<'r>(report: &'r Value, kind: &str) -> Vec<&'r Value> {
    report["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .flat_map(|node| node["devices"].as_array().expect("devices"))
        .filter(|device| device["kind"] == kind)
        .collect()
}

#[test]
fn ranks_multiply_on_the_gpus_of_their_host() {
    for (ranks, gpus, expected) in [(1, "1", 1), (2, "2", 2), (2, "1", 1), (1, "2", 2)] {
        let report = multiplied(ranks, "", &[("DEVICES", gpus), ("MEMORY", "1M")]);
        let found = devices(&report, "cuda");
        let mut names: Vec<&str> = found.iter().filter_map(|gpu| gpu["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names.len(), expected, "{ranks} ranks: {report}");
        names.dedup();
        assert_eq!(names.len(), expected, "a GPU has one rank: {report}");
        for gpu in found {
            let blas = gpu["blas"].as_str().expect("a BLAS");
            assert!(blas.contains("Emulated CUDA"), "{report}");
        }
    }
}

#[test]
fn a_platform_file_names_gpus() {
    let folder = Folder::new();
    let text = "schema = 1\n[[node]]\n[[node.device]]\ncores = 1\npace = 50.0\n[[node.device]]\nkind = \"cuda\"\nmemory_limit = 300000\n";
    let options = format!("--platform {}", folder.write("gpu.toml", text));
    let report = multiplied(1, &options, &[("MEMORY", "1M")]);
    assert_eq!((devices(&report, "cpu").len(), devices(&report, "cuda").len()), (1, 1));
    // Where there is no GPU, that is said.
    let mpi = open_mpi();
    let line = format!("mxm --size 100 {options}");
    let stderr = run_emulated(&mpi, 1, &line, &[("DEVICES", "0")]).failure(2);
    assert!(stderr.contains("no GPU"), "{stderr}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_left_out() {
    // Another process has it for itself; cuBLAS is newer than the driver.
    for failure in ["cuDevicePrimaryCtxRetain:1=46", "cublasCreate_v2:1=1"] {
        let report = multiplied(1, "", &[("DEVICES", "2"), ("FAIL", failure)]);
        assert_eq!(devices(&report, "cuda").len(), 1, "{failure}: {report}");
        assert!(!devices(&report, "cpu").is_empty(), "{failure}: {report}");
        let notices = report["nodes"][0]["notices"].to_string();
        let call = failure.split(':').next().expect("a call");
        check_told(&notices, &[call, "not used"], failure);
    }
}

#[test]
fn a_gpu_that_is_lost_ends_the_run_with_its_name_and_the_call() {
    let mpi = open_mpi();
    let settings = [("DEVICES", "2"), ("FAIL", "cublasDgemm_v2:4=719")];
    let outcome = run_emulated(&mpi, 2, "mxm --size 300 --block 64", &settings);
    check_told(&outcome.failure(1), &["cublasDgemm_v2 on cuda", "was lost"], "a lost GPU");
}
