//! Two hosts on a slow network: the part of the communication that is hidden behind the arithmetic.
//!
//! The time of the communication alone is its bytes over the bandwidth that the network showed in the same run, without
//! latencies. That is its least possible time, and gives the least possible hidden part. A rank that waits for a late
//! one counts as waiting for communication.

use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::contestant::{Contestant, PeerRun};
use super::hosts::HostsCheck;
use super::programs::RankStart;
use super::record::{PeerCase, PeerRecord};
use super::traced::draw_log;
use crate::markdown::{format_table, yes_or_no};
use crate::report::{MxmReport, NodeSummary, TIME_KEYS};
use crate::results::{CampaignResults, ResultsPage};
use crate::statistics::{MedianRange, median};

/// The network, and sizes m = n = k: communication is longer than arithmetic, about as long, and shorter.
pub const NETWORK: [&str; 4] = ["--bandwidth", "1gbit", "--latency", "100us"];
const SIZES: [usize; 4] = [1024, 2048, 4096, 6144];
/// The size of the timeline.
const TIMELINE: usize = 4096;

/// Goals: the least part that is hidden if arithmetic is longer, and the most of the wall time over the longer of both.
const HIDDEN_GOAL: f64 = 0.8;
const WALL_GOAL: f64 = 1.1;

/// The file of results. Without hosts it holds no samples.
#[derive(Serialize, Deserialize)]
pub struct OverlapResults {
    #[serde(flatten)]
    record: PeerRecord,
    checks: Vec<HostsCheck>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeline: Option<TracedRun>,
}

/// A multiplication of ours with its trace.
#[derive(Serialize, Deserialize)]
struct TracedRun {
    report: MxmReport,
    log: Vec<String>,
}

/// Seconds of one multiplication of ours.
struct TimeParts {
    wall_s: f64,
    /// Arithmetic of the slowest node.
    compute_s: f64,
    /// Communication alone.
    travel_s: f64,
    /// Communication that was waited for.
    exposed_s: f64,
}

impl OverlapResults {
    /// Runs ours and `pdgemm` in turn, then one of ours with a trace.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut results = Self {
            record: PeerRecord::begin(campaign, "overlap", &["pdgemm"]),
            checks: Vec::new(),
            timeline: None,
        };
        let options = [&NETWORK[..], &["--cpus", "0,1"]].concat();
        let Some(hosts) = results.record.bring_up_hosts(campaign, 2, &options) else {
            return Ok(results);
        };
        let start = RankStart::on_hosts("2 hosts", &hosts, vec![1, 1]);
        results.checks.push(hosts.check()?);
        let mut products = Vec::new();
        for size in SIZES {
            let shape = campaign.scale_square(size);
            if !campaign.includes(shape, &start.name) {
                continue;
            }
            products.push(Contestant::prepare_all(
                &[Contestant::Ours, Contestant::Pdgemm],
                &campaign.programs,
                &start,
                shape,
                &mut results.record.searches,
            )?);
        }
        results.record.measure_rounds(campaign, &products)?;
        results.checks.push(hosts.check()?);
        results.timeline = Some(TracedRun::new(campaign, &start)?);
        Ok(results)
    }

    /// Returns the bandwidth of the network. The better check counts: checks disturb themselves, and then find less.
    fn bytes_per_s(&self) -> f64 {
        self.checks
            .iter()
            .map(HostsCheck::slowest_bytes_per_s)
            .fold(0.0, f64::max)
    }

    /// Returns the line of a size. *Hidden* is the part of the communication by which the wall time is shorter than
    /// both one after the other, *not waited for* the part that no rank waited for.
    fn make_row(&self, case: PeerCase) -> [String; 13] {
        let ours = self.record.list_runs(case, Contestant::Ours);
        let wall = self.record.times_s(case, Contestant::Ours);
        let pdgemm = self.record.times_s(case, Contestant::Pdgemm);
        let parts: Vec<TimeParts> = ours
            .iter()
            .filter_map(|run| TimeParts::of(run, self.bytes_per_s()))
            .collect();
        let compute_s = median(&list_figures(&parts, |parts| parts.compute_s));
        let travel_s = median(&list_figures(&parts, |parts| parts.travel_s));
        let sum = list_figures(&parts, TimeParts::sum_s);
        let longer = list_figures(&parts, |parts| parts.compute_s.max(parts.travel_s));
        let hidden = summarize_finite(&parts, |parts| {
            (parts.sum_s() - parts.wall_s) / parts.travel_s
        });
        let unseen = summarize_finite(&parts, |parts| 1.0 - parts.exposed_s / parts.travel_s);
        let over_longer = MedianRange::of_ratios(&wall, &longer);
        let with_measuring = ours.iter().map(|run| run.total_s());
        // Nothing is sent if one node does all.
        let is_sent = travel_s > 0.0;
        let met_hidden = (is_sent && compute_s >= travel_s).then_some(hidden.median >= HIDDEN_GOAL);
        let met_wall = is_sent.then_some(over_longer.median <= WALL_GOAL);
        [
            case.shape.m.to_string(),
            format!("{compute_s:.3}"),
            format!("{travel_s:.3}"),
            format_percent(is_sent.then_some(hidden)),
            met_hidden.map_or(String::new(), yes_or_no),
            format_percent(is_sent.then_some(unseen)),
            MedianRange::of(wall.iter().copied()).text(3),
            over_longer.text(2),
            met_wall.map_or(String::new(), yes_or_no),
            format!("{:.3}", MedianRange::of(with_measuring).median),
            MedianRange::of(pdgemm.iter().copied()).text(3),
            MedianRange::of_ratios(&pdgemm, &sum).text(2),
            MedianRange::of_ratios(&pdgemm, &wall).text(2),
        ]
    }
}

