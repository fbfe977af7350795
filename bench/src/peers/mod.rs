//! Our multiplication against ScaLAPACK, StarPU and the BLAS itself.
//!
//! The comparisons come in families, each with a file of samples and a page. There are alike ranks of one machine
//! ([`alike`]), unlike hosts ([`unlike`]), a slow network ([`overlap`]), growing numbers of hosts and nodes
//! ([`growth`]). Within a family the contestants take turns in each round, call the same BLAS with as many threads on
//! the same cores, and multiply matrices that are already in place. Every product is checked.

mod alike;
mod contestant;
mod growth;
mod hosts;
mod overlap;
mod programs;
mod record;
mod search;
mod traced;
mod unlike;
mod volume;

use clap::ValueEnum;

use crate::results::{CampaignResults, to_json, write_file};
pub use alike::AlikeResults;
pub use growth::GrowthResults;
pub use overlap::OverlapResults;
use programs::PeerPrograms;
pub use unlike::UnlikeResults;

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
pub struct PeerCampaign {
    programs: PeerPrograms,
    rounds: usize,
    quick: bool,
}

impl PeerCampaign {
    /// Returns a size of the campaign, or an eighth of it in a quick one.
    fn scale_size(&self, size: usize) -> usize {
        if self.quick { (size / 8).max(64) } else { size }
    }
}

/// Runs the families asked for, or makes their tables only.
pub fn run(arguments: &PeersArguments) -> anyhow::Result<()> {
    let campaign = if arguments.table_only {
        None
    } else {
        Some(PeerCampaign {
            programs: PeerPrograms::from_environment()?,
            rounds: arguments.rounds,
            quick: arguments.quick,
        })
    };
    for family in Family::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(family) {
            continue;
        }
        match family {
            Family::Alike => run_family(campaign.as_ref(), AlikeResults::measure)?,
            Family::Unlike => run_family(campaign.as_ref(), UnlikeResults::measure)?,
            Family::Overlap => run_family(campaign.as_ref(), OverlapResults::measure)?,
            Family::Growth => run_family(campaign.as_ref(), GrowthResults::measure)?,
        }
    }
    Ok(())
}

/// Measures and publishes a family. Without a campaign only its tables are made; a quick campaign is not published.
fn run_family<R: CampaignResults>(
    campaign: Option<&PeerCampaign>,
    measure: fn(&PeerCampaign) -> anyhow::Result<R>,
) -> anyhow::Result<()> {
    match campaign {
        Some(campaign) if campaign.quick => try_out(&measure(campaign)?),
        _ => R::publish(campaign.map(measure).transpose()?),
    }
}

/// Makes everything from samples outside the published places.
fn try_out<R: CampaignResults>(results: &R) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join("isochron-peers");
    std::fs::create_dir_all(&folder)?;
    results.write_plot(&folder)?;
    let file = folder.join(format!("{}.json", R::PAGE.name));
    write_file(&file, &to_json(results)?)?;
    println!("{}", results.format_tables()?);
    Ok(())
}
