//! Figures of publications and of a GPU, drawn from the results of their campaigns.

mod gpu;
mod hpopta;
mod jacobi;
mod models;
mod speedup;
mod spline;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use isochron_campaign::{CampaignReport, MedianInterval, Parameter, ReportRow};
use isochron_plot::{Curve, Mark};
use serde::de::DeserializeOwned;

/// The campaign whose figures are drawn.
#[derive(clap::Args)]
pub struct FiguresArguments {
    /// Folder of its results
    folder: PathBuf,
}

/// A figure: the name of its file without the extension, and its SVG document.
type Figure = (&'static str, String);

/// Draws the figures of a campaign into the folder of its results. Most campaigns have none.
///
/// # Errors
/// Fails if the results cannot be read, lack a run, or a file cannot be written.
pub fn run(arguments: &FiguresArguments) -> anyhow::Result<()> {
    for (name, svg) in draw_figures(&arguments.folder)? {
        let file = arguments.folder.join(name).with_extension("svg");
        std::fs::write(&file, svg).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn draw_figures(folder: &Path) -> anyhow::Result<Vec<Figure>> {
    let report = CampaignReport::read(folder)?;
    match &*report.name {
        "gpu-models" => Ok(vec![gpu::draw_models(&report)?]),
        "gpu-updates" => Ok(vec![gpu::draw_course(&report)?]),
        "hpopta" => hpopta::draw_figures(&report),
        "hpopta-dgemm" => hpopta::draw_product(&report),
        "thesis-3" => models::draw_figures(&report),
        "thesis-jacobi" => jacobi::draw_figures(&report),
        "thesis-speedup" => Ok(vec![speedup::draw_figure(&report)?]),
        _ => Ok(Vec::new()),
    }
}

/// Returns the rows of a contender, in the order of the campaign's points.
fn list_rows<'r>(report: &'r CampaignReport, contender: &str) -> Vec<&'r ReportRow> {
    let rows = report.rows.iter();
    rows.filter(|row| row.contender == contender).collect()
}

/// Returns the document of a row.
fn read_document<T: DeserializeOwned>(row: &ReportRow) -> anyhow::Result<T> {
    let name = &row.contender;
    let document = row.document.as_ref();
    let document = document.with_context(|| format!("no document of {name} is kept"))?;
    T::deserialize(document).with_context(|| format!("the document of {name}"))
}

/// Returns the whole number that is a row's parameter.
fn read_whole(row: &ReportRow, name: &str) -> anyhow::Result<usize> {
    match row.parameters.get(name) {
        Some(&Parameter::Whole(number)) => Ok(number as usize),
        _ => anyhow::bail!("a row of {} has no {name}", row.contender),
    }
}

/// Returns the text of a row's parameter.
fn read_text<'r>(row: &'r ReportRow, name: &str) -> anyhow::Result<&'r str> {
    match row.parameters.get(name) {
        Some(Parameter::Text(text)) => Ok(text),
        _ => anyhow::bail!("a row of {} has no {name}", row.contender),
    }
}

/// Returns the median of a row's result.
fn find_result(row: &ReportRow, name: &str) -> anyhow::Result<MedianInterval> {
    let result = row.results.get(name).copied();
    result.with_context(|| format!("{} has no {name}", row.contender))
}

/// Marks a median with its interval, if it has one.
fn mark_median(x: f64, median: MedianInterval) -> Mark {
    Mark {
        x,
        y: median.median,
        low: median.low.unwrap_or(median.median),
        high: median.high.unwrap_or(median.median),
    }
}

/// Makes a curve through points.
fn draw_curve(name: String, color: &'static str, points: Vec<(f64, f64)>) -> Curve {
    Curve { name, symbol: '*', color, points, ..Curve::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that published figures are drawn from the published results. Not all may be published.
    #[test]
    fn published_figures_show_the_published_results() -> anyhow::Result<()> {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let all = ["hpopta", "thesis-3", "thesis-jacobi", "thesis-speedup"];
        let others = ["gpu-models", "gpu-updates", "hpopta-dgemm"];
        let others = others.into_iter().filter(|name| results.join(name).exists());
        for name in all.into_iter().chain(others) {
            let folder = results.join(name);
            let figures = draw_figures(&folder)?;
            anyhow::ensure!(!figures.is_empty(), "{name}");
            for (figure, svg) in figures {
                let file = folder.join(figure).with_extension("svg");
                let kept = std::fs::read_to_string(&file)?;
                anyhow::ensure!(kept == svg, "{} shows something else", file.display());
            }
        }
        Ok(())
    }
}
