//! The start of a rank: its command line and the environment variables that matter.

use std::env;
use std::ffi::{OsStr, OsString};
use std::time::Instant;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use isochron_campaign::FOLDER_VARIABLE;
use isochron_core::Error;
use isochron_core::comm::{Comm, Settings, agree_on_settings};
use isochron_core::store::STORE_VARIABLE;

use crate::failure::Failure;
use crate::log;
use crate::watch::WatchArguments;
use crate::{CliArguments, Subcommands};

/// Options that describe a node and not the job: unlike nodes may need unlike values.
const OF_A_NODE: [&str; 2] = ["--blas", "--group"];

/// The same for environment variables. Each host has a store of its own, or none, and a campaign marks the processes of its
/// own host.
const VARIABLES_OF_A_NODE: [&str; 4] =
    ["ISOCHRON_BLAS", STORE_VARIABLE, log::FILTER_VARIABLE, FOLDER_VARIABLE];

/// Most commands that a message names.
const MOST_NAMED: usize = 4;

/// Former names of commands, each with what to type now.
const MOVED: [(&str, &str); 3] = [
    ("app", "`jacobi`, `fft2d` or `dgemv`, programs of the package isochron-examples"),
    ("model", "`isochron models show`"),
    ("devices", "`isochron measure mxm --alone`"),
];

/// Former options, each with what does its work now.
const GONE: [(&str, &str); 2] = [
    ("--record", "`--save-plan` keeps the division of a run"),
    ("--replay", "`--load-plan` takes a division that `--save-plan` kept"),
];

/// Start of the names of our environment variables.
const OUR_VARIABLES: &str = "ISOCHRON_";

/// The start of a rank: its command line and its settings.
pub struct Launch {
    /// Start of the program.
    pub start: Instant,
    /// The command line; an error if it has a mistake, or asks for help.
    pub arguments: Result<CliArguments, clap::Error>,
    /// The command with its subcommands; empty if the command line has a mistake.
    command: String,
    settings: Settings,
}

impl Launch {
    /// Reads the command line and the environment of this process, which began at `start`.
    pub fn of_process(start: Instant) -> Self {
        let mut definition = read_negative_numbers(CliArguments::command());
        let words = join_negative_values(env::args_os(), &list_lists(&definition));
        let matches = definition.try_get_matches_from_mut(words);
        let mut settings = read_variables(env::vars_os());
        let command = match &matches {
            Ok(matches) => add_options(&mut settings, &definition, matches),
            Err(error) if error.kind() == ErrorKind::DisplayVersion => "--version".into(),
            Err(error) if !error.use_stderr() => "--help".into(),
            Err(_) => String::new(),
        };
        let arguments = matches.and_then(|matches| CliArguments::from_arg_matches(&matches));
        Self {
            start,
            arguments: arguments
                .map_err(|error| name_command(error, &definition).format(&mut definition))
                .map_err(name_moved),
            command,
            settings,
        }
    }

    /// Returns how the ranks are watched, if the command is one of the whole job.
    pub fn find_watch(&self) -> Option<WatchArguments> {
        self.arguments.as_ref().ok()?.command.find_watch()
    }

    /// Returns `true` if the command is `isochron health`, whose status 1 tells of a slow device.
    pub fn is_health(&self) -> bool {
        let command = self.arguments.as_ref().map(|arguments| &arguments.command);
        matches!(command, Ok(Subcommands::Health(_)))
    }

    /// Returns `true` if the command is one of all ranks of a job, which help and a mistake are not.
    pub fn needs_ranks(&self) -> bool {
        self.find_watch().is_some()
    }

    /// Refuses ranks that were not all started with the same version, command, options and environment.
    ///
    /// # Collective
    /// All ranks, before any other collective.
    pub fn agree(&self, comm: &dyn Comm) -> Result<(), Failure> {
        agree_on_one(comm, "version", env!("CARGO_PKG_VERSION"))?;
        let mistakes = comm.gather(&self.mistake())?;
        if mistakes.iter().all(Option::is_some) {
            return Ok(());
        }
        let mut by_rank = mistakes.into_iter().enumerate();
        if let Some((rank, mistake)) = by_rank.find_map(|(rank, mistake)| Some((rank, mistake?))) {
            return Err(Failure::input(format!(
                "all ranks need the same command and settings: rank {rank} has a mistake that others do not have: {mistake}"
            )));
        }
        agree_on_one(comm, "command", &self.command)?;
        Ok(agree_on_settings(comm, &self.settings)?)
    }

    /// Returns the mistake in the command line, in one line.
    fn mistake(&self) -> Option<String> {
        let error = self.arguments.as_ref().err()?;
        let text = error.to_string();
        let words: Vec<&str> =
            text.split("\n\n").next()?.trim_start_matches("error: ").split_whitespace().collect();
        error.use_stderr().then(|| words.join(" "))
    }
}

