//! Models of the GPU and of the host's cores: speed against size, each alone and both together.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Campaign;
use super::clock::Clock;
use super::jobs::{Device, LEAST};
use super::rows::Row;
use crate::plot::{Line, log_log};
use crate::results::{list, number};
use crate::statistics::Spread;

/// Measures both devices over sizes by `isochron devices bench`, and keeps what each did beside the other one.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.divided_cores();
    let slug = campaign.card.slug();
    let names = ["gpu", "cpu"].map(|kind| format!("{slug}-{kind}"));
    let mut devices = vec![Device::gpu(&names[0], &host)];
    if !rest.is_empty() {
        devices.push(Device::cpu(&names[1], &rest));
    }
    let sides = campaign.scale.model_sides();
    let left = clock.left().max(LEAST);
    // Each size is measured alone, by each device, and together, and making its matrices takes as long.
    let most_s = left.as_secs_f64() / (8 * sides.len()) as f64;
    let platform = campaign.platform("models", &[devices])?;
    let found = campaign.work.join("models");
    let sides: Vec<String> = sides.iter().map(ToString::to_string).collect();
    let words = [
        "devices",
        "bench",
        "--json",
        "--min-reps",
        "3",
        "--max-reps",
        "20",
        "--max-seconds",
        &format!("{most_s:.3}"),
        "--block",
        &campaign.scale.model_block().to_string(),
        "--sizes",
        &sides.join(","),
        "--platform",
        &platform.display().to_string(),
        "--out",
        &found.display().to_string(),
    ]
    .map(str::to_owned);
    // Points are left at the end, so that a little more time is better than none of them.
    let text = campaign.launcher.isochron(&words, 2 * left)?;
    let document: Value = serde_json::from_str(&text).context("what was measured")?;
    let mut files = Vec::new();
    for name in &names {
        // A device that was alone has no neighbour to be measured beside.
        let kinds = ["together", "alone"].map(|kind| found.join(format!("{name}-{kind}.points")));
        if let Some(points) = kinds.iter().find(|points| points.is_file()) {
            let file = format!("{name}.points");
            std::fs::copy(points, campaign.folder.join(&file))
                .with_context(|| points.display().to_string())?;
            files.push(file);
        }
    }
    campaign.record.results["models"] = json!({ "files": files, "measured": document });
    Ok(())
}

/// The speeds of a device in 10⁹ flop/s at the sizes that were measured, `alone` or `together`.
fn speeds(device: &Value, how: &str) -> Vec<(f64, f64)> {
    let point = |size: &Value| {
        let t_s = number(&size[how], "/t_s");
        // What was given up has no repetitions.
        let is_measured = number(&size[how], "/reps") > 0.0 && t_s > 0.0;
        is_measured.then(|| (number(size, "/n"), number(size, "/flop") / t_s / 1e9))
    };
    list(device, "sizes").filter_map(point).collect()
}

fn devices(results: &Value) -> impl Iterator<Item = &Value> {
    list(&results["models"]["measured"], "devices")
}

/// A row for each device and size.
pub fn rows(results: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for device in devices(results) {
        let name = device["name"].as_str().unwrap_or_default();
        let (alone, together) = (speeds(device, "alone"), speeds(device, "together"));
        for (n, speed) in &alone {
            let beside = together
                .iter()
                .find(|(other, _)| other == n)
                .map(|found| found.1);
            let of = |gflops: Option<f64>| Spread::of(gflops.map(|gflops| 1e9 * gflops));
            let row = Row::new(format!("{name}, n = {n}"))
                .speed("alone, GFLOP/s", of(Some(*speed)))
                .speed("together", of(beside));
            rows.push(row);
        }
    }
    rows
}

/// What the table shows.
pub fn words(results: &Value) -> String {
    let block = &results["models"]["measured"]["block"];
    let files: Vec<&str> = list(&results["models"], "files")
        .filter_map(Value::as_str)
        .collect();
    format!(
        "**Models.** The update C (n×n) += A (n×{block}) · B ({block}×n) of each device, alone and while the other one does the \
         same; the points files are `{}`.",
        files.join("` and `")
    )
}

/// Draws speed against size.
pub fn draw(folder: &Path, results: &Value) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for device in devices(results) {
        let name = device["name"].as_str().unwrap_or_default();
        for how in ["alone", "together"] {
            let points = speeds(device, how);
            if !points.is_empty() {
                lines.push(Line {
                    name: format!("{name}, {how}"),
                    points,
                });
            }
        }
    }
    let svg = log_log("Speed of the update", "n", "GFLOP/s", &lines);
    let file = folder.join("gpu.svg");
    std::fs::write(&file, svg).with_context(|| file.display().to_string())
}

/// Whether there is something to draw.
pub fn is_drawn(results: &Value) -> bool {
    devices(results).next().is_some()
}
