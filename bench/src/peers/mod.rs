//! Our multiplication against ScaLAPACK, StarPU, the BLAS itself and divisions of our own that do not learn.
//!
//! The comparisons come in families, each with a file of samples and a page. There are alike ranks of one machine
//! ([`alike`]), the price of learning there ([`price`]), unlike hosts ([`unlike`]), a host that becomes slow ([`drift`]), a
//! slow network ([`overlap`]), growing numbers of hosts and nodes ([`growth`]), calls of small products ([`small`]). Within a family the contestants take turns in each round, call the same BLAS with as many threads on
//! the same cores, and multiply matrices that are already in place. Every product is checked.

mod alike;
mod contestant;
mod drift;
mod growth;
mod hosts;
mod overlap;
mod price;
mod programs;
mod record;
mod search;
mod small;
mod traced;
mod unlike;
mod volume;

use std::cell::Cell;

use anyhow::ensure;
use clap::ValueEnum;

use crate::results::CampaignResults;
use crate::shape::ProductShape;
pub use alike::AlikeResults;
pub use drift::DriftResults;
pub use growth::GrowthResults;
pub use overlap::OverlapResults;
pub use price::PriceResults;
use programs::PeerPrograms;
pub use small::SmallResults;
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
    /// Run only cases whose name (`4096×4096×4096 on 2 ranks`) contains this text, and publish nothing
    #[arg(long, conflicts_with = "table_only")]
    case: Option<String>,
    /// Only make the tables and plots from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// A family of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// Alike ranks of this machine
    Alike,
    /// The price of learning on alike ranks
    Price,
    /// Hosts of unlike speed
    Unlike,
    /// A host that becomes slow in mid-run
    Drift,
    /// A slow network: the hidden part of the communication
    Overlap,
    /// More and more hosts, and the volume predicted for many more nodes
    Growth,
    /// Calls of small products
    Small,
}

/// The campaign that a family is measured in.
pub struct PeerCampaign {
    programs: PeerPrograms,
    rounds: usize,
    quick: bool,
    case: Option<String>,
    /// A case was asked for that there is.
    is_known: Cell<bool>,
}

impl PeerCampaign {
    /// Returns `true` if this is not the whole campaign.
    fn is_part(&self) -> bool {
        self.quick || self.case.is_some()
    }

    /// Returns `true` if a product on these ranks or hosts is asked for.
    fn includes(&self, shape: ProductShape, place: &str) -> bool {
        let name = format!("{shape} on {place}");
        let is_included = self.case.as_ref().is_none_or(|case| name.contains(case));
        self.is_known.set(self.is_known.get() || is_included);
        is_included
    }

    /// Returns the size of a square, as in [`scale_size`](Self::scale_size).
    fn scale_square(&self, size: usize) -> ProductShape {
        ProductShape::square(self.scale_size(size))
    }

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
            case: arguments.case.clone(),
            is_known: Cell::new(false),
        })
    };
    for family in Family::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(family) {
            continue;
        }
        match family {
            Family::Alike => run_family(campaign.as_ref(), AlikeResults::measure)?,
            Family::Price => run_family(campaign.as_ref(), PriceResults::measure)?,
            Family::Drift => run_family(campaign.as_ref(), DriftResults::measure)?,
            Family::Unlike => run_family(campaign.as_ref(), UnlikeResults::measure)?,
            Family::Overlap => run_family(campaign.as_ref(), OverlapResults::measure)?,
            Family::Growth => run_family(campaign.as_ref(), GrowthResults::measure)?,
            Family::Small => run_family(campaign.as_ref(), SmallResults::measure)?,
        }
    }
    if let (Some(campaign), Some(case)) = (&campaign, &arguments.case) {
        ensure!(campaign.is_known.get(), "no case has `{case}` in its name");
    }
    Ok(())
}

/// Measures and publishes a family. Without a campaign only its tables are made; a part is not published.
fn run_family<R: CampaignResults>(
    campaign: Option<&PeerCampaign>,
    measure: fn(&PeerCampaign) -> anyhow::Result<R>,
) -> anyhow::Result<()> {
    match campaign {
        Some(campaign) if campaign.is_part() => measure(campaign)?.try_out(),
        _ => R::publish(campaign.map(measure).transpose()?),
    }
}
