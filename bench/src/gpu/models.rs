//! Models of the GPU and of the host's cores: speed against size, each alone and both together.

use std::path::Path;

use anyhow::Context as _;
use isochron_plot::{Series, draw_log_log};

use super::GpuCampaign;
use super::budget::TimeBudget;
use super::jobs::{LEAST, PlatformDevice};
use super::part_records::{DeviceCurve, ModelsRecord, SizeTimes, UpdateMean};
use super::record::GpuResults;
use super::rows::TableRow;
use crate::statistics::MedianRange;

/// Measures both devices over sizes by `isochron devices bench`, and keeps the points of each with the other one at work.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.split_cores();
    let card = campaign.card.file_name();
    let names = ["gpu", "cpu"].map(|kind| format!("{card}-{kind}"));
    let mut devices = vec![PlatformDevice::gpu(&names[0], &host)];
    if !rest.is_empty() {
        devices.push(PlatformDevice::cpu(&names[1], &rest));
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
        &campaign.scale.model_block().to_string(),
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
    let measured = serde_json::from_str(&text).context("the measurements")?;
    let mut files = Vec::new();
    for name in &names {
        // A device without another one has no points of both together.
        let kinds = ["together", "alone"].map(|kind| found.join(format!("{name}-{kind}.points")));
        if let Some(points) = kinds.iter().find(|points| points.is_file()) {
            let file = format!("{name}.points");
            std::fs::copy(points, campaign.folder.join(&file))
                .with_context(|| points.display().to_string())?;
            files.push(file);
        }
    }
    campaign.record.results.models = Some(ModelsRecord { files, measured });
    Ok(())
}

impl SizeTimes {
    /// Returns a speed in 10⁹ flop/s; `None` if it was not measured.
    fn gflops(&self, mean: Option<&UpdateMean>) -> Option<f64> {
        let mean = mean.filter(|mean| mean.reps > 0 && mean.t_s > 0.0)?;
        Some(self.flop / mean.t_s / 1e9)
    }

    fn gflops_alone(&self) -> Option<f64> {
        self.gflops(Some(&self.alone))
    }

    fn gflops_together(&self) -> Option<f64> {
        self.gflops(self.together.as_ref())
    }
}

fn devices(results: &GpuResults) -> &[DeviceCurve] {
    let models = results.models.as_ref();
    models.map_or(&[], |models| &models.measured.devices)
}

/// Makes a row for each device and size.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for device in devices(results) {
        for size in &device.sizes {
            let Some(alone) = size.gflops_alone() else {
                continue;
            };
            let together = size.gflops_together().map(|gflops| 1e9 * gflops);
            let row = TableRow::new(format!("{}, n = {}", device.name, size.n))
                .with_speed("alone, GFLOP/s", MedianRange::of([1e9 * alone]))
                .with_speed("together", MedianRange::of(together));
            rows.push(row);
        }
    }
    rows
}

/// Describes the table.
pub fn describe(results: &GpuResults) -> String {
    let Some(ModelsRecord { files, measured }) = &results.models else {
        return String::new();
    };
    let block = measured.block;
    format!(
        "**Models.** The update C (n×n) += A (n×{block}) · B ({block}×n) of each device, alone and while the other one does the \
         same; the points files are `{}`.",
        files.join("` and `")
    )
}

/// Draws speed against size; `None` without measurements.
pub fn draw(results: &GpuResults) -> Option<String> {
    let mut all = Vec::new();
    for device in devices(results) {
        let sizes = device.sizes.iter();
        let alone = sizes
            .clone()
            .filter_map(|size| Some((size.n as f64, size.gflops_alone()?)));
        let together = sizes.filter_map(|size| Some((size.n as f64, size.gflops_together()?)));
        for (kind, points) in [
            ("alone", alone.collect::<Vec<_>>()),
            ("together", together.collect()),
        ] {
            if !points.is_empty() {
                all.push(Series {
                    name: format!("{}, {kind}", device.name),
                    points,
                });
            }
        }
    }
    (!all.is_empty()).then(|| draw_log_log("Speed of the update", "n", "GFLOP/s", &all))
}

/// Writes the plot of [`draw`] into a folder.
///
/// # Errors
/// If it cannot be written.
pub fn write_plot(folder: &Path, svg: &str) -> anyhow::Result<()> {
    let file = folder.join("gpu.svg");
    std::fs::write(&file, svg).with_context(|| file.display().to_string())
}
