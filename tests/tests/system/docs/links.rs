//! Links between pages and to files.

use std::path::Path;

use super::pages::{Page, find_root, read_file, read_pages};

#[test]
fn links_lead_to_files_and_headings() {
    let wrong: Vec<String> = read_pages().iter().flat_map(broken_links).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a line for each link of a page that leads nowhere.
fn broken_links(page: &Page) -> Vec<String> {
    page.prose()
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.starts_with("http"))
        .filter(|target| !leads_somewhere(page, target))
        .map(|target| format!("{}: {target} does not exist", page.path.display()))
        .collect()
}

fn leads_somewhere(page: &Page, target: &str) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.path.parent().unwrap_or(Path::new(""));
    let path = match file {
        "" => page.path.clone(),
        _ => folder.join(file),
    };
    find_root().join(&path).exists()
        && (heading.is_empty() || has_heading(&read_file(&path), heading))
}

fn has_heading(text: &str, wanted: &str) -> bool {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| make_anchor(line.trim_start_matches('#').trim()))
        .any(|slug| slug == wanted)
}

/// Returns the anchor that GitHub gives a heading.
fn make_anchor(heading: &str) -> String {
    heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .collect::<String>()
        .to_lowercase()
        .replace(' ', "-")
}
