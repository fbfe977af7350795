//! `report.html`: one file for people who look, with everything inside.

use std::collections::BTreeMap;

use isochron_base::printable::escape;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::markdown::format_interval;
use super::{CampaignReport, ContenderStanding, GoalOutcome, PointMark, ReportRow, format_number};
use crate::environment::{
    describe_fact, find_reference, list_differences, list_failed_launchers, list_unlike_hosts,
};
use crate::point::{describe_parameters, fingerprint};
use crate::schedule::PointEnd;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Most failures that are shown before anyone asks.
const FEW: usize = 10;

/// A count of points by verdict, as a table and a bar show it.
#[derive(Serialize)]
struct Tally {
    name: String,
    good: usize,
    bad: usize,
    unclear: usize,
    /// Lowest and highest ratio.
    range: String,
}

/// A number at the head of the page.
#[derive(Serialize)]
struct PageTile {
    name: &'static str,
    value: String,
    more: String,
}

impl CampaignReport {
    /// Formats the report as a page of HTML that needs no other file and no network.
    ///
    /// # Errors
    /// Returns the mistake in the page's template.
    pub fn format_html(&self) -> Result<String, minijinja::Error> {
        let data = self.format_data();
        // Nothing in it ends the element that it is in.
        let data = data.replace('<', "\\u003c");
        let page = context! {
            version => env!("CARGO_PKG_VERSION"),
            // A text in the data cannot contain the fingerprint of the data, so it cannot pass for the page's own script.
            nonce => fingerprint(&data),
            style => minijinja::Value::from_safe_string(STYLE.to_owned()),
            script => minijinja::Value::from_safe_string(SCRIPT.to_owned()),
            data => minijinja::Value::from_safe_string(data),
            ..minijinja::Value::from(Serde(shown(self.make_summary())))
        };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_template("page.html", PAGE)?;
        environment.get_template("page.html")?.render(page)
    }

    /// Formats the document from which the script draws. Rows and repetitions are written one by one, since a campaign has many.
    fn format_data(&self) -> String {
        let origin_s = self.find_first_start();
        let repetitions = self.repetitions.iter().map(|repetition| {
            let start_s = (1000.0 * (repetition.start_s - origin_s)).round() / 1000.0;
            json!([
                repetition.row,
                repetition.round,
                start_s,
                repetition.took_s,
                repetition.value,
                repetition.mark as u8,
                repetition.note
            ])
        });
        let rest = json!({
            "confidence": self.confidence,
            "parameters": self.parameters,
            "reference": self.reference,
            "origin_s": origin_s,
            "runs": self.runs,
        });
        format!(
            r#"{{"rows":{},"repetitions":{},{}"#,
            format_list(self.rows.iter().map(describe_row)),
            format_list(repetitions),
            &shown(rest).to_string()[1..]
        )
    }

    fn find_first_start(&self) -> f64 {
        let starts = self.repetitions.iter().map(|repetition| repetition.start_s);
        starts.reduce(f64::min).unwrap_or(0.0)
    }

    /// Makes what the template shows without the script.
    fn make_summary(&self) -> Value {
        let goal_rows = self.goals.iter().map(|row| {
            json!({
                "point": describe_point(&describe_parameters(&row.parameters)),
                "goal": row.goal,
                "ratio": format_interval(row.ratio),
                "outcome": row.outcome.describe(),
            })
        });
        let failures = self.failures.iter().map(|failed| {
            json!({
                "contender": failed.contender,
                "point": describe_point(&describe_parameters(&failed.parameters)),
                "failed": failed.failed,
                "of": failed.of,
                "reason": failed.reason,
                "is_given_up": failed.is_given_up,
            })
        });
        json!({
            "name": self.name,
            "about": self.about,
            "state": self.state,
            "state_text": self.state.describe(),
            "intervals": self.describe_intervals(),
            "tiles": self.make_tiles(),
            "reference": self.reference,
            "standings": self.tally_standings(),
            "goals": self.tally_goals(),
            "goal_rows": goal_rows.collect::<Vec<_>>(),
            "few_failures": self.failures.len() <= FEW,
            "failures": failures.collect::<Vec<_>>(),
            "environments": self.describe_environments(),
        })
    }

