//! Our multiplication against ScaLAPACK, StarPU and the BLAS itself.
//!
//! The comparisons come in families, each with a file of samples and a page: alike ranks of one machine ([`alike`]), unlike
//! hosts ([`unlike`]), a slow network ([`overlap`]), growing numbers of hosts and nodes ([`growth`]). Within a family the
//! contestants take turns in each round, call the same BLAS with as many threads on the same cores, and multiply matrices that
//! are already in place. Every product is checked.

mod alike;
mod growth;
mod hosts;
mod overlap;
mod programs;
mod search;
mod sides;
mod traced;
mod unlike;
mod volume;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::results::{Origin, ResultsPage, to_json};
use programs::{AbsentPeer, PeerPrograms};

/// The folder of the published results.
const FOLDER: &str = "bench/results";

/// The families to compare, and the size of the campaign.
#[derive(clap::Args)]
pub struct PeersArguments {
    /// Rounds; each runs every contestant once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Run these families only
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Family>,
    /// Use tiny sizes and publish nothing, only to see that everything works
    #[arg(long, conflicts_with = "table_only")]
    quick: bool,
    /// Only make the tables and plots from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// A family of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// Alike ranks of this machine
    Alike,
    /// Hosts of unlike speed
    Unlike,
    /// A slow network: the hidden part of the communication
    Overlap,
    /// More and more hosts, and the volume predicted for many more nodes
    Growth,
}

/// The campaign that a family is measured in.
struct PeerCampaign<'a> {
    programs: &'a PeerPrograms,
    rounds: usize,
    quick: bool,
}

/// The beginning of a family's file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PeerOrigin {
    #[serde(flatten)]
    origin: Origin,
    /// The peers that are not there.
    absent: Vec<AbsentPeer>,
}

/// The results of a family.
trait FamilyResults: Serialize + DeserializeOwned {
    /// The places of the results.
    const PAGE: ResultsPage;

    /// Measures everything.
    ///
    /// # Errors
    /// If a program fails.
    fn measure(campaign: &PeerCampaign<'_>) -> anyhow::Result<Self>;

    /// Adds the summary, and draws the plot into a folder.
    ///
    /// # Errors
    /// If the plot cannot be written.
    fn sum_up(&mut self, folder: &Path) -> anyhow::Result<()>;

    /// Formats the tables.
    fn format_tables(&self) -> String;
}

impl PeerCampaign<'_> {
    /// Returns a size of the campaign, or an eighth of it in a quick one.
    fn scale_size(&self, size: usize) -> usize {
        if self.quick { (size / 8).max(64) } else { size }
    }

    fn make_origin(&self, family: Family, absent: Vec<AbsentPeer>) -> PeerOrigin {
        let quick = if self.quick { " --quick" } else { "" };
        let (family, rounds) = (family.name(), self.rounds);
        let command = format!("cargo xtask bench peers --only {family} --rounds {rounds}{quick}");
        PeerOrigin {
            origin: Origin::new(command),
            absent,
        }
    }
}

impl PeerOrigin {
    /// Adds a line for each peer that is not there.
    fn list_absent(&self, text: &mut String) {
        for AbsentPeer { peer, why } in &self.absent {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "Absent: `{peer}` ({}).\n", why.replace('\n', " "));
        }
    }
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Alike => "alike",
            Self::Unlike => "unlike",
            Self::Overlap => "overlap",
            Self::Growth => "growth",
        }
    }

    fn run(self, campaign: Option<&PeerCampaign<'_>>) -> anyhow::Result<()> {
        match self {
            Self::Alike => run_family::<alike::AlikeResults>(self, campaign),
            Self::Unlike => run_family::<unlike::UnlikeResults>(self, campaign),
            Self::Overlap => run_family::<overlap::OverlapResults>(self, campaign),
            Self::Growth => run_family::<growth::GrowthResults>(self, campaign),
        }
    }
}

/// Runs the families asked for, or makes their tables only.
pub fn run(arguments: &PeersArguments) -> anyhow::Result<()> {
    let programs = (!arguments.table_only)
        .then(PeerPrograms::from_environment)
        .transpose()?;
    let campaign = programs.as_ref().map(|programs| PeerCampaign {
        programs,
        rounds: arguments.rounds,
        quick: arguments.quick,
    });
    for &family in Family::value_variants() {
        if arguments.only.is_empty() || arguments.only.contains(&family) {
            family.run(campaign.as_ref())?;
        }
    }
    Ok(())
}

/// Measures and publishes a family. Without a campaign only its tables are made; a quick campaign is not published.
fn run_family<R: FamilyResults>(
    family: Family,
    campaign: Option<&PeerCampaign<'_>>,
) -> anyhow::Result<()> {
    let fresh = campaign.map(R::measure).transpose()?;
    match fresh {
        Some(fresh) if campaign.is_some_and(|campaign| campaign.quick) => try_out(family, fresh),
        fresh => R::PAGE.publish(
            fresh,
            |results: &mut R| results.sum_up(Path::new(FOLDER)),
            R::format_tables,
        ),
    }
}

/// Makes everything from samples outside the published places.
fn try_out<R: FamilyResults>(family: Family, mut results: R) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join("isochron-peers");
    std::fs::create_dir_all(&folder)?;
    results.sum_up(&folder)?;
    let file = folder.join(format!("peers-{}.json", family.name()));
    std::fs::write(file, to_json(&results)?)?;
    println!("{}", results.format_tables());
    Ok(())
}

/// Writes a plot into a folder.
fn write_plot(folder: &Path, name: &str, svg: &str) -> anyhow::Result<()> {
    let file: PathBuf = folder.join(name);
    std::fs::write(&file, svg).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::check_published;

    fn check<R: FamilyResults>() -> anyhow::Result<()> {
        check_published(&R::PAGE, R::format_tables)
    }

    #[test]
    fn the_published_files_are_read_and_make_their_pages() -> anyhow::Result<()> {
        check::<alike::AlikeResults>()?;
        check::<unlike::UnlikeResults>()?;
        check::<overlap::OverlapResults>()?;
        check::<growth::GrowthResults>()
    }
}
