//! Settings that all ranks of a job must share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

use serde::Serialize;
use serde_json::Value;

use super::contract::Comm;
use crate::error::Error;

/// The values of a rank's settings by their names, as the user knows both. A setting without a value is left out.
pub type Settings = BTreeMap<String, String>;

/// Separates the words for a value from a number by which long values are compared, and which no user sees.
const NUMBER_MARK: char = '\u{1f}';

/// Returns the text of a value that is too long to be shown: words for it, such as `a plan`, and a number that equal values
/// have in common. If other ranks have another value of the same words, it is `another plan`.
pub(crate) fn describe_long(words: impl Display, number: impl Display) -> String {
    format!("{words}{NUMBER_MARK}{number}")
}

/// Adds a setting, or each field of one that has some. Texts are quoted. A number that is not finite counts as not given, as
/// a setting without a value does.
pub(crate) fn add_setting(settings: &mut Settings, name: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    add_value(settings, name.to_owned(), &value);
}

/// Adds a long value by words for it, such as `a plan`. It is compared by a number that is the same for equal ones.
pub(crate) fn add_long(settings: &mut Settings, name: &str, words: &str, value: &impl Serialize) {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let text = describe_long(words, crc32fast::hash(&bytes));
    settings.insert(name.to_owned(), text);
}

/// Adds the fields of a configuration by their own names.
pub(crate) fn add_fields(settings: &mut Settings, configuration: &impl Serialize) {
    if let Ok(Value::Object(fields)) = serde_json::to_value(configuration) {
        for (field, value) in fields {
            add_value(settings, field, &value);
        }
    }
}

fn add_value(settings: &mut Settings, name: String, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                add_value(settings, format!("{name}.{field}"), value);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                add_value(settings, format!("{name}[{index}]"), item);
            }
        }
        value => {
            settings.insert(name, value.to_string());
        }
    }
}

/// Compares the settings of all ranks.
///
/// Ranks with different settings take different ways through the program: they wait for each other for ever, or each
/// computes its part of another product. So a program calls this before it acts on what it was given.
///
/// # Errors
/// Returns [`Error::Settings`] on every rank, with the settings that differ, their values and the ranks that have them;
/// [`Error::Unreadable`] on every rank when a rank runs a program that does not know this message.
///
/// # Collective
/// All ranks.
pub fn agree_on_settings(comm: &dyn Comm, mine: &Settings) -> Result<(), Error> {
    match describe_differences(&comm.gather(mine)?) {
        differences if differences.is_empty() => Ok(()),
        differences => Err(Error::Settings(differences)),
    }
}

/// Describes the settings that are not the same on all ranks; empty if there are none.
pub fn describe_differences(by_rank: &[Settings]) -> String {
    let names: BTreeSet<&String> = by_rank.iter().flat_map(BTreeMap::keys).collect();
    names
        .into_iter()
        .filter_map(|name| describe_difference(name, by_rank))
        .collect::<Vec<_>>()
        .join("; ")
}

fn describe_difference(name: &str, by_rank: &[Settings]) -> Option<String> {
    let mut ranks_by_value: BTreeMap<Option<&String>, Vec<usize>> = BTreeMap::new();
    for (rank, settings) in by_rank.iter().enumerate() {
        ranks_by_value.entry(settings.get(name)).or_default().push(rank);
    }
    if ranks_by_value.len() < 2 {
        return None;
    }
    let mut values: Vec<_> = ranks_by_value.into_iter().collect();
    values.sort_by_key(|(_, ranks)| ranks[0]);
    let mut shown: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    for (value, ranks) in values {
        let words = value.map_or("not given", |value| show_value(value));
        let ranks = list_ranks(&ranks);
        texts.push(if shown.contains(&words) {
            format!("another {} on {ranks}", words.trim_start_matches("a "))
        } else {
            format!("{words} on {ranks}")
        });
        shown.push(words);
    }
    Some(format!("{name} is {}", texts.join(", ")))
}

/// Returns the words for a value, without the number by which it is compared.
fn show_value(value: &str) -> &str {
    value.split_once(NUMBER_MARK).map_or(value, |(words, _)| words)
}

/// Lists ascending ranks, neighbours as a range: "ranks 0-3, 7".
fn list_ranks(ranks: &[usize]) -> String {
    let mut text = if ranks.len() == 1 { "rank" } else { "ranks" }.to_owned();
    for (idx, run) in ranks.chunk_by(|a, b| a + 1 == *b).enumerate() {
        let comma = if idx == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match run {
            [only] => write!(text, "{comma} {only}"),
            [first, .., last] => write!(text, "{comma} {first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::LocalComm;
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_difference_is_told_with_its_values_and_ranks() {
        let plain = settings(&[("--size", "8"), ("--beta", "1")]);
        assert_eq!(describe_differences(&[plain.clone(), plain.clone()]), "");
        let other = settings(&[("--size", "8"), ("--beta", "3")]);
        let all = [plain.clone(), other, plain.clone(), plain];
        assert_eq!(describe_differences(&all), "--beta is 1 on ranks 0, 2-3, 3 on rank 1");
    }

    #[test]
    fn a_setting_of_some_ranks_only_is_a_difference() {
        let all = [settings(&[]), settings(&[("--json", "given")]), settings(&[("--seed", "2")])];
        assert_eq!(
            describe_differences(&all),
            "--json is not given on ranks 0, 2, given on rank 1; \
             --seed is not given on ranks 0-1, 2 on rank 2"
        );
    }

    #[test]
    fn long_values_are_compared_by_numbers_that_are_not_shown() {
        let rank = |number: u32| {
            let plan = describe_long("a plan", number);
            settings(&[("plan", plan.as_str())])
        };
        assert_eq!(describe_differences(&[rank(7), rank(7)]), "");
        assert_eq!(
            describe_differences(&[rank(7), rank(8), rank(7), rank(9)]),
            "plan is a plan on ranks 0, 2, another plan on rank 1, another plan on rank 3"
        );
    }

    #[test]
    fn the_fields_of_a_setting_have_names_of_their_own() {
        #[derive(Serialize)]
        struct Shape {
            m: usize,
            kind: Option<&'static str>,
            inner: Option<f64>,
        }
        let shape = Shape { m: 3, kind: Some("x"), inner: None };
        let (mut listed, mut plain) = (Settings::new(), Settings::new());
        add_setting(&mut listed, "shape", &shape);
        add_setting(&mut listed, "shapes", &[&shape]);
        add_setting(&mut listed, "sizes", &[1, 2]);
        add_fields(&mut plain, &shape);
        let wanted = [
            ("shape.m", "3"),
            ("shape.kind", "\"x\""),
            ("shapes[0].m", "3"),
            ("shapes[0].kind", "\"x\""),
            ("sizes", "[1,2]"),
        ];
        assert_eq!(listed, settings(&wanted));
        assert_eq!(plain, settings(&[("m", "3"), ("kind", "\"x\"")]));
    }

    #[test]
    fn one_rank_agrees_with_itself() {
        let settings = settings(&[("--size", "8")]);
        agree_on_settings(&LocalComm::new(), &settings).unwrap();
    }
}
