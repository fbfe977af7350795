//! What a GPU does here, and what it could do: its link, cuBLAS by itself, our updates with their transfers, C that does
//! not fit, cuBLASXt beside it, the GPU beside the host's cores and in a job of several ranks.
//!
//! The campaign goes through its [`Part`]s one after the other, each with a share of the minutes that it is given. It runs
//! from a checkout and from a bundle, and leaves everything in a folder: the samples (`gpu.json`, written anew after each of
//! them), the tables, plots and models that are made of them. What goes wrong ends as little as it can: one shape, one job or
//! one part, and the results say so. What an emulated CUDA said is marked, and is never published.

mod card;
mod clock;
mod host;
mod jobs;
mod link;
mod models;
mod out_of_core;
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
use isochron_devices::memory_available_bytes;
use serde_json::{Value, json};

use crate::launch::{Launcher, machine};
use card::Card;
use clock::Clock;
use record::Record;
use scale::Scale;

/// How large the campaign is, and where its results go.
#[derive(clap::Args)]
pub struct Arguments {
    /// Folder for everything that is found; without one a new one, from which it is published in this checkout
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Minutes that all of it may take
    #[arg(long, default_value_t = 9.0)]
    minutes: f64,
    /// Rounds at most, of each part; fewer where time runs out
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Side of the square C that stays on the GPU; without it, what its memory and the host's free memory allow, at most 16384
    #[arg(long, conflicts_with = "small")]
    side: Option<usize>,
    /// Tiny sizes, for an emulated CUDA: only to see that everything works
    #[arg(long)]
    small: bool,
    /// These parts only
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Publish in this checkout what an earlier run has left in a folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["out", "table_only"])]
    from: Option<PathBuf>,
    /// Only make the tables and plots from the results that are in this checkout
    #[arg(long)]
    table_only: bool,
}

/// A part of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// What copies between host and GPU reach
    Link,
    /// Updates of a C that stays on the GPU, beside cuBLAS with everything there
    Resident,
    /// Updates of a C that does not fit on the GPU
    Streamed,
    /// A whole product with a C of twice the memory, beside cuBLASXt
    OutOfCore,
    /// Models of the GPU and of the cores, as points files
    Models,
    /// The host's cores, the GPU, and both balanced by IDPA
    Together,
    /// Two ranks that share the GPU, and four of which one has it
    Ranks,
    /// What happens when in an update
    Step,
}

impl Part {
    /// Its name in the results.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its share of the minutes, in hundredths. What one leaves, or takes too much, is that of all after it.
    fn share(self) -> f64 {
        match self {
            Self::Link => 6.0,
            Self::Resident => 20.0,
            Self::Streamed => 9.0,
            Self::OutOfCore => 21.0,
            Self::Models => 10.0,
            Self::Together => 16.0,
            Self::Ranks => 12.0,
            Self::Step => 6.0,
        }
    }

    fn measure(self, campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
        match self {
            Self::Link => link::measure(campaign, clock),
            Self::Resident => resident::measure(campaign, clock),
            Self::Streamed => streamed::measure(campaign, clock),
            Self::OutOfCore => out_of_core::measure(campaign, clock),
            Self::Models => models::measure(campaign, clock),
            Self::Together => together::measure(campaign, clock),
            Self::Ranks => ranks::measure(campaign, clock),
            Self::Step => step::measure(campaign, clock),
        }
    }

    /// The part's rows, in the order of the table.
    fn rows(self, results: &Value) -> Vec<rows::Row> {
        match self {
            Self::Link => link::rows(results),
            Self::Resident => resident::rows(results),
            Self::Streamed => streamed::rows(results),
            Self::OutOfCore => out_of_core::rows(results),
            Self::Models => models::rows(results),
            Self::Together => together::rows(results),
            Self::Ranks => ranks::rows(results),
            Self::Step => step::rows(results),
        }
    }

    /// What stands above the part's table: what was measured, and what the columns are.
    fn words(self, results: &Value) -> String {
        match self {
            Self::Link => link::words(results),
            Self::Resident => resident::words(results),
            Self::Streamed => streamed::words(results),
            Self::OutOfCore => out_of_core::words(results),
            Self::Models => models::words(results),
            Self::Together => together::words(results),
            Self::Ranks => ranks::words(results),
            Self::Step => step::words(results),
        }
    }
}

