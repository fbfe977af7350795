//! Combinations of lists of values.

use std::collections::BTreeMap;

use crate::point::{Parameter, Parameters, describe_parameters};

/// Most combinations of a list: more are a slip in the file.
pub(super) const MOST: usize = 100_000;

/// Returns all combinations of a value of each name; `None` if they are more than [`MOST`]. The last name varies fastest.
pub(super) fn combine_all<'l>(
    lists: impl IntoIterator<Item = (&'l String, &'l Vec<Parameter>)>,
) -> Option<Vec<Parameters>> {
    lists.into_iter().try_fold(vec![Parameters::new()], |combined, (name, values)| {
        let size = combined.len().saturating_mul(values.len());
        let with = |parameters: &Parameters, value: &Parameter| {
            let mut parameters = parameters.clone();
            parameters.insert(name.clone(), value.clone());
            parameters
        };
        let combined = combined.iter();
        let combined = combined.flat_map(|it| values.iter().map(move |value| with(it, value)));
        (size <= MOST).then(|| combined.collect())
    })
}

/// Returns the parameters of two sets; of one name, the second set's.
pub(super) fn merge(one: &Parameters, other: &Parameters) -> Parameters {
    let both = one.iter().chain(other);
    both.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Joins each point with each row that agrees with it in the names they have in common. All points have the same names, and so
/// have all rows.
///
/// # Errors
/// Fails for a row or a point that is left alone, or more than [`MOST`] points.
pub(super) fn join(points: &[Parameters], rows: &[Parameters]) -> Result<Vec<Parameters>, String> {
    let has =
        |all: &[Parameters], name: &String| all.first().is_some_and(|it| it.contains_key(name));
    // Values of one kind that are written alike are equal.
    let key = |parameters: &Parameters| {
        let common = parameters.iter();
        let common = common.filter(|(name, _)| has(points, name) && has(rows, name));
        format!("{:?}", common.collect::<Vec<_>>())
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
        joined.extend(rows.iter().map(|row| merge(point, row)));
    }
    if let Some((rows, _)) = groups.values().find(|(_, has_point)| !has_point) {
        let row = describe_parameters(rows[0]);
        return Err(format!("no point has {row}, which a row of this [[zip]] has"));
    }
    Ok(joined)
}
