//! The speed of a GPU in use, and its bounds.
//!
//! The parts are its link, cuBLAS alone, our updates with their transfers, and a C that does not fit (against
//! cuBLASXt). Others use the GPU with the host's cores and in jobs of several ranks.
//!
//! The campaign measures its [`GpuPart`]s one after the other, each in a share of the given minutes. It runs from a
//! checkout and from a bundle, and leaves everything in a folder. The samples (`gpu.json`) are written after each of
//! them; tables, plots and models are made from them. An error ends as little as possible: one shape, one job or one
//! part, and the results name it. Results of an emulated CUDA are marked, and never published.

mod budget;
mod card;
mod host;
mod jobs;
mod link;
mod models;
mod out_of_core;
mod part_records;
mod publish;
mod ranks;
mod record;
mod resident;
mod rows;
mod scale;
mod step;
mod streamed;
mod together;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use isochron_devices::{Worker as _, memory_available_bytes};
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::launch::MxmLauncher;
use crate::results::Origin;
use budget::TimeBudget;
use card::GpuCard;
use record::{GpuRecord, GpuResults, PartRecord};
use rows::PartTable;
use scale::GpuScale;

/// The size of the campaign and the place of its results.
#[derive(clap::Args)]
pub struct GpuArguments {
    /// Folder for all results [default: a new one, from which they are published in this checkout]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Minutes for the whole campaign
    #[arg(long, default_value_t = 9.0)]
    minutes: f64,
    /// Most rounds of each part; fewer if time runs out
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Side of the square C that stays on the GPU [default: the largest for its memory and the host's free memory, at
    /// most 16384]
    #[arg(long, conflicts_with = "small")]
    side: Option<usize>,
    /// Use tiny sizes, for an emulated CUDA, only to see that everything works
    #[arg(long)]
    small: bool,
    /// Run these parts only
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<GpuPart>,
    /// Publish in this checkout the results that an earlier run left in a folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["out", "table_only"])]
    from: Option<PathBuf>,
    /// Only make the tables and plots from the results in this checkout
    #[arg(long)]
    table_only: bool,
}

impl GpuArguments {
    /// Returns the origin of the results, with the command that measures them again.
    fn origin(&self) -> Origin {
        let Self {
            minutes, rounds, ..
        } = self;
        let mut command = format!("cargo xtask bench gpu --minutes {minutes} --rounds {rounds}");
        if self.small {
            command.push_str(" --small");
        }
        if let Some(side) = self.side {
            command.push_str(&format!(" --side {side}"));
        }
        Origin::new(command)
    }
}

/// A part of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum GpuPart {
    /// Copies between host and GPU
    Link,
    /// Updates of a C that stays on the GPU, against cuBLAS with everything there
    Resident,
    /// Updates of a C that does not fit on the GPU
    Streamed,
    /// A whole product with a C of twice the memory, against cuBLASXt
    OutOfCore,
    /// Models of the GPU and of the cores, as points files
    Models,
    /// The host's cores, the GPU, and both balanced by IDPA
    Together,
    /// Two ranks that share the GPU, and four of which one has it
    Ranks,
    /// The course of an update
    Step,
}

type MeasurePart = fn(&mut GpuCampaign, TimeBudget) -> anyhow::Result<()>;
type MakeTable = fn(&GpuResults) -> PartTable;

/// The work of a part.
struct PartWork {
    /// Its share of the minutes in percent. Time that a part leaves, or takes too much, changes the shares after it.
    time_share: f64,
    measure: MeasurePart,
    make_table: MakeTable,
}

impl GpuPart {
    fn choose_work(self) -> PartWork {
        let (time_share, measure, make_table): (f64, MeasurePart, MakeTable) = match self {
            Self::Link => (6.0, link::measure, link::make_table),
            Self::Resident => (20.0, resident::measure, resident::make_table),
            Self::Streamed => (9.0, streamed::measure, streamed::make_table),
            Self::OutOfCore => (21.0, out_of_core::measure, out_of_core::make_table),
            Self::Models => (10.0, models::measure, models::make_table),
            Self::Together => (16.0, together::measure, together::make_table),
            Self::Ranks => (12.0, ranks::measure, ranks::make_table),
            Self::Step => (6.0, step::measure, step::make_table),
        };
        PartWork {
            time_share,
            measure,
            make_table,
        }
    }

    fn make_table(self, results: &GpuResults) -> PartTable {
        (self.choose_work().make_table)(results)
    }
}

