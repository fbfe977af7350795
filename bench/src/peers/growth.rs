//! More and more hosts with the same work each, and the volume that layouts predict for many more nodes.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::hosts::EmulatedHosts;
use super::overlap::NETWORK;
use super::programs::{AbsentPeer, RankStart};
use super::search::{ParameterSearches, SearchRecord};
use super::sides::{Side, SideRun};
use super::volume::{PredictedVolume, draw_volumes, predict_volumes};
use super::{Family, FamilyResults, PeerCampaign, PeerOrigin, write_plot};
use crate::results::{ResultsPage, RoundSample, figures_by_round};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// m = n = k of one host. For p hosts m and n are √p times as large, and k is the same.
const SIZE: usize = 2048;
const MOST: usize = 4;
/// The divisor of m and n.
const BLOCK: usize = 128;
/// The quota at which a host is as fast with all the others as alone: two of them share a core.
const QUOTA: &str = "50%";

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct GrowthResults {
    #[serde(flatten)]
    origin: PeerOrigin,
    quota: String,
    searches: Vec<SearchRecord>,
    samples: Vec<GrowthSample>,
    #[serde(default)]
    predicted: Vec<PredictedVolume>,
    #[serde(default)]
    summary: Vec<GrowthSummary>,
}

/// One multiplication.
#[derive(Serialize, Deserialize)]
struct GrowthSample {
    round: usize,
    hosts: usize,
    /// m = n.
    m: usize,
    k: usize,
    flop: f64,
    #[serde(flatten)]
    run: SideRun,
}

/// The speeds on a number of hosts, in 10⁹ flop/s a host, and the part kept of one host's.
#[derive(Serialize, Deserialize)]
struct GrowthSummary {
    hosts: usize,
    m: usize,
    k: usize,
    ours: MedianRange,
    ours_kept: MedianRange,
    pdgemm: MedianRange,
    pdgemm_kept: MedianRange,
    /// Our speed over that of `pdgemm`.
    ratio: MedianRange,
}

impl RoundSample for GrowthSample {
    fn round(&self) -> usize {
        self.round
    }
}

impl FamilyResults for GrowthResults {
    const PAGE: ResultsPage = ResultsPage {
        file: "bench/results/peers-growth.json",
        page: "bench/results/peers-growth.md",
        section: "bench peers growth",
    };

    /// Runs ours and `pdgemm` in turn on one to four hosts.
    fn measure(campaign: &PeerCampaign<'_>) -> anyhow::Result<Self> {
        let programs = campaign.programs;
        let absent = programs.find_absent(&["pdgemm"]);
        let mut results = Self {
            origin: campaign.make_origin(Family::Growth, absent),
            quota: QUOTA.to_owned(),
            searches: Vec::new(),
            samples: Vec::new(),
            predicted: Vec::new(),
            summary: Vec::new(),
        };
        let options = [&NETWORK[..], &["--quota", QUOTA, "--cpus", "0,1"]].concat();
        match programs.bring_up_hosts(MOST, &options) {
            Ok(hosts) => results.measure_rounds(campaign, &hosts)?,
            Err(error) => {
                let absent = AbsentPeer::report("hosts", format!("{error:#}"));
                results.origin.absent.push(absent);
            }
        }
        Ok(results)
    }

    fn sum_up(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.predicted = predict_volumes()?;
        self.summary = (1..=MOST)
            .filter_map(|hosts| self.summarize(hosts))
            .collect();
        write_plot(folder, "peers-growth.svg", &draw_volumes(&self.predicted))
    }

    fn format_tables(&self) -> String {
        let quota = format!(
            ", on hosts of {} of a core each, joined by 1 Gbit/s with 100 µs",
            self.quota
        );
        let mut text = Self::PAGE.describe_origin(&self.origin.origin, "", &quota) + "\n\n";
        self.origin.list_absent(&mut text);
        text.push_str(
            "| hosts | m = n | k | ours, GFLOP/s a host | of one host's, % | pdgemm, GFLOP/s a host | of one host's, % | ours / pdgemm \
             |\n|---:|---:|---:|---|---|---|---|---|\n",
        );
        for row in &self.summary {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row.hosts,
                row.m,
                row.k,
                row.ours.text(1),
                row.ours_kept.scale(100.0).text(0),
                row.pdgemm.text(1),
                row.pdgemm_kept.scale(100.0).text(0),
                row.ratio.text(2),
            );
        }
        self.format_volumes(&mut text);
        text
    }
}

