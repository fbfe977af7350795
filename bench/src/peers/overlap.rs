//! Two hosts on a slow network: the part of the communication that is hidden behind the arithmetic.
//!
//! The time of the communication alone is its bytes over the bandwidth that the network showed in the same run, without
//! latencies. That is its least possible time, and gives the least possible hidden part. A rank that waits for a late one
//! counts as waiting for communication.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::hosts::HostsCheck;
use super::programs::{AbsentPeer, PeerBlas, PeerPrograms, RankStart};
use super::search::{ParameterSearches, SearchRecord};
use super::sides::{Side, SideRun};
use super::traced::draw_log;
use super::{Family, FamilyResults, PeerCampaign, PeerOrigin, write_plot};
use crate::report::{MxmReport, NodeSummary, TIME_KEYS};
use crate::results::{ResultsPage, RoundSample, figures_by_round, yes_or_no};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median, nan_if_null};

/// The network, and sizes m = n = k: communication is longer than arithmetic, about as long, and shorter.
pub const NETWORK: [&str; 4] = ["--bandwidth", "1gbit", "--latency", "100us"];
const SIZES: [usize; 4] = [1024, 2048, 4096, 6144];
/// The size of the timeline.
const TIMELINE: usize = 4096;

/// Goals: the least part that is hidden if arithmetic is longer, and the most of the wall time over the longer of both.
const HIDDEN_GOAL: f64 = 0.8;
const WALL_GOAL: f64 = 1.1;

const RANKS: [usize; 2] = [1, 1];

/// The file of results. Without hosts it holds no samples.
#[derive(Serialize, Deserialize)]
pub struct OverlapResults {
    #[serde(flatten)]
    origin: PeerOrigin,
    network: Vec<String>,
    checks: Vec<HostsCheck>,
    searches: Vec<SearchRecord>,
    samples: Vec<OverlapSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeline: Option<TracedRun>,
    /// The bandwidth of the network.
    #[serde(default)]
    bytes_per_s: f64,
    #[serde(default)]
    summary: Vec<OverlapRow>,
}

/// One multiplication.
#[derive(Serialize, Deserialize)]
struct OverlapSample {
    round: usize,
    /// m = n = k.
    size: usize,
    #[serde(flatten)]
    run: SideRun,
}

/// A multiplication of ours with its trace.
#[derive(Serialize, Deserialize)]
struct TracedRun {
    report: MxmReport,
    log: Vec<String>,
}

/// The figures of a size.
#[derive(Serialize, Deserialize)]
struct OverlapRow {
    size: usize,
    #[serde(deserialize_with = "nan_if_null")]
    compute_s: f64,
    #[serde(deserialize_with = "nan_if_null")]
    travel_s: f64,
    /// The part of the communication by which the wall time is shorter than both one after the other; `None` if nothing was
    /// sent.
    hidden: Option<MedianRange>,
    /// The part of the communication that no rank waited for; `None` if nothing was sent.
    unseen: Option<MedianRange>,
    wall_s: MedianRange,
    with_measuring_s: MedianRange,
    /// Wall time over the longer of arithmetic and communication.
    over_longer: MedianRange,
    met_wall: Option<bool>,
    met_hidden: Option<bool>,
    pdgemm_s: MedianRange,
    /// Time of `pdgemm` over the sum of our arithmetic and communication.
    pdgemm_over_sum: MedianRange,
    /// Time of `pdgemm` over ours.
    ratio: MedianRange,
}

/// Seconds of one multiplication of ours.
#[derive(Clone, Copy)]
struct TimeParts {
    wall_s: f64,
    /// Arithmetic of the slowest node.
    compute_s: f64,
    /// Communication alone.
    travel_s: f64,
    /// Communication that was waited for.
    exposed_s: f64,
}

impl RoundSample for OverlapSample {
    fn round(&self) -> usize {
        self.round
    }
}

impl FamilyResults for OverlapResults {
    const PAGE: ResultsPage = ResultsPage {
        file: "bench/results/peers-overlap.json",
        page: "bench/results/peers-overlap.md",
        section: "bench peers overlap",
    };

