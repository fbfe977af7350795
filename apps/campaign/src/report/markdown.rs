//! `report.md`: tables for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{CampaignReport, GoalOutcome, GoalRow};
use crate::environment::{
    describe_fact, find_reference, list_differences, list_failed_launchers, list_unlike_hosts,
};
use crate::point::{Parameters, describe_parameters};
use crate::schedule::PointEnd;
use crate::statistics::MedianInterval;
use crate::status::State;

impl PointEnd {
    /// Describes the end of a point in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Precise => "precise",
            Self::Rounds => "most rounds",
            Self::Failed => "failed",
            Self::Budget => "time used up",
            Self::NotMeasured => "not measured",
        }
    }
}

impl State {
    /// Describes the state of a campaign in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Open => "not complete",
            Self::Ended => "complete",
            Self::Budget => "ended by its time",
        }
    }
}

impl GoalOutcome {
    /// Describes the outcome of a goal in a word.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Unclear => "unclear",
        }
    }
}

impl GoalRow {
    /// Describes the outcome; of an unclear one, what the median says.
    pub fn describe_outcome(&self) -> String {
        let word = self.outcome.describe();
        match (self.outcome, self.meets_by_median) {
            (GoalOutcome::Unclear, Some(true)) => format!("{word}, met by the median"),
            (GoalOutcome::Unclear, Some(false)) => format!("{word}, missed by the median"),
            _ => word.to_owned(),
        }
    }
}

