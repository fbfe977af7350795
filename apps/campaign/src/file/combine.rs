//! Combinations of lists of values.

use std::collections::BTreeMap;

use crate::point::{Parameter, Parameters};

/// Returns all combinations of a value of each name. The last name varies fastest.
pub(super) fn combine_all<'l>(
    lists: impl IntoIterator<Item = (&'l String, &'l Vec<Parameter>)>,
) -> Vec<Parameters> {
    lists
        .into_iter()
        .fold(vec![Parameters::new()], |combined, (name, values)| {
            combined
                .iter()
                .flat_map(|parameters| {
                    values
                        .iter()
                        .map(move |value| with(parameters, name, value))
                })
                .collect()
        })
}

fn with(parameters: &Parameters, name: &str, value: &Parameter) -> Parameters {
    let mut parameters = parameters.clone();
    parameters.insert(name.to_owned(), value.clone());
    parameters
}

/// Returns the rows of lists of equal length: the first values together, the second ones, and so on.
pub(super) fn list_rows(lists: &BTreeMap<&str, &[Parameter]>) -> Vec<Parameters> {
    let length = lists.values().map(|values| values.len()).max().unwrap_or(0);
    (0..length)
        .map(|row| {
            let values = lists.iter();
            let values = values
                .filter_map(|(name, values)| Some(((*name).to_owned(), values.get(row)?.clone())));
            values.collect()
        })
        .collect()
}

/// Joins each point with each row that agrees with it in the names they have in common.
pub(super) fn join(points: &[Parameters], rows: &[Parameters]) -> Vec<Parameters> {
    points
        .iter()
        .flat_map(|point| {
            rows.iter().filter(|row| agree(point, row)).map(|row| {
                point
                    .iter()
                    .chain(row)
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            })
        })
        .collect()
}

/// Returns `true` if two sets of parameters have the same values of the names they have in common.
pub(super) fn agree(first: &Parameters, second: &Parameters) -> bool {
    first
        .iter()
        .all(|(name, value)| second.get(name).is_none_or(|other| other == value))
}
