//! Hosts of unlike speed, each with a quota of CPU time, which slows any program alike.
//!
//! The peer gives every rank the same amount of work. Either each host has one rank, or faster hosts have more of them,
//! as Heterogeneous ScaLAPACK does it. Ours balances by its default strategy or by `fpm`; all of its measuring counts.

use anyhow::Context as _;
use isochron_plot::{BarPanel, draw_bars};
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use super::PeerCampaign;
use super::alike::make_bar;
use super::contestant::{Contestant, Entry, PeerRun};
use super::hosts::EmulatedHosts;
use super::overlap::NETWORK;
use super::programs::{PeerPrograms, RankStart};
use super::record::PeerRecord;
use super::search::ParameterSearches;
use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, ResultsPage, list_in_turn};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

/// Seconds for which the hosts show their speeds, before each round.
const SPEED_S: f64 = 2.0;

/// Goals: the least of a peer's total time over ours, on an even grid of two hosts and in any other case.
const EVEN_GOAL: f64 = 2.0;
const PEER_GOAL: f64 = 1.0;

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
enum HostContestant {
    #[serde(rename = "ours")]
    #[strum(serialize = "ours")]
    Ours,
    #[serde(rename = "ours by fpm")]
    #[strum(serialize = "ours by fpm")]
    Fpm,
    /// `pdgemm` with a rank on each host.
    #[serde(rename = "even grid")]
    #[strum(serialize = "even grid")]
    EvenGrid,
    /// `pdgemm` with more ranks on faster hosts.
    #[serde(rename = "many ranks")]
    #[strum(serialize = "many ranks")]
    ManyRanks,
}

/// Hosts and the product on them.
struct HostSetting {
    name: &'static str,
    /// The intended speeds of the hosts.
    ratios: &'static [usize],
    quotas: &'static str,
    /// m = n = k.
    size: usize,
    /// The cores of the hosts: the fastest has one to itself.
    cpus: &'static str,
    /// Options of the network; none for the speed of memory.
    network: &'static [&'static str],
    /// The goal: the most of our total time over the ideal one. On a slow network there is none, since the ideal leaves
    /// messages out.
    goal: Option<f64>,
}

/// Four hosts multiply larger matrices too. There the CPU time for messages, which the ideal leaves out, weighs half as
/// much.
const SETTINGS: [HostSetting; 4] = [
    HostSetting {
        name: "1 : 4",
        ratios: &[4, 1],
        quotas: "100%,25%",
        size: 4096,
        cpus: "0,1",
        network: &[],
        goal: Some(1.10),
    },
    four_hosts("1 : 2 : 4 : 8", 4096),
    four_hosts("1 : 2 : 4 : 8, larger", 8192),
    HostSetting {
        network: &NETWORK,
        goal: None,
        ..four_hosts("1 : 2 : 4 : 8, 1 Gbit/s, 100 µs", 4096)
    },
];

const fn four_hosts(name: &'static str, size: usize) -> HostSetting {
    HostSetting {
        name,
        ratios: &[8, 4, 2, 1],
        quotas: "100%,50%,25%,12.5%",
        size,
        cpus: "0,1,1,1",
        network: &[],
        goal: Some(1.15),
    }
}

/// The file of results.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnlikeResults(PeerRecord<UnlikeSample>);

/// One multiplication.
#[derive(Serialize, Deserialize)]
struct UnlikeSample {
    setting: String,
    round: usize,
    who: HostContestant,
    /// m = n = k.
    size: usize,
    /// Ranks on each host.
    ranks: Vec<usize>,
    /// The hosts' speeds just before the round, in flop/s.
    speeds: Vec<f64>,
    /// Seconds of the work at the sum of these speeds.
    ideal_s: f64,
    #[serde(flatten)]
    run: PeerRun,
}

impl HostSetting {
    /// Lets the contestants multiply in turn, round by round, each time after the hosts showed their speeds.
    fn measure(
        &self,
        campaign: &PeerCampaign,
        hosts: &EmulatedHosts,
        record: &mut PeerRecord<UnlikeSample>,
    ) -> anyhow::Result<()> {
        let programs = &campaign.programs;
        let shape = campaign.scale_square(self.size);
        let start = RankStart::on_hosts(self.name, hosts, vec![1; self.ratios.len()]);
        let contenders = self.prepare(programs, &start, shape, &mut record.searches)?;
        for round in 0..campaign.rounds {
            let speeds = programs.measure_speeds(&start, SPEED_S)?;
            let ideal_s = shape.flop() / speeds.iter().sum::<f64>();
            for &(who, ref entry) in list_in_turn(&contenders, round) {
                let run = entry.run(programs)?;
                let (setting, total_s) = (self.name, run.total_s());
                eprintln!("{setting} {who}: {total_s:.3} s in all, ideal {ideal_s:.3} s");
                record.samples.push(UnlikeSample {
                    setting: setting.to_owned(),
                    round,
                    who,
                    size: shape.m,
                    ranks: entry.start.ranks.clone(),
                    speeds: speeds.clone(),
                    ideal_s,
                    run,
                });
            }
        }
        Ok(())
    }