impl CampaignReport {
    /// Formats the report in Markdown.
    pub fn format_markdown(&self) -> String {
        let mut text = format!("# {}\n\n", escape(&self.name));
        if let Some(about) = &self.about {
            text += &format!("{}\n\n", about.trim());
        }
        text += &format!("State: {}. {}\n\n", self.state.describe(), self.describe_intervals());
        if !self.goals.is_empty() {
            let count = |outcome| self.count_goals(outcome);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "Goals: {} met, {} missed, {} unclear, of {}.\n",
                count(GoalOutcome::Met),
                count(GoalOutcome::Missed),
                count(GoalOutcome::Unclear),
                self.goals.len()
            );
        }
        text += &self.format_rows();
        if !self.goals.is_empty() {
            text += &self.format_goals();
        }
        if !self.failures.is_empty() {
            text += &self.format_failures();
        }
        text += &self.format_environments();
        text += &self.format_commands();
        text
    }

    /// Describes the values and ratios of the report, and their intervals.
    pub(super) fn describe_intervals(&self) -> String {
        let ratio = match &self.reference {
            Some(reference) => format!(" Ratios are to {}, within a round.", escape(reference)),
            None => String::new(),
        };
        if self.confidence >= 1.0 {
            return format!("Values are the same in every repetition.{ratio}");
        }
        format!(
            "Values are medians over rounds, with the interval that holds the true median at {} %: the values are not \
             assumed to be normal, and few have no interval.{ratio}",
            100.0 * self.confidence
        )
    }

    fn format_rows(&self) -> String {
        let mut columns: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        let n_parameters = columns.len();
        columns.extend(["contender", "value", "rounds:", "median:"]);
        if self.reference.is_some() {
            columns.push("ratio:");
        }
        let compared: BTreeSet<&str> = self.rows.iter().map(|row| row.value_of.as_str()).collect();
        let computed: Vec<&str> = self
            .values
            .iter()
            .map(String::as_str)
            .filter(|name| compared.len() != 1 || !compared.contains(name))
            .collect();
        columns.extend(&computed);
        columns.extend(["end", "notes"]);
        let rows = self.rows.iter().map(|row| {
            let mut cells: Vec<String> = Vec::with_capacity(n_parameters + 7);
            cells.extend(list_values(&self.parameters, &row.parameters));
            cells.push(escape(&row.contender));
            cells.push(format_code(&row.value_of));
            cells.push(row.value.map_or(0, |value| value.n).to_string());
            cells.push(format_interval(row.value));
            if let Some(reference) = &self.reference {
                cells.push(if row.contender == *reference {
                    "1".to_owned()
                } else {
                    format_interval(row.ratio)
                });
            }
            cells.extend(computed.iter().map(|&name| {
                let interval = row.results.get(name).copied();
                interval.map_or(String::new(), |interval| format_interval(Some(interval)))
            }));
            cells.push(row.end.map_or("open", PointEnd::describe).to_owned());
            let mut notes = Vec::new();
            if !row.tuned.is_empty() {
                let tuned = describe_parameters(&row.tuned);
                notes.push(format!("tuned: {}", escape(&tuned)));
            }
            if row.disturbed > 0 {
                notes.push(format!("{} disturbed", row.disturbed));
            }
            if row.failed > 0 {
                notes.push(format!("{} failed", row.failed));
            }
            cells.push(notes.join("; "));
            cells
        });
        format!("## Results\n\n{}", format_table(&columns, rows))
    }

    fn format_goals(&self) -> String {
        let mut columns: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        columns.extend(["goal", "found:", "outcome"]);
        let rows = self.goals.iter().map(|row| {
            let mut cells = list_values(&self.parameters, &row.parameters);
            cells.push(escape(&row.goal));
            cells.push(format_interval(row.ratio));
            cells.push(row.describe_outcome());
            cells
        });
        format!("\n## Goals\n\n{}", format_table(&columns, rows))
    }

    fn format_failures(&self) -> String {
        let mut columns: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        columns.extend(["contender", "failed:", "last failure"]);
        let rows = self.failures.iter().map(|failed| {
            let mut cells = list_values(&self.parameters, &failed.parameters);
            cells.push(escape(&failed.contender));
            cells.push(format!("{} of {}", failed.failed, failed.of));
            cells.push(escape(&failed.reason));
            cells
        });
        format!("\n## Failures\n\n{}", format_table(&columns, rows))
    }

    fn format_environments(&self) -> String {
        let mut text = "\n## Environments\n\n".to_owned();
        let mut environments = self.environments.iter();
        let Some((first, facts)) = environments.next() else {
            return text + "Nothing has run.\n";
        };
        // Writing to a String cannot fail.
        let fact = |place: &str| {
            facts.pointer(place).and_then(|value| value.as_str()).unwrap_or("unknown").to_owned()
        };
        let gpus = facts["gpus"].as_array().map_or(0, Vec::len);
        let _ = writeln!(
            text,
            "`env/{first}.json`: host {}, {}, kernel {}, memory {}, {gpus} GPUs.",
            escape(&fact("/host")),
            escape(&fact("/cpu/model")),
            escape(&fact("/kernel")),
            fact("/memory")
        );
        if let Some(hosts) = facts["hosts"].as_str() {
            let hosts = escape(hosts);
            let _ = writeln!(text, "\nThe launchers started programs on {hosts}.");
        }
        for failed in list_failed_launchers(facts) {
            let _ = writeln!(text, "\nA launcher named no host: {}", escape(failed));
        }
        let unlike = list_unlike_hosts(facts);
        if !unlike.is_empty() {
            let reference = escape(find_reference(facts));
            let _ = writeln!(text, "\nThese hosts differ from {reference}:\n");
            let rows = unlike.into_iter();
            let rows =
                rows.map(|(host, place, there)| escape_all([host, place, describe_fact(&there)]));
            text += &format_table(&["host", "fact", "there"], rows);
        }
        for (other, description) in environments {
            let _ = writeln!(text, "\n`env/{other}.json` differs from it:\n");
            let rows = list_differences(facts, description);
            let rows = rows.into_iter();
            let rows = rows
                .map(|(place, one, other)| escape_all([place, one.to_string(), other.to_string()]));
            text += &format_table(&["fact", "first", "this one"], rows);
        }
        text
    }

    fn format_commands(&self) -> String {
        let mut columns: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        columns.extend(["contender", "command"]);
        let rows = self.rows.iter().map(|row| {
            let mut cells = list_values(&self.parameters, &row.parameters);
            cells.push(escape(&row.contender));
            cells.push(format_code(&row.command));
            cells
        });
        format!("\n## Commands\n\n{}", format_table(&columns, rows))
    }
}

