//! Parts of the pages that are made from something else: between `<!-- NAME -->` and `<!-- /NAME -->`.

use std::fs;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, open_mpi, run};

use super::pages::{find_root, read_file};
use super::{deviations, results, schema};

#[test]
fn results_are_those_of_the_campaigns() {
    check_section("README.md", "results summary", &results::summary_table());
    check_section("bench/README.md", "results campaigns", &results::campaign_table());
}

#[test]
fn deviations_are_those_of_the_sources() {
    check_section("docs/deviations.md", "deviations", &deviations::deviation_table());
}

#[test]
fn fields_are_those_of_the_schemas() {
    for name in schema::list_schemas() {
        let section = format!("fields {name}");
        check_section("docs/formats.md", &section, &schema::field_table(&name));
    }
}

#[test]
fn programs_are_those_of_the_examples() {
    for (page, language, name) in [
        ("docs/c-and-fortran.md", "c", "product.c"),
        ("docs/c-and-fortran.md", "c", "version.c"),
        ("docs/training.md", "python", "training.py"),
        ("docs/own-loops.md", "python", "threads.py"),
    ] {
        let folder = if language == "c" { "runtime/c/examples" } else { "runtime/python/examples" };
        let program = read_file(Path::new(folder).join(name));
        let wanted = format!("```{language}\n{program}```\n");
        check_section(page, &format!("program {name}"), &wanted);
    }
}

#[test]
fn the_reference_has_every_command_and_option() {
    let mut commands = vec![String::new()];
    while let Some(command) = commands.pop() {
        let help = read_help(&command);
        let name = format!("isochron {command}");
        let section = format!("help {}", name.trim());
        check_section("docs/command.md", &section, &format!("```text\n{help}```\n"));
        for subcommand in list_subcommands(&help) {
            commands.push(format!("{command} {subcommand}").trim().to_owned());
        }
    }
}

#[test]
fn the_reference_lists_the_variables_of_the_help() {
    let text = read_file("docs/command.md");
    let help = read_help("");
    let names = help
        .lines()
        .skip_while(|line| !line.starts_with("Environment"))
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| name.starts_with("ISOCHRON_")).collect();
    assert!(names.len() > 3, "{help}");
    for name in names {
        assert!(text.contains(&format!("\n| `{name}` |")), "{name}");
    }
}

/// Returns what `isochron COMMAND --help` prints.
fn read_help(command: &str) -> String {
    let mpi = open_mpi();
    let mut program = Command::new(&mpi.isochron);
    program.args(command.split_whitespace()).arg("--help");
    program.env_remove("COLUMNS");
    run(program, HANGS).success().lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns the commands that a help text lists, without `help`.
fn list_subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:");
    lines
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Compares a section of a page with what it is made from, or writes it.
fn check_section(page: &str, section: &str, wanted: &str) {
    let text = read_file(page);
    let (open, close) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let parts = text.split_once(&open).and_then(|(before, rest)| {
        let (found, after) = rest.split_once(&close)?;
        Some((before, found, after))
    });
    let (before, found, after) = parts.unwrap_or_else(|| panic!("{page} has no {open}"));
    if std::env::var_os("ISOCHRON_WRITE_DOCS").is_some() {
        let text = format!("{before}{open}{wanted}{close}{after}");
        fs::write(find_root().join(page), text).expect("a page of ours");
    } else {
        let how = "ISOCHRON_WRITE_DOCS=1 cargo xtask test -- generated";
        assert_eq!(found, wanted, "{page}, {section}: write it by `{how}`");
    }
}
