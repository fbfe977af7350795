//! Hosts of unlike speed, each with a quota of CPU time, which slows any program alike.
//!
//! The peer gives every rank the same amount of work. Either each host has one rank, or faster hosts have more of them, as
//! Heterogeneous ScaLAPACK does it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use isochron_plot::{BarPanel, draw_bars};
use serde::{Deserialize, Serialize};

use super::alike::make_bar;
use super::hosts::EmulatedHosts;
use super::programs::{AbsentPeer, PeerBlas, PeerPrograms, RankStart};
use super::search::{ParameterSearches, SearchRecord};
use super::{Family, FamilyResults, PeerCampaign, PeerOrigin, write_plot};
use crate::report::{MxmReport, TIME_KEYS};
use crate::results::{ResultsPage, RoundSample, figures_by_round, yes_or_no};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

/// Seconds for which the hosts show their speeds, before each round.
const SPEED_S: f64 = 2.0;

/// Goals: the most of our wall time over the ideal one, and the least of a peer's over ours.
const IDEAL_GOAL: f64 = 1.10;
const EVEN_GOAL: f64 = 2.0;
const MANY_GOAL: f64 = 1.0;

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum HostContestant {
    #[serde(rename = "ours")]
    Ours,
    /// `pdgemm` with a rank on each host.
    #[serde(rename = "even grid")]
    EvenGrid,
    /// `pdgemm` with more ranks on faster hosts.
    #[serde(rename = "many ranks")]
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
}

/// Four hosts multiply larger matrices too. There the CPU time for messages, which the ideal leaves out, weighs half as much.
const SETTINGS: [HostSetting; 3] = [
    HostSetting {
        name: "1 : 4",
        ratios: &[4, 1],
        quotas: "100%,25%",
        size: 4096,
        cpus: "0,1",
    },
    four_hosts("1 : 2 : 4 : 8", 4096),
    four_hosts("1 : 2 : 4 : 8, larger", 8192),
];

const fn four_hosts(name: &'static str, size: usize) -> HostSetting {
    HostSetting {
        name,
        ratios: &[8, 4, 2, 1],
        quotas: "100%,50%,25%,12.5%",
        size,
        cpus: "0,1,1,1",
    }
}

/// Ranks of `pdgemm` on each host, with its fastest parameters.
struct RankSpread {
    ranks: Vec<usize>,
    parameters: String,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct UnlikeResults {
    #[serde(flatten)]
    origin: PeerOrigin,
    searches: Vec<SearchRecord>,
    samples: Vec<UnlikeSample>,
    #[serde(default)]
    summary: Vec<UnlikeRow>,
}

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
    parameters: String,
    /// The hosts' speeds just before the round, in flop/s.
    speeds: Vec<f64>,
    /// Seconds of the work at the sum of these speeds.
    ideal_s: f64,
    seconds: f64,
    /// Seconds in which ours measured before.
    measuring_s: f64,
    /// Ours: the part of the report that explains the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<MxmReport>,
}

/// The figures of a contestant in a setting.
#[derive(Serialize, Deserialize)]
struct UnlikeRow {
    setting: String,
    who: HostContestant,
    size: usize,
    ranks: Vec<usize>,
    parameters: String,
    /// Wall time over the ideal one.
    over_ideal: MedianRange,
    with_measuring_over_ideal: MedianRange,
    /// Wall time over ours.
    ratio: MedianRange,
    goal: f64,
    met: bool,
    /// The median of each host's speed, in flop/s.
    speeds: Vec<f64>,
}

impl RoundSample for UnlikeSample {
    fn round(&self) -> usize {
        self.round
    }
}

impl HostContestant {
    const ALL: [Self; 3] = [Self::Ours, Self::EvenGrid, Self::ManyRanks];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::EvenGrid => "even grid",
            Self::ManyRanks => "many ranks",
        }
    }
}

impl FamilyResults for UnlikeResults {
    const PAGE: ResultsPage = ResultsPage {
        file: "bench/results/peers-unlike.json",
        page: "bench/results/peers-unlike.md",
        section: "bench peers unlike",
    };

    /// Measures the settings one after the other, since each has its own hosts.
    fn measure(campaign: &PeerCampaign<'_>) -> anyhow::Result<Self> {
        let programs = campaign.programs;
        let mut absent = programs.find_absent(&["pdgemm", "speed"]);
        let mut searches = ParameterSearches::default();
        let mut samples = Vec::new();
        // Without the hosts' speeds there is nothing to compare with.
        let settings = SETTINGS.iter().filter(|_| programs.has("speed"));
        for setting in settings {
            let options = ["--quota", setting.quotas, "--cpus", setting.cpus];
            match programs.bring_up_hosts(setting.ratios.len(), &options) {
                Ok(hosts) => setting.measure(campaign, &hosts, &mut searches, &mut samples)?,
                Err(error) => absent.push(AbsentPeer::report("hosts", format!("{error:#}"))),
            }
        }
        Ok(Self {
            origin: campaign.make_origin(Family::Unlike, absent),
            searches: searches.records(),
            samples,
            summary: Vec::new(),
        })
    }

