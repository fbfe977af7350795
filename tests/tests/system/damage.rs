//! Results that are damaged on one rank: none of them is called verified, and none is published.

use std::fs;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, Outcome, is_whole, libraries, open_mpi, run};
use serde_json::Value;

use crate::command::{Folder, json};

/// A BLAS that does what `FAULT` says in the second call of the last rank. It multiplies an element of its inputs, `a` or `b`, by
/// `FACTOR`.
const FAULTY_BLAS: &str = r#"
#include <complex.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *openmpi, const char *mpich)
{
    const char *value = getenv(openmpi);
    value = value ? value : getenv(mpich);
    return value ? value : "0";
}

static const char *find_fault(int *calls)
{
    int rank = atoi(variable("OMPI_COMM_WORLD_RANK", "PMI_RANK"));
    int is_last = rank + 1 == atoi(variable("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"));
    const char *fault = getenv("FAULT");
    return fault && is_last && __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED) == 2 ? fault : "";
}

#define GEMM(letter, number, scalar, value)                                                                            \
    static void letter##add(int m, int n, int k, number alpha, const number *a, int lda, const number *b, int ldb,     \
                            number *c, int ldc)                                                                        \
    {                                                                                                                  \
        for (int j = 0; j < n; j++)                                                                                    \
            for (int p = 0; p < k; p++)                                                                                \
                for (int i = 0; i < m; i++)                                                                            \
                    c[i + (size_t)j * ldc] += alpha * a[i + (size_t)p * lda] * b[p + (size_t)j * ldb];                 \
    }                                                                                                                  \
    static void letter##swap(number *x, number *y) { number z = *x; *x = *y; *y = z; }                                 \
    void cblas_##letter##gemm(int order, int ta, int tb, int m, int n, int k, scalar alpha, const number *a, int lda,  \
                              const number *b, int ldb, scalar beta, number *c, int ldc)                               \
    {                                                                                                                  \
        static int calls;                                                                                              \
        const char *fault = find_fault(&calls);                                                                        \
        (void)order; (void)ta; (void)tb; (void)beta;                                                                   \
        if (!strcmp(fault, "a"))                                                                                       \
            ((number *)a)[m / 2 + (size_t)(k / 2) * lda] *= atof(getenv("FACTOR"));                                    \
        if (!strcmp(fault, "b"))                                                                                       \
            ((number *)b)[k / 2 + (size_t)(n / 2) * ldb] *= atof(getenv("FACTOR"));                                    \
        for (int times = !strcmp(fault, "missed") ? 0 : !strcmp(fault, "twice") ? 2 : 1; times; times--)               \
            letter##add(m, n, k, value alpha, a, lda, b, ldb, c, ldc);                                                 \
        if (!strcmp(fault, "element"))                                                                                 \
            c[m / 2] += 1e-10;                                                                                         \
        if (!strcmp(fault, "nan"))                                                                                     \
            c[m / 2] = 0.0 / 0.0;                                                                                      \
        for (int i = 0; i < m && !strcmp(fault, "columns"); i++)                                                       \
            letter##swap(&c[i], &c[i + (size_t)(n - 1) * ldc]);                                                        \
        for (int j = 0; j < n && !strcmp(fault, "rows"); j++)                                                          \
            letter##swap(&c[(size_t)j * ldc], &c[m - 1 + (size_t)j * ldc]);                                            \
    }

GEMM(s, float, float, )
GEMM(d, double, double, )
GEMM(c, float complex, const float complex *, *)
GEMM(z, double complex, const double complex *, *)
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
    multiply_on(2, mpi, words, variables)
}

fn multiply_on(ranks: usize, mpi: &Mpi, words: &str, variables: &[(&str, &str)]) -> Outcome {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = mpi.command(ranks, &mpi.isochron, &words);
    command.envs(variables.iter().copied());
    run(command, HANGS)
}

