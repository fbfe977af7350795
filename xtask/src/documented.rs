//! The lines of the documentation that call `cargo xtask`, against the command line.

use std::fs;
use std::path::PathBuf;

use clap::Parser as _;

use crate::XtaskArguments;
use crate::workspace::Workspace;

/// Returns the Markdown files that show commands.
fn list_pages() -> Vec<PathBuf> {
    let workspace = Workspace::locate().unwrap();
    let mut pages = Vec::new();
    for folder in ["", "bench", "docs"] {
        let paths =
            fs::read_dir(workspace.root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages
}

/// Returns the words after `cargo` of a line that calls xtask, without its comment.
fn parse_command(line: &str) -> Option<Vec<&str>> {
    let (line, _) = line.split_once(" #").unwrap_or((line, ""));
    let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
    let is_ours = words.next() == Some("cargo");
    let words: Vec<&str> = words.collect();
    (is_ours && words.first() == Some(&"xtask")).then_some(words)
}

#[test]
fn commands_in_the_documentation_are_ours() {
    let mut found = 0;
    for page in list_pages() {
        for words in fs::read_to_string(&page).unwrap().lines().filter_map(parse_command) {
            let parsed = XtaskArguments::try_parse_from(&words);
            assert!(parsed.is_ok(), "{}: {words:?}", page.display());
            found += 1;
        }
    }
    assert!(found > 10, "only {found} commands in the documentation");
}
