//! Models of the GPU and of the host's cores: speed against size, each alone and both together.

use anyhow::Context as _;
use isochron_plot::{Series, draw_log_log};
use serde_json::Value;

use super::GpuCampaign;
use super::budget::TimeBudget;
use super::card::make_file_name;
use super::jobs::{LEAST, PlatformDevice};
use super::part_records::{DeviceCurve, ModelsRecord, SizeTimes, UpdateMean};
use super::record::GpuResults;
use super::rows::{PartTable, TableRow};
use crate::statistics::MedianRange;

/// Measures both devices over sizes by `isochron devices bench`, and keeps the points of each with the other one at
/// work.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.split_cores();
    let card = make_file_name(&campaign.card.info.name);
    let names = ["gpu", "cpu"].map(|kind| format!("{card}-{kind}"));
    let mut devices = vec![PlatformDevice::new(&names[0], Some(false), &host)];
    if !rest.is_empty() {
        devices.push(PlatformDevice::new(&names[1], None, &rest));
    }
    let sides = campaign.scale.model_sides();
    let left = budget.left().max(LEAST);
    // Each size is measured alone, by each device, and together, and making its matrices takes as long.
    let most_s = left.as_secs_f64() / (8 * sides.len()) as f64;
    let platform = campaign.write_platform("models", &[devices])?;
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
        &campaign.scale.panel.to_string(),
        "--sizes",
        &sides.join(","),
        "--platform",
        &platform.display().to_string(),
        "--out",
        &found.display().to_string(),
    ]
    .map(str::to_owned);
    // The points are written at the end, so the command gets twice the time before it is stopped.
    let text = campaign.launcher.run_isochron(&words, 2 * left)?;
    let mut document: Value = serde_json::from_str(&text).context("the measurements")?;
    let devices = serde_json::from_value(document["devices"].take()).context("the devices")?;
    let mut files = Vec::new();
    for name in &names {
        // A device without another one has no points of both together.
        if let Some(points) = ["together", "alone"]
            .map(|kind| found.join(format!("{name}-{kind}.points")))
            .iter()
            .find(|points| points.is_file())
        {
            let file = format!("{name}.points");
            std::fs::copy(points, campaign.folder.join(&file))
                .with_context(|| points.display().to_string())?;
            files.push(file);
        }
    }
    campaign.record.results.models = Some(ModelsRecord { files, devices });
    Ok(())
}

impl SizeTimes {
    /// Returns a speed in 10⁹ flop/s; `None` if it was not measured.
    fn gflops(&self, mean: &UpdateMean) -> Option<f64> {
        let is_measured = mean.reps > 0 && mean.t_s > 0.0;
        is_measured.then(|| self.flop / mean.t_s / 1e9)
    }
}

/// Makes a row for each device and size, and draws speed against size.
pub fn make_table(results: &GpuResults) -> PartTable {
    let Some(ModelsRecord { files, devices }) = &results.models else {
        return PartTable::default();
    };
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for DeviceCurve { name, sizes, .. } in devices {
        let [mut alone, mut together] = [Vec::new(), Vec::new()];
        for size in sizes {
            let both = size.together.as_ref().and_then(|mean| size.gflops(mean));
            together.extend(both.map(|gflops| (size.n as f64, gflops)));
            let Some(gflops) = size.gflops(&size.alone) else {
                continue;
            };
            alone.push((size.n as f64, gflops));
            let row = TableRow::new(format!("{name}, n = {}", size.n))
                .with_speed("alone, GFLOP/s", MedianRange::of([1e9 * gflops]))
                .with_speed("together", MedianRange::of(both.map(|gflops| 1e9 * gflops)));
            rows.push(row);
        }
        for (kind, points) in [("alone", alone), ("together", together)] {
            if !points.is_empty() {
                let name = format!("{name}, {kind}");
                curves.push(Series { name, points });
            }
        }
    }
    let block = results.scale.panel;
    let about = format!(
        "**Models.** The update C (n×n) += A (n×{block}) · B ({block}×n) of each device, alone and while the other one does the \
         same; the points files are `{}`.",
        files.join("` and `")
    );
    let picture = (!curves.is_empty())
        .then(|| draw_log_log("Speed of the update", "n", "GFLOP/s", &curves))
        .map(|svg| ("gpu.svg", svg));
    PartTable {
        picture,
        ..PartTable::new(about, rows)
    }
}
