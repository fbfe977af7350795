//! Combinations of lists of values.

use std::collections::BTreeMap;

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
    let mut groups: BTreeMap<String, (Vec<&Parameters>, bool)> = BTreeMap::new();
    for row in rows {
        groups.entry(key(row)).or_default().0.push(row);
    }
    let mut joined = Vec::new();
    for point in points {
        let Some((rows, has_point)) = groups.get_mut(&key(point)) else {
            let point = describe_parameters(point);
            return Err(format!("no row of this [[zip]] has {point}"));
        };
        *has_point = true;
        if joined.len() + rows.len() > MOST {
            return Err(format!("this [[zip]] makes more than {MOST} points"));
        }
        let both = rows.iter().map(|row| point.iter().chain(row.iter()));
        joined.extend(both.map(|both| {
            both.map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Parameters>()
        }));
    }
    if let Some((rows, _)) = groups.values().find(|(_, has_point)| !has_point) {
        let row = describe_parameters(rows[0]);
        return Err(format!(
            "no point has {row}, which a row of this [[zip]] has"
        ));
    }
    Ok(joined)
}