impl GrowthResults {
    fn measure_rounds(
        &mut self,
        campaign: &PeerCampaign<'_>,
        hosts: &EmulatedHosts,
    ) -> anyhow::Result<()> {
        let mut searches = ParameterSearches::default();
        let has_pdgemm = campaign.programs.has("pdgemm");
        for round in 0..campaign.rounds {
            for count in 1..=MOST {
                for side in Side::in_turn(round, has_pdgemm) {
                    let sample = run_on_hosts(campaign, (hosts, count), side, &mut searches)?;
                    self.samples.push(GrowthSample { round, ..sample });
                }
            }
        }
        self.searches = searches.records();
        Ok(())
    }

    /// Returns the speeds of a side in 10⁹ flop/s a host, by round.
    fn speeds(&self, side: Side, hosts: usize) -> Vec<f64> {
        let samples = self.samples.iter();
        let samples = samples.filter(|sample| sample.run.who == side && sample.hosts == hosts);
        figures_by_round(samples, |sample| {
            sample.flop / sample.run.seconds / 1e9 / hosts as f64
        })
    }

    fn summarize(&self, hosts: usize) -> Option<GrowthSummary> {
        let first = self.samples.iter().find(|sample| sample.hosts == hosts)?;
        let ours = self.speeds(Side::Ours, hosts);
        let pdgemm = self.speeds(Side::Pdgemm, hosts);
        Some(GrowthSummary {
            hosts,
            m: first.m,
            k: first.k,
            ours_kept: MedianRange::of_ratios(&ours, &self.speeds(Side::Ours, 1)),
            pdgemm_kept: MedianRange::of_ratios(&pdgemm, &self.speeds(Side::Pdgemm, 1)),
            ratio: MedianRange::of_ratios(&ours, &pdgemm),
            ours: MedianRange::of(ours),
            pdgemm: MedianRange::of(pdgemm),
        })
    }

    /// Adds the table of the predicted volumes.
    fn format_volumes(&self, text: &mut String) {
        text.push_str(
            "\nThe volume that an average node receives, in GB, as the layouts predict it. The nodes' speeds differ by a factor of \
             up to 100, and the matrices grow with the number of nodes.\n\n![predicted volume](peers-growth.svg)\n\n| nodes | m = n = k |",
        );
        for (name, _) in PredictedVolume::COLUMNS {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, " {name} |");
        }
        text.push_str(" columns / lower bound |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n");
        for row in &self.predicted {
            let _ = write!(text, "| {} | {} |", row.nodes, row.size);
            for (_, bytes) in PredictedVolume::COLUMNS {
                let _ = write!(text, " {:.2} |", bytes(row) / 1e9);
            }
            let _ = writeln!(text, " {:.3} |", row.br / row.bound);
        }
    }
}

/// Multiplies once on `count` of the hosts.
fn run_on_hosts(
    campaign: &PeerCampaign<'_>,
    (hosts, count): (&EmulatedHosts, usize),
    side: Side,
    searches: &mut ParameterSearches,
) -> anyhow::Result<GrowthSample> {
    let k = campaign.scale_size(SIZE);
    let m = (k as f64 * (count as f64).sqrt() / BLOCK as f64).round() as usize * BLOCK;
    let shape = ProductShape { m, n: m, k };
    let ranks: Vec<usize> = (0..MOST).map(|host| usize::from(host < count)).collect();
    let start = RankStart::on_hosts(hosts, &ranks);
    let place = format!("{count} of {MOST} hosts");
    let run = side.run(campaign.programs, (&start, &place), shape, searches)?;
    eprintln!("{count} hosts {side:?}: {:.3} s", run.seconds);
    Ok(GrowthSample {
        round: 0,
        hosts: count,
        m,
        k,
        flop: shape.flop(),
        run,
    })
}
