//! Man pages and shell completions, made from the definition of the command line.

use std::env::args_os;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate_to};

use crate::CliArguments;
use crate::failure::Failure;

/// The first word of the command line by which `cargo xtask` asks for the manuals.
const WRITE: &str = "write-manuals";

/// The folder of the man pages in a `share` folder.
const MAN_PAGES: &str = "man/man1";

/// Each shell with the folder of a `share` folder where it looks for completions, and the name of their file there.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "isochron"),
    (Shell::Zsh, "zsh/site-functions", "_isochron"),
    (Shell::Fish, "fish/vendor_completions.d", "isochron.fish"),
];

/// Writes the manuals if this process was started to do so; returns its exit status then.
pub fn write_if_asked() -> Option<u8> {
    let words: Vec<OsString> = args_os().skip(1).collect();
    let [first, share] = &words[..] else {
        return None;
    };
    let share = Path::new(share);
    let written = (first == WRITE).then(|| write_manuals(CliArguments::command(), share))?;
    Some(match written {
        Ok(()) => 0,
        Err(error) => Failure::of_file(share, error).print(),
    })
}

/// Writes a man page for each command and the completions of each shell into a `share` folder.
fn write_manuals(definition: Command, share: &Path) -> io::Result<()> {
    let name = definition.get_name().to_owned();
    for (shell, folder, file) in COMPLETIONS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let written = generate_to(shell, &mut definition.clone(), &name, &folder)?;
        fs::rename(written, folder.join(file))?;
    }
    let pages = share.join(MAN_PAGES);
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(definition, &pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists a command and those within it, each with the words that call it.
    fn list_commands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
        let words = [words, &[command.get_name().to_owned()]].concat();
        let inner = command.get_subcommands();
        let inner = inner.flat_map(|command| list_commands(command, &words));
        let mut all: Vec<_> = inner.collect();
        all.push((words, command.clone()));
        all
    }

    /// Returns the lines of a text after the first line `start`, up to the next line `;;`.
    fn find_part(text: &str, start: &str) -> String {
        let lines = text.lines().skip_while(|line| line.trim() != start);
        let lines = lines.skip(1).take_while(|line| line.trim() != ";;");
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines of the fish completions about a command.
    fn find_fish_lines(text: &str, words: &[String]) -> String {
        let condition = match words {
            [] | [_] => "-n \"__fish_isochron_needs_command\"".to_owned(),
            [_, first] => format!("__fish_isochron_using_subcommand {first}"),
            [_, first, second, ..] => format!(
                "__fish_isochron_using_subcommand {first}; and __fish_seen_subcommand_from {second}"
            ),
        };
        let lines = text.lines().filter(|line| line.contains(&condition));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Checks that each text has what `wanted` makes of the name of every option.
    fn check_options(command: &Command, text: &str, wanted: impl Fn(&str) -> [String; 2]) -> usize {
        let options = command.get_opts().filter_map(clap::Arg::get_long);
        let mut seen = 0;
        for option in options {
            let is_there = wanted(option).iter().any(|form| text.contains(form));
            assert!(is_there, "{}: --{option} in {text}", command.get_name());
            seen += 1;
        }
        seen
    }

    #[test]
    fn manuals_have_every_command_and_option() {
        let share = std::env::temp_dir().join(format!("isochron-manuals-{}", std::process::id()));
        write_manuals(CliArguments::command(), &share).expect("a writable folder");
        let [bash, zsh, fish] = COMPLETIONS.map(|(_, folder, file)| {
            fs::read_to_string(share.join(folder).join(file)).expect("completions")
        });
        let mut seen = 0;
        for (words, command) in list_commands(&CliArguments::command(), &[]) {
            let name = words.join("-");
            let page = fs::read_to_string(share.join(MAN_PAGES).join(name.clone() + ".1"));
            let page = page.expect("a man page").replace("\\-", "-");
            let bash = find_part(&bash, &(name.replace('-', "__subcmd__") + ")"));
            let zsh = match &words[..] {
                [.., last] if words.len() > 1 => find_part(&zsh, &format!("({last})")),
                _ => zsh.clone(),
            };
            let fish = find_fish_lines(&fish, &words);
            seen += check_options(&command, &page, |name| {
                ["\n", ", "].map(|start| format!("{start}\\fB--{name}\\fR"))
            });
            check_options(&command, &bash, |name| {
                [" ", "\""].map(|end| format!(" --{name}{end}"))
            });
            check_options(&command, &zsh, |name| {
                ["=", "["].map(|end| format!("--{name}{end}"))
            });
            check_options(&command, &fish, |name| {
                [" ", "\n"].map(|end| format!(" -l {name}{end}"))
            });
            for inner in command.get_subcommands().map(Command::get_name) {
                assert!(page.contains(&format!("{name}-{inner}(1)")), "{page}");
                assert!(fish.contains(&format!(" -a \"{inner}\"")), "{fish}");
            }
        }
        fs::remove_dir_all(&share).expect("our folder");
        assert!(seen > 100, "only {seen} options");
    }
}