/// What every part works with.
pub(crate) struct Campaign {
    card: Card,
    scale: Scale,
    launcher: Launcher,
    rounds: usize,
    folder: PathBuf,
    /// What is written for the programs that are started; gone at the end.
    work: PathBuf,
    record: Record,
}

/// Runs the campaign, or publishes what one has left.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.table_only {
        return publish::again();
    }
    if let Some(folder) = &arguments.from {
        return publish::from(folder);
    }
    let made = std::env::temp_dir().join(format!("isochron-gpu-{}", std::process::id()));
    let folder = arguments.out.as_deref().unwrap_or(&made);
    let failed = measure(arguments, folder)?;
    let results = publish::read(folder)?;
    println!("\nThe results are in {}.", folder.display());
    if results["emulated"] == true {
        println!(
            "They are of an emulated CUDA: they say nothing about speed, and are not published."
        );
    } else if arguments.out.is_none() && !arguments.small && failed.is_empty() {
        publish::from(folder)?;
    } else {
        println!(
            "In a checkout, `cargo xtask bench gpu --from {}` publishes them.",
            folder.display()
        );
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Goes through the parts; what went wrong.
fn measure(arguments: &Arguments, folder: &Path) -> anyhow::Result<Vec<String>> {
    let begin = Instant::now();
    // What cannot run at all is known before anything is written.
    let card = Card::find()?;
    let launcher = Launcher::from_environment()?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let scale = Scale::new(&card.info, arguments.small, arguments.side);
    let record = Record::new(folder.join("gpu.json"), header(arguments, &card, &scale)?);
    let mut campaign = Campaign {
        card,
        scale,
        launcher,
        rounds: arguments.rounds.max(1),
        folder: folder.to_owned(),
        work: std::env::temp_dir().join(format!("isochron-gpu-work-{}", std::process::id())),
        record,
    };
    std::fs::create_dir_all(&campaign.work)?;
    campaign.record.keep()?;
    let wanted = |part: &&Part| arguments.only.is_empty() || arguments.only.contains(*part);
    let parts: Vec<Part> = Part::value_variants()
        .iter()
        .filter(wanted)
        .copied()
        .collect();
    let end = Clock::until(begin, 60.0 * arguments.minutes);
    for (index, &part) in parts.iter().enumerate() {
        let to_come: f64 = parts[index..].iter().map(|part| part.share()).sum();
        let clock = end.part(part.share() / to_come);
        let name = part.name();
        println!("\n== {name}: {:.0} s at most", clock.left().as_secs_f64());
        let start = Instant::now();
        let before = campaign.record.errors.len();
        // The others are measured also where one part is wrong altogether. Whatever it was at is its own, or is written whole.
        let outcome = catch_unwind(AssertUnwindSafe(|| part.measure(&mut campaign, clock)));
        let record = &mut campaign.record;
        if let Err(error) = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked"))) {
            record.fail(format!("{name}: {error:#}"));
        }
        let errors = &record.errors[before..];
        let part_of_all = json!({
            "part": name, "seconds": start.elapsed().as_secs_f64(),
            "error": (!errors.is_empty()).then(|| errors.join("\n")),
        });
        record.push("parts", part_of_all);
        publish::sum_up(&mut record.results);
        record.keep()?;
        print!("{}", rows::table(part, &record.results));
    }
    // Nothing depends on it any more.
    let _ = std::fs::remove_dir_all(&campaign.work);
    publish::draw(folder, &campaign.record.results)?;
    let tables = publish::tables(&campaign.record.results, "");
    std::fs::write(folder.join("gpu.md"), tables)?;
    Ok(campaign.record.errors)
}

/// What the results begin with.
fn header(arguments: &Arguments, card: &Card, scale: &Scale) -> anyhow::Result<Value> {
    let Arguments {
        minutes, rounds, ..
    } = arguments;
    let mut command = format!("cargo xtask bench gpu --minutes {minutes} --rounds {rounds}");
    if arguments.small {
        command.push_str(" --small");
    }
    if let Some(side) = arguments.side {
        command.push_str(&format!(" --side {side}"));
    }
    Ok(json!({
        "schema": 1,
        "command": command,
        "machine": machine(),
        "emulated": card.is_emulated(),
        "finding": card.finding,
        "gpu": card.info,
        "blas": card.blas()?,
        "host_cores": card.host_cores,
        "cores": card.cores.len(),
        "memory_available_bytes": memory_available_bytes(),
        "side": scale.side,
    }))
}