    fn make_tiles(&self) -> Vec<PageTile> {
        let points: BTreeMap<&str, bool> =
            self.rows.iter().map(|row| (row.point.as_str(), row.end.is_some())).collect();
        let ended = points.values().filter(|has_ended| **has_ended).count();
        let count = |mark: PointMark| {
            let marked = self.repetitions.iter();
            marked.filter(|repetition| repetition.mark == mark).count()
        };
        let disturbed = count(PointMark::CountedDisturbed) + count(PointMark::Replaced);
        let failed = count(PointMark::Failed) + count(PointMark::TimedOut);
        let took_s: f64 = self.repetitions.iter().map(|it| it.took_s).sum();
        let contenders = self.rows.len() / points.len().max(1);
        let mut tiles = vec![
            PageTile {
                name: "Points",
                value: points.len().to_string(),
                more: format!("{ended} ended, {}", count_of(contenders, "contender")),
            },
            PageTile {
                name: "Repetitions",
                value: self.repetitions.len().to_string(),
                more: format!("{disturbed} disturbed, {failed} failed"),
            },
            PageTile {
                name: "Measured",
                value: describe_seconds(took_s),
                more: format!("in {}", count_of(self.environments.len(), "environment")),
            },
        ];
        if !self.goals.is_empty() {
            let count = |outcome| self.count_goals(outcome);
            tiles.push(PageTile {
                name: "Goals met",
                value: format!("{} of {}", count(GoalOutcome::Met), self.goals.len()),
                more: format!(
                    "{} missed, {} unclear",
                    count(GoalOutcome::Missed),
                    count(GoalOutcome::Unclear)
                ),
            });
        }
        tiles
    }

    /// Counts the points at which each contender that is compared with the reference is better or worse.
    fn tally_standings(&self) -> Vec<Tally> {
        let mut tallies: Vec<Tally> = Vec::new();
        let is_reference = |row: &&ReportRow| self.reference.as_ref() == Some(&row.contender);
        let Some(reference) = self.rows.iter().find(is_reference) else {
            return tallies;
        };
        for row in &self.rows {
            if row.contender == reference.contender || row.better != reference.better {
                continue;
            }
            let known = tallies.iter().position(|tally| tally.name == row.contender);
            let number = known.unwrap_or_else(|| {
                tallies.push(Tally::new(&row.contender));
                tallies.len() - 1
            });
            match row.standing {
                Some(ContenderStanding::Better) => tallies[number].good += 1,
                Some(ContenderStanding::Worse) => tallies[number].bad += 1,
                Some(ContenderStanding::Unclear) | None => tallies[number].unclear += 1,
            }
        }
        for tally in &mut tallies {
            let rows = self.rows.iter().filter(|row| row.contender == tally.name);
            let ratios = rows.filter_map(|row| Some(row.ratio?.median));
            tally.range = describe_range(ratios.collect());
        }
        tallies
    }

    /// Counts the points at which each goal is met.
    fn tally_goals(&self) -> Vec<Tally> {
        let mut tallies: Vec<Tally> = Vec::new();
        for row in &self.goals {
            let known = tallies.iter().position(|tally| tally.name == row.goal);
            let number = known.unwrap_or_else(|| {
                tallies.push(Tally::new(&row.goal));
                tallies.len() - 1
            });
            match row.outcome {
                GoalOutcome::Met => tallies[number].good += 1,
                GoalOutcome::Missed => tallies[number].bad += 1,
                GoalOutcome::Unclear => tallies[number].unclear += 1,
            }
        }
        for tally in &mut tallies {
            let rows = self.goals.iter().filter(|row| row.goal == tally.name);
            let ratios = rows.filter_map(|row| Some(row.ratio?.median));
            tally.range = describe_range(ratios.collect());
        }
        tallies
    }