    /// Prepares the contestants that can run; `start` has a rank on each host.
    fn prepare<'a>(
        &self,
        programs: &PeerPrograms,
        start: &RankStart<'a>,
        shape: ProductShape,
        searches: &mut ParameterSearches,
    ) -> anyhow::Result<Vec<(HostContestant, Entry<'a>)>> {
        let ours = [Contestant::Ours, Contestant::Fpm];
        let ours = Contestant::prepare_all(&ours, programs, start, shape, searches)?;
        let mut contenders: Vec<_> = [HostContestant::Ours, HostContestant::Fpm]
            .into_iter()
            .zip(ours)
            .collect();
        if programs.has("pdgemm") {
            let speeds = programs.measure_speeds(start, SPEED_S)?;
            for (who, candidates) in [
                (HostContestant::EvenGrid, vec![start.ranks.clone()]),
                (HostContestant::ManyRanks, self.proportional_ranks(&speeds)),
            ] {
                let fastest = self.find_fastest(programs, start, shape, searches, candidates)?;
                contenders.push((who, fastest));
            }
        }
        Ok(contenders)
    }

    /// Returns the goal of a contestant and if it is met, by its total time over the ideal one and over ours; nothing
    /// without a goal.
    fn judge(&self, who: HostContestant, over_ideal: f64, over_ours: f64) -> (String, String) {
        let (goal, is_met) = match (who, self.goal) {
            (HostContestant::Ours, Some(goal)) => {
                (format!("total / ideal ≤ {goal}"), over_ideal <= goal)
            }
            (HostContestant::Ours, None) | (HostContestant::Fpm, _) => {
                return (String::new(), String::new());
            }
            (HostContestant::EvenGrid, _) if self.ratios.len() == 2 => (
                format!("total / ours ≥ {EVEN_GOAL}"),
                over_ours >= EVEN_GOAL,
            ),
            _ => (format!("total / ours > {PEER_GOAL}"), over_ours > PEER_GOAL),
        };
        (goal, yes_or_no(is_met))
    }

    /// Returns ranks in proportion to the quotas, and in proportion to the speeds with one rank on the slowest host.
    fn proportional_ranks(&self, speeds: &[f64]) -> Vec<Vec<usize>> {
        let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let obtained = speeds.iter().map(|speed| (speed / least).round() as usize);
        let mut candidates = vec![self.ratios.to_vec(), obtained.collect()];
        candidates.dedup();
        candidates
    }

    /// Finds the fastest `pdgemm` of several numbers of ranks, each with its best block size and grid.
    fn find_fastest<'a>(
        &self,
        programs: &PeerPrograms,
        one_each: &RankStart<'a>,
        shape: ProductShape,
        searches: &mut ParameterSearches,
        candidates: Vec<Vec<usize>>,
    ) -> anyhow::Result<Entry<'a>> {
        let mut best: Option<(f64, Entry<'_>)> = None;
        for ranks in candidates {
            let name = format!("{} by {ranks:?} ranks", self.name);
            let start = RankStart {
                name,
                ranks,
                ..one_each.clone()
            };
            let found = searches.find_pdgemm(programs, &start, shape)?;
            let took_s = found.best_s();
            if best.as_ref().is_none_or(|(least_s, _)| took_s < *least_s) {
                let entry = Entry {
                    who: Contestant::Pdgemm,
                    parameters: found.best.clone(),
                    start,
                    shape,
                };
                best = Some((took_s, entry));
            }
        }
        best.map(|(_, entry)| entry).context("no ranks to try")
    }
}

