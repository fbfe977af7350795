//! The samples of a family, as they stand in its file of results.

use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::contestant::{Contestant, Entry, PeerRun};
use super::hosts::EmulatedHosts;
use super::programs::{AbsentPeer, PeerBlas};
use super::search::ParameterSearches;
use crate::results::{Origin, list_in_turn};
use crate::shape::ProductShape;

/// The samples of a family, with the peers that are not there and the search for the others' parameters.
#[derive(Serialize, Deserialize)]
pub struct PeerRecord<S = PeerSample> {
    #[serde(flatten)]
    pub origin: Origin,
    absent: Vec<AbsentPeer>,
    /// The options of `cargo xtask cluster up` for each emulated cluster, in the order of measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    pub searches: ParameterSearches,
    pub samples: Vec<S>,
}

/// One multiplication.
#[derive(Serialize, Deserialize)]
pub struct PeerSample {
    round: usize,
    #[serde(flatten)]
    case: PeerCase,
    who: Contestant,
    #[serde(flatten)]
    run: PeerRun,
}

/// A product on a number of ranks with a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCase {
    #[serde(flatten)]
    pub shape: ProductShape,
    pub ranks: usize,
    pub library: PeerBlas,
}

impl<S> PeerRecord<S> {
    /// Begins the record of a family that compares with `peers`.
    pub fn begin(campaign: &PeerCampaign, family: &str, peers: &[&str]) -> Self {
        let quick = if campaign.quick { " --quick" } else { "" };
        let rounds = campaign.rounds;
        let command = format!("cargo xtask bench peers --only {family} --rounds {rounds}{quick}");
        Self {
            origin: Origin::new(command),
            absent: campaign.programs.find_absent(peers),
            hosts: Vec::new(),
            searches: ParameterSearches::default(),
            samples: Vec::new(),
        }
    }

    /// Brings emulated hosts up, with these options of `cargo xtask cluster up`. Hosts that cannot be emulated are
    /// absent.
    pub fn bring_up_hosts(
        &mut self,
        campaign: &PeerCampaign,
        count: usize,
        options: &[&str],
    ) -> Option<EmulatedHosts> {
        self.hosts.push(options.join(" "));
        let hosts = EmulatedHosts::bring_up(&campaign.programs.cluster, count, options);
        hosts
            .map_err(|error| {
                let absent = AbsentPeer::report("hosts", format!("{error:#}"));
                self.absent.push(absent);
            })
            .ok()
    }

    /// Returns a line for each peer that is not there.
    pub fn list_absent(&self) -> String {
        self.absent
            .iter()
            .map(|AbsentPeer { peer, why }| {
                format!("Absent: `{peer}` ({}).\n\n", why.replace('\n', " "))
            })
            .collect()
    }
}

impl PeerRecord {
    /// Lets the contenders for each product multiply in turn, product by product and round by round.
    ///
    /// # Errors
    /// If a program fails.
    pub fn measure_rounds(
        &mut self,
        campaign: &PeerCampaign,
        products: &[Vec<Entry<'_>>],
    ) -> anyhow::Result<()> {
        for round in 0..campaign.rounds {
            for contenders in products {
                for entry in list_in_turn(contenders, round) {
                    let run = entry.run(&campaign.programs)?;
                    let sample = PeerSample::new(round, entry, run);
                    self.samples.push(sample);
                }
            }
        }
        Ok(())
    }

    /// Lists the cases that were measured, in the order of measurement.
    pub fn list_cases(&self) -> Vec<PeerCase> {
        let mut cases: Vec<PeerCase> = Vec::new();
        for sample in &self.samples {
            if !cases.contains(&sample.case) {
                cases.push(sample.case);
            }
        }
        cases
    }

    /// Returns the runs of a contestant in a case, by round.
    pub fn list_runs(&self, case: PeerCase, who: Contestant) -> Vec<&PeerRun> {
        self.samples
            .iter()
            .filter(|sample| sample.case == case && sample.who == who)
            .map(|sample| &sample.run)
            .collect()
    }

    /// Returns the seconds of a contestant in a case, by round.
    pub fn times_s(&self, case: PeerCase, who: Contestant) -> Vec<f64> {
        self.list_runs(case, who)
            .iter()
            .map(|run| run.seconds)
            .collect()
    }
}

impl PeerSample {
    /// Makes a sample and reports it.
    fn new(round: usize, entry: &Entry<'_>, run: PeerRun) -> Self {
        let (who, shape) = (entry.who, entry.shape);
        let case = PeerCase {
            shape,
            ranks: entry.start.n_ranks(),
            library: entry.start.blas,
        };
        let PeerCase { ranks, library, .. } = case;
        let seconds = run.seconds;
        let gflops = shape.flop() / seconds / 1e9;
        eprintln!(
            "round {round} {shape}, {ranks} ranks: {who}, {library}: {seconds:.4} s, {gflops:.1} GFLOP/s"
        );
        Self {
            round,
            case,
            who,
            run,
        }
    }
}
