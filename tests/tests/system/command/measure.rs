//! `isochron measure`.

use std::path::Path;
use std::process::{Command, Stdio};

use isochron_tests::launch::{HANGS, libraries, run};
use serde_json::Value;

use super::{Folder, isochron, json, refused};

/// Few repetitions of small sizes: the tests are not about speed.
const QUICK: &str = "--width 64 --min-reps 2 --max-reps 3";

/// Compiles a kernel whose run of `d` units is the statement `execute`.
fn compile(folder: &Folder, name: &str, execute: &str) -> String {
    let text = format!(
        "#include <stdlib.h>\n#include \"isochron_kernel.h\"\nstatic uint64_t units;\n\
         static double complexity(uint64_t d) {{ return (double)d; }}\n\
         static int32_t initialize(uint64_t d, void **context) {{ *context = &units; units = d; return 0; }}\n\
         static int32_t execute(void *context, const isochron_flag_t *interrupted) {{\n\
         volatile uint64_t d = *(uint64_t *)context; (void)interrupted;\n{execute}\nreturn 0;\n}}\n\
         static int32_t finalize(void *context) {{ (void)context; return 0; }}\n\
         const isochron_kernel_t isochron_kernel = {{ISOCHRON_KERNEL_ABI, \"k\", complexity, initialize, execute, finalize}};\n"
    );
    let (source, library) = (
        folder.write(&format!("{name}.c"), &text),
        folder.path(&format!("{name}.so")),
    );
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices/kernel/include");
    let mut command = Command::new("cc");
    command
        .args(["-std=c99", "-shared", "-fPIC", "-I"])
        .arg(include);
    command.args([&source, "-o", &library]);
    run(command, HANGS).success();
    library
}

#[test]
fn the_tool_survives_kernels_that_crash_or_never_return() {
    let folder = Folder::new();
    let crash = compile(&folder, "crash", "if (d > 1) *(volatile int *)0 = 1;");
    let fails = compile(&folder, "fails", "if (d > 1) return 42;");
    let leaves = compile(&folder, "leaves", "exit(3);");
    for (library, reason) in [
        (
            &crash,
            "was ended by signal 11 (SIGSEGV) in execute of 2 units",
        ),
        (&fails, "execute of 2 units returned error 42"),
        (&leaves, "exited with status 3 in execute of 1 units"),
    ] {
        let words = [
            "measure",
            library,
            "--to",
            "2",
            "--points",
            "2",
            "--isolate",
        ];
        let stderr = isochron(&words).failure(1);
        assert!(
            stderr.contains(library.as_str()) && stderr.contains(reason),
            "{stderr}"
        );
    }
    // It ignores its interruption, and is killed; larger sizes are not tried.
    let endless = compile(&folder, "endless", "while (d > 1) {}");
    let line = "--to 4 --points 4 --isolate --max-seconds 0.05 --json";
    let words: Vec<&str> = ["measure", &endless]
        .into_iter()
        .chain(line.split(' '))
        .collect();
    let found = json(&isochron(&words).success());
    let points = found["ranks"][0]["points"].as_array().expect("points");
    let reps: Vec<Option<bool>> = points
        .iter()
        .map(|p| p["reps"].as_u64().map(|n| n > 0))
        .collect();
    assert_eq!(reps, [Some(true), Some(false)], "{found}");
    assert!(
        points[1]["t_s"].as_f64().is_some_and(|t_s| t_s > 0.1),
        "{found}"
    );
}

#[test]
fn a_killed_campaign_goes_on() {
    let folder = Folder::new();
    let out = folder.path("points");
    let line = format!("measure jacobi {QUICK} --to 20000 --points 9 --out {out} --json");
    let words: Vec<&str> = line.split(' ').collect();
    let [mpi, _] = libraries();
    let mut first = Command::new(&mpi.isochron);
    let mut first = first
        .args(&words)
        .stdout(Stdio::null())
        .spawn()
        .expect("a program");
    let file = format!("{out}/jacobi.points");
    while !Path::new(&file).exists() && first.try_wait().expect("a status").is_none() {
        std::thread::yield_now();
    }
    first.kill().expect("our program");
    first.wait().expect("its end");
    let found = json(&isochron(&words).success());
    assert!(found["resumed"].as_u64() >= Some(1), "{found}");
    let points = &found["ranks"][0]["points"];
    assert_eq!(points.as_array().map(Vec::len), Some(9), "{found}");
    // Another precision is another model.
    let stderr = isochron(&[&words[..], &["--confidence", "0.9"]].concat()).failure(2);
    assert!(
        stderr.contains("measured-with") && stderr.contains(&file),
        "{stderr}"
    );
}

#[test]
fn every_rank_has_a_model_that_the_same_command_continues() {
    let folder = Folder::new();
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line = format!("measure jacobi {QUICK} --to 90 --points 3 --out {out} --json");
        let words: Vec<&str> = line.split(' ').collect();
        for resumed in [0, 3] {
            let found = json(&mpi.isochron(2, &words).success());
            assert_eq!(found["resumed"], resumed, "{found}");
            let ranks = found["ranks"].as_array().expect("ranks");
            assert_eq!(ranks.len(), 2);
            for rank in ranks {
                let file = rank["file"].as_str().expect("a file");
                let shown = json(&isochron(&["model", file, "--json"]).success());
                assert_eq!(
                    shown["models"][0]["points"].as_array().map(Vec::len),
                    Some(3)
                );
            }
        }
    }
}

#[test]
fn every_built_in_kernel_is_measured() {
    for (number, kernel) in ["gemm", "dgemv", "fft", "naive-gemm"]
        .into_iter()
        .enumerate()
    {
        let isolate = ["", " --isolate"][number % 2];
        let line =
            format!("measure {kernel} {QUICK} --blas embedded --to 9 --adaptive --json{isolate}");
        let words: Vec<&str> = line.split(' ').collect();
        let found = json(&isochron(&words).success());
        let points = found["ranks"][0]["points"].as_array().expect("points");
        let is_fast = |point: &Value| point["work_per_s"].as_f64() > Some(0.0);
        assert!(points.len() > 3 && points.iter().all(is_fast), "{found}");
    }
}

#[test]
fn a_kernel_that_cannot_be_measured_is_refused() {
    let folder = Folder::new();
    let text = folder.write("text.so", "no library");
    for (line, parts) in [
        (
            "measure nothing",
            &["KERNEL = nothing", "built-in kernels are gemm"][..],
        ),
        ("measure gemm --from 9 --to 8", &["--from 9 --to 8"]),
        ("measure gemm --step 8", &["--adaptive"]),
        ("measure gemm --min-reps 1", &["min_reps"]),
    ] {
        refused(line, &[], parts);
    }
    for isolate in [&[][..], &["--isolate"]] {
        let words = [&["measure", text.as_str()], isolate].concat();
        let stderr = isochron(&words).failure(2);
        assert!(
            stderr.contains(&text) && stderr.contains("file too short"),
            "{stderr}"
        );
    }
    let words = "measure dgemv --from 1000000000 --to 1000000000 --width 100000";
    let stderr = isochron(&words.split(' ').collect::<Vec<_>>()).failure(1);
    assert!(
        stderr.contains("kernel dgemv: initialize of 1000000000 units found no memory"),
        "{stderr}"
    );
}
