//! Results that are damaged on one rank: none of them is called verified, and none is published.

use std::fs;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, Outcome, is_whole, libraries, run};
use serde_json::Value;

use crate::command::{Folder, json};

/// A BLAS that does what `FAULT` says in the second call of rank 1.
const FAULTY_BLAS: &str = r#"
#include <stdlib.h>
#include <string.h>

static void add(int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double *c, int ldc)
{
    for (int j = 0; j < n; j++)
        for (int p = 0; p < k; p++)
            for (int i = 0; i < m; i++)
                c[i + (size_t)j * ldc] += alpha * a[i + (size_t)p * lda] * b[p + (size_t)j * ldb];
}

static void swap(double *x, double *y) { double z = *x; *x = *y; *y = z; }

void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc)
{
    static int calls;
    const char *fault = getenv("FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank)
        rank = getenv("PMI_RANK");
    int is_time = rank && !strcmp(rank, "1") && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == 2;
    if (!is_time || !fault)
        fault = "";
    (void)order; (void)ta; (void)tb; (void)beta;
    if (strcmp(fault, "missed"))
        add(m, n, k, alpha, a, lda, b, ldb, c, ldc);
    if (!strcmp(fault, "twice"))
        add(m, n, k, alpha, a, lda, b, ldb, c, ldc);
    if (!strcmp(fault, "element"))
        c[m / 2] += 1e-10;
    if (!strcmp(fault, "nan"))
        c[m / 2] = 0.0 / 0.0;
    if (!strcmp(fault, "columns"))
        for (int i = 0; i < m; i++)
            swap(&c[i], &c[i + (size_t)(n - 1) * ldc]);
    if (!strcmp(fault, "rows"))
        for (int j = 0; j < n; j++)
            swap(&c[(size_t)j * ldc], &c[m - 1 + (size_t)j * ldc]);
}
"#;

fn compile(folder: &Folder) -> String {
    let (source, library) = (folder.write("blas.c", FAULTY_BLAS), folder.path("blas.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o", &library, &source]);
    assert!(compiler.status().expect("cc").success());
    library
}

/// Multiplies on two ranks, with variables in their environment.
fn multiply(mpi: &Mpi, words: &str, variables: &[(&str, &str)]) -> Outcome {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = mpi.command(2, &mpi.isochron, &words);
    command.envs(variables.iter().copied());
    run(command, HANGS)
}

/// Makes a plan with several parts of k.
fn plan_parts(folder: &Folder, blas: &str) -> String {
    let path = folder.path("plan.json");
    let line = format!(
        "mxm --size 200 --panel 32 --plan --strategy homogeneous --split c --blas {blas} --save-plan {path} --quiet"
    );
    multiply(&libraries()[0], &line, &[]).success();
    let text = fs::read_to_string(&path).expect("a plan");
    let more = text.replace("\"k_parts\": 1", "\"k_parts\": 3");
    assert_ne!(more, text);
    folder.write("plan.json", &more)
}

#[test]
fn what_a_faulty_blas_does_on_one_rank_is_found() {
    let folder = Folder::new();
    let blas = compile(&folder);
    let in_parts = format!("--load-plan {}", plan_parts(&folder, &blas));
    let ways = ["", "--split k", "--beta 1", &in_parts];
    let cases: Vec<_> = ["element", "nan", "missed", "twice", "columns", "rows"]
        .iter()
        .flat_map(|fault| ways.map(|way| (*fault, way)))
        .collect();
    for mpi in libraries() {
        let out = folder.path("c.npy");
        let line = format!(
            "mxm --size 200 --panel 32 --strategy homogeneous --blas {blas} --out {out} --quiet"
        );
        let sound = multiply(&mpi, &line, &[]);
        assert!(sound.success().contains("verified"));
        fs::remove_file(&out).expect("a result");
        for (fault, way) in mpi.take_turns(cases.iter().copied()) {
            let told = multiply(&mpi, &format!("{line} {way}"), &[("FAULT", fault)]);
            let told = told.failure(1);
            assert!(told.contains("failed its check"), "{fault} {way}: {told}");
            assert!(!fs::exists(&out).expect("a folder"), "{fault} {way}");
        }
    }
}

#[test]
fn a_bit_that_flips_after_the_check_is_not_published() {
    let folder = Folder::new();
    let stages = ["digested", "checked", "copied", "written"];
    let cases: Vec<_> = stages
        .iter()
        .flat_map(|stage| [(*stage, "npy"), (*stage, "mtx")])
        .collect();
    for mpi in libraries() {
        for (stage, ending) in mpi.take_turns(cases.iter().copied()) {
            let out = folder.path(&format!("c.{ending}"));
            let line = format!("mxm --m 70 --n 50 --k 30 --strategy homogeneous --out {out}");
            let told = multiply(&mpi, &line, &[("ISOCHRON_TEST_FLIPPED_AT", stage)]).failure(1);
            assert!(
                told.contains("cannot write") || told.contains("failed its check"),
                "{stage} {ending}: {told}"
            );
            let left: Vec<_> = fs::read_dir(folder.0.path()).expect("a folder").collect();
            assert!(left.is_empty(), "{stage} {ending}: {left:?}");
        }
    }
}

/// Runs `isochron check` on one process.
fn check(words: &[&str]) -> Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.arg("check").args(words);
    run(command, HANGS)
}

