//! `isochron measure`.

use std::path::Path;
use std::process::Command;

use isochron_tests::emulator::run_emulated;
use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};
use serde_json::Value;

use super::{Folder, check_told, json, read_json, refused, run_line, write_platform};

/// Few repetitions of small sizes: the tests are not about speed.
const QUICK: &str = "--width 64 --min-reps 2 --max-reps 3";

/// Compiles a kernel whose run of `d` units is the statement `execute`.
pub fn compile(folder: &Folder, name: &str, execute: &str) -> String {
    let text = format!(
        "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>\n\
         #include \"isochron_kernel.h\"\nstatic uint64_t units;\n\
         static double complexity(uint64_t d) {{ return (double)d; }}\n\
         static int32_t initialize(uint64_t d, void **context) {{ *context = &units; units = d; return 0; }}\n\
         static int32_t execute(void *context, const isochron_flag_t *interrupted) {{\n\
         volatile uint64_t d = *(uint64_t *)context; (void)interrupted;\n{execute}\nreturn 0;\n}}\n\
         static int32_t finalize(void *context) {{ (void)context; return 0; }}\n\
         const isochron_kernel_t isochron_kernel = {{ISOCHRON_KERNEL_ABI, \"k\", complexity, initialize, execute, finalize}};\n"
    );
    let (source, library) =
        (folder.write(&format!("{name}.c"), &text), folder.path(&format!("{name}.so")));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices/kernel/include");
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-shared", "-fPIC", "-I"]).arg(include);
    command.args([&source, "-o", &library]);
    run(command, HANGS).success();
    library
}

#[test]
fn a_kernel_that_fails_is_named_with_the_reason() {
    let folder = Folder::new();
    let loading = "return 0; }\n__attribute__((constructor)) static int begin(void) { abort(); ";
    let other = "return 0; }\n#undef ISOCHRON_KERNEL_ABI\n#define ISOCHRON_KERNEL_ABI 99\n\
                 static int unused(void) {";
    let (returned, version) =
        ("execute of 2 units returned error 42", "version 99 of the kernel interface");
    for (name, execute, isolated, alone) in [
        (
            "crash",
            "if (d > 1) *(volatile int *)0 = 1;",
            "ended by signal 11 (SIGSEGV) in execute of 2 units",
            "crashed by SIGSEGV: with --isolate",
        ),
        (
            "loading",
            loading,
            "ended by signal 6 (SIGABRT) while it was loaded",
            "crashed by SIGABRT: with --isolate",
        ),
        (
            "leaves",
            "exit(3);",
            "exited with status 3 in execute of 1 units",
            "ended the process before the result was there",
        ),
        ("fails", "if (d > 1) return 42;", returned, returned),
        ("other", other, version, version),
    ] {
        let library = compile(&folder, name, execute);
        for (option, reason) in [("--isolate", isolated), ("", alone)] {
            let line = format!("measure {library} --to 2 --points 2 {option}");
            let outcome = run_line(&line);
            assert_ne!(outcome.status, Some(0), "{line}");
            check_told(&outcome.stderr, &[&library, reason], &line);
        }
    }
}

#[test]
fn a_kernel_that_takes_too_long_is_stopped_and_larger_sizes_are_not_tried() {
    let folder = Folder::new();
    let waits =
        "while (d > 1 && !*interrupted) {}\nif (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;";
    let waits = compile(&folder, "waits", waits);
    // It ignores its interruption, and is killed.
    let endless = compile(&folder, "endless", "while (d > 1) {}");
    for (library, option) in [(&waits, ""), (&waits, "--isolate"), (&endless, "--isolate")] {
        let line = format!("measure {library} --to 4 --points 4 --max-seconds 0.05 {option}");
        let found = read_json(&line);
        let points = found["ranks"][0]["points"].as_array().expect("points");
        let reps: Vec<bool> = points.iter().map(|point| point["reps"] != 0).collect();
        assert_eq!(reps, [true, false], "{found}");
        assert!(points[1]["t_s"].as_f64().is_some_and(|t_s| t_s > 0.05), "{found}");
    }
}

/// Kills its process, the first time that each size is run.
const FATAL: &str =
    "char name[99]; FILE *seen; snprintf(name, 99, \"%s/%d\", getenv(\"SEEN\"), (int)d);
