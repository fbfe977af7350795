//! The BLAS of the program around: its threads and layers stay as they are.
//!
//! Libraries belong to the whole process, so every case is a separate process: this program, started again for one of its
//! tests with a variable set.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use isochron_devices::blas::{BlasChoice, choose_blas};
use isochron_devices::{Blas, View, ViewMut};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that runs one case.
const CASE: &str = "ISOCHRON_HOST_BLAS_CASE";

type SetsInt = unsafe extern "C" fn(i32);
type GivesInt = unsafe extern "C" fn() -> i32;

/// Runs the case `name`, a test of this program, in a separate process. Returns `true` in that process.
fn is_in_case(name: &str, variables: &[(&str, &Path)]) -> bool {
    if std::env::var_os(CASE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--test-threads=1", "--nocapture"]);
    command.env(CASE, name).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn count_mappings(part: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(part)).count()
}

/// Multiplies matrices of ones on a thread of its own, as devices do.
fn assert_multiplies(blas: &Arc<dyn Blas>) {
    let product = || {
        let (a, mut c) = (vec![1.0; 300 * 300], vec![0.5; 300 * 300]);
        let a = View::new(&a, 300, 300, 300);
        blas.gemm(2.0, a, a, ViewMut::new(&mut c, 300, 300, 300));
        c
    };
    let c = std::thread::scope(|scope| scope.spawn(product).join().unwrap());
    assert!(c.iter().all(|&value: &f64| value == 600.5), "{}", blas.name());
}

#[test]
fn a_host_program_that_set_two_threads_of_openblas_finds_two() {
    const FILE: &str = "libopenblas.so.0";
    if !is_in_case("a_host_program_that_set_two_threads_of_openblas_finds_two", &[]) {
        return;
    }
    // SAFETY: a BLAS of the system, whose functions have these signatures. With its names known to all libraries.
    let Ok(host) = (unsafe { Library::open(Some(FILE), RTLD_NOW | RTLD_GLOBAL) }) else {
        eprintln!("skipped: no {FILE}");
        return;
    };
    // SAFETY: these are the signatures of cblas.h.
    let (set, get) = unsafe {
        let set = host.get::<SetsInt>(b"openblas_set_num_threads").unwrap();
        let get = host.get::<GivesInt>(b"openblas_get_num_threads").unwrap();
        (*set, *get)
    };
    // SAFETY: as above.
    unsafe { set(2) };
    let path = isochron_path(FILE);
    for choice in [BlasChoice::OpenBlas, BlasChoice::Auto, BlasChoice::Path(path)] {
        let blas = choose_blas(&choice).unwrap();
        assert_multiplies(&blas);
        // SAFETY: as above.
        let threads = unsafe { get() };
        assert_eq!(threads, 2, "{choice}");
    }
    let name = choose_blas(&BlasChoice::OpenBlas).unwrap().name().to_owned();
    assert!(name.starts_with("OpenBLAS") && name.contains(FILE), "{name}");
    // One copy, however often it is asked for, beside that of the path.
    assert!(count_mappings("memfd:") < 20);
}

/// Returns the path of a library that is loaded.
fn isochron_path(file: &str) -> String {
    let stem = file.split(".so").next().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find(|line| line.contains(stem) && line.contains('/'));
    let found = found.unwrap();
    found[found.find('/').unwrap()..].to_owned()
}

#[test]
fn a_library_that_the_program_has_not_loaded_stays_unloaded() {
    if !is_in_case("a_library_that_the_program_has_not_loaded_stays_unloaded", &[]) {
        return;
    }
    if choose_blas(&BlasChoice::OpenBlas).is_err() {
        eprintln!("skipped: no OpenBLAS");
        return;
    }
    // Loaded while a thread was bound to one unit, it would have no other thread for the program.
    assert_eq!(count_mappings("/libopenblas"), 0);
    assert_ne!(count_mappings("memfd:libopenblas"), 0);
}

/// A made-up MKL. It counts the calls of its setters, and its products show if they ran on one thread.
const MADE_UP_MKL: &str = r#"
static int process_wide, is_shared; static _Thread_local int local;
void MKL_Get_Version_String(char *text, int n) { const char *t = "Math Kernel Library Version 9.9-Product"; while (n-- > 1 && (*text++ = *t++)); }
int MKL_Set_Interface_Layer(int layer) { process_wide++; return layer; }
int MKL_Set_Threading_Layer(int layer) { process_wide++; return layer; }
void MKL_Set_Num_Threads(int n) { process_wide += n; }
int MKL_Set_Num_Threads_Local(int n) { int before = local; local = n; return before; }
int count_process_wide(void) { return process_wide; }
int count_shared(void) { return is_shared; }
#define GEMM(name, type, by, at) void name(int o, int ta, int tb, int m, int n, int k, type by alpha, const type *a, int lda, \
    const type *b, int ldb, type by beta, type *c, int ldc) { is_shared += local != 1; for (int j = 0; j < n; j++) for (int i = 0; i < m; i++) { \
    type sum = 0; for (int p = 0; p < k; p++) sum += a[i + p * (long)lda] * b[p + j * (long)ldb]; \
    c[i + j * (long)ldc] = at beta * c[i + j * (long)ldc] + at alpha * sum; } }
#define BY_VALUE
#define BY_ADDRESS const *
GEMM(cblas_sgemm, float, BY_VALUE, )
GEMM(cblas_dgemm, double, BY_VALUE, )
GEMM(cblas_cgemm, _Complex float, BY_ADDRESS, *)
GEMM(cblas_zgemm, _Complex double, BY_ADDRESS, *)
"#;

#[test]
fn layers_and_threads_of_mkl_stay_as_the_program_has_them() {
    const CASE_NAME: &str = "layers_and_threads_of_mkl_stay_as_the_program_has_them";
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os(CASE).is_none() {
        let source = folder.path().join("mkl.c");
        std::fs::write(&source, MADE_UP_MKL).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]);
        compiler.arg(folder.path().join("libmkl_rt.so.3")).arg(&source);
        assert!(compiler.status().unwrap().success());
    }
    let layer = Path::new("sequential");
    let variables = [("LD_LIBRARY_PATH", folder.path()), ("MKL_THREADING_LAYER", layer)];
    if !is_in_case(CASE_NAME, &variables) {
        return;
    }
    for choice in [BlasChoice::Mkl, BlasChoice::Auto] {
        let blas = choose_blas(&choice).unwrap();
        assert_multiplies(&blas);
        assert!(
            choice == BlasChoice::Auto || blas.name().starts_with("MKL 9.9"),
            "{}",
            blas.name()
        );
    }
    // SAFETY: the made-up library has these functions.
    unsafe {
        let host = Library::open(Some("libmkl_rt.so.3"), RTLD_NOW).unwrap();
        for counter in [b"count_process_wide".as_slice(), b"count_shared"] {
            assert_eq!(host.get::<GivesInt>(counter).unwrap()(), 0);
        }
        let set = host.get::<unsafe extern "C" fn(i32) -> i32>(b"MKL_Set_Num_Threads_Local");
        assert_eq!(set.unwrap()(0), 0, "the number of this thread is as before");
    }
}
