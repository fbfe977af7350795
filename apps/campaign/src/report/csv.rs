//! `points.csv`: a line for each contender at each point.

use std::collections::BTreeSet;

use super::Report;
use crate::statistics::MedianInterval;

impl Report {
    /// Formats the rows as comma-separated values (RFC 4180).
    pub fn format_csv(&self) -> String {
        let results: BTreeSet<&String> = self
            .rows
            .iter()
            .flat_map(|row| row.results.keys())
            .collect();
        let fixed = [
            "contender",
            "n",
            "value_of",
            "value",
            "value_low",
            "value_high",
            "ratio",
            "ratio_low",
            "ratio_high",
        ];
        let last = ["disturbed", "failed", "end", "command"];
        let mut heading: Vec<String> = self.parameters.clone();
        heading.extend(fixed.map(str::to_owned));
        heading.extend(results.iter().map(|&name| format!("median {name}")));
        heading.extend(last.map(str::to_owned));
        let mut text = format_line(heading);
        for row in &self.rows {
            let parameters = self.parameters.iter().map(|name| {
                row.parameters
                    .get(name)
                    .map(ToString::to_string)
                    .unwrap_or_default()
            });
            let mut cells: Vec<String> = parameters.collect();
            cells.push(row.contender.clone());
            cells.push(row.value.map_or(0, |value| value.n).to_string());
            cells.push(row.value_of.clone());
            cells.extend(split_interval(row.value));
            cells.extend(split_interval(row.ratio));
            cells.extend(
                results
                    .iter()
                    .map(|&name| format_number(row.results.get(name).map(|result| result.median))),
            );
            cells.extend([row.disturbed.to_string(), row.failed.to_string()]);
            cells.push(row.end.map_or("", |end| end.describe()).to_owned());
            cells.push(row.command.clone());
            text += &format_line(cells);
        }
        text
    }
}

fn split_interval(interval: Option<MedianInterval>) -> [String; 3] {
    [
        interval.map(|it| it.median),
        interval.and_then(|it| it.low),
        interval.and_then(|it| it.high),
    ]
    .map(format_number)
}

fn format_number(number: Option<f64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn format_line(cells: Vec<String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(quote).collect();
    cells.join(",") + "\r\n"
}

fn quote(cell: String) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}