fn list_values(names: &[String], parameters: &Parameters) -> Vec<String> {
    let value = |name| parameters.get(name).map(|value| escape(&value.to_string()));
    names.iter().map(|name| value(name).unwrap_or_default()).collect()
}

/// Formats a median with its interval.
pub(crate) fn format_interval(interval: Option<MedianInterval>) -> String {
    match interval {
        // No interval, or that of an exact value.
        Some(MedianInterval { median, n: 1, .. }) => format_number(median),
        Some(MedianInterval { median, low: Some(low), high: Some(high), .. }) => {
            format!("{} ({} to {})", format_number(median), format_number(low), format_number(high))
        }
        Some(MedianInterval { median, .. }) => format_number(median),
        None => "-".to_owned(),
    }
}

/// Formats a number with four significant digits.
pub fn format_number(number: f64) -> String {
    let magnitude = if number == 0.0 { 0 } else { number.abs().log10().floor() as i32 };
    if (-4..7).contains(&magnitude) {
        format!("{number:.*}", (3 - magnitude).max(0) as usize)
    } else {
        format!("{number:.3e}")
    }
}

/// Formats a table. A column whose name ends with `:` is aligned to the right.
fn format_table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let names = columns.iter().map(|name| name.trim_end_matches(':').to_owned()).collect();
    let lines: Vec<&str> =
        columns.iter().map(|name| if name.ends_with(':') { "---:" } else { "---" }).collect();
    let mut text = format!("{}|{}|\n", format_row(names), lines.join("|"));
    text.extend(rows.into_iter().map(format_row));
    text
}

/// Formats cells whose texts are [escaped](escape).
fn format_row(cells: Vec<String>) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Keeps a text in its cell, and as it is: no part of it is a link, a picture or HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in isochron_base::printable::escape(text).chars() {
        // Some readers make links of plain addresses, which have `://`, `www.` or `@`.
        let is_live = r"\`<[&|@".contains(c)
            || c == '/' && escaped.ends_with(':')
            || c == '.' && escaped.to_ascii_lowercase().ends_with("www");
        escaped.extend(is_live.then_some('\\'));
        escaped.push(c);
    }
    escaped
}

fn escape_all(texts: [String; 3]) -> Vec<String> {
    texts.map(|text| escape(&text)).into()
}

/// Formats a text as code in a cell.
fn format_code(text: &str) -> String {
    let text = isochron_base::printable::escape(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A space beside a backtick belongs to the fence.
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let numbers = [0.0, 1.0, 12.345, 0.000_123_4, 123_456.7, 1.5e9, 2e-9].map(format_number);
        assert_eq!(
            numbers,
            ["0.000", "1.000", "12.35", "0.0001234", "123457", "1.500e9", "2.000e-9"]
        );
    }

    #[test]
    fn texts_stay_in_their_cells() {
        let table = format_table(&["a", "n:"], [vec![escape("x|y"), escape("1\n2")]]);
        assert_eq!(table, "| a | n |\n|---|---:|\n| x\\|y | 1\\\\n2 |\n");
    }

    #[test]
    fn no_text_of_others_is_markup() {
        for (text, expected) in [
            ("<img src=x onerror=a>", r"\<img src=x onerror=a>"),
            ("[a](http://b)", r"\[a](http:\//b)"),
            ("![a](b)", r"!\[a](b)"),
            (r"\[a](b)", r"\\\[a](b)"),
            ("https://a.b", r"https:\//a.b"),
            ("see WWW.a.b", r"see WWW\.a.b"),
            ("a@b.c", r"a\@b.c"),
            ("&lt;b>", r"\&lt;b>"),
            ("`<b>`", r"\`\<b>\`"),
            ("1:4 wall_s -O3 a/b", "1:4 wall_s -O3 a/b"),
        ] {
            assert_eq!(escape(text), expected);
        }
        for (text, expected) in
            [("a <b> | c", r"`a <b> \| c`"), ("a`<b>`", "`` a`<b>` ``"), ("``x`", "``` ``x` ```")]
        {
            assert_eq!(format_code(text), expected);
        }
    }
}