impl CampaignResults for OverlapResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-overlap",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(
            ", on two hosts joined by 1 Gbit/s with 100 µs, of which {:.0} MB/s were found",
            self.bytes_per_s() / 1e6
        );
        let origin = Self::PAGE.describe_origin(&self.record.origin, "", &more);
        let columns = [
            "m = n = k:",
            "arithmetic, s:",
            "communication alone, s:",
            "hidden, %",
            "met",
            "not waited for, %",
            "wall, s",
            "wall / the longer",
            "met",
            "with the measuring, s:",
            "pdgemm, s",
            "pdgemm / sum of both",
            "pdgemm / ours",
        ];
        let cases = self.record.list_cases().into_iter();
        let table = format_table(columns, cases.map(|case| self.make_row(case)));
        Ok(format!(
            "{origin}\n\n{}\
             The goals are {:.0} % hidden if arithmetic is longer, and a wall time of at most {WALL_GOAL} times the longer of \
             both.\n\n{table}\n\
             ![one multiplication over time](peers-overlap.svg)\n\n\
             The picture shows the updates of each rank, and the panels on their way to it: from sending for them until they are \
             found to be there. *Hidden* is the part of the communication by which the wall time is shorter than the slowest \
             rank's arithmetic and the communication one after the other. *Not waited for* is the rest without the waiting of the \
             rank that waits most, which includes its waiting for the other rank's arithmetic.\n",
            self.record.list_absent(),
            100.0 * HIDDEN_GOAL
        ))
    }

    fn draw_plot(&self) -> anyhow::Result<Option<String>> {
        let log = self.timeline.iter().flat_map(|traced| &traced.log);
        Ok(Some(draw_log(log.map(String::as_str))))
    }
}

fn format_percent(part: Option<MedianRange>) -> String {
    part.map_or("one node does all".to_owned(), |part| {
        part.scale(100.0).text(0)
    })
}

impl TracedRun {
    /// Runs one multiplication of ours with a trace.
    fn new(campaign: &PeerCampaign, start: &RankStart<'_>) -> anyhow::Result<Self> {
        let variables = [
            ("ISOCHRON_LOG", "isochron_core::product=trace".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ];
        let shape = campaign.scale_square(TIMELINE);
        let (report, log) = campaign.programs.run_mxm(start, shape, &[], &variables)?;
        let events = log.lines().filter(|line| line.contains("multiply{"));
        Ok(Self {
            report: report.with_keys(TIME_KEYS),
            log: events.map(str::to_owned).collect(),
        })
    }
}

impl TimeParts {
    /// Returns the parts of a run of ours; `None` for another one.
    fn of(run: &PeerRun, bytes_per_s: f64) -> Option<Self> {
        let report = run.report.as_ref()?;
        Some(Self {
            wall_s: run.seconds,
            compute_s: find_largest(report, |node| node.busy_s),
            // Of two nodes one receives all that the other one sends.
            travel_s: find_largest(report, |node| node.bytes as f64) / bytes_per_s,
            exposed_s: find_largest(report, |node| node.exposed_s.unwrap_or(f64::NAN)),
        })
    }

    fn sum_s(&self) -> f64 {
        self.compute_s + self.travel_s
    }
}

fn find_largest(report: &MxmReport, figure: fn(&NodeSummary) -> f64) -> f64 {
    report.nodes.iter().map(figure).fold(0.0, f64::max)
}

fn list_figures(parts: &[TimeParts], figure: fn(&TimeParts) -> f64) -> Vec<f64> {
    parts.iter().map(figure).collect()
}

/// Summarizes the finite figures: in a round in which one node did all, there was nothing to hide.
fn summarize_finite(parts: &[TimeParts], figure: fn(&TimeParts) -> f64) -> MedianRange {
    let figures = list_figures(parts, figure).into_iter();
    MedianRange::of(figures.filter(|figure| figure.is_finite()))
}