/// Names what does the work of a former option, or the commands that have an unknown one, in place of the options of this
/// command that look alike.
fn name_command(mut error: clap::Error, definition: &Command) -> clap::Error {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => {
            option.clone()
        }
        _ => return error,
    };
    let commands = list_commands_with(definition, &option, "");
    let tip = match GONE.iter().find(|(former, _)| *former == option) {
        Some((_, now)) => Some(format!("'{option}' is gone: {now}")),
        // An option that many have, such as --json, tells nothing.
        None => (1..=MOST_NAMED)
            .contains(&commands.len())
            .then(|| format!("'{option}' is an option of {}", commands.join(", "))),
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Says what to type now, if an error is about a former name of a command.
fn name_moved(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    match MOVED.iter().find(|(former, _)| former == name) {
        Some((former, now)) => clap::Error::raw(
            ErrorKind::InvalidSubcommand,
            format!("`isochron {former}` is gone: type {now}\n"),
        ),
        None => error,
    }
}

/// Lists the commands that have an option, with the words that call them after `before`.
fn list_commands_with(command: &Command, option: &str, before: &str) -> Vec<String> {
    let words = format!("{before}{}", command.get_name());
    let own = command
        .get_arguments()
        .filter_map(Arg::get_long)
        .into_iter()
        .any(|long| Some(long) == option.strip_prefix("--"))
        .then(|| format!("`{words}`"));
    let before = words.clone() + " ";
    let inner = command.get_subcommands();
    let inner = inner.flat_map(|inner| list_commands_with(inner, option, &before));
    own.into_iter().chain(inner).collect()
}

/// Lets every option take a negative number as its value, so that the message about it names the option.
fn read_negative_numbers(command: Command) -> Command {
    command
        .mut_args(|argument| {
            let is_number = argument.get_action().takes_values();
            argument.allow_negative_numbers(is_number)
        })
        .mut_subcommands(read_negative_numbers)
}

/// Returns the options of a command and its subcommands that take several values with commas between them.
fn list_lists(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter(|argument| {
        let most = argument.get_num_args().map_or(1, |range| range.max_values());
        most > 1 && argument.get_value_delimiter().is_some()
    });
    let inner = command.get_subcommands().flat_map(list_lists);
    own.map(name_argument).chain(inner).collect()
}

/// Joins `-inf`, and lists such as `-1,2`, to the option before them, as `--option=-1,2`, or to the value before them
/// of an option in `lists`, as `1,-1,2`. They are no negative numbers to clap, which takes them for unknown options.
fn join_negative_values(words: impl Iterator<Item = OsString>, lists: &[String]) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut is_in_list = false;
    for word in words {
        let text = lossy(&word);
        let glue = match joined.last() {
            Some(last) if is_option(&lossy(last)) => "=",
            _ => ",",
        };
        let is_value = begins_as_negative(&text) && (glue == "=" || is_in_list);
        if text.starts_with('-') && !is_value {
            is_in_list = lists.contains(&text);
        }
        match joined.last_mut() {
            Some(last) if is_value => {
                last.push(glue);
                last.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// Returns `true` for `--name`, without a value.
fn is_option(word: &str) -> bool {
    word.len() > 2 && word.starts_with("--") && !word.contains('=')
}

fn begins_as_negative(word: &str) -> bool {
    let number = word.strip_prefix('-').unwrap_or_default();
    number.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || number.starts_with("inf")
        || number.starts_with("nan")
}

fn agree_on_one(comm: &dyn Comm, name: &str, value: &str) -> Result<(), Error> {
    agree_on_settings(comm, &Settings::from([(name.into(), value.into())]))
}

/// Reads our environment variables.
fn read_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Settings {
    variables
        .map(|pair| (lossy(&pair.0), lossy(&pair.1)))
        .filter(|(name, _)| name.starts_with(OUR_VARIABLES))
        .filter(|(name, _)| !VARIABLES_OF_A_NODE.contains(&name.as_str()))
        .collect()
}

/// Adds the options of a command line by the names that users know. Returns the command with its subcommands.
fn add_options(settings: &mut Settings, definition: &Command, matches: &ArgMatches) -> String {
    for argument in definition.get_arguments() {
        let name = name_argument(argument);
        if !OF_A_NODE.contains(&name.as_str())
            && let Some(value) = find_value(argument, matches)
        {
            settings.insert(name, value);
        }
    }
    let inner = matches.subcommand();
    let words = inner
        .and_then(|(name, inner)| Some((definition.find_subcommand(name)?, inner)))
        .map(|(definition, matches)| add_options(settings, definition, matches));
    [definition.get_name(), words.as_deref().unwrap_or_default()].join(" ").trim_end().to_owned()
}

fn name_argument(argument: &Arg) -> String {
    argument
        .get_long()
        .map(|long| format!("--{long}"))
        .unwrap_or_else(|| argument.get_id().to_string())
}

/// Returns the value of an argument as it was given, or its default.
fn find_value(argument: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = argument.get_id().as_str();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then(|| "given".to_owned());
    }
    let values = matches.try_get_raw(id).ok().flatten()?;
    let values: Vec<_> = values.map(lossy).collect();
    Some(values.join(" "))
}

fn lossy(text: &(impl AsRef<OsStr> + ?Sized)) -> String {
    text.as_ref().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use super::*;

    /// Returns the subcommands within a command that have no subcommands themselves, each with the words that call it.
    fn list_commands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
        let words = [words, &[command.get_name().to_owned()]].concat();
        if command.has_subcommands() {
            command.get_subcommands().flat_map(|command| list_commands(command, &words)).collect()
        } else {
            vec![(words, command.clone())]
        }
    }

    fn is_number(option: &Arg) -> bool {
        let numbers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<f64>(),
        ];
        let value = option.get_value_parser().type_id();
        option.get_action().takes_values() && numbers.iter().any(|number| value == *number)
    }

    /// Returns the message about `--option value`.
    fn refuse(words: &[String], option: &str, value: &str) -> String {
        let words = words.iter().map(String::as_str).chain([option, value]);
        let definition = read_negative_numbers(CliArguments::command());
        let words = join_negative_values(words.map(OsString::from), &list_lists(&definition));
        definition.try_get_matches_from(words).expect_err("a mistake").to_string()
    }

    #[test]
    fn every_numeric_option_tells_its_range_of_a_negative_number() {
        let mut seen = 0;
        for (words, command) in list_commands(&CliArguments::command(), &[]) {
            for option in command.get_opts().filter(|option| is_number(option)).map(name_argument) {
                for value in ["-5", "-0.5", "-1e3", "-inf", "-1,2"] {
                    let message = refuse(&words, &option, value);
                    // Options that take lists refuse their first number.
                    let first = value.split(',').next().unwrap_or_default();
                    let named = [value, first]
                        .map(|value| format!("invalid value '{value}' for '{option} <"))
                        .iter()
                        .any(|start| message.contains(start));
                    assert!(named, "{words:?}: {message}");
                    let range = ["a whole number from ", "a number above 0", "between 0 and 1"];
                    let told = range.iter().any(|range| message.contains(range));
                    assert!(told, "{words:?} {option}: {message}");
                }
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
    }

    #[test]
    fn an_option_of_another_command_is_not_taken_for_a_similar_one() {
        for (line, tip) in [
            ("balance gemm --points 4", "'--points' is an option of `isochron measure`"),
            ("mxm --size 8 --replay x", "'--replay' is gone: `--load-plan` takes"),
            ("balance gemm --units 4 --isolat", "a similar argument exists: '--isolate'"),
        ] {
            let words = ["isochron"].into_iter().chain(line.split(' '));
            let mut definition = CliArguments::command();
            let refused = definition.try_get_matches_from_mut(words);
            let message = name_command(refused.expect_err("a mistake"), &definition).to_string();
            assert!(message.contains(tip), "{message}");
            assert_eq!(message.matches("tip: ").count(), 1, "{message}");
        }
    }

    #[test]
    fn a_former_name_tells_what_to_type_now() {
        for (former, now) in MOVED {
            let refused = CliArguments::command()
                .try_get_matches_from(["isochron", former, "--size", "8"])
                .map_err(name_moved);
            let refused = refused.expect_err("a former name");
            assert_eq!(refused.exit_code(), 2);
            let message = refused.to_string();
            assert_eq!(message, format!("error: `isochron {former}` is gone: type {now}\n"));
        }
    }

    #[test]
    fn only_a_value_that_begins_as_a_negative_number_joins_its_option() {
        let line = "isochron -1 --at -1,2 -3 --n=-1 -2 --all --json -.5 -- -1 --size -inf -nan -h --at 4 5 -1,2 -h -1";
        let lists = ["--at".to_owned()];
        let words = join_negative_values(line.split(' ').map(OsString::from), &lists);
        let joined = "isochron -1 --at=-1,2,-3 --n=-1 -2 --all --json=-.5 -- -1 --size=-inf -nan -h --at 4 5,-1,2 -h -1";
        assert_eq!(words, joined.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn a_list_behind_a_value_of_a_list_is_a_value() {
        let show = ["isochron", "models", "show", "a.points", "--at"].map(str::to_owned);
        let message = refuse(&show, "64", "-1,2");
        let expected = "invalid value '-1' for '--at <D>...': expected a whole number from";
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn lists_that_begin_with_a_minus_are_values() {
        let partition = ["isochron", "partition"].map(str::to_owned);
        let layout = ["isochron", "layout"].map(str::to_owned);
        for (words, option) in [
            (&partition, "--caps"),
            (&partition, "--forbid"),
            (&partition, "--memory"),
            (&layout, "--columns"),
        ] {
            let message = refuse(words, option, "-1,2");
            assert!(message.contains("expected ") && message.contains(option), "{message}");
        }
    }
}
