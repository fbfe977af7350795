//! Man pages, with sections for the ends of the help texts.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes a page for a command and for each command within it. Every page has the end of the help of `definition` too: its
/// environment variables and exit status are those of all commands.
pub fn write_pages(definition: Command, folder: &Path) -> io::Result<()> {
    let mut definition = definition.disable_help_subcommand(true);
    definition.build();
    write_page(&definition, "", folder)?;
    let common = read_end(&definition);
    definition.get_subcommands().try_for_each(|command| write_tree(command, &common, folder))
}

fn write_tree(command: &Command, common: &str, folder: &Path) -> io::Result<()> {
    write_page(command, common, folder)?;
    let mut inner = command.get_subcommands();
    inner.try_for_each(|command| write_tree(command, common, folder))
}

/// Writes the page of one command, with the sections of `common` before its own.
fn write_page(command: &Command, common: &str, folder: &Path) -> io::Result<()> {
    let sections = [common, &read_end(command)].map(format_sections).concat();
    let man = Man::new(command.clone().after_help(None::<&'static str>));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    // The version stays last.
    let end = page.find(".SH VERSION\n").unwrap_or(page.len());
    let (start, rest) = page.split_at(end);
    fs::write(folder.join(man.get_filename()), format!("{start}{sections}{rest}"))
}

/// Returns the text behind the options of a command's help.
fn read_end(command: &Command) -> String {
    command.get_after_help().map_or_else(String::new, ToString::to_string)
}

/// Formats paragraphs, each a heading with a colon and indented lines, as sections of a page.
fn format_sections(text: &str) -> String {
    let mut roff = Roff::new();
    for paragraph in text.split("\n\n") {
        let Some((heading, lines)) = paragraph.split_once(":\n") else {
            continue;
        };
        match heading {
            "Examples" => add_examples(&mut roff, lines),
            "Environment variables" => add_entries(&mut roff, "ENVIRONMENT", lines),
            _ => add_entries(&mut roff, &heading.to_uppercase(), lines),
        }
    }
    roff.to_roff()
}

/// Adds command lines as they are.
fn add_examples(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXAMPLES"]);
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.trim())]);
    }
    roff.control("fi", []);
}

/// Adds entries, each a word with its meaning. Lines that are indented further go on with the entry before them.
fn add_entries(roff: &mut Roff, heading: &str, lines: &str) {
    roff.control("SH", [heading]);
    for line in lines.lines() {
        let entry = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        match entry.and_then(|entry| entry.split_once(' ')) {
            Some((word, meaning)) => {
                roff.control("TP", []);
                roff.text([bold(word)]);
                roff.text([roman(meaning.trim())]);
            }
            None => {
                roff.text([roman(line.trim())]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_help_becomes_sections() {
        let end = "Environment variables:\n  A_B  First\n       of two\n  C Second\n\nExit status:\n  0  Well\n\nExamples:\n  run --a\n  run --b";
        let expected = ".SH ENVIRONMENT\n.TP\n\\fBA_B\\fR\nFirst\nof two\n.TP\n\\fBC\\fR\nSecond\n\
             .SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\nWell\n\
             .SH EXAMPLES\n.nf\nrun \\-\\-a\nrun \\-\\-b\n.fi\n";
        assert_eq!(format_sections(end), expected);
        assert_eq!(format_sections(""), "");
    }
}
