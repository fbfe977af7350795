//! Deviations from the papers, as the sections `# Deviations` of the sources list them.

use std::fs;
use std::path::{Path, PathBuf};

use super::pages::find_root;

/// One bullet of a section.
struct Deviation {
    file: PathBuf,
    what: String,
    text: String,
}

/// Returns the table of all deviations, in the order of the files.
pub fn deviation_table() -> String {
    let mut table =
        "| where | what | the paper, and why it is otherwise here |\n|---|---|---|\n".to_owned();
    for file in source_files() {
        for Deviation { file, what, text } in read_deviations(&file) {
            let shown = file.display();
            table += &format!("| [{shown}](../{shown}) | {what} | {text} |\n");
        }
    }
    table
}

/// Returns the sources of the crates that hold algorithms, relative to the repository.
fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["hierarchy/src", "devices/src", "runtime/src", "apps/src", "apps/examples/src"] {
        collect_sources(&find_root().join(folder), &mut files);
    }
    let root = find_root();
    let mut files: Vec<PathBuf> = files
        .iter()
        .map(|file| file.strip_prefix(&root).expect("in the root").to_owned())
        .collect();
    files.sort();
    files
}

fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// Reads the sections of one file.
fn read_deviations(file: &Path) -> Vec<Deviation> {
    let text = fs::read_to_string(find_root().join(file)).expect("a source");
    let mut found: Vec<Deviation> = Vec::new();
    let mut is_section = false;
    for line in text.lines() {
        let doc = line.trim_start();
        let doc = doc.strip_prefix("//!").or_else(|| doc.strip_prefix("///"));
        let Some(doc) = doc else {
            is_section = false;
            continue;
        };
        let doc = doc.trim();
        if doc.starts_with("# ") {
            is_section = doc == "# Deviations";
        } else if let Some(bullet) = doc.strip_prefix("* **").filter(|_| is_section) {
            found.push(Deviation::read(file, bullet));
        } else if is_section && !doc.is_empty() {
            let last = found.last_mut();
            last.unwrap_or_else(|| panic!("{}: no bullet: {doc}", file.display())).text +=
                &format!(" {doc}");
        }
    }
    found.iter_mut().for_each(Deviation::tidy);
    found
}

impl Deviation {
    /// Reads `what**: text`.
    fn read(file: &Path, bullet: &str) -> Self {
        let (what, text) =
            bullet.split_once("**").unwrap_or_else(|| panic!("{}: {bullet}", file.display()));
        Self {
            file: file.to_owned(),
            what: capitalise(what.trim_end_matches(':')),
            text: text.trim_start_matches(':').trim().to_owned(),
        }
    }

    /// Takes the links of rustdoc out: a page cannot follow them. A bar would end a cell.
    fn tidy(&mut self) {
        for text in [&mut self.what, &mut self.text] {
            *text = without_links(text).replace('|', "\\|");
        }
    }
}

fn capitalise(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(characters)
        .collect()
}

/// Replaces `[text](target)` and `[text]` of rustdoc by the text.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        plain += before;
        let (name, after) = after.split_once(']').unwrap_or((after, ""));
        let target = after.strip_prefix('(').and_then(end_of_target);
        match target {
            Some(after) => (plain, rest) = (plain + name, after),
            // Code is a link to its own name; other words in brackets are no link.
            None if name.starts_with('`') => (plain, rest) = (plain + name, after),
            None => (plain, rest) = (format!("{plain}[{name}]"), after),
        }
    }
    plain + rest
}

/// Returns the text after the bracket that closes a link's target, which may hold brackets of a function.
fn end_of_target(text: &str) -> Option<&str> {
    let mut open = 1;
    for (place, character) in text.char_indices() {
        open += i32::from(character == '(') - i32::from(character == ')');
        if open == 0 {
            return Some(&text[place + 1..]);
        }
    }
    None
}
