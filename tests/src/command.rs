//! The `isochron` command and its files, as tests use them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::launch::{HANGS, Outcome, open_mpi, run};

/// Runs the command with these words, as one process.
pub fn isochron(arguments: &[&str]) -> Outcome {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.args(arguments);
    run(command, HANGS)
}

/// Returns the text of a path.
pub fn path_text(path: &Path) -> String {
    path.to_str().expect("a name").to_owned()
}

/// Reads a document.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A folder for the files of one test.
#[derive(Debug)]
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    /// Makes an empty folder.
    #[allow(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// Returns the path of a name in it.
    pub fn path(&self, name: &str) -> String {
        path_text(&self.0.path().join(name))
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable folder");
        path
    }

    /// Splits a line into words, and replaces `@NAME` by the path of this name.
    pub fn words(&self, line: &str) -> Vec<String> {
        line.split_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name),
                None => word.to_owned(),
            })
            .collect()
    }

    /// Makes a named pipe and returns its path.
    pub fn make_pipe(&self, name: &str) -> String {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        path
    }
}

/// Runs the command with the words of `line` and then `files`, and expects one message that holds `parts`.
pub fn refused(line: &str, files: &[&str], parts: &[&str]) {
    let words: Vec<&str> = line.split_whitespace().chain(files.iter().copied()).collect();
    check_told(&isochron(&words).failure(2), parts, &words.join(" "));
}

/// Checks that a text holds `parts`.
pub fn check_told(text: &str, parts: &[&str], what: &str) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text:?} of {what}");
    }
}
