//! `report.html` of a campaign in a real browser, with `cargo xtask test --all`.

use std::fs;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, browser, run};
use serde_json::Value;

use super::{Folder, json, run_line};

/// Two contenders at four points, one that fails at some of them, and one that hangs. A parameter is named like a property that
/// every object of a script has.
const CAMPAIGN: &str = r#"
name = "</script><b>a & b"
[sweep]
size = [1, 2]
__proto__ = ["<i>", "b"]
[[contender]]
name = "one"
command = "sh -c 'echo \"{__proto__}\"; echo value {size}'"
result = { regex = 'value (?P<value>[0-9]+)' }
better = "more"
[[contender]]
name = "two"
command = "sh -c 'echo value 3{size}'"
result = { regex = 'value (?P<value>[0-9]+)' }
better = "more"
[[contender]]
name = "failing"
command = "sh -c '[ {size} = 1 ] && echo value 1'"
result = { regex = 'value (?P<value>[0-9]+)' }
better = "more"
[[contender]]
name = "hanging"
command = "sleep 100"
limit_s = 0.1
[repeat]
max = 6
again = 0
[[goal]]
ratio = ["two.value", "one.value"]
at_least = 2
"#;

/// A script that uses the page as people do, and leaves what it finds in the page.
const USE: &str = include_str!("page.js");

/// Opens a page in the browser, in a window of this width, after adding a script; returns the document that the script leaves.
fn look(browser: &Path, folder: &Folder, page: &str, width: u32) -> Value {
    let nonce = page.split("<script nonce=\"").nth(1).expect("the page's script");
    let nonce = nonce.split('"').next().expect("a nonce");
    let used = page.replace("</body>", &format!("<script nonce=\"{nonce}\">{USE}</script></body>"));
    let path = folder.write("used.html", &used);
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--dump-dom",
        ])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", folder.path("profile")))
        .arg(format!("file://{path}"));
    let outcome = run(command, HANGS);
    let found = outcome.stdout.split("<pre id=\"found\">").nth(1);
    let found = found.unwrap_or_else(|| panic!("the script ended early: {}", outcome.stderr));
    let found = found.split("</pre>").next().expect("the end of the element");
    let found = found.replace("&lt;", "<").replace("&gt;", ">");
    json(&found.replace("&amp;", "&"))
}

#[test]
fn a_report_works_in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!("skipped: not all is to be run, or there is no browser");
        return;
    };
    let folder = Folder::new();
    let file = folder.write("looks.toml", CAMPAIGN);
    let dir = folder.path("results");
    run_line(&format!("campaign run {file} --dir {dir}")).success();
    run_line(&format!("campaign report {dir}")).success();
    let page = fs::read_to_string(Path::new(&dir).join("report.html")).expect("a report");
    // Narrow, each figure has its own marks of the contenders; wide, the filters with theirs stay in view.
    let mut last = Value::Null;
    for (width, unmarked, filters) in [(400, 0, "static"), (1280, 3, "sticky")] {
        let found = look(&browser, &folder, &page, width);
        let check = |key: &str, expected: Value| {
            assert_eq!(found[key], expected, "{key} at {width}: {found}");
        };
        check("edge", width.into());
        check("hidden", serde_json::json!([true, 0, false]));
        check("unmarked", unmarked.into());
        check("filters", filters.into());
        last = found;
    }
    let found = last;
    let check = |key: &str, expected: Value| assert_eq!(found[key], expected, "{key}: {found}");
    check("rows", 16.into());
    check("elements_of_data", 0.into());
    let sections = ["summary", "results", "ratios", "values", "progress", "environments"];
    check("sections", sections.to_vec().into());
    check("nav", sections.len().into());
    // Ratios, values for each of two words, and the progress.
    check("charts", 4.into());
    check("focused", true.into());
    for (order, contender) in [("ascending", "failing"), ("descending", "two")] {
        let row = found[order][1].as_str().expect("a row");
        assert_eq!(found[order][0], order, "{found}");
        assert!(row.contains(contender), "{found}");
    }
    assert_eq!(found["first"][0], false, "{found}");
    let first = found["first"][1].as_str().expect("a tip");
    assert!(first.contains("two: 31.00 (31.00 to 31.00) times one"), "{found}");
    assert!(found["last"].as_str().is_some_and(|tip| tip != first), "{found}");
    check("closed", true.into());
    check("filtered", serde_json::json!([8, "8 of 16 rows"]));
    check("searched", 1.into());
    check("nothing", serde_json::json!([0, 1]));
    check("looks", 24.into());
    check("markers", 24.into());
    check("same_names", serde_json::json!([]));
    check("themes", serde_json::json!(["light", "dark", "auto"]));
    check("unnamed", 0.into());
    check("requests", 0.into());
}
