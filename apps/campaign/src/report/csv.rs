//! `points.csv`: a line for each contender at each point.

use std::collections::BTreeSet;

use super::CampaignReport;
use crate::statistics::MedianInterval;

impl CampaignReport {
    /// Formats the rows as comma-separated values (RFC 4180), for spreadsheets: a text that one would take for a formula has a
    /// `'` before it, and a file of more than ASCII begins with the mark by which one knows UTF-8.
    pub fn format_csv(&self) -> String {
        let results: BTreeSet<&String> =
            self.rows.iter().flat_map(|row| row.results.keys()).collect();
        let fixed =
            "contender rounds value_of value value_low value_high ratio ratio_low ratio_high";
        let last = "disturbed failed end command";
        let mut heading: Vec<String> = self.parameters.clone();
        heading.extend(fixed.split(' ').map(str::to_owned));
        heading.extend(results.iter().map(|&name| format!("median {name}")));
        heading.extend(last.split(' ').map(str::to_owned));
        let mut text = format_line(heading);
        for row in &self.rows {
            let value = |name| row.parameters.get(name).map(ToString::to_string);
            let parameters = self.parameters.iter().map(|name| value(name).unwrap_or_default());
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
        let mark = if text.is_ascii() { "" } else { "\u{feff}" };
        mark.to_owned() + &text
    }
}

fn split_interval(interval: Option<MedianInterval>) -> [String; 3] {
    [interval.map(|it| it.median), interval.and_then(|it| it.low), interval.and_then(|it| it.high)]
        .map(format_number)
}

fn format_number(number: Option<f64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn format_line(cells: Vec<String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(quote).collect();
    cells.join(",") + "\r\n"
}

fn quote(mut cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err() {
        cell.insert(0, '\'');
    }
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        for (cell, expected) in [
            ("=1+1", "'=1+1"),
            ("-O3", "'-O3"),
            ("+x", "'+x"),
            ("@file", "'@file"),
            ("\t=1", "'\t=1"),
            ("=a,b", "\"'=a,b\""),
            ("-1.5e-3", "-1.5e-3"),
            ("+2", "+2"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(quote(cell.to_owned()), expected);
        }
    }
}
