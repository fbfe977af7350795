//! Man pages and shell completions, made from the definition of the command line.

use std::collections::BTreeSet;
use std::env::args_os;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::{Shell, generate_to};

use crate::CliArguments;
use crate::failure::Failure;
use crate::man_pages::write_pages;
use crate::output::print_failure;

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

/// The function by which zsh completes an argument that is a name or a path.
const ZSH_FUNCTION: &str = "\
_isochron_names_or_files() {
    local ret=1
    compadd \"$@\" && ret=0
    _files && ret=0
    return ret
}

";

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
        Err(error) => print_failure(&Failure::of_file(share, error)),
    })
}

/// Writes a man page for each command and the completions of each shell into a `share` folder.
fn write_manuals(definition: Command, share: &Path) -> io::Result<()> {
    let name = definition.get_name().to_owned();
    let names = list_names_beside_paths(&definition);
    for (shell, folder, file) in COMPLETIONS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let written = generate_to(shell, &mut definition.clone(), &name, &folder)?;
        let text = add_paths(shell, fs::read_to_string(&written)?, &names);
        fs::write(&written, text)?;
        fs::rename(written, folder.join(file))?;
    }
    #[cfg(feature = "schemars")]
    crate::schemas::write_schemas(share)?;
    let pages = share.join(MAN_PAGES);
    fs::create_dir_all(&pages)?;
    write_pages(definition, &pages)
}

/// Lists the names that arguments take which take paths too.
fn list_names_beside_paths(command: &Command) -> BTreeSet<Vec<String>> {
    let own = command.get_arguments();
    let own = own.filter(|argument| argument.get_value_hint() == ValueHint::AnyPath);
    let own = own.map(list_names).filter(|names| !names.is_empty());
    let inner = command.get_subcommands().flat_map(list_names_beside_paths);
    own.chain(inner).collect()
}

/// Lists the values of an argument that have names.
fn list_names(argument: &Arg) -> Vec<String> {
    argument.get_possible_values().into_iter().map(|value| value.get_name().to_owned()).collect()
}