    /// Runs ours and `pdgemm` in turn, then one of ours with a trace.
    fn measure(campaign: &PeerCampaign<'_>) -> anyhow::Result<Self> {
        let programs = campaign.programs;
        let absent = programs.find_absent(&["pdgemm"]);
        let mut results = Self {
            origin: campaign.make_origin(Family::Overlap, absent),
            network: NETWORK.map(str::to_owned).into(),
            checks: Vec::new(),
            searches: Vec::new(),
            samples: Vec::new(),
            timeline: None,
            bytes_per_s: 0.0,
            summary: Vec::new(),
        };
        let options = [&NETWORK[..], &["--cpus", "0,1"]].concat();
        let hosts = match programs.bring_up_hosts(RANKS.len(), &options) {
            Ok(hosts) => hosts,
            Err(error) => {
                let absent = AbsentPeer::report("hosts", format!("{error:#}"));
                results.origin.absent.push(absent);
                return Ok(results);
            }
        };
        let start = RankStart::on_hosts(&hosts, &RANKS);
        results.checks.push(hosts.check()?);
        results.measure_rounds(campaign, &start)?;
        results.checks.push(hosts.check()?);
        let shape = ProductShape::square(campaign.scale_size(TIMELINE));
        results.timeline = Some(TracedRun::new(programs, &start, shape)?);
        Ok(results)
    }

    fn sum_up(&mut self, folder: &Path) -> anyhow::Result<()> {
        // The better check counts: checks disturb themselves, and then find less.
        let checks = self.checks.iter().map(HostsCheck::slowest_bytes_per_s);
        self.bytes_per_s = checks.fold(0.0, f64::max);
        let mut sizes: Vec<usize> = self.samples.iter().map(|sample| sample.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        self.summary = sizes.into_iter().map(|size| self.summarize(size)).collect();
        let log = self.timeline.iter().flat_map(|traced| &traced.log);
        let svg = draw_log(log.map(String::as_str));
        write_plot(folder, "peers-overlap.svg", &svg)
    }

    fn format_tables(&self) -> String {
        let more = format!(
            ", on two hosts joined by 1 Gbit/s with 100 µs, of which {:.0} MB/s were found",
            self.bytes_per_s / 1e6
        );
        let mut text = Self::PAGE.describe_origin(&self.origin.origin, "", &more) + "\n\n";
        self.origin.list_absent(&mut text);
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            text,
            "The goals are {:.0} % hidden if arithmetic is longer, and a wall time of at most {WALL_GOAL} times the longer of both.\n\n\
             | m = n = k | arithmetic, s | communication alone, s | hidden, % | met | not waited for, % | wall, s | wall / the longer | met | with the \
             measuring, s | pdgemm, s | pdgemm / sum of both | pdgemm / ours |\n\
             |---:|---:|---:|---|---|---|---|---|---|---:|---|---|---|\n",
            100.0 * HIDDEN_GOAL
        );
        for row in &self.summary {
            let _ = writeln!(
                text,
                "| {} | {:.3} | {:.3} | {} | {} | {} | {} | {} | {} | {:.3} | {} | {} | {} |",
                row.size,
                row.compute_s,
                row.travel_s,
                percent_text(row.hidden),
                row.met_hidden.map_or("", yes_or_no),
                percent_text(row.unseen),
                row.wall_s.text(3),
                row.over_longer.text(2),
                row.met_wall.map_or("", yes_or_no),
                row.with_measuring_s.median,
                row.pdgemm_s.text(3),
                row.pdgemm_over_sum.text(2),
                row.ratio.text(2),
            );
        }
        text.push_str(
            "\n![one multiplication over time](peers-overlap.svg)\n\n\
             The picture shows the updates of each rank, and the panels on their way to it: from sending for them until they are \
             found to be there. *Hidden* is the part of the communication by which the wall time is shorter than the slowest \
             rank's arithmetic and the communication one after the other. *Not waited for* is the rest without the waiting of the \
             rank that waits most, which includes its waiting for the other rank's arithmetic.\n",
        );
        text
    }
}

fn percent_text(part: Option<MedianRange>) -> String {
    match part {
        Some(part) => part.scale(100.0).text(0),
        None => "one node does all".to_owned(),
    }
}

impl TracedRun {
    /// Runs one multiplication of ours with a trace.
    fn new(
        programs: &PeerPrograms,
        start: &RankStart<'_>,
        shape: ProductShape,
    ) -> anyhow::Result<Self> {
        let variables = [
            ("ISOCHRON_LOG", "isochron::multiply=trace".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ];
        let blas = PeerBlas::OpenBlas;
        let (report, log) = programs.run_mxm_with(start, blas, shape, &variables)?;
        let events = log.lines().filter(|line| line.contains("multiply{"));
        Ok(Self {
            report: report.with_keys(TIME_KEYS),
            log: events.map(str::to_owned).collect(),
        })
    }
}

impl TimeParts {
    /// Returns the parts of a run of ours; `None` for another one.
    fn of(run: &SideRun, bytes_per_s: f64) -> Option<Self> {
        let report = run.report.as_ref()?;
        Some(Self {
            wall_s: run.seconds,
            compute_s: largest(report, |node| node.busy_s),
            // Of two nodes one receives all that the other one sends.
            travel_s: largest(report, |node| node.bytes as f64) / bytes_per_s,
            exposed_s: largest(report, |node| node.exposed_s.unwrap_or(f64::NAN)),
        })
    }

