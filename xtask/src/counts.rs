//! `cargo xtask counts`: marks of code and English that are hard to read, counted and compared with limits.
//!
//! Code counts leave tests out. The counts are rough, since they read text and no syntax tree. They show where to look.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// Words and turns of phrase to avoid in prose, in lower case.
const AVOIDED: &[&str] = &[
    "anew",
    "beside",
    "be it",
    "gives rise",
    "give rise",
    "in vain",
    "make do",
    "makes do",
    "nobody",
    "of those",
    "so few",
    "so many",
    "so much",
    "that which",
    "thereby",
    "therein",
    "thereof",
    "the very",
    "what is",
    "whereby",
    "who",
    "whom",
];

/// Words that should not open a doc comment.
const OPENERS: &[&str] = &["How", "Those", "What", "Where", "Whether", "Who", "Whose"];

/// Words of a sentence that is too long.
const LONG_SENTENCE: usize = 30;

/// The counts of one package or folder of texts.
#[derive(Debug, Default)]
struct ReadingCounts {
    lines: usize,
    named_closures: usize,
    functions: usize,
    one_word_functions: usize,
    doc_comments: usize,
    opened_by_question: usize,
    words: usize,
    avoided: usize,
    sentences: usize,
    long_sentences: usize,
    /// The files that define each type.
    types: BTreeMap<String, Vec<String>>,
}

impl ReadingCounts {
    /// Returns the shares that have limits. Per 1000 lines: closures with a name. In percent: functions of one word,
    /// doc comments that open with a question word. Per 1000 words: avoided ones. In percent: sentences over 30 words.
    fn shares(&self) -> [f64; 5] {
        [
            1000.0 * divide(self.named_closures, self.lines),
            100.0 * divide(self.one_word_functions, self.functions),
            100.0 * divide(self.opened_by_question, self.doc_comments),
            1000.0 * divide(self.avoided, self.words),
            100.0 * divide(self.long_sentences, self.sentences),
        ]
    }

    fn count_rust(&mut self, file: &str, text: &str) {
        let mut doc = Vec::new();
        let mut in_example = false;
        let mut in_tests = file.contains("/tests/") || file.starts_with("tests/src/");
        for line in text.lines() {
            let code = line.trim_start();
            in_tests |= code.starts_with("#[cfg(test)]");
            self.lines += usize::from(!in_tests);
            let Some(prose) = strip_doc(code) else {
                self.end_doc(&mut doc);
                in_example = false;
                self.count_comment(code);
                if !in_tests {
                    self.count_code(code);
                    if let Some(name) = defined_type(code) {
                        self.types.entry(name).or_default().push(file.to_owned());
                    }
                }
                continue;
            };
            if prose.starts_with("```") {
                in_example = !in_example;
            } else if !in_example {
                if doc.is_empty() {
                    self.doc_comments += 1;
                    self.opened_by_question += usize::from(opens_with_question(prose));
                }
                doc.push(prose);
            }
        }
        self.end_doc(&mut doc);
    }

    fn count_code(&mut self, code: &str) {
        self.named_closures += usize::from(names_closure(code));
        if let Some(name) = defined_function(code) {
            self.functions += 1;
            self.one_word_functions += usize::from(!name.contains('_'));
        }
    }

    fn count_comment(&mut self, code: &str) {
        if let Some(comment) = code.strip_prefix("// ") {
            self.count_words(comment);
        }
    }

    fn end_doc(&mut self, doc: &mut Vec<&str>) {
        self.count_prose(doc);
        doc.clear();
    }

    fn count_markdown(&mut self, text: &str) {
        let mut in_code = false;
        for line in text.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
            } else if !in_code && !line.starts_with('|') {
                self.count_prose(&[line]);
            }
        }
    }

    /// Counts lines of prose, in which an empty line, a heading, a table row or a list item ends a sentence.
    fn count_prose(&mut self, lines: &[&str]) {
        let mut paragraph = String::new();
        for line in lines {
            self.count_words(line);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '|', '*', '-', '1']) {
                self.count_sentences(&paragraph);
                paragraph.clear();
            }
            if !line.starts_with(['#', '|']) {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
        }
        self.count_sentences(&paragraph);
    }

    fn count_words(&mut self, line: &str) {
        self.words += line.split_whitespace().count();
        let line: String = line
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { ' ' })
            .collect();
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = format!(" {} ", words.join(" ")).to_ascii_lowercase();
        let found = AVOIDED
            .iter()
            .map(|word| line.matches(&format!(" {word} ")).count());
        self.avoided += found.sum::<usize>();
    }

    fn count_sentences(&mut self, paragraph: &str) {
        for sentence in split_sentences(&without_code(paragraph)) {
            self.sentences += 1;
            self.long_sentences += usize::from(sentence > LONG_SENTENCE);
        }
    }
}