/// Lets a shell complete paths too where it completes these names. Bash does so by itself if no name fits.
fn add_paths(shell: Shell, mut text: String, names: &BTreeSet<Vec<String>>) -> String {
    for names in names {
        let words = names.join(" ");
        match shell {
            Shell::Zsh => {
                let action = format!(":_isochron_names_or_files {words}'");
                text = text.replace(&format!(":({words})'"), &action);
            }
            Shell::Fish => {
                let lines: Vec<String> = names.iter().map(|name| format!("{name}\\t''")).collect();
                let list = format!("-a \"{}\"", lines.join("\n"));
                text = text.replace(&format!("-r -f {list}"), &format!("-r -F {list}"));
            }
            _ => {}
        }
    }
    match shell {
        Shell::Zsh => text.replacen("_isochron() {", &format!("{ZSH_FUNCTION}_isochron() {{"), 1),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists a command and those within it, each with the words that call it.
    fn list_commands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
        let words = [words, &[command.get_name().to_owned()]].concat();
        let inner = command.get_subcommands();
        let mut all: Vec<_> = inner.flat_map(|command| list_commands(command, &words)).collect();
        all.push((words, command.clone()));
        all
    }

    /// Returns the lines of a text after the first line `start`, up to the next line `;;`.
    fn find_part(text: &str, start: &str) -> String {
        let lines = text.lines().skip_while(|line| line.trim() != start);
        lines.skip(1).take_while(|line| line.trim() != ";;").collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines of the bash completions about a command, up to the `;;` that is indented like its name.
    fn find_bash_part(text: &str, start: &str) -> String {
        let mut lines = text.lines().skip_while(|line| line.trim() != start);
        let name = lines.next().unwrap_or_default();
        let end = name.replace(name.trim(), "    ;;");
        lines.take_while(|line| *line != end).collect::<Vec<_>>().join("\n")
    }

    /// Returns the entries of the fish completions about a command. The names of an option's values go on in lines of their own.
    fn find_fish_lines(text: &str, words: &[String]) -> String {
        let condition = match words {
            [] | [_] => "-n \"__fish_isochron_needs_command\"".to_owned(),
            [_, first] => format!("__fish_isochron_using_subcommand {first}"),
            [_, first, second, ..] => format!(
                "__fish_isochron_using_subcommand {first}; and __fish_seen_subcommand_from {second}"
            ),
        };
        let entries = text.split("\ncomplete ");
        entries.filter(|entry| entry.contains(&condition)).collect::<Vec<_>>().join("\n")
    }

    /// Checks that each text has what `wanted` makes of the name of every option.
    fn check_options(command: &Command, text: &str, wanted: impl Fn(&str) -> [String; 2]) -> usize {
        let options = command.get_opts().filter_map(Arg::get_long);
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
        let (mut seen, mut named) = (0, 0);
        for (words, command) in list_commands(&CliArguments::command(), &[]) {
            let name = words.join("-");
            let page = fs::read_to_string(share.join(MAN_PAGES).join(name.clone() + ".1"));
            let page = page.expect("a man page").replace("\\-", "-");
            let bash = find_bash_part(&bash, &(name.replace('-', "__subcmd__") + ")"));
            let zsh = match &words[..] {
                [_, outer, last] => {
                    let (_, within) = zsh.split_once(&format!("({outer})\n")).expect(outer);
                    find_part(within, &format!("({last})"))
                }
                [_, last] => find_part(&zsh, &format!("({last})")),
                _ => zsh.clone(),
            };
            let fish = find_fish_lines(&fish, &words);
            seen += check_options(&command, &page, |name| {
                ["\n", ", "].map(|start| format!("{start}\\fB--{name}\\fR"))
            });
            check_options(&command, &bash, |name| [" ", "\""].map(|end| format!(" --{name}{end}")));
            check_options(&command, &zsh, |name| ["=", "["].map(|end| format!("--{name}{end}")));
            check_options(&command, &fish, |name| {
                [" ", "\n"].map(|end| format!(" -l {name}{end}"))
            });
            for section in ["ENVIRONMENT", "\"EXIT STATUS\""] {
                assert!(page.contains(&format!(".SH {section}\n")), "{page}");
            }
            assert!(!page.contains(".SH EXTRA"), "{page}");
            named += check_names(&command, [&bash, &zsh, &fish]);
            for inner in command.get_subcommands().map(Command::get_name) {
                assert!(page.contains(&format!("{name}-{inner}(1)")), "{page}");
                assert!(fish.contains(&format!(" -a \"{inner}\"")), "{fish}");
            }
        }
        fs::remove_dir_all(&share).expect("our folder");
        assert!(seen > 100, "only {seen} options");
        assert!(named > 30, "only {named} options with names");
    }

    /// Checks that the completions have the names of every option's values. Returns the number of these options.
    fn check_names(command: &Command, [bash, zsh, fish]: [&String; 3]) -> usize {
        let options = command.get_opts();
        let options = options
            .filter(|option| option.get_action().takes_values())
            .map(|option| (option, list_names(option)));
        let options = options.filter(|(_, names)| !names.is_empty());
        let mut seen = 0;
        for (option, names) in options {
            let words = names.join(" ");
            let in_bash = format!("compgen -W \"{words}\"");
            assert!(bash.contains(&in_bash), "{in_bash} in {bash}");
            for name in &names {
                let in_fish = format!("{name}\\t'");
                assert!(fish.contains(&in_fish), "{in_fish} in {fish}");
            }
            let has_paths = option.get_value_hint() == ValueHint::AnyPath;
            let has_texts = !option.is_hide_possible_values_set();
            let in_zsh = match (has_paths, has_texts) {
                (true, _) => format!("_isochron_names_or_files {words}'"),
                (false, true) => format!("(({}\\:", names[0]),
                (false, false) => format!("({words})"),
            };
            assert!(zsh.contains(&in_zsh), "{in_zsh} in {zsh}");
            seen += 1;
        }
        seen
    }

    #[test]
    fn a_kernel_is_completed_by_name_and_by_path() {
        let names = list_names_beside_paths(&CliArguments::command());
        assert!(names.iter().any(|names| names[0] == "gemm"), "{names:?}");
        assert!(names.iter().any(|names| names[0] == "auto"), "{names:?}");
    }
}
