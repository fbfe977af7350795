//! Sections of the documentation that hold tables.

use std::path::Path;

use anyhow::{Context, ensure};

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