#[test]
fn a_file_is_compared_with_the_report_of_its_run() {
    for (mpi, (ending, kind)) in libraries()
        .into_iter()
        .zip([("npy", "c32"), ("mtx", "f32")])
    {
        let folder = Folder::new();
        let [out, report, bare] =
            [&*format!("c.{ending}"), "c.json", "bare.json"].map(|name| folder.path(name));
        let line = format!("mxm --m 70 --n 50 --k 30 --type {kind} --strategy homogeneous");
        multiply(&mpi, &format!("{line} --out {out} --report {report}"), &[]).success();
        multiply(&mpi, &format!("{line} --report {bare}"), &[]).success();
        let same = check(&[&out, "--report", &report, "--json"]).success();
        let written: Value = json(&fs::read_to_string(&report).expect("a report"));
        assert_eq!(json(&same)["found"], written["digest"]);
        let told = check(&[&out, "--report", &bare]).failure(2);
        assert!(told.contains("run it with --out"), "{told}");
        let other = folder.path("other.npy");
        let of_type = line.replace(kind, "c64");
        multiply(&mpi, &format!("{of_type} --out {other}"), &[]).success();
        let told = check(&[&other, "--report", &report]).failure(2);
        assert!(told.contains("holds c64 numbers"), "{told}");
        let mut bytes = fs::read(&out).expect("a result");
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        fs::write(&out, bytes).expect("a result");
        let told = check(&[&out, "--report", &report]).failure(1);
        assert!(told.contains("is not the result of"), "{told}");
        let text = fs::read_to_string(&report).expect("a report");
        let digest = written["digest"].as_str().expect("a digest");
        let broken = folder.write("broken.json", &text.replace(digest, "zz"));
        let told = check(&[&out, "--report", &broken]).failure(2);
        assert!(told.contains("is no report"), "{told}");
        let longer = folder.write("longer.json", &text.replace("\"m\": 70", "\"m\": 71"));
        let told = check(&[&out, "--report", &longer]).failure(1);
        assert!(told.contains("70×50, not 71×50"), "{told}");
        for (file, report) in [
            (&report, &report),
            (&out, &out),
            (&folder.path("none.npy"), &report),
        ] {
            check(&[file, "--report", report]).failure(2);
        }
    }
}

#[test]
fn a_result_beyond_its_type_is_said_to_overflow() {
    let folder = Folder::new();
    let a = folder.write(
        "a.mtx",
        "%%MatrixMarket matrix array real general\n2 2\n1e30\n1\n1\n1\n",
    );
    let out = folder.path("c.npy");
    let line = format!("mxm --a {a} --b {a} --type f32 --out {out}");
    for mpi in libraries() {
        let told = multiply(&mpi, &line, &[]).failure(1);
        assert!(
            told.contains("overflows f32") && told.contains("row 0, column 0"),
            "{told}"
        );
        assert!(!fs::exists(&out).expect("a folder"));
    }
    let [mpi, _] = libraries();
    let shown = multiply(&mpi, &format!("{line} --verify none"), &[]).success();
    assert!(shown.contains("note: the result overflows f32"), "{shown}");
}

#[test]
fn the_smallest_error_that_the_probe_finds_is_told() {
    let [mpi, _] = libraries();
    let sizes: &[usize] = if is_whole() { &[100, 1500] } else { &[100] };
    for size in sizes {
        for (kind, most) in [("f32", 1e-2), ("f64", 1e-10)] {
            let line = format!("mxm --size {size} --type {kind} --strategy homogeneous --json");
            let report = json(&multiply(&mpi, &line, &[]).success());
            let finds = report["verify"]["finds"].as_f64().expect("a number");
            assert!(finds > 0.0 && finds < most, "{kind} {size}: {finds}");
        }
    }
}
