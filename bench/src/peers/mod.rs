//! Our multiplication beside other people's: ScaLAPACK, StarPU, and the BLAS itself.
//!
//! In families, each with a file of samples and a section of the page: alike ranks of one machine ([`alike`]), unlike hosts
//! ([`unlike`]), a slow network ([`overlap`]), growing numbers of hosts and of nodes ([`growth`]). Within one, whatever is
//! compared takes turns in each round, calls the same BLAS with as many threads on the same cores, and multiplies matrices
//! that are in place; every product is checked.

mod alike;
pub(crate) mod bars;
mod growth;
mod hosts;
mod overlap;
mod programs;
mod search;
mod timeline;
mod unlike;
mod volume;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::launch::machine;
use crate::results::Results;
use programs::Programs;

/// What is compared, and how large it is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; each runs everything once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// These families only
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Family>,
    /// Tiny sizes, into a folder of their own and no page: only to see that everything works
    #[arg(long, conflicts_with = "table_only")]
    quick: bool,
    /// Only make the tables and plots from the results that are there
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
    /// A slow network: what of the communication is hidden
    Overlap,
    /// More and more hosts, and the volume predicted for many more nodes
    Growth,
}

/// What every family is told.
struct Campaign<'a> {
    programs: &'a Programs,
    rounds: usize,
    quick: bool,
}

impl Campaign<'_> {
    /// A size of the campaign, or the eighth of it that shows that everything works.
    fn size(&self, size: usize) -> usize {
        if self.quick { (size / 8).max(64) } else { size }
    }

    /// What a family's file begins with.
    fn header(&self, family: Family, absent: Vec<Value>) -> Value {
        let quick = if self.quick { " --quick" } else { "" };
        json!({
            "schema": 1,
            "command": format!(
                "cargo xtask bench peers --only {} --rounds {}{quick}", family.name(), self.rounds
            ),
            "machine": machine(),
            "absent": absent,
        })
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

    fn results(self) -> Results {
        match self {
            Self::Alike => alike::RESULTS,
            Self::Unlike => unlike::RESULTS,
            Self::Overlap => overlap::RESULTS,
            Self::Growth => growth::RESULTS,
        }
    }

    fn measure(self, campaign: &Campaign<'_>) -> anyhow::Result<Value> {
        match self {
            Self::Alike => alike::measure(campaign),
            Self::Unlike => unlike::measure(campaign),
            Self::Overlap => overlap::measure(campaign),
            Self::Growth => growth::measure(campaign),
        }
    }

    /// Adds to the results what follows from the samples, and draws the plot.
    fn sum_up(self, results: &mut Value, folder: &str) -> anyhow::Result<()> {
        match self {
            Self::Alike => alike::sum_up(results, folder),
            Self::Unlike => unlike::sum_up(results, folder),
            Self::Overlap => overlap::sum_up(results, folder),
            Self::Growth => growth::sum_up(results, folder),
        }
    }

    fn tables(self, results: &Value) -> String {
        match self {
            Self::Alike => alike::tables(results),
            Self::Unlike => unlike::tables(results),
            Self::Overlap => overlap::tables(results),
            Self::Growth => growth::tables(results),
        }
    }
}

/// Runs the families asked for, or makes their tables only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let programs = (!arguments.table_only)
        .then(Programs::from_environment)
        .transpose()?;
    for &family in Family::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(&family) {
            continue;
        }
        let campaign = programs.as_ref().map(|programs| Campaign {
            programs,
            rounds: arguments.rounds,
            quick: arguments.quick,
        });
        let fresh = campaign.map(|campaign| family.measure(&campaign));
        match fresh.transpose()? {
            Some(fresh) if arguments.quick => try_out(family, fresh)?,
            fresh => family.results().publish(
                fresh,
                |results| family.sum_up(results, "bench/results"),
                |results| family.tables(results),
            )?,
        }
    }
    Ok(())
}

/// Everything that is made of samples, beside where it counts.
fn try_out(family: Family, mut results: Value) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join("isochron-peers");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.display().to_string();
    family.sum_up(&mut results, &folder)?;
    std::fs::write(
        format!("{folder}/peers-{}.json", family.name()),
        serde_json::to_string_pretty(&results)? + "\n",
    )?;
    println!("{}", family.tables(&results));
    Ok(())
}
