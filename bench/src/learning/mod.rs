//! Contenders learn the speeds of made-up clusters: what knowing how to balance costs, and what it saves.
//!
//! A simulation, the same in every run: [`instance`] makes clusters of known times, [`simulation`] is the clock, [`contender`]
//! measures and runs, [`record`] keeps the ratios, [`table`] writes them.

mod contender;
mod decision;
mod goal;
mod in_run;
mod instance;
mod noise;
mod record;
mod simulation;
mod table;
mod vary;

use contender::LearningContender;
use instance::Setting;
use isochron_hierarchy::learn::Tuning;
use record::InstanceKind;
pub use record::LearningResults;
use vary::Variation;

use crate::results::{CampaignResults, Origin};

/// The size of the campaign. A part of it is printed, and not kept.
#[derive(clap::Args)]
pub struct LearningArguments {
    /// Only the clusters of this kind
    #[arg(long)]
    only: Option<Setting>,
    /// Only clusters with this number of nodes
    #[arg(long)]
    nodes: Option<usize>,
    /// Only runs with this number of steps
    #[arg(long)]
    steps: Option<u64>,
    /// Only this contender
    #[arg(long)]
    contender: Option<LearningContender>,
    /// Only the instance of this number
    #[arg(long)]
    instance: Option<u64>,
    /// Only a tenth of the instances
    #[arg(long)]
    quick: bool,
    /// A number that the learner decides by, and a factor of it: look.patience=2
    #[arg(long, value_name = "NAME=FACTOR")]
    vary: Option<Variation>,
    /// Only make the tables from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// Runs the campaign, or makes its tables only.
pub fn run(arguments: &LearningArguments) -> anyhow::Result<()> {
    if arguments.table_only {
        return LearningResults::publish(None);
    }
    let mut results = simulate(arguments)?;
    if arguments.is_part() {
        println!("{}", results.format_settings());
        return Ok(());
    }
    results.decisions_s = decision::time_decisions()?;
    results.keep_before()?;
    LearningResults::publish(Some(results))
}

fn simulate(arguments: &LearningArguments) -> anyhow::Result<LearningResults> {
    let tuning = match &arguments.vary {
        Some(variation) => variation.apply_to(Tuning::default())?,
        None => Tuning::default(),
    };
    let mut samples = Vec::new();
    for kind in InstanceKind::list_all() {
        for contender in LearningContender::ALL {
            if !arguments.includes(kind, contender) {
                continue;
            }
            let numbers = arguments.list_instances(kind).into_iter();
            let sample = kind.run(contender, tuning, numbers)?;
            eprintln!("{}", sample.describe());
            samples.push(sample);
        }
    }
    Ok(LearningResults {
        origin: Origin::new("cargo xtask bench learning".to_owned()),
        samples,
        decisions_s: Vec::new(),
    })
}

impl LearningArguments {
    /// Returns `true` if this is not the whole campaign.
    fn is_part(&self) -> bool {
        let chosen = self.only.is_some() || self.nodes.is_some() || self.steps.is_some();
        let varied = self.quick || self.vary.is_some();
        chosen || self.contender.is_some() || self.instance.is_some() || varied
    }

    fn includes(&self, kind: InstanceKind, contender: LearningContender) -> bool {
        contender != LearningContender::FpmBefore
            && self.only.is_none_or(|setting| setting == kind.setting)
            && self.nodes.is_none_or(|nodes| nodes == kind.nodes)
            && self.steps.is_none_or(|steps| steps == kind.steps)
            && self.contender.is_none_or(|only| only == contender)
    }

    fn list_instances(&self, kind: InstanceKind) -> Vec<u64> {
        let count = kind.count_instances();
        match self.instance {
            Some(number) => vec![number],
            None if self.quick => (0..count.div_ceil(10)).collect(),
            None => (0..count).collect(),
        }
    }
}
