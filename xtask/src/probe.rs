//! Looking at the machine: programs, libraries, environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the decisions may ask the machine. Tests answer from a table.
pub trait Probe {
    /// Standard output of a program, when it starts and exits with 0.
    fn output(&self, program: &str, args: &[&str]) -> Option<String>;

    /// Whether a shared library with this stem (`libclang`) lies in a usual folder.
    fn has_library(&self, stem: &str) -> bool;

    /// An environment variable, when it is set, not empty and Unicode.
    fn variable(&self, name: &str) -> Option<String>;

    /// Whether a program starts and exits with 0.
    fn runs(&self, program: &str, args: &[&str]) -> bool {
        self.output(program, args).is_some()
    }
}

/// The machine we run on.
pub struct Machine;

impl Probe for Machine {
    fn output(&self, program: &str, args: &[&str]) -> Option<String> {
        let output = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| text.into_owned())
    }

    fn has_library(&self, stem: &str) -> bool {
        let files = library_folders(self).into_iter().filter_map(|folder| {
            let entries = fs::read_dir(folder).ok()?;
            Some(entries.flatten().map(|entry| entry.file_name()))
        });
        files
            .flatten()
            .any(|file| is_library(&file.to_string_lossy(), stem))
    }

    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// Where libraries are looked for: named by the environment or by LLVM, then the usual places of
/// Linux (with their architecture and version folders) and of Homebrew.
fn library_folders(probe: &dyn Probe) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for name in ["LIBCLANG_PATH", "LD_LIBRARY_PATH"] {
        if let Some(value) = probe.variable(name) {
            folders.extend(env::split_paths(&value));
        }
    }
    if let Some(folder) = probe.output("llvm-config", &["--libdir"]) {
        folders.push(PathBuf::from(folder.trim()));
    }
    for usual in [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/local/lib64",
    ] {
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
    let version = |c: char| c.is_ascii_digit() || c == '.';
    let rest = match rest.strip_prefix('-') {
        Some(versioned) => versioned.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    match rest.strip_prefix(".so") {
        Some(end) => end.is_empty() || (end.starts_with('.') && end.chars().all(version)),
        None => rest == ".dylib",
    }
}

/// A machine made up of a table, for tests.
#[cfg(test)]
#[derive(Default)]
pub struct Fake {
    /// A command line, and what it prints.
    pub outputs: Vec<(&'static str, &'static str)>,
    /// Stems of the libraries that are there.
    pub libraries: Vec<&'static str>,
    /// The environment.
    pub variables: Vec<(&'static str, &'static str)>,
}

#[cfg(test)]
impl Probe for Fake {
    fn output(&self, program: &str, args: &[&str]) -> Option<String> {
        let line = std::iter::once(program).chain(args.iter().copied());
        let line = line.collect::<Vec<_>>().join(" ");
        let found = self.outputs.iter().find(|(command, _)| *command == line);
        found.map(|(_, text)| (*text).to_owned())
    }

    fn has_library(&self, stem: &str) -> bool {
        self.libraries.contains(&stem)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
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

    #[test]
    fn only_success_counts_as_output() {
        assert_eq!(Machine.output("echo", &["a"]).as_deref(), Some("a\n"));
        assert_eq!(Machine.output("false", &[]), None);
        assert_eq!(Machine.output("no-such-program-here", &[]), None);
    }
}
