//! Tables, and the sections of the documentation that hold them.

use std::path::Path;

use anyhow::{Context, ensure};

/// Formats a table. A column whose name ends with `:` is aligned to the right.
pub fn format_table<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let names = columns.map(|name| name.trim_end_matches(':').to_owned());
    let lines = columns.map(|name| if name.ends_with(':') { "---:" } else { "---" });
    let mut text = format!("{}|{}|\n", format_row(&names), lines.join("|"));
    text.extend(rows.into_iter().map(|cells| format_row(&cells)));
    text
}

fn format_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Returns `yes` or `no`.
pub fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

/// Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->` in the file at `path`.
///
/// # Errors
/// If the file cannot be read or written, or has no such section.
pub fn replace_section(path: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let document = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let replaced = replace_between(&document, &open, &close, text);
    ensure!(
        replaced.is_some(),
        "{} has no section {open}",
        path.display()
    );
    std::fs::write(path, replaced.unwrap_or_default()).with_context(|| path.display().to_string())
}

fn replace_between(document: &str, open: &str, close: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(open)?;
    let (_, after) = rest.split_once(close)?;
    Some(format!("{before}{open}{text}{close}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_of_a_table() {
        let rows = [["a", "1"], ["b", "2"]].map(|row| row.map(str::to_owned));
        let text = format_table(["name", "n:"], rows);
        assert_eq!(text, "| name | n |\n|---|---:|\n| a | 1 |\n| b | 2 |\n");
    }

    #[test]
    fn only_the_section_changes() {
        let document = "a\n<!-- x -->\nold\n<!-- /x -->\nb";
        let replaced = replace_between(document, "<!-- x -->\n", "<!-- /x -->", "new\n");
        assert_eq!(
            replaced.as_deref(),
            Some("a\n<!-- x -->\nnew\n<!-- /x -->\nb")
        );
        assert_eq!(
            replace_between(document, "<!-- y -->\n", "<!-- /y -->", ""),
            None
        );
    }
}