    fn sum_s(self) -> f64 {
        self.compute_s + self.travel_s
    }
}

fn largest(report: &MxmReport, figure: fn(&NodeSummary) -> f64) -> f64 {
    report.nodes.iter().map(figure).fold(0.0, f64::max)
}

impl OverlapResults {
    fn measure_rounds(
        &mut self,
        campaign: &PeerCampaign<'_>,
        start: &RankStart<'_>,
    ) -> anyhow::Result<()> {
        let programs = campaign.programs;
        let mut searches = ParameterSearches::default();
        for round in 0..campaign.rounds {
            for size in SIZES {
                let size = campaign.scale_size(size);
                let shape = ProductShape::square(size);
                for side in Side::in_turn(round, programs.has("pdgemm")) {
                    let run = side.run(programs, (start, "2 hosts"), shape, &mut searches)?;
                    eprintln!("round {round} {size} {side:?}: {:.3} s", run.seconds);
                    self.samples.push(OverlapSample { round, size, run });
                }
            }
        }
        self.searches = searches.records();
        Ok(())
    }

    /// Returns a figure of the runs of one side by round.
    fn figures(&self, size: usize, side: Side, figure: fn(&SideRun) -> f64) -> Vec<f64> {
        let samples = self.samples.iter();
        let samples = samples.filter(|sample| sample.size == size && sample.run.who == side);
        figures_by_round(samples, |sample| figure(&sample.run))
    }

    /// Returns a figure of the parts of our times by round.
    fn part_figures(&self, size: usize, figure: fn(&TimeParts) -> f64) -> Vec<f64> {
        let samples = self.samples.iter();
        let ours = samples.filter(|sample| sample.size == size && sample.run.who == Side::Ours);
        figures_by_round(ours, |sample| {
            let parts = TimeParts::of(&sample.run, self.bytes_per_s);
            parts.as_ref().map_or(f64::NAN, figure)
        })
    }

    fn summarize(&self, size: usize) -> OverlapRow {
        let wall = self.figures(size, Side::Ours, |run| run.seconds);
        let with_measuring = self.figures(size, Side::Ours, |run| {
            run.seconds + run.measuring_s.unwrap_or(f64::NAN)
        });
        let pdgemm = self.figures(size, Side::Pdgemm, |run| run.seconds);
        let longer = self.part_figures(size, |parts| parts.compute_s.max(parts.travel_s));
        let sum = self.part_figures(size, |parts| parts.sum_s());
        let hidden = self.part_figures(size, |parts| {
            (parts.sum_s() - parts.wall_s) / parts.travel_s
        });
        let unseen = self.part_figures(size, |parts| 1.0 - parts.exposed_s / parts.travel_s);
        let [hidden, unseen] = [hidden, unseen].map(finite_range);
        let over_longer = MedianRange::of_ratios(&wall, &longer);
        let compute_s = median(&self.part_figures(size, |parts| parts.compute_s));
        let travel_s = median(&self.part_figures(size, |parts| parts.travel_s));
        // Nothing is sent if one node does all.
        let is_sent = travel_s > 0.0;
        let computes_longer = is_sent && compute_s >= travel_s;
        OverlapRow {
            size,
            compute_s,
            travel_s,
            hidden: is_sent.then_some(hidden),
            unseen: is_sent.then_some(unseen),
            wall_s: MedianRange::of(wall.iter().copied()),
            with_measuring_s: MedianRange::of(with_measuring),
            over_longer,
            met_wall: is_sent.then_some(over_longer.median <= WALL_GOAL),
            met_hidden: computes_longer.then_some(hidden.median >= HIDDEN_GOAL),
            pdgemm_s: MedianRange::of(pdgemm.iter().copied()),
            pdgemm_over_sum: MedianRange::of_ratios(&pdgemm, &sum),
            ratio: MedianRange::of_ratios(&pdgemm, &wall),
        }
    }
}

/// Summarizes the finite values: in a round in which one node did all, there was nothing to hide.
fn finite_range(values: Vec<f64>) -> MedianRange {
    MedianRange::of(values.into_iter().filter(|value| value.is_finite()))
}
