//! Wrong input ends soon, on all ranks, with one clear message and its exit status.

use std::path::{Path, PathBuf};

use isochron_tests::launch::{Mpi, SOON, libraries, run};
use tempfile::TempDir;

const INPUT: i32 = 2;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a writable folder");
        path
    }

    /// A `.mtx` file of ones.
    fn matrix(&self, name: &str, rows: usize, cols: usize) -> PathBuf {
        let text = format!(
            "%%MatrixMarket matrix array real general\n{rows} {cols}\n{}",
            "1\n".repeat(rows * cols)
        );
        self.write(name, text.as_bytes())
    }
}

/// Runs `isochron mxm` on 3 ranks under both libraries and expects `message`, once, and no file at `out`.
fn refused(arguments: &[&str], message: &str, out: Option<&Path>) {
    for mpi in libraries() {
        let stderr = refusal(&mpi, arguments);
        assert_eq!(
            stderr.matches(message).count(),
            1,
            "{}: {message:?} once in {stderr}",
            mpi.name
        );
        assert!(
            out.is_none_or(|path| !path.exists()),
            "{}: an output file was left behind",
            mpi.name
        );
    }
}

fn refusal(mpi: &Mpi, arguments: &[&str]) -> String {
    let command = mpi.command(3, &mpi.isochron, &[&["mxm"], arguments].concat());
    run(command, SOON).failure(INPUT)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a name")
}

#[test]
fn limits_of_measuring_are_refused_by_a_strategy_that_measures_nothing() {
    refused(
        &["--size", "64", "--strategy", "homogeneous", "--fit", "akima"],
        "fit = akima: an option of strategy fpm, not of homogeneous",
        None,
    );
}

#[test]
fn a_missing_file_is_named() {
    let files = Files::new();
    let (a, b, out) =
        (files.path("missing.npy"), files.matrix("b.mtx", 2, 2), files.path("out.npy"));
    refused(&["--a", text(&a), "--b", text(&b), "--out", text(&out)], "missing.npy", Some(&out));
}

#[test]
fn truncated_files_are_named_with_the_reason() {
    let files = Files::new();
    let out = files.path("out.npy");
    let market =
        files.write("short.mtx", b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n";
    bytes.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend([0; 31]);
    let numpy = files.write("short.npy", &bytes);
    let whole = files.matrix("whole.mtx", 2, 2);
    for (path, reason) in [(&market, "truncated: 3 elements of 4"), (&numpy, "truncated: 31 bytes")]
    {
        refused(&["--a", text(path), "--b", text(&whole), "--out", text(&out)], reason, Some(&out));
    }
}

#[test]
fn shapes_that_do_not_multiply_are_shown() {
    let files = Files::new();
    let (a, b) = (files.matrix("a.mtx", 2, 3), files.matrix("b.mtx", 4, 2));
    refused(&["--a", text(&a), "--b", text(&b)], "shapes do not multiply", None);
    let (b, c) = (files.matrix("b.mtx", 3, 2), files.matrix("c.mtx", 3, 3));
    refused(&["--a", text(&a), "--b", text(&b), "--c", text(&c)], "A*B is 2×2", None);
}

#[test]
fn broken_platforms_are_explained() {
    let files = Files::new();
    let unknown =
        files.write("unknown.toml", b"schema = 1\n[[node]]\nspeed = 3\n[[node]]\n[[node]]\n");
    let few = files.write("few.toml", b"schema = 1\n[[node]]\n[[node]]\n");
    let missing = files.path("missing.toml");
    for (path, reason) in [
        (&unknown, "unknown field `speed`"),
        (&few, "describes 2 nodes, but there are 3 ranks"),
        (&missing, "missing.toml"),
    ] {
        refused(&["--size", "64", "--platform", text(path)], reason, None);
    }
}

#[test]
fn a_missing_size_is_asked_for() {
    refused(&[], "isochron: no size: give --size, or", None);
}

#[test]
fn block_zero_is_refused() {
    refused(&["--size", "64", "--block", "0"], "block = 0", None);
}

#[test]
fn zero_iterations_are_refused() {
    refused(
        &["--size", "64", "--max-iterations", "0"],
        "'--max-iterations <N>': expected a whole number from 1 to 4294967295",
        None,
    );
}

#[test]
fn more_memory_than_there_is_is_refused_with_the_missing_amount() {
    refused(&["--size", "4000000"], "MiB: the plan needs", None);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let files = Files::new();
    let nowhere = files.path("no-such-folder").join("out.npy");
    refused(&["--size", "64", "--out", text(&nowhere)], "there is no folder", Some(&nowhere));
    let unknown = files.path("out.xyz");
    refused(&["--size", "64", "--out", text(&unknown)], ".npy (NumPy) or .mtx", Some(&unknown));
}

#[test]
fn unknown_options_are_refused() {
    refused(&["--size", "64", "--strategy", "best"], "expected one of homogeneous", None);
    refused(&["--sise", "64"], "unexpected argument", None);
}

#[test]
fn numbers_that_are_not_whole_get_no_exact_check() {
    let files = Files::new();
    let halves = "%%MatrixMarket matrix array real general\n2 2\n0.5\n0.5\n0.5\n0.5\n";
    let a = files.write("a.mtx", halves.as_bytes());
    let out = files.path("out.mtx");
    let arguments = ["--a", text(&a), "--b", text(&a), "--out", text(&out), "--verify", "exact"];
    refused(&arguments, "an exact check needs whole numbers", Some(&out));
}

#[test]
fn whole_numbers_too_large_for_an_exact_check_are_called_too_large() {
    let files = Files::new();
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '<u8', 'fortran_order': False, 'shape': (1, 1), }";
    bytes.extend(format!("{header:117}\n").bytes());
    bytes.extend((1u64 << 60).to_le_bytes());
    let a = files.write("a.npy", &bytes);
    let line = ["--a", text(&a), "--b", text(&a), "--verify", "exact"];
    refused(&line, "beyond the whole numbers that f64 holds (2^53)", None);
}
