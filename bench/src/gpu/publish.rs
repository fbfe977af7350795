//! Tables and plots of the results, and their publication in the repository.

use std::path::Path;

use anyhow::{Context as _, ensure};

use super::record::GpuResults;
use super::rows::RowRecord;
use crate::results::{ResultsPage, read_results};

const RESULTS: ResultsPage = ResultsPage { name: "gpu" };
/// The folders of the published pictures and models.
const PICTURES: &str = "bench/results";
const MODELS: &str = "cluster-configs/models";

/// Adds the rows of all tables.
pub fn sum_up(results: &mut GpuResults) {
    let mut summary = Vec::new();
    for part in results.parts.iter().map(|measured| measured.part) {
        let rows = part.make_table(results).rows.into_iter();
        summary.extend(rows.map(|row| RowRecord { part, row }));
    }
    results.summary = summary;
}

/// Draws the pictures for which there are measurements.
pub fn draw_pictures(folder: &Path, results: &GpuResults) -> anyhow::Result<()> {
    for measured in &results.parts {
        if let Some((name, svg)) = measured.part.make_table(results).picture {
            let file = folder.join(name);
            std::fs::write(&file, svg).with_context(|| file.display().to_string())?;
        }
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
    for part in results.parts.iter().map(|measured| measured.part) {
        let table = part.make_table(results);
        text.push_str(&table.format());
        if let Some((file, _)) = table.picture {
            text.push_str(&format!("\n![{part}]({file})\n"));
        }
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
    let results: GpuResults = read_results(&folder.join("gpu.json"))?;
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
pub fn publish(fresh: Option<GpuResults>) -> anyhow::Result<()> {
    RESULTS.publish(
        fresh,
        |results| {
            sum_up(results);
            draw_pictures(Path::new(PICTURES), results)
        },
        |results| Ok(format_tables(results)),
    )
}
