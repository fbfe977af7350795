//! Settings that all ranks of a job must share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::contract::Comm;
use crate::error::Error;

/// The values of a rank's settings by their names, as the user knows both. A setting without a value is left out.
pub type Settings = BTreeMap<String, String>;

/// Compares the settings of all ranks.
///
/// Ranks with different settings take different ways through the program: they wait for each other for ever, or each
/// computes its part of another product. So a program calls this before it acts on what it was given.
///
/// # Errors
/// [`Error::Settings`] on every rank, with the settings that differ, their values and the ranks that have them;
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
        ranks_by_value
            .entry(settings.get(name))
            .or_default()
            .push(rank);
    }
    if ranks_by_value.len() < 2 {
        return None;
    }
    let mut values: Vec<_> = ranks_by_value.into_iter().collect();
    values.sort_by_key(|(_, ranks)| ranks[0]);
    let values = values.into_iter().map(|(value, ranks)| {
        let value = value.map_or("not given", String::as_str);
        format!("{value} on {}", list_ranks(&ranks))
    });
    Some(format!(
        "{name} is {}",
        values.collect::<Vec<_>>().join(", ")
    ))
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
        pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    }

    #[test]
    fn a_difference_is_told_with_its_values_and_ranks() {
        let plain = settings(&[("--size", "8"), ("--beta", "1")]);
        assert_eq!(describe_differences(&[plain.clone(), plain.clone()]), "");
        let other = settings(&[("--size", "8"), ("--beta", "3")]);
        let all = [plain.clone(), other, plain.clone(), plain];
        assert_eq!(
            describe_differences(&all),
            "--beta is 1 on ranks 0, 2-3, 3 on rank 1"
        );
    }

    #[test]
    fn a_setting_of_some_ranks_only_is_a_difference() {
        let all = [
            settings(&[]),
            settings(&[("--json", "given")]),
            settings(&[("--seed", "2")]),
        ];
        assert_eq!(
            describe_differences(&all),
            "--json is not given on ranks 0, 2, given on rank 1; \
             --seed is not given on ranks 0-1, 2 on rank 2"
        );
    }

    #[test]
    fn one_rank_agrees_with_itself() {
        let settings = settings(&[("--size", "8")]);
        agree_on_settings(&LocalComm::new(), &settings).unwrap();
    }
}