    /// Describes the environments in the order of their use.
    fn describe_environments(&self) -> Vec<Value> {
        let mut starts: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for repetition in &self.repetitions {
            let own = starts.entry(&repetition.environment).or_default();
            own.push(repetition.start_s);
        }
        let mut environments: Vec<_> = self
            .environments
            .iter()
            .map(|(name, facts)| (name, facts, starts.remove(name).unwrap_or_default()))
            .collect();
        let first_start = |starts: &[f64]| starts.iter().copied().fold(f64::INFINITY, f64::min);
        environments.sort_by(|(.., a), (.., b)| first_start(a).total_cmp(&first_start(b)));
        let first = environments.first().map(|(_, facts, _)| *facts);
        let first = first.cloned().unwrap_or_default();
        let environments = environments.into_iter().map(|(name, facts, starts)| {
            let differences = list_differences(&first, facts).into_iter();
            let differences = differences.map(|(fact, first, here)| {
                json!({"fact": fact, "first": describe_fact(&first), "here": describe_fact(&here)})
            });
            let fact = |place| describe_fact(facts.pointer(place).unwrap_or(&Value::Null));
            let unlike_hosts = list_unlike_hosts(facts).into_iter();
            let unlike_hosts = unlike_hosts.map(|(host, fact, there)| {
                json!({"host": host, "fact": fact, "there": describe_fact(&there)})
            });
            let gpus = facts["gpus"].as_array().into_iter().flatten();
            json!({
                "name": name,
                "host": fact("/host"),
                "cpu": fact("/cpu/model"),
                "memory": fact("/memory"),
                "gpus": gpus.map(|gpu| describe_fact(&gpu["name"])).collect::<Vec<_>>(),
                "system": fact("/system"),
                "kernel": fact("/kernel"),
                "repetitions": starts.len(),
                "first_s": starts.iter().copied().reduce(f64::min),
                "last_s": starts.iter().copied().reduce(f64::max),
                "hosts": facts["hosts"],
                "reference": find_reference(facts),
                "failed_launchers": list_failed_launchers(facts),
                "unlike_hosts": unlike_hosts.collect::<Vec<_>>(),
                "differences": differences.collect::<Vec<_>>(),
                "facts": format!("{facts:#}"),
            })
        });
        environments.collect()
    }
}

impl Tally {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), good: 0, bad: 0, unclear: 0, range: String::new() }
    }
}

fn format_list(elements: impl Iterator<Item = Value>) -> String {
    let elements: Vec<String> = elements.map(|element| shown(element).to_string()).collect();
    format!("[{}]", elements.join(","))
}

/// Describes a row for the script.
fn describe_row(row: &ReportRow) -> Value {
    // All of its fields can be written.
    let mut described = serde_json::to_value(row).unwrap_or_default();
    described["end_text"] = row.end.map_or("open", PointEnd::describe).into();
    described
}

fn describe_point(parameters: &str) -> &str {
    if parameters.is_empty() { "the only point" } else { parameters }
}

fn count_of(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

fn describe_range(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    match ratios[..] {
        [] => "-".to_owned(),
        [one] => format_number(one),
        [low, .., high] => format!("{} to {}", format_number(low), format_number(high)),
    }
}

fn describe_seconds(seconds: f64) -> String {
    if seconds < 600.0 {
        format!("{} s", format_number(seconds))
    } else if seconds < 36_000.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

/// Returns a document whose texts show their hidden characters.
fn shown(document: Value) -> Value {
    match document {
        Value::String(text) => {
            Value::String(text.split('\n').map(escape).collect::<Vec<_>>().join("\n"))
        }
        Value::Array(elements) => elements.into_iter().map(shown).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (escape(&name).into_owned(), shown(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

#[cfg(test)]
mod tests;