    fn sum_up(&mut self, folder: &Path) -> anyhow::Result<()> {
        let mut summary = Vec::new();
        for setting in &SETTINGS {
            for who in HostContestant::ALL {
                summary.extend(self.summarize(setting, who));
            }
        }
        self.summary = summary;
        write_plot(folder, "peers-unlike.svg", &self.draw_plot())
    }

    fn format_tables(&self) -> String {
        let mut text = Self::PAGE.describe_origin(&self.origin.origin, "", "") + "\n\n";
        self.origin.list_absent(&mut text);
        text.push_str(
            "![wall time over the ideal one](peers-unlike.svg)\n\n\
             | hosts | m = n = k | GFLOP/s obtained | who | ranks on the hosts | block and grid | wall / ideal | with the measuring | wall / ours | \
             goal | met |\n|---|---:|---|---|---|---|---|---:|---|---|---|\n",
        );
        for row in &self.summary {
            let speeds = row.speeds.iter().map(|speed| format!("{:.1}", speed / 1e9));
            let ranks = row.ranks.iter().map(usize::to_string);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
                row.setting,
                row.size,
                speeds.collect::<Vec<_>>().join(", "),
                row.who.name(),
                ranks.collect::<Vec<_>>().join(", "),
                row.parameters,
                row.over_ideal.text(2),
                row.with_measuring_over_ideal.median,
                row.ratio.text(2),
                row.goal_text(),
                yes_or_no(row.met),
            );
        }
        text
    }
}

impl UnlikeRow {
    fn goal_text(&self) -> String {
        let goal = self.goal;
        match self.who {
            HostContestant::Ours => format!("wall / ideal ≤ {goal}"),
            HostContestant::EvenGrid if self.ranks.len() == 2 => format!("wall / ours ≥ {goal}"),
            _ => format!("wall / ours > {goal}"),
        }
    }
}

impl HostSetting {
    fn measure(
        &self,
        campaign: &PeerCampaign<'_>,
        hosts: &EmulatedHosts,
        searches: &mut ParameterSearches,
        samples: &mut Vec<UnlikeSample>,
    ) -> anyhow::Result<()> {
        let programs = campaign.programs;
        let shape = ProductShape::square(campaign.scale_size(self.size));
        let one_each = vec![1; self.ratios.len()];
        let mut spreads = vec![RankSpread {
            ranks: one_each.clone(),
            parameters: String::new(),
        }];
        if programs.has("pdgemm") {
            let start = RankStart::on_hosts(hosts, &one_each);
            let speeds = programs.measure_speeds(&start, SPEED_S)?;
            for candidates in [vec![one_each.clone()], self.proportional_ranks(&speeds)] {
                spreads.push(self.find_fastest(programs, hosts, shape, searches, candidates)?);
            }
        }
        for round in 0..campaign.rounds {
            let start = RankStart::on_hosts(hosts, &one_each);
            let speeds = programs.measure_speeds(&start, SPEED_S)?;
            for turn in 0..spreads.len() {
                let contestant = (round + turn) % spreads.len();
                let who = HostContestant::ALL[contestant];
                let sample =
                    self.sample(programs, hosts, shape, (who, &spreads[contestant]), &speeds)?;
                samples.push(UnlikeSample { round, ..sample });
            }
        }
        Ok(())
    }

    /// Multiplies once.
    fn sample(
        &self,
        programs: &PeerPrograms,
        hosts: &EmulatedHosts,
        shape: ProductShape,
        (who, spread): (HostContestant, &RankSpread),
        speeds: &[f64],
    ) -> anyhow::Result<UnlikeSample> {
        let RankSpread { ranks, parameters } = spread;
        let start = RankStart::on_hosts(hosts, ranks);
        let blas = PeerBlas::OpenBlas;
        let (seconds, measuring_s, report) = if who == HostContestant::Ours {
            let report = programs.run_mxm(&start, blas, shape)?;
            (report.wall_s, report.balance_s, Some(report))
        } else {
            let chosen = std::slice::from_ref(parameters);
            let answers = programs.run_pdgemm(&start, blas, shape, 1, chosen)?;
            (answers.first().context("an answer")?.first_s(), 0.0, None)
        };
        let ideal_s = shape.flop() / speeds.iter().sum::<f64>();
        let (setting, name) = (self.name, who.name());
        eprintln!("{setting} {name}: {seconds:.3} s, ideal {ideal_s:.3} s");
        Ok(UnlikeSample {
            setting: setting.to_owned(),
            round: 0,
            who,
            size: shape.m,
            ranks: ranks.clone(),
            parameters: parameters.clone(),
            speeds: speeds.to_vec(),
            ideal_s,
            seconds,
            measuring_s,
            report: report.map(|report| report.with_keys(TIME_KEYS)),
        })
    }