fn divide(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn strip_doc(code: &str) -> Option<&str> {
    let prose = code
        .strip_prefix("///")
        .or_else(|| code.strip_prefix("//!"))?;
    Some(prose.strip_prefix(' ').unwrap_or(prose))
}

fn opens_with_question(prose: &str) -> bool {
    let word = prose.split(|c: char| !c.is_alphabetic()).next();
    word.is_some_and(|word| OPENERS.contains(&word))
}

/// Returns `true` for `let name = |arguments| …`.
fn names_closure(code: &str) -> bool {
    let value = code
        .strip_prefix("let ")
        .and_then(|rest| rest.split_once(" = "));
    value.is_some_and(|(_, value)| value.trim_start_matches("move ").starts_with('|'))
}

/// Returns the name that follows one of `keywords` and words such as `pub`.
fn defined_name<'c>(code: &'c str, keywords: &[&str]) -> Option<&'c str> {
    let mut words = code.split_whitespace();
    let keyword = words.find(|word| {
        !(word.starts_with("pub")
            || matches!(*word, "const" | "async" | "unsafe" | "extern" | "\"C\""))
    })?;
    words
        .next()
        .filter(|_| keywords.contains(&keyword))?
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
}

fn defined_function(code: &str) -> Option<&str> {
    defined_name(code, &["fn"])
}

fn defined_type(code: &str) -> Option<String> {
    let name = defined_name(code, &["struct", "enum", "trait"])?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Replaces code in backticks by one word.
fn without_code(paragraph: &str) -> String {
    paragraph
        .split('`')
        .enumerate()
        .map(|(number, piece)| if number % 2 == 0 { piece } else { "X" })
        .collect()
}

/// Returns the number of words of each sentence.
fn split_sentences(paragraph: &str) -> Vec<usize> {
    let mut lengths = vec![0];
    let mut ended = false;
    for word in paragraph.split_whitespace() {
        let opens = word.trim_start_matches(['(', '[', '*']);
        if ended && opens.starts_with(|c: char| c.is_uppercase()) {
            lengths.push(0);
        }
        if let Some(last) = lengths.last_mut() {
            *last += 1;
        }
        ended = word.ends_with(['.', '!', '?', ':', ';']);
    }
    lengths.retain(|&length| length > 0);
    lengths
}

/// Limits of the [shares](ReadingCounts::shares) over everything.
const LIMITS: [f64; 5] = [3.0, 55.0, 4.0, 1.0, 1.0];

/// Prints the counts by package, and compares those over everything with their limits.
///
/// # Errors
/// When a count is beyond its limit.
pub fn run(workspace: &Workspace) -> Result<()> {
    let mut counts: BTreeMap<String, ReadingCounts> = BTreeMap::new();
    for file in list_files(workspace)? {
        let text = fs::read_to_string(workspace.root().join(&file)).unwrap_or_default();
        let is_rust = file.ends_with(".rs");
        let package = match is_rust {
            true => file.split('/').next().unwrap_or_default(),
            false if file.ends_with(".md") => "Markdown",
            false => continue,
        };
        for group in [package, "all"] {
            let counts = counts.entry(group.to_owned()).or_default();
            if is_rust {
                counts.count_rust(&file, &text)
            } else {
                counts.count_markdown(&text)
            }
        }
    }
    println!(
        "{:<10}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "lines", "closures", "one-word", "question", "avoided", "long"
    );
    for (package, counts) in &counts {
        print_row(package, counts.lines, counts.shares());
    }
    print_row("limit", 0, LIMITS);
    let all = &counts["all"];
    let shares = all.shares();
    let mut n_repeated = 0;
    for (name, files) in all.types.iter().filter(|(_, files)| files.len() > 1) {
        println!("{name}: defined in {}", files.join(", "));
        n_repeated += 1;
    }
    let within = shares
        .iter()
        .zip(LIMITS)
        .all(|(share, limit)| *share <= limit);
    ensure!(within, "a count is beyond its limit");
    ensure!(
        n_repeated == 0,
        "{n_repeated} type names have several definitions"
    );
    Ok(())
}

fn print_row(name: &str, lines: usize, shares: [f64; 5]) {
    let shares: String = shares
        .iter()
        .map(|share| format!("{share:>10.1}"))
        .collect();
    println!("{name:<10}{lines:>8}{shares}");
}

/// Returns the files under version control.
fn list_files(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    let output = git.arg("ls-files").current_dir(workspace.root()).output();
    let output = output.context("git did not start")?;
    ensure!(
        output.status.success(),
        "git does not list the files of this folder"
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .into_owned()
        .lines()
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_counted() {
        let text = "/// What this is.\n///\n/// Nobody knows; so many words.\npub struct Thing;\nfn run() {\n    \
                    let twice = |x| 2 * x;\n    let x = 1;\n}\npub const fn count_things() {}\n";
        let mut counts = ReadingCounts::default();
        counts.count_rust("a.rs", text);
        assert_eq!(
            (
                counts.named_closures,
                counts.functions,
                counts.one_word_functions
            ),
            (1, 2, 1)
        );
        assert_eq!(
            (
                counts.doc_comments,
                counts.opened_by_question,
                counts.avoided
            ),
            (1, 1, 2)
        );
        assert_eq!(counts.types.into_keys().collect::<Vec<_>>(), ["Thing"]);
    }

    #[test]
    fn sentences_end_where_the_next_one_begins() {
        assert_eq!(
            split_sentences(&without_code("One `f(x). Y` two. Three, e.g. four. Five")),
            [3, 3, 1]
        );
    }
}
