//! Tables and plots from what was measured, and their way into the repository.

use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use serde_json::Value;

use super::rows::{summary, table};
use super::{Part, models, step};
use crate::results::{Results, list, word};

const RESULTS: Results = Results {
    file: "bench/results/gpu.json",
    page: "bench/results/gpu.md",
    section: "bench gpu",
};
/// Where the pictures and the models are published.
const PICTURES: &str = "bench/results";
const MODELS: &str = "cluster-configs/models";

/// The results that a run has left in a folder.
pub fn read(folder: &Path) -> anyhow::Result<Value> {
    let file = folder.join("gpu.json");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Adds what follows from the samples.
pub fn sum_up(results: &mut Value) {
    results["summary"] = summary(results, Part::value_variants());
}

/// Draws the pictures of which there is something to draw.
pub fn draw(folder: &Path, results: &Value) -> anyhow::Result<()> {
    if models::is_drawn(results) {
        models::draw(folder, results)?;
    }
    if step::is_drawn(results) {
        step::draw(folder, results)?;
    }
    Ok(())
}

/// All tables, with the pictures in the folder `pictures`, which ends in a slash.
pub fn tables(results: &Value, pictures: &str) -> String {
    let mut text = String::new();
    if results["emulated"] == true {
        text.push_str(
            "**Emulated**: these figures are of an emulated CUDA on the host's cores. They say that the campaign works, and \
             nothing about any GPU.\n\n",
        );
    }
    let cores = format!(" on {} cores", results["cores"]);
    let more = format!(", {}", word(results, "/blas"));
    text.push_str(&RESULTS.origin(results, &cores, &more));
    text.push('\n');
    for &part in Part::value_variants() {
        text.push_str(&table(part, results));
        let picture = match part {
            Part::Models if models::is_drawn(results) => "gpu.svg",
            Part::Step if step::is_drawn(results) => "gpu-step.svg",
            _ => continue,
        };
        text.push_str(&format!("\n![{}]({pictures}{picture})\n", part.name()));
    }
    for part in list(results, "parts") {
        if let Some(error) = part["error"].as_str() {
            let first = error.lines().next().unwrap_or_default();
            text.push_str(&format!("\nNot measured to its end: {first}\n"));
        }
    }
    text
}

/// Publishes what a run has left in a folder.
///
/// # Errors
/// For what an emulated CUDA said, and where this is no checkout.
pub fn from(folder: &Path) -> anyhow::Result<()> {
    let results = read(folder)?;
    ensure!(
        results["emulated"] == false,
        "{}: the results are of an emulated CUDA, and are not published",
        folder.display()
    );
    for file in list(&results["models"], "files").filter_map(Value::as_str) {
        let to = Path::new(MODELS).join(file);
        std::fs::copy(folder.join(file), &to).with_context(|| to.display().to_string())?;
    }
    publish(Some(results))
}

/// Makes the tables and pictures anew from what was published.
pub fn again() -> anyhow::Result<()> {
    publish(None)
}

fn publish(fresh: Option<Value>) -> anyhow::Result<()> {
    RESULTS.publish(
        fresh,
        |results| {
            sum_up(results);
            draw(Path::new(PICTURES), results)
        },
        |results| tables(results, ""),
    )
}
