//! Combinations of lists of values.

use std::collections::{BTreeMap, BTreeSet};

use crate::point::{Parameter, Parameters, describe_parameters};

/// Most combinations of a list: more are a slip in the file.
pub(super) const MOST: usize = 100_000;

/// Returns all combinations of a value of each name; `None` if they are more than [`MOST`]. The last name varies fastest.
pub(super) fn combine_all<'l>(
    lists: impl IntoIterator<Item = (&'l String, &'l Vec<Parameter>)>,
) -> Option<Vec<Parameters>> {
    lists
        .into_iter()
        .try_fold(vec![Parameters::new()], |combined, (name, values)| {
            let size = combined.len().saturating_mul(values.len());
            (size <= MOST).then(|| {
                combined
                    .iter()
                    .flat_map(|parameters| {
                        values
                            .iter()
                            .map(move |value| with(parameters, name, value))
                    })
                    .collect()
            })
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

/// Joins each point with each row that agrees with it in the names they have in common. All points have the same names, and so
/// have all rows.
///
/// # Errors
/// A row or a point that is left alone, or more than [`MOST`] points.
pub(super) fn join(points: &[Parameters], rows: &[Parameters]) -> Result<Vec<Parameters>, String> {
    let common: Vec<&String> = match (points.first(), rows.first()) {
        (Some(point), Some(row)) => point
            .keys()
            .filter(|name| row.contains_key(*name))
            .collect(),
        _ => Vec::new(),
    };
    // Values of one kind that are written alike are equal.
    let key = |parameters: &Parameters| {
        format!(
            "{:?}",
            common
                .iter()
                .map(|name| &parameters[*name])
                .collect::<Vec<_>>()
        )
    };
    let keys: Vec<String> = points.iter().map(key).collect();
    let of_points: BTreeSet<&String> = keys.iter().collect();
    let mut groups: BTreeMap<String, Vec<&Parameters>> = BTreeMap::new();
    for row in rows {
        let key = key(row);
        if !of_points.contains(&key) {
            let row = describe_parameters(row);
            return Err(format!(
                "no point has {row}, which a row of this [[zip]] has"
            ));
        }
        groups.entry(key).or_default().push(row);
    }
    if let Some(alone) = keys.iter().position(|key| !groups.contains_key(key)) {
        let point = describe_parameters(&points[alone]);
        return Err(format!("no row of this [[zip]] has {point}"));
    }
    if keys.iter().map(|key| groups[key].len()).sum::<usize>() > MOST {
        return Err(format!("this [[zip]] makes more than {MOST} points"));
    }
    let pairs = points
        .iter()
        .zip(&keys)
        .flat_map(|(point, key)| groups[key].iter().map(move |row| (point, row)));
    Ok(pairs
        .map(|(point, row)| {
            let both = point.iter().chain(row.iter());
            both.map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        })
        .collect())
}