/// The state that all parts share.
pub(crate) struct GpuCampaign {
    card: GpuCard,
    scale: GpuScale,
    launcher: MxmLauncher,
    rounds: usize,
    folder: PathBuf,
    /// The folder of files for started programs, deleted at the end.
    work: PathBuf,
    record: GpuRecord,
}

/// Runs the campaign, or publishes the results of an earlier one.
pub fn run(arguments: &GpuArguments) -> anyhow::Result<()> {
    if arguments.table_only {
        return publish::publish(None);
    }
    if let Some(folder) = &arguments.from {
        return publish::publish_folder(folder);
    }
    let made = std::env::temp_dir().join(format!("isochron-gpu-{}", std::process::id()));
    let folder = arguments.out.as_deref().unwrap_or(&made);
    let GpuRecord {
        results, errors, ..
    } = measure(arguments, folder)?;
    println!("\nThe results are in {}.", folder.display());
    if results.emulated {
        println!(
            "They are of an emulated CUDA: they say nothing about speed, and are not published."
        );
    } else if arguments.out.is_none() && !arguments.small && errors.is_empty() {
        publish::publish_folder(folder)?;
    } else {
        println!(
            "In a checkout, `cargo xtask bench gpu --from {}` publishes them.",
            folder.display()
        );
    }
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}

/// Measures the parts.
fn measure(arguments: &GpuArguments, folder: &Path) -> anyhow::Result<GpuRecord> {
    let begin = Instant::now();
    // Without a GPU or a launcher nothing is written.
    let card = GpuCard::find()?;
    let launcher = MxmLauncher::from_environment()?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let scale = GpuScale::new(&card.info, arguments.small, arguments.side);
    let results = GpuResults {
        // An emulated GPU says so in its name.
        emulated: card.info.name.starts_with("Emulated CUDA"),
        finding: card.finding.clone(),
        blas: card.make_worker(card.host_cores, None)?.info().blas.clone(),
        host_cores: card.host_cores,
        cores: card.cores.len(),
        memory_available_bytes: memory_available_bytes(),
        ..GpuResults::new(arguments.origin(), card.info.clone(), scale)
    };
    let mut campaign = GpuCampaign {
        card,
        scale,
        launcher,
        rounds: arguments.rounds.max(1),
        folder: folder.to_owned(),
        work: std::env::temp_dir().join(format!("isochron-gpu-work-{}", std::process::id())),
        record: GpuRecord {
            file: folder.join("gpu.json"),
            results,
            errors: Vec::new(),
        },
    };
    std::fs::create_dir_all(&campaign.work)?;
    campaign.record.write()?;
    let parts: Vec<GpuPart> = GpuPart::value_variants()
        .iter()
        .filter(|part| arguments.only.is_empty() || arguments.only.contains(part))
        .copied()
        .collect();
    let end = TimeBudget::until(begin, 60.0 * arguments.minutes);
    for (index, &part) in parts.iter().enumerate() {
        let shares = parts[index..]
            .iter()
            .map(|part| part.choose_work().time_share);
        let budget = end.take_share(part.choose_work().time_share / shares.sum::<f64>());
        campaign.measure_part(part, budget)?;
    }
    // Nothing depends on this folder any more.
    let _ = std::fs::remove_dir_all(&campaign.work);
    publish::draw_pictures(folder, &campaign.record.results)?;
    let tables = publish::format_tables(&campaign.record.results);
    std::fs::write(folder.join("gpu.md"), tables)?;
    Ok(campaign.record)
}

impl GpuCampaign {
    /// Measures a part, and keeps and prints its table. A part that fails does not end the campaign.
    fn measure_part(&mut self, part: GpuPart, budget: TimeBudget) -> anyhow::Result<()> {
        println!("\n== {part}: {:.0} s at most", budget.left().as_secs_f64());
        let start = Instant::now();
        let before = self.record.errors.len();
        // A panic leaves nothing half-changed: a part changes its own state, and the record as a whole.
        let measure = part.choose_work().measure;
        let outcome = catch_unwind(AssertUnwindSafe(|| measure(self, budget)));
        let record = &mut self.record;
        if let Err(error) = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked"))) {
            record.add_error(format!("{part}: {error:#}"));
        }
        let errors = &record.errors[before..];
        record.results.parts.push(PartRecord {
            part,
            seconds: start.elapsed().as_secs_f64(),
            error: (!errors.is_empty()).then(|| errors.join("\n")),
        });
        publish::sum_up(&mut record.results);
        record.write()?;
        print!("{}", part.make_table(&record.results).format());
        Ok(())
    }
}
