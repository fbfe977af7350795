//! `isochron campaign compare`: two or more campaigns of the same points.

use std::fmt::Write as _;

use isochron_campaign::{
    CampaignComparison, ComparedPoint, MOST_ROUNDS, PointVerdict, describe_parameters,
    format_number,
};

use super::options::CompareArguments;
use crate::failure::Failure;
use crate::output::Answer;
use crate::table::TextTable;

/// Compares a campaign with a baseline.
pub fn run(arguments: &CompareArguments) -> Result<Answer, Failure> {
    let Some((compared, baseline)) = arguments.dirs.split_last() else {
        return Err(Failure::input("compare takes two folders or more"));
    };
    let comparison = CampaignComparison::read(baseline, compared)?;
    let is_bad = |point: &ComparedPoint| {
        matches!(point.verdict, PointVerdict::Slower | PointVerdict::Failed)
    };
    let is_bad = arguments.check && comparison.points.iter().any(is_bad);
    Ok(Answer::new(arguments.json, &comparison, format)?.checked(is_bad))
}

/// Formats a comparison for people.
fn format(comparison: &CampaignComparison) -> String {
    let mut text = if comparison.environment.is_empty() {
        "The environments are alike.\n\n".to_owned()
    } else {
        let mut table = TextTable::new(3, "environment|baseline|compared");
        for difference in &comparison.environment {
            table.add_row([
                difference.fact.clone(),
                difference.baseline.to_string(),
                difference.compared.to_string(),
            ]);
        }
        format!("{table}\n")
    };
    let mut table = TextTable::new(2, "point|contender|baseline|compared|ratio|interval|verdict");
    for point in &comparison.points {
        table.add_row([
            describe_parameters(&point.parameters),
            point.contender.clone(),
            describe_number(point.baseline),
            describe_number(point.compared),
            point.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            point
                .interval
                .map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.3} to {high:.3}")),
            describe_verdict(point),
        ]);
    }
    // Writing to a String cannot fail.
    for note in &comparison.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = write!(text, "{table}");
    text
}

fn describe_number(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), format_number)
}

fn describe_verdict(point: &ComparedPoint) -> String {
    match (point.verdict, point.more_rounds) {
        (PointVerdict::Faster, _) => "faster".to_owned(),
        (PointVerdict::Slower, _) => "slower".to_owned(),
        (PointVerdict::Same, _) => "same within 2 %".to_owned(),
        (PointVerdict::Inconclusive, Some(MOST_ROUNDS)) => {
            format!("inconclusive, needs {MOST_ROUNDS} or more")
        }
        (PointVerdict::Inconclusive, Some(more)) => format!("inconclusive, needs {more} more"),
        (PointVerdict::Inconclusive, None) => "inconclusive".to_owned(),
        (PointVerdict::Failed, _) => {
            format!("failed: {}", point.reason.as_deref().unwrap_or("no value"))
        }
    }
}