/// Makes a plan with several parts of k.
fn plan_parts(folder: &Folder, blas: &str) -> String {
    let path = folder.path("plan.json");
    let line = format!(
        "mxm --size 200 --panel 32 --plan --strategy homogeneous --split c --blas {blas} --save-plan {path} --quiet"
    );
    multiply(&open_mpi(), &line, &[]).success();
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
        assert!(sound.success().contains(", verified"));
        fs::remove_file(&out).expect("a result");
        for (fault, way) in mpi.take_turns(cases.iter().copied()) {
            let told = multiply(&mpi, &format!("{line} {way}"), &[("FAULT", fault)]);
            let told = told.failure(1);
            assert!(told.contains("failed its check"), "{fault} {way}: {told}");
            assert!(!fs::exists(&out).expect("a folder"), "{fault} {way}");
        }
    }
}

/// The check has read A and B before, and examines suspicious elements with what the BLAS left of them.
#[test]
fn what_a_blas_writes_into_its_inputs_is_not_published() {
    let folder = Folder::new();
    let (blas, out) = (compile(&folder), folder.path("c.npy"));
    let factors =
        ["1.06", "1.25", "-1", "0", "1e3", "0.5", "2", "16", "-2", "0.75", "1e-3", "4", "1.125"];
    let factors = &factors[..if is_whole() { factors.len() } else { 1 }];
    let mut cases = Vec::new();
    for factor in factors {
        for kind in ["f32", "f64", "c32", "c64"] {
            cases.extend([("a", 1), ("b", 3), ("b", 1), ("a", 3)].map(|of| (*factor, kind, of)));
        }
    }
    for mpi in libraries() {
        for (factor, kind, (input, ranks)) in mpi.take_turns(cases.iter().copied()) {
            let line = format!(
                "mxm --m 150 --n 170 --k 190 --panel 32 --type {kind} --strategy homogeneous --blas {blas} --out {out}"
            );
            let variables = [("FAULT", input), ("FACTOR", factor)];
            let told = multiply_on(ranks, &mpi, &line, &variables).failure(1);
            let case = format!("{factor} {kind} {input} {ranks}: {told}");
            assert!(told.contains("failed its check") || told.contains("not verified"), "{case}");
            assert!(!fs::exists(&out).expect("a folder"), "{case}");
        }
    }
}

#[test]
fn a_bit_that_flips_after_the_check_is_not_published() {
    let folder = Folder::new();
    let stages = ["digested", "checked", "copied", "written"];
    let cases: Vec<_> =
        stages.iter().flat_map(|stage| [(*stage, "npy"), (*stage, "mtx")]).collect();
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
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.arg("check").args(words);
    run(command, HANGS)
}

#[test]
fn a_file_is_compared_with_the_report_of_its_run() {
    for (mpi, (ending, kind)) in libraries().into_iter().zip([("npy", "c32"), ("mtx", "f32")]) {
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
        for (file, report) in
            [(&report, &report), (&out, &out), (&folder.path("none.npy"), &report)]
        {
            check(&[file, "--report", report]).failure(2);
        }
    }
}

#[test]
fn a_result_beyond_its_type_is_said_to_overflow() {
    let folder = Folder::new();
    let a = folder.write("a.mtx", "%%MatrixMarket matrix array real general\n2 2\n1e30\n1\n1\n1\n");
    let out = folder.path("c.npy");
    let line = format!("mxm --a {a} --b {a} --type f32 --out {out}");
    for mpi in libraries() {
        let told = multiply(&mpi, &line, &[]).failure(1);
        assert!(told.contains("overflows f32") && told.contains("row 0, column 0"), "{told}");
        assert!(!fs::exists(&out).expect("a folder"));
    }
    let mpi = open_mpi();
    let shown = multiply(&mpi, &format!("{line} --verify none"), &[]).success();
    assert!(shown.contains("note: the result overflows f32"), "{shown}");
}

#[test]
fn the_smallest_error_that_the_probe_finds_is_told() {
    let mpi = open_mpi();
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
