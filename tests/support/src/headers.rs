//! Checks of C headers that are made from Rust, for all crates that have one.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on panics, and says what it skips"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares a header with the committed file, and writes it where the caller of the tests asks for it.
///
/// # Panics
/// If they differ.
pub fn check_committed(path: &Path, made: &str) {
    if std::env::var_os("ISOCHRON_WRITE_DOCS").is_some() {
        std::fs::write(path, made).expect("a writable folder");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let how = "ISOCHRON_WRITE_DOCS=1 cargo xtask test -- generated";
    assert_eq!(committed, made, "{}: write it by `{how}`", path.display());
}

/// Compiles a program in C99 and in C++ without a warning, with the headers of these folders.
///
/// # Panics
/// If a compiler refuses it.
pub fn check_compiles(headers: &[PathBuf], program: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    for (compiler, name, standard) in [("cc", "p.c", "-std=c99"), ("c++", "p.cpp", "-std=c++11")] {
        let file = folder.path().join(name);
        std::fs::write(&file, program).expect("a writable folder");
        let mut command = Command::new(compiler);
        command.args([standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        for folder in headers {
            command.arg("-I").arg(folder);
        }
        let Ok(output) = command.arg(&file).output() else {
            eprintln!("skipped: there is no {compiler}");
            continue;
        };
        assert!(output.status.success(), "{compiler}: {output:?} of {program}");
    }
}
