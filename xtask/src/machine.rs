//! Questions about the machine: programs, libraries, environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the standard output of a program that starts and exits with 0.
pub fn read_output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.into_owned())
}

/// Returns `true` if a program starts and exits with 0.
pub fn can_run(program: &str, args: &[&str]) -> bool {
    read_output(program, args).is_some()
}

/// Returns an environment variable that is set, not empty and Unicode.
pub fn read_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Lets a command look into a folder before all others of this variable.
pub fn put_first(command: &mut Command, variable: &str, folder: &Path) {
    let own = command.get_envs().find(|(name, _)| *name == variable);
    let own = own.and_then(|(_, value)| value.map(ToOwned::to_owned));
    let rest = own.or_else(|| env::var_os(variable)).unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(env::split_paths(&rest));
    // Joining fails only on a folder with a colon in its name, in which nothing is found.
    if let Ok(path) = env::join_paths(all) {
        command.env(variable, path);
    }
}

/// Returns `true` if a shared library with this stem (`libclang`) lies in a usual folder.
pub fn has_library(stem: &str) -> bool {
    let mut files = library_folders()
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    files.any(|file| is_library(&file.to_string_lossy(), stem))
}

/// Returns the folders of libraries: those that the environment or LLVM names, then the usual places of Linux (with
/// their architecture and version folders) and of Homebrew.
fn library_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for name in ["LIBCLANG_PATH", "LD_LIBRARY_PATH"] {
        if let Some(value) = read_variable(name) {
            folders.extend(env::split_paths(&value));
        }
    }
    if let Some(folder) = read_output("llvm-config", &["--libdir"]) {
        folders.push(PathBuf::from(folder.trim()));
    }
    for usual in ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"] {
        folders.extend(with_children(Path::new(usual)));
    }
    for package in ["llvm", "openblas"] {
        for prefix in ["/opt/homebrew/opt", "/usr/local/opt"] {
            folders.push([prefix, package, "lib"].iter().collect());
        }
    }
    folders.push("/Library/Developer/CommandLineTools/usr/lib".into());
    folders
}

/// A folder, each folder in it (`x86_64-linux-gnu`) and the `lib` of that (`llvm-14/lib`).
fn with_children(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        all.push(entry.path());
        all.push(entry.path().join("lib"));
    }
    all
}

/// Accepts `stem.so`, `stem.so.0`, `stem-14.so.13` and `stem.dylib`, and not `stem-cpp.so`.
fn is_library(file: &str, stem: &str) -> bool {
    let Some(rest) = file.strip_prefix(stem) else {
        return false;
    };
    let rest = match rest.strip_prefix('-') {
        Some(versioned) => versioned.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    match rest.strip_prefix(".so") {
        Some(end) => {
            end.is_empty()
                || (end.starts_with('.') && end.chars().all(|c| c.is_ascii_digit() || c == '.'))
        }
        None => rest == ".dylib",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_names_are_told_from_their_relatives() {
        for file in [
            "libclang.so",
            "libclang-14.so",
            "libclang.so.1",
            "libclang-14.so.13",
            "libclang.dylib",
        ] {
            assert!(is_library(file, "libclang"), "{file}");
        }
        for file in [
            "libclang-cpp.so.14",
            "libclangBasic.a",
            "libclang.so.conf",
            "libclang-14.txt",
            "clang.so",
        ] {
            assert!(!is_library(file, "libclang"), "{file}");
        }
    }
}
