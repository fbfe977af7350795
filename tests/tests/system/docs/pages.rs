//! The Markdown files of the project, and the code in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file.
pub struct Page {
    /// Its place in the repository.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// A fenced block of code.
#[derive(Debug)]
pub struct CodeBlock {
    /// The line of its fence, counted from 1.
    pub line: usize,
    /// The word after the opening fence.
    pub language: String,
    /// The text of `<!-- run: TEXT -->` above the fence.
    pub run: Option<String>,
    /// Its lines.
    pub code: String,
}

/// Returns the folder of the repository.
pub fn find_root() -> PathBuf {
    // That of the run: a copy of the project takes over what was compiled, and these tests write into it.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("..")
}

/// Reads a file of the repository.
pub fn read_file(path: impl AsRef<Path>) -> String {
    let path = find_root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads every Markdown file that a reader may open.
pub fn read_pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for folder in [".", "bench", "bench/results", "docs"] {
        for entry in fs::read_dir(find_root().join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            if Path::new(&name).extension().is_some_and(|end| end == "md") {
                paths.push(Path::new(folder).join(name));
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| Page { text: read_file(&path), path }).collect()
}

impl Page {
    /// Returns the fenced blocks, in order.
    pub fn blocks(&self) -> Vec<CodeBlock> {
        let mut blocks: Vec<CodeBlock> = Vec::new();
        let mut is_open = false;
        let mut above = "";
        for (index, line) in self.text.lines().enumerate() {
            match line.trim_start().strip_prefix("```") {
                Some(language) if !is_open => {
                    is_open = true;
                    blocks.push(CodeBlock {
                        line: index + 1,
                        language: language.trim().to_owned(),
                        run: read_treatment(above),
                        code: String::new(),
                    });
                }
                Some(_) => is_open = false,
                None if is_open => {
                    blocks.last_mut().expect("an open block").code += &format!("{line}\n");
                }
                None => {}
            }
            if !line.trim().is_empty() {
                above = line;
            }
        }
        assert!(!is_open, "{}: a block has no end", self.path.display());
        blocks
    }

    /// Returns the text without its blocks of code.
    pub fn prose(&self) -> String {
        let mut is_code = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            if !is_code && !is_fence {
                prose += &format!("{line}\n");
            }
        }
        prose
    }
}

/// Returns the text of a `<!-- run: TEXT -->`.
fn read_treatment(line: &str) -> Option<String> {
    line.trim().strip_prefix("<!-- run: ")?.strip_suffix(" -->").map(str::to_owned)
}
