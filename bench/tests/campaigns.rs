//! The campaign files and their published results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use isochron_campaign::{Campaign, CampaignReport};
use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, SpeedModel};
use isochron_hierarchy::partition::gpa;

fn list_campaigns() -> anyhow::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("campaigns");
    let files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    ensure!(!files.is_empty(), "there are campaigns");
    Ok(files)
}

#[test]
fn published_reports_are_made_from_the_published_points_of_these_campaigns() -> anyhow::Result<()> {
    for file in list_campaigns()? {
        let campaign = Campaign::read(&file)?;
        let name = file.file_stem().and_then(|name| name.to_str());
        let name = name.context("a name")?;
        ensure!(name == campaign.name.as_str(), "{} has another name", file.display());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name);
        if !folder.exists() {
            continue;
        }
        let kept = fs::read_to_string(folder.join("campaign.toml"))?;
        ensure!(
            kept == campaign.text,
            "{} has another file: run `cargo xtask bench` again",
            folder.display()
        );
        let report = CampaignReport::read(&folder)?.format_markdown();
        let published = fs::read_to_string(folder.join("report.md"))?;
        ensure!(
            report == published,
            "{} has another report: make it by `isochron campaign report`",
            folder.display()
        );
    }
    Ok(())
}

/// The seconds that `balance` takes for ideal on the nodes with a memory cliff.
#[test]
fn the_best_division_on_the_cliff_is_the_one_of_the_campaign() -> anyhow::Result<()> {
    let models = ["cliff-paging", "cliff-60k", "cliff-45k", "cliff-30k"].map(|name| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster-configs/models");
        let text = fs::read_to_string(folder.join(format!("{name}.points")))?;
        anyhow::Ok(PiecewiseFpm::from_points(ModelFile::parse(&text)?.points)?)
    });
    let models: Vec<PiecewiseFpm> = models.into_iter().collect::<anyhow::Result<_>>()?;
    let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
    let side = 3072 / 32;
    let times_s = gpa(&models, side * side)?.times_s;
    let best_s = side as f64 * times_s.into_iter().fold(0.0, f64::max);
    ensure!((best_s - 4.811).abs() < 0.005, "{best_s}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("campaigns/balance.toml");
    ensure!(Campaign::read(&file)?.text.contains("else 4.811)"), "the campaign has it");
    Ok(())
}