impl UnlikeResults {
    /// Measures the settings one after the other, since each has its own hosts.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut record = PeerRecord::begin(campaign, "unlike", &["pdgemm", "speed"]);
        // Without the hosts' speeds there is nothing to compare with.
        for setting in SETTINGS.iter().filter(|_| campaign.programs.has("speed")) {
            if !campaign.includes(campaign.scale_square(setting.size), setting.name) {
                continue;
            }
            let hosts = ["--quota", setting.quotas, "--cpus", setting.cpus];
            let options = [&hosts[..], setting.network].concat();
            if let Some(hosts) = record.bring_up_hosts(campaign, setting.ratios.len(), &options) {
                setting.measure(campaign, &hosts, &mut record)?;
            }
        }
        Ok(Self(record))
    }

    /// Returns the samples of a contestant by round.
    fn list_samples(&self, setting: &str, who: HostContestant) -> Vec<&UnlikeSample> {
        self.0
            .samples
            .iter()
            .filter(|sample| sample.setting == setting && sample.who == who)
            .collect()
    }

    /// Returns the line of a contestant in a setting; `None` if it was not measured.
    fn make_row(&self, setting: &HostSetting, who: HostContestant) -> Option<[String; 11]> {
        let samples = self.list_samples(setting.name, who);
        let first = *samples.first()?;
        let ours = self.list_samples(setting.name, HostContestant::Ours);
        let total_over_ideal = summarize_over_ideal(&samples, PeerRun::total_s);
        let pairs = samples.iter().zip(&ours);
        let ratio =
            MedianRange::of(pairs.map(|(peer, ours)| peer.run.total_s() / ours.run.total_s()));
        let (goal, met) = setting.judge(who, total_over_ideal.median, ratio.median);
        let speeds = self.median_speeds(setting);
        let speeds = speeds.iter().map(|speed| format!("{:.1}", speed / 1e9));
        let ranks = first.ranks.iter().map(usize::to_string);
        Some([
            setting.name.to_owned(),
            first.size.to_string(),
            speeds.collect::<Vec<_>>().join(", "),
            who.to_string(),
            ranks.collect::<Vec<_>>().join(", "),
            first.run.parameters.clone(),
            summarize_over_ideal(&samples, |run| run.seconds).text(2),
            total_over_ideal.text(2),
            ratio.text(2),
            goal,
            met,
        ])
    }

    /// Returns the median of each host's speed, in flop/s.
    fn median_speeds(&self, setting: &HostSetting) -> Vec<f64> {
        let all: Vec<&[f64]> = self
            .0
            .samples
            .iter()
            .filter(|sample| sample.setting == setting.name)
            .map(|sample| &*sample.speeds)
            .collect();
        (0..setting.ratios.len())
            .map(|host| median(&all.iter().map(|speeds| speeds[host]).collect::<Vec<_>>()))
            .collect()
    }
}

/// Summarizes seconds over the ideal ones.
fn summarize_over_ideal(samples: &[&UnlikeSample], seconds: fn(&PeerRun) -> f64) -> MedianRange {
    let samples = samples.iter();
    MedianRange::of(samples.map(|sample| seconds(&sample.run) / sample.ideal_s))
}

impl CampaignResults for UnlikeResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-unlike",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let columns = [
            "hosts",
            "m = n = k:",
            "GFLOP/s obtained",
            "who",
            "ranks on the hosts",
            "strategy, or block and grid",
            "wall / ideal",
            "total / ideal",
            "total / ours",
            "goal",
            "met",
        ];
        let rows = SETTINGS.iter().flat_map(|setting| {
            HostContestant::VARIANTS
                .iter()
                .filter_map(|&who| self.make_row(setting, who))
        });
        let table = format_table(columns, rows);
        Ok(format!(
            "{}\n\n{}![total time over the ideal one](peers-unlike.svg)\n\n{table}",
            Self::PAGE.describe_origin(&self.0.origin, "", ""),
            self.0.list_absent(),
        ))
    }

    fn draw_plot(&self) -> anyhow::Result<Option<String>> {
        let groups = SETTINGS.iter().map(|setting| {
            let measured =
                HostContestant::VARIANTS
                    .iter()
                    .enumerate()
                    .filter_map(|(series, &who)| {
                        let samples = self.list_samples(setting.name, who);
                        let range = summarize_over_ideal(&samples, PeerRun::total_s);
                        (!samples.is_empty()).then(|| make_bar(series, range))
                    });
            (setting.name.to_owned(), measured.collect())
        });
        let panel = BarPanel {
            title: "total time / ideal".to_owned(),
            groups: groups.collect(),
        };
        let names = HostContestant::VARIANTS.iter().map(ToString::to_string);
        Ok(Some(draw_bars(&names.collect::<Vec<_>>(), &[panel])))
    }
}