seen = fopen(name, \"r\");
if (!seen) { fclose(fopen(name, \"w\")); kill(getpid(), 9); }
fclose(seen);";

#[test]
fn a_campaign_of_ranks_that_are_killed_at_every_size_comes_to_its_end() {
    for mpi in libraries() {
        kill_at_every_size(&mpi);
    }
}

fn kill_at_every_size(mpi: &Mpi) {
    let folder = Folder::new();
    let kernel = compile(&folder, "fatal", FATAL);
    let out = folder.path("out");
    let line =
        format!("measure {kernel} --to 4 --points 4 --min-reps 2 --max-reps 2 --out {out} --json");
    for killed in 1..=9 {
        let mut command = mpi.line_command(2, &line);
        command.env("SEEN", folder.0.path());
        let outcome = run(command, HANGS);
        if outcome.status == Some(0) {
            let found = json(&outcome.stdout);
            // At least one rank of each size killed the job; the points before it were kept.
            assert!((5..=9).contains(&killed), "{killed}");
            assert_eq!(found["resumed"], 3, "{found}");
            for rank in found["ranks"].as_array().expect("ranks") {
                assert_eq!(rank["points"].as_array().map(Vec::len), Some(4), "{found}");
            }
            return;
        }
    }
    panic!("the campaign does not come to its end");
}

#[test]
fn every_rank_has_a_model_that_the_same_command_continues() {
    let folder = Folder::new();
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line = format!("measure jacobi {QUICK} --to 90 --points 3 --out {out} --json");
        for resumed in [0, 3] {
            let found = json(&mpi.run_line(2, &line).success());
            assert_eq!(found["resumed"], resumed, "{found}");
            let ranks = found["ranks"].as_array().expect("ranks");
            assert_eq!(ranks.len(), 2);
            for rank in ranks {
                let file = rank["file"].as_str().expect("a file");
                let shown = read_json(&format!("models show {file}"));
                assert_eq!(shown["models"][0]["points"].as_array().map(Vec::len), Some(3));
            }
        }
        // Another precision is another model.
        let told = mpi.run_line(2, &format!("{line} --confidence 0.9")).failure(2);
        check_told(&told, &["measured-with", &out], &line);
    }
}

#[test]
fn every_built_in_kernel_is_measured() {
    for kernel in [
        "gemm --blas embedded",
        "dgemv --width 64 --isolate",
        "fft --width 64",
        "naive-gemm --isolate",
    ] {
        let line = format!("measure {kernel} --min-reps 2 --max-reps 3 --to 9 --adaptive");
        let found = read_json(&line);
        let points = found["ranks"][0]["points"].as_array().expect("points");
        let is_fast = |point: &Value| point["work_per_s"].as_f64() > Some(0.0);
        assert!(points.len() > 3 && points.iter().all(is_fast), "{found}");
    }
}

/// Sleeps for 1 and 3 milliseconds in turn.
const UNSTEADY: &str =
    "static int runs; struct timespec pause = {0, 1000000L + 2000000L * (runs++ % 2)};
nanosleep(&pause, 0); (void)d;";

#[test]
fn every_limit_of_the_thesis_ends_a_measurement() {
    let folder = Folder::new();
    let unsteady = compile(&folder, "unsteady", UNSTEADY);
    for (options, repetitions) in [
        // The fewest repetitions, whatever the precision, and the most, which disturbances may exceed by half.
        ("--precision 0.99 --confidence 0.5 --min-reps 7", 7..=u64::MAX),
        ("--precision 1e-9 --max-reps 10", 5..=15),
        // The relative error, and the seconds of a point.
        ("--precision 0.9 --confidence 0.5", 1..=19),
        ("--precision 1e-9 --max-reps 100000 --max-seconds 0.1", 1..=999),
    ] {
        let found = read_json(&format!("measure {unsteady} --to 1 --points 1 {options}"));
        let reps = found["ranks"][0]["points"][0]["reps"].as_u64().expect("a count");
        assert!(repetitions.contains(&reps), "{options}: {reps}");
    }
}

/// Returns the units of the points of each rank.
fn list_units(found: &Value) -> Vec<Vec<u64>> {
    let ranks = found["ranks"].as_array().expect("ranks").iter();
    ranks.map(|rank| list_times(rank).into_iter().map(|(d, _)| d).collect()).collect()
}

#[test]
fn sizes_are_those_of_the_thesis() {
    let measure_sizes =
        |options| list_units(&read_json(&format!("measure jacobi {QUICK} {options}"))).remove(0);
    // A fixed number of sizes from the lower to the upper one.
    assert_eq!(measure_sizes("--from 2 --to 11 --points 4"), [2, 5, 8, 11]);
    // An adaptive set, with its first increment and its granularity.
    let adaptive = measure_sizes("--from 5 --to 905 --adaptive --step 30 --tolerance 0.5");
    assert_eq!((adaptive[..3].to_vec(), adaptive.last()), (vec![5, 35, 65], Some(&905)));
    assert!(adaptive.iter().all(|d| (d - 5) % 30 == 0), "{adaptive:?}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (line, parts) in [
        ("measure nothing", &["KERNEL = nothing", "built-in kernel (gemm"][..]),
        ("measure gemm --from 9 --to 8", &["--from 9 is above --to 8"]),
        ("measure gemm --step 8", &["--adaptive"]),
        ("measure gemm --min-reps 1", &["--min-reps", "number from 2"]),
        ("measure gemm --max-reps 1", &["--max-reps", "number from 2"]),
        ("measure gemm --min-reps 5 --max-reps 4", &["max_reps = 4", "at least min_reps"]),
        ("measure gemm --confidence 95", &["--confidence", "between 0 and 1"]),
        ("measure gemm --tolerance 0.1", &["--adaptive"]),
        ("measure gemm --points 0", &["--points", "number from 1"]),
        ("measure gemm --max-seconds 0", &["--max-seconds", "above 0"]),
        ("measure gemm --to 2 --out Cargo.toml", &["Cargo.toml", "is not a folder"]),
        ("measure . --to 2", &["kernel library .", "it is a folder, not a file"]),
        ("measure gemm --surface", &["--surface: goes with the kernel mxm"]),
        ("measure gemm --alone", &["--alone: goes with the kernel mxm"]),
        ("measure fft --panel 8", &["--panel: goes with the kernel mxm"]),
        ("measure jacobi --block 3", &["--block: goes with mxm, gemm", "the kernel is jacobi"]),
        ("measure mxm --width 9", &["--width: goes with jacobi, dgemv, fft"]),
        ("measure mxm --isolate", &["--isolate: does not go with mxm"]),
        ("measure mxm --unbound", &["--unbound: does not go with mxm"]),
        ("measure mxm --surface --adaptive", &["cannot be used with"]),
        ("measure mxm --surface --svg x.svg", &["--surface"]),
        ("measure mxm --platform nowhere.toml", &["nowhere.toml"]),
        ("measure mxm --type f16", &["f16"]),
        ("measure mxm --budget 0", &["--budget", "above 0"]),
        ("measure mxm --thorough --budget 9", &["--thorough"]),
        ("measure mxm --alone --block 0", &["--block"]),
        ("measure mxm --alone --from 512 --to 256", &["--from 512"]),
        ("measure mxm --alone --precision 0", &["precision"]),
        ("measure mxm --alone --group socket", &["socket"]),
        ("measure mxm --alone --platform nowhere.toml", &["nowhere.toml"]),
        ("mxm --size 64 --confidence 1", &["confidence"]),
        ("mxm --size 64 --min-reps 5 --max-reps 4", &["max_reps"]),
    ] {
        refused(line, &[], parts);
    }
    let folder = Folder::new();
    let text = folder.write("text.so", "no library");
    for line in ["measure", "measure --isolate"] {
        refused(line, &[&text], &[&text, "file too short"]);
    }
    let line = "measure dgemv --from 1000000000 --to 1000000000 --width 100000";
    let told = run_line(line).failure(1);
    check_told(&told, &["kernel dgemv: initialize of 1000000000 units found no memory"], line);
}

#[test]
fn a_size_without_memory_ends_a_model_and_not_the_campaign() {
    let folder = Folder::new();
    for options in [
        "jacobi --width 64",
        "jacobi --width 64 --isolate",
        "mxm --blas embedded --block 8 --panel 8 --group node --store none",
    ] {
        let out = folder.path(&options.replace(' ', "_"));
        let line = format!(
            "measure {options} --to 1000000000000 --points 3 --min-reps 2 --max-reps 3 --out {out}"
        );
        for resumed in [0, 1] {
            let found = read_json(&line);
            assert_eq!(found["resumed"], resumed, "{found}");
            assert_eq!(list_units(&found), [[1]], "{found}");
            let told = found["notices"].to_string();
            check_told(&told, &["has no memory for 500000000000 units"], &line);
        }
    }
}

#[test]
fn a_size_without_memory_on_one_rank_is_measured_on_the_others() {
    let folder = Folder::new();
    let text = "if (d > 1) return 0;\nreturn 0; }\n\
                static int32_t initialize_less(uint64_t d, void **context) {\n\
                const char *rank = getenv(\"OMPI_COMM_WORLD_RANK\");\n\
                if (d > 4 && rank && rank[0] == '1') return ISOCHRON_KERNEL_NO_MEMORY;\n\
                return initialize(d, context);\n}\n\
                #define initialize initialize_less\n\
                static int32_t unused(void) {";
    let library = compile(&folder, "less", text);
    let mpi = open_mpi();
    let out = folder.path("out");
    let line =
        format!("measure {library} --to 9 --points 3 --min-reps 2 --max-reps 3 --out {out} --json");
    for resumed in [0, 3] {
        let found = json(&mpi.run_line(2, &line).success());
        assert_eq!(found["resumed"], resumed, "{found}");
        assert_eq!(list_units(&found), [vec![1, 5, 9], vec![1]], "{found}");
    }
}

/// The update of mxm by blocks of 8, a few times.
// One library, so that a repeated call continues the points of the first: the fastest may be another one each time.
const UPDATE: &str =
    "measure mxm --blas embedded --block 8 --panel 8 --min-reps 2 --max-reps 3 --json";

/// Reads the units and seconds of a model.
fn list_times(model: &Value) -> Vec<(u64, f64)> {
    model["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|point| (point["d"].as_u64(), point["t_s"].as_f64()))
        .map(|(d, t_s)| (d.expect("units"), t_s.expect("seconds")))
        .collect()
}

#[test]
fn every_device_of_a_platform_file_has_a_model_of_its_own() {
    let folder = Folder::new();
    let platform = write_platform(&folder);
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line = format!("{UPDATE} --to 9 --points 2 --platform {platform} --out {out}");
        let found = json(&mpi.run_line(2, &line).success());
        let models = found["ranks"].as_array().expect("models");
        let names: Vec<String> =
            models.iter().map(|model| format!("{} {}", model["rank"], model["device"])).collect();
        assert_eq!(names, ["0 \"a\"", "0 \"b\"", "1 \"c\""], "{found}");
        let [a, b, _] = [0, 1, 2].map(|part| list_times(&models[part]));
        assert_eq!(a.iter().map(|(d, _)| *d).collect::<Vec<_>>(), [1, 9]);
        assert!(a.iter().zip(&b).all(|(a, b)| a.1 < b.1), "{found}");
        // All devices of the host computed at the same time, those of the other rank among them.
        let text = std::fs::read_to_string(format!("{out}/rank0-a-together.points"));
        let parts = [
            "# measured-beside: rank 0 b, rank 1 c\n",
            "# kernel: update of mxm, gemm\n",
            "# block: 8\n",
            "# panel: 8\n",
            "# rank: 0 of 2\n",
        ];
        check_told(&text.expect("a file"), &parts, &line);
        let again = json(&mpi.run_line(2, &line).success());
        assert_eq!(again["resumed"], 2, "{again}");
        // 32 columns of 64 rows take 0.032 s on the one and 0.096 s on the others, more than twice 0.02 s.
        let line = format!("{UPDATE} --to 64 --points 3 --max-seconds 0.02 --platform {platform}");
        let found = json(&mpi.run_line(2, &line).success());
        for (model, measured) in [(0, &[true; 3][..]), (1, &[true, false])] {
            let points = found["ranks"][model]["points"].as_array().expect("points");
            let found: Vec<bool> = points.iter().map(|point| point["reps"] != 0).collect();
            assert_eq!(found, measured, "{points:?}");
        }
    }
}

#[test]
fn a_surface_has_every_height_with_every_width() {
    let folder = Folder::new();
    let out = folder.path("out");
    let line = format!("{UPDATE} --surface --from 1 --to 5 --points 3 --group node --out {out}");
    let found = json(&run_line(&line).success());
    let points = found["ranks"][0]["points"].as_array().expect("points");
    let sides: Vec<&Value> = points.iter().map(|point| &point["d"]).collect();
    assert_eq!(sides, [1, 3, 5, 3, 9, 15, 5, 15, 25], "{found}");
    let file = found["ranks"][0]["file"].as_str().expect("a file");
    assert!(file.ends_with("-alone.surface"), "{file}");
    let shown = read_json(&format!("models show {file}"));
    assert_eq!(shown["models"][0]["points"].as_array().map(Vec::len), Some(9));
    let resumed = json(&run_line(&line).success());
    assert_eq!(resumed["resumed"], 9, "{resumed}");
    // Two nodes like this one lay out a matrix.
    run_line(&format!("layout --method fpm-kl --rows 16 --cols 16 --models {file} {file}"))
        .success();
}

#[test]
fn gpus_are_measured_with_the_cores_beside_them() {
    let folder = Folder::new();
    for mpi in libraries() {
        let line = format!("{UPDATE} --to 16 --points 2 --out {}", folder.path(mpi.name));
        let found = json(&run_emulated(&mpi, 1, &line, &[("MEMORY", "1M")]).success());
        let models = found["ranks"].as_array().expect("models");
        let gpu = models.iter().find(|model| model["device"] == "cuda0");
        let gpu = gpu.unwrap_or_else(|| panic!("{found}"));
        assert_eq!(list_times(gpu).len(), 2, "{found}");
        let names = models.iter().filter_map(|model| model["device"].as_str());
        let others: Vec<&str> = names.filter(|name| *name != "cuda0").collect();
        let beside = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        let file = std::fs::read_to_string(gpu["file"].as_str().expect("a file"));
        let line = format!("# measured-beside: {beside}\n");
        check_told(&file.expect("a file"), &[&line], "the GPU");
    }
}
