//! Models of the GPU and of the host's cores: speed against size, each alone and both together.

use anyhow::Context as _;
use isochron_plot::{Series, draw_log_log};
use serde::Deserialize;

use super::GpuCampaign;
use super::budget::TimeBudget;
use super::card::make_file_name;
use super::jobs::{LEAST, PlatformDevice};
use super::part_records::{DeviceCurve, ModelsRecord, SizeTimes, UpdateMean};
use super::record::GpuResults;
use super::rows::{PartTable, TableRow};
use crate::statistics::MedianRange;

/// Sizes of the models, evenly in blocks of C.
const POINTS: usize = 10;

/// The output of `measure mxm --json`, as far as it is needed.
#[derive(Deserialize)]
struct DeviceModels {
    ranks: Vec<MeasuredDevice>,
}

#[derive(Deserialize)]
struct MeasuredDevice {
    device: String,
    points: Vec<MeasuredUpdate>,
}

#[derive(Deserialize)]
struct MeasuredUpdate {
    /// Blocks of C.
    d: u64,
    work_per_s: f64,
    #[serde(flatten)]
    mean: UpdateMean,
}

/// Measures both devices over sizes by `isochron measure mxm`, each alone and both together, and keeps the points of each with
/// the other one at work.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.split_cores();
    let card = make_file_name(&campaign.card.info.name);
    let names = ["gpu", "cpu"].map(|kind| format!("{card}-{kind}"));
    let mut devices = vec![PlatformDevice::new(&names[0], Some(false), &host)];
    if !rest.is_empty() {
        devices.push(PlatformDevice::new(&names[1], None, &rest));
    }
    let has_neighbour = devices.len() > 1;
    let platform = campaign.write_platform("models", &[devices])?;
    let found = campaign.work.join("models");
    let [platform, out] = [&platform, &found].map(|path| path.display().to_string());
    let panel = campaign.scale.panel;
    let line = format!(
        "measure mxm --json --store none --min-reps 3 --max-reps 20 --block {panel} --panel {panel} --points {POINTS} --to {}",
        campaign.scale.model_blocks()
    );
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    words.extend(["--platform", &*platform, "--out", &*out].map(str::to_owned));
    // Each size is measured alone, by each device, and together, and making its matrices takes as long.
    let left = budget.left().max(LEAST);
    let most_s = left.as_secs_f64() / (8 * POINTS) as f64;
    words.extend(["--max-seconds".to_owned(), format!("{most_s:.3}")]);
    let run = |more: &[&str]| -> anyhow::Result<DeviceModels> {
        let more = more.iter().copied().map(str::to_owned);
        let words: Vec<String> = words.iter().cloned().chain(more).collect();
        // The command gets twice its time before it is stopped.
        let text = campaign.launcher.run_isochron(&words, 2 * left)?;
        serde_json::from_str(&text).context("the measurements")
    };
    let alone = run(&["--alone"])?;
    let together = if has_neighbour { Some(run(&[])?) } else { None };
    let devices = pair_curves(alone, together, panel);
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

/// Pairs the times of each device alone with those beside the other one, size by size.
fn pair_curves(
    alone: DeviceModels,
    together: Option<DeviceModels>,
    panel: usize,
) -> Vec<DeviceCurve> {
    let together = together.map_or(Vec::new(), |together| together.ranks);
    let curves = alone
        .ranks
        .into_iter()
        .map(|MeasuredDevice { device, points }| {
            let beside = together.iter().find(|other| other.device == device);
            let sizes = points.into_iter().map(|update| SizeTimes {
                n: ((update.d as f64).sqrt() * panel as f64) as usize,
                flop: update.work_per_s * update.mean.t_s,
                together: beside.and_then(|beside| {
                    let same = beside.points.iter().find(|other| other.d == update.d);
                    same.map(|other| other.mean.clone())
                }),
                alone: update.mean,
            });
            DeviceCurve {
                sizes: sizes.collect(),
                name: device,
            }
        });
    curves.collect()
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
