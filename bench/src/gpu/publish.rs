//! Tables and plots of the results, and their publication in the repository.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;

use super::record::GpuResults;
use super::rows::{RowRecord, TableRow};
use super::{GpuPart, models, step};
use crate::results::{ResultsPage, read_results};

const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/gpu.json",
    page: "bench/results/gpu.md",
    section: "bench gpu",
};
/// The folders of the published pictures and models.
const PICTURES: &str = "bench/results";
const MODELS: &str = "cluster-configs/models";

/// Reads the results that a run has left in a folder.
///
/// # Errors
/// If there are none.
pub fn read_folder(folder: &Path) -> anyhow::Result<GpuResults> {
    read_results(&folder.join("gpu.json"))
}

/// Adds the summary.
pub fn sum_up(results: &mut GpuResults) {
    results.summary = summarize(results, GpuPart::value_variants());
}

/// Draws the pictures for which there are measurements.
///
/// # Errors
/// If a file cannot be written.
pub fn draw_pictures(folder: &Path, results: &GpuResults) -> anyhow::Result<()> {
    if let Some(svg) = models::draw(results) {
        models::write_plot(folder, &svg)?;
    }
    if let Some(svg) = step::draw(results) {
        step::write_picture(folder, &svg)?;
    }
    Ok(())
}

/// Formats all tables; the pictures are in the folder of the page.
pub fn format_tables(results: &GpuResults) -> String {
    let mut text = String::new();
    if results.emulated {
        text.push_str(
            "**Emulated**: these figures are of an emulated CUDA on the host's cores. They say that the campaign works, and \
             nothing about any GPU.\n\n",
        );
    }
    let cores = format!(" on {} cores", results.cores);
    let more = format!(", {}", results.blas);
    text.push_str(&RESULTS.describe_origin(&results.origin, &cores, &more));
    text.push('\n');
    for &part in GpuPart::value_variants() {
        text.push_str(&format_table(part, results));
        let picture = match part {
            GpuPart::Models if models::draw(results).is_some() => "gpu.svg",
            GpuPart::Step if step::draw(results).is_some() => "gpu-step.svg",
            _ => continue,
        };
        text.push_str(&format!("\n![{}]({picture})\n", part.name()));
    }
    for error in results.parts.iter().filter_map(|part| part.error.as_ref()) {
        let first = error.lines().next().unwrap_or_default();
        text.push_str(&format!("\nNot measured to its end: {first}\n"));
    }
    text
}

/// Publishes the results that a run has left in a folder.
///
/// # Errors
/// For results of an emulated CUDA, and outside a checkout.
pub fn publish_folder(folder: &Path) -> anyhow::Result<()> {
    let results = read_folder(folder)?;
    ensure!(
        !results.emulated,
        "{}: the results are of an emulated CUDA, and are not published",
        folder.display()
    );
    for file in results.models.iter().flat_map(|models| &models.files) {
        let to = Path::new(MODELS).join(file);
        std::fs::copy(folder.join(file), &to).with_context(|| to.display().to_string())?;
    }
    publish(Some(results))
}

/// Publishes fresh results, or makes the tables and pictures of the published ones again.
///
/// # Errors
/// If a file cannot be read or written.
pub fn publish(fresh: Option<GpuResults>) -> anyhow::Result<()> {
    RESULTS.publish(
        fresh,
        |results| {
            sum_up(results);
            draw_pictures(Path::new(PICTURES), results)
        },
        format_tables,
    )
}

/// Makes the rows of all parts.
fn summarize(results: &GpuResults, parts: &[GpuPart]) -> Vec<RowRecord> {
    let mut records = Vec::new();
    for &part in parts {
        let rows = part.make_rows(results).into_iter();
        records.extend(rows.map(|row| RowRecord { part, row }));
    }
    records
}

/// Formats the table of a part with the text above it, from the summary. A part without rows has none.
pub fn format_table(part: GpuPart, results: &GpuResults) -> String {
    let records = results.summary.iter().filter(|record| record.part == part);
    let rows: Vec<&TableRow> = records.map(|record| &record.row).collect();
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!("\n{}\n\n| |", part.describe(results));
    let mut line = "\n|---|".to_owned();
    for (name, _) in &first.cells {
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, " {name} |");
        line.push_str("---|");
    }
    text.push_str(" goal | met |");
    text.push_str(&line);
    text.push_str("---|---|\n");
    for row in rows {
        let _ = write!(text, "| {} |", row.what);
        for (_, cell) in &row.cells {
            let _ = write!(text, " {cell} |");
        }
        let _ = writeln!(text, " {} | {} |", row.goal, row.verdict());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::record::make_test_results;
    use super::*;
    use crate::statistics::MedianRange;

    #[test]
    fn rows_become_lines_of_a_table() {
        let two = MedianRange::of([2e9, 4e9]);
        let rows = [
            TableRow::new("first")
                .with_speed("GFLOP/s", two)
                .with_goal("≥ 2", 3.0, true),
            TableRow::new("second")
                .with_speed("GFLOP/s", MedianRange::NONE)
                .with_goal("≥ 2", f64::NAN, false),
            TableRow::new("third")
                .with_text("GFLOP/s", "none")
                .without_goal("it is absent"),
        ];
        let mut results = make_test_results(Vec::new());
        let part = GpuPart::Resident;
        results.summary = rows.map(|row| RowRecord { part, row }).into();
        let text = format_table(part, &results);
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .collect();
        assert_eq!(
            lines,
            [
                "| | GFLOP/s | goal | met |",
                "|---|---|---|---|",
                "| first | 3.0 (2.0 to 4.0) | ≥ 2 | yes |",
                "| second |  | ≥ 2 | not measured |",
                "| third | none |  | it is absent |",
            ]
        );
        assert_eq!(format_table(GpuPart::Link, &results), "");
    }
}
