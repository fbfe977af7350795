//! Tables and plots of the results, and their publication in the repository.

use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;

use super::record::GpuResults;
use super::rows::{format_table, summarize};
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
