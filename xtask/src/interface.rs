//! The interface of the crates that programs use: lists of public items, which are compared with those of the sources.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::check::install_tool;
use crate::mpi::{Library, MpiInstallation};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The version of cargo-public-api: each reads the documents of a few versions of Rust.
const VERSION: &str = "0.52.0";

/// The crates, and the folders of their lists.
const CRATES: [(&str, &str); 4] = [
    ("isochron-hierarchy", "hierarchy"),
    ("isochron-devices", "devices"),
    ("isochron-core", "runtime"),
    ("isochron", "runtime/front"),
];

/// Only rustdoc may use what the stable compiler lacks: with the variable for cargo, all would be compiled again.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// Compares the public items of each crate with its `interface.txt`, and writes it.
///
/// # Errors
/// Fails when a step fails, or a list differs: then it names the items.
pub fn check(workspace: &Workspace, steps: &mut Steps, mpi: &MpiInstallation) -> Result<()> {
    let lister = install_tool(workspace, steps, "cargo-public-api", VERSION)?;
    let rustdoc = lister.with_file_name("rustdoc-with-json");
    fs::write(&rustdoc, RUSTDOC)?;
    fs::set_permissions(&rustdoc, Permissions::from_mode(0o755))?;
    let mut differing = String::new();
    for (name, folder) in CRATES {
        let line = format!(
            "rustdoc --release -p {name} --lib -- -Z unstable-options --output-format json"
        );
        let mut document = build::cargo(workspace, mpi, &line);
        steps
            .run(&format!("interface of {name}"), || execute(document.env("RUSTDOC", &rustdoc)))?;
        let json = format!("doc/{}.json", name.replace('-', "_"));
        let json = workspace.target(Library::OpenMpi).join(json);
        let found = list_items(&lister, &json)?;
        let path = workspace.root().join(folder).join("interface.txt");
        let known = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, &found)?;
        differing += &list_differences(&known, &found);
    }
    ensure!(
        differing.is_empty(),
        "public items have changed:\n{differing}The files interface.txt have the new ones: commit them, and tell in \
         CHANGELOG.md what to write instead of items that are gone"
    );
    Ok(())
}

/// Lists the items of a document of rustdoc, one a line. Implementations of traits are left out, and what a prelude repeats.
fn list_items(lister: &Path, json: &Path) -> Result<String> {
    let listed =
        Command::new(lister).args(["public-api", "-sss", "--rustdoc-json"]).arg(json).output()?;
    let reason = String::from_utf8_lossy(&listed.stderr);
    ensure!(listed.status.success(), "cargo-public-api: {reason}");
    let items = String::from_utf8(listed.stdout).context("the list of public items")?;
    let is_own = |line: &&str| !line.starts_with("impl") && !line.contains("::prelude::");
    let items: BTreeSet<&str> = items.lines().filter(is_own).collect();
    Ok(items.into_iter().map(|line| format!("{line}\n")).collect())
}

/// Returns lines that only one of two lists has, `-` for those that are gone and `+` for new ones.
fn list_differences(known: &str, found: &str) -> String {
    let only = |sign: char, one: &str, other: &str| -> String {
        let other: BTreeSet<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(|line| format!("{sign}{line}\n")).collect()
    };
    only('-', known, found) + &only('+', found, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_are_gone_or_new_are_listed() {
        assert_eq!(list_differences("a\nb\n", "a\nb\n"), "");
        assert_eq!(list_differences("a\nb\n", "b\nc\n"), "-a\n+c\n");
    }
}