    /// Returns ranks in proportion to the quotas, and in proportion to the speeds with one rank on the slowest host.
    fn proportional_ranks(&self, speeds: &[f64]) -> Vec<Vec<usize>> {
        let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let obtained = speeds.iter().map(|speed| (speed / least).round() as usize);
        let mut candidates = vec![self.ratios.to_vec(), obtained.collect()];
        candidates.dedup();
        candidates
    }

    /// Finds the fastest of several numbers of ranks, each with its best block size and grid.
    fn find_fastest(
        &self,
        programs: &PeerPrograms,
        hosts: &EmulatedHosts,
        shape: ProductShape,
        searches: &mut ParameterSearches,
        candidates: Vec<Vec<usize>>,
    ) -> anyhow::Result<RankSpread> {
        let blas = PeerBlas::OpenBlas;
        let mut best: Option<(f64, RankSpread)> = None;
        for ranks in candidates {
            let place = format!("{} by {ranks:?} ranks", self.name);
            let start = RankStart::on_hosts(hosts, &ranks);
            let parameters = searches.find_pdgemm(programs, (&start, &place), blas, shape)?;
            let took_s = searches.best_pdgemm_s(blas, &place, shape);
            if best.as_ref().is_none_or(|(least_s, _)| took_s < *least_s) {
                best = Some((took_s, RankSpread { ranks, parameters }));
            }
        }
        best.map(|(_, spread)| spread).context("no ranks to try")
    }
}

impl UnlikeResults {
    fn samples(&self, setting: &str, who: HostContestant) -> impl Iterator<Item = &UnlikeSample> {
        let samples = self.samples.iter();
        samples.filter(move |sample| sample.setting == setting && sample.who == who)
    }

    /// Returns a figure of a contestant by round.
    fn figures(
        &self,
        setting: &str,
        who: HostContestant,
        figure: fn(&UnlikeSample) -> f64,
    ) -> Vec<f64> {
        figures_by_round(self.samples(setting, who), figure)
    }

    fn summarize(&self, setting: &HostSetting, who: HostContestant) -> Option<UnlikeRow> {
        let name = setting.name;
        let first = self.samples(name, who).next()?;
        let ours = self.figures(name, HostContestant::Ours, |sample| sample.seconds);
        let times = self.figures(name, who, |sample| sample.seconds);
        let over_ideal =
            MedianRange::of(self.figures(name, who, |sample| sample.seconds / sample.ideal_s));
        let with_measuring = self.figures(name, who, |sample| {
            (sample.seconds + sample.measuring_s) / sample.ideal_s
        });
        let ratio = MedianRange::of_ratios(&times, &ours);
        let (goal, met) = match who {
            HostContestant::Ours => (IDEAL_GOAL, over_ideal.median <= IDEAL_GOAL),
            HostContestant::EvenGrid if setting.ratios.len() == 2 => {
                (EVEN_GOAL, ratio.median >= EVEN_GOAL)
            }
            _ => (MANY_GOAL, ratio.median > MANY_GOAL),
        };
        Some(UnlikeRow {
            setting: name.to_owned(),
            who,
            size: first.size,
            ranks: first.ranks.clone(),
            parameters: first.parameters.clone(),
            over_ideal,
            with_measuring_over_ideal: MedianRange::of(with_measuring),
            ratio,
            goal,
            met,
            speeds: self.median_speeds(name),
        })
    }

    /// Returns the median of each host's speed, in flop/s.
    fn median_speeds(&self, setting: &str) -> Vec<f64> {
        let all: Vec<&[f64]> = self
            .samples
            .iter()
            .filter(|sample| sample.setting == setting)
            .map(|sample| &*sample.speeds)
            .collect();
        let n_hosts = all.first().map_or(0, |speeds| speeds.len());
        (0..n_hosts)
            .map(|host| {
                let speeds = all.iter().filter_map(|speeds| speeds.get(host).copied());
                median(&speeds.collect::<Vec<_>>())
            })
            .collect()
    }

    fn draw_plot(&self) -> String {
        let mut groups = Vec::new();
        for setting in &SETTINGS {
            let mut bars = Vec::new();
            for (series, who) in HostContestant::ALL.into_iter().enumerate() {
                let rows = self.summary.iter();
                let rows = rows.filter(|row| row.setting == setting.name && row.who == who);
                bars.extend(rows.map(|row| make_bar(series, row.over_ideal)));
            }
            groups.push((setting.name.to_owned(), bars));
        }
        let panel = BarPanel {
            title: "wall time / ideal".to_owned(),
            groups,
        };
        let names = HostContestant::ALL.map(|who| who.name().to_owned());
        draw_bars(&names, &[panel])
    }
}
