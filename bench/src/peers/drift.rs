//! A host that becomes slow in mid-run: our default strategy against divisions that stay.
//!
//! The host's quota is cut to a quarter when a third of the steps are done. The oracle does that third of the work at the
//! speeds that the hosts showed with their quotas before, and the rest at those with the quotas after.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::contestant::{Contestant, PeerRun};
use super::hosts::EmulatedHosts;
use super::programs::RankStart;
use super::record::PeerRecord;
use crate::goal::check_most;
use crate::markdown::{format_table, yes_or_no};
use crate::process::run_observed;
use crate::report::{DriftSummary, MxmReport};
use crate::results::{CampaignResults, ResultsPage, list_in_turn};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;
use crate::trace::number_after;

/// The quotas of the hosts, and their cores: the fastest has one to itself.
const QUOTAS: &str = "100%,50%,50%";
const CPUS: &str = "0,1,1";
const N_HOSTS: usize = 3;
/// The host that becomes slow, with its quota before and after, and the factor of its times.
const SLOW: usize = 1;
const HOST: &str = "iso-2";
const BEFORE: &str = "50%";
const AFTER: &str = "12.5%";
const FACTOR: f64 = 4.0;
/// m = n, and the k of a run of many steps.
const SIZE: usize = 4096;
const DEPTH: usize = 32768;
/// The quota is cut when this part of the steps is done.
const CUT: f64 = 1.0 / 3.0;
/// Seconds for which the hosts show their speeds.
const SPEED_S: f64 = 2.0;

const CONTESTANTS: [Contestant; 3] = [Contestant::Ours, Contestant::Fpm, Contestant::Even];

/// Goals: the most of our total time over the oracle's, the most steps from the cut to the named one, and the most by which
/// the named factor may be off.
const ORACLE_GOAL: f64 = 1.25;
const STEPS_OFF: usize = 3;
const FACTOR_OFF: f64 = 0.2;

/// The file of results.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriftResults(PeerRecord<DriftSample>);

/// One multiplication in which the host became slow.
#[derive(Serialize, Deserialize)]
struct DriftSample {
    round: usize,
    who: Contestant,
    #[serde(flatten)]
    shape: ProductShape,
    /// The hosts' speeds with the quotas before and after the cut, just before the round, in flop/s.
    speeds: [Vec<f64>; 2],
    #[serde(flatten)]
    cut: QuotaCut,
    #[serde(flatten)]
    run: PeerRun,
}

/// The cut of the quota, found in the log of the first rank.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct QuotaCut {
    /// Steps that were done then; `None` before.
    cut_step: Option<usize>,
    /// All steps.
    steps: usize,
}

/// The filter of the log: the number of steps, and the end of each.
const LOG: [(&str, &str); 2] = [
    (
        "ISOCHRON_LOG",
        "isochron_core::product=info,isochron_core::product::summa=trace",
    ),
    ("NO_COLOR", "1"),
];

impl QuotaCut {
    /// Reads a line of the log; returns `true` if the quota is to be cut now.
    fn is_due(&mut self, line: &str) -> bool {
        if self.cut_step.is_some() || !line.starts_with("rank 0 ") {
            return false;
        }
        if let Some(steps) = number_after(line, "multiplying steps=") {
            self.steps = steps as usize;
        }
        let step = number_after(line, "step{step=").filter(|_| line.contains("the devices' times"));
        let done = step.map_or(0, |step| step as usize + 1);
        let is_due = done > 0 && done as f64 >= CUT * self.steps as f64;
        self.cut_step = is_due.then_some(done);
        is_due
    }

    /// Returns the part of the work that was done before.
    fn part_before(&self) -> f64 {
        self.cut_step
            .map_or(f64::NAN, |step| step as f64 / self.steps as f64)
    }
}

impl DriftResults {
    /// Runs ours, `fpm` and the even split in turn.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut record = PeerRecord::begin(campaign, "drift", &["speed"]);
        // Without the hosts' speeds there is no oracle.
        if !campaign.programs.has("speed") {
            return Ok(Self(record));
        }
        let options = ["--quota", QUOTAS, "--cpus", CPUS];
        let Some(hosts) = record.bring_up_hosts(campaign, N_HOSTS, &options) else {
            return Ok(Self(record));
        };
        let drift = HostDrift {
            campaign,
            hosts: &hosts,
            start: RankStart::on_hosts("3 hosts", &hosts, vec![1; N_HOSTS]),
            shape: ProductShape {
                k: campaign.scale_size(DEPTH),
                ..campaign.scale_square(SIZE)
            },
        };
        for round in 0..campaign.rounds {
            let speeds = drift.measure_speeds()?;
            for &who in list_in_turn(&CONTESTANTS, round) {
                if campaign.includes(drift.shape, &format!("3 hosts: {who}")) {
                    let sample = drift.run(round, who, &speeds)?;
                    record.samples.push(sample);
                }
            }
        }
        Ok(Self(record))
    }

    /// Returns the samples of a contestant by round.
    fn list_samples(&self, who: Contestant) -> Vec<&DriftSample> {
        self.0
            .samples
            .iter()
            .filter(|sample| sample.who == who)
            .collect()
    }

    /// Returns the lines of the goals.
    fn check_goals(&self) -> [[String; 3]; 2] {
        let ours = self.list_samples(Contestant::Ours);
        let named = ours.iter().filter(|sample| sample.find_named().is_some());
        let (named, rounds) = (named.count(), ours.len());
        let over_oracle = MedianRange::of(ours.iter().map(|sample| sample.over_oracle()));
        [
            check_most("our total / the oracle's", over_oracle, ORACLE_GOAL),
            [
                format!(
                    "the report names {HOST}, the step within {STEPS_OFF}, and the factor {FACTOR} within {:.0} %",
                    100.0 * FACTOR_OFF
                ),
                format!("{named} of {rounds}"),
                yes_or_no(named > 0 && named == rounds),
            ],
        ]
    }

    /// Returns the line of a contestant; `None` if it was not measured.
    fn make_row(&self, who: Contestant) -> Option<[String; 5]> {
        let samples = self.list_samples(who);
        let first = samples.first()?;
        let ours = self.list_samples(Contestant::Ours);
        let over_ours = samples
            .iter()
            .zip(&ours)
            .map(|(other, ours)| other.run.total_s() / ours.run.total_s());
        let before = samples
            .iter()
            .map(|sample| sample.run.measuring_s / sample.run.total_s());
        Some([
            who.to_string(),
            first.run.parameters.clone(),
            MedianRange::of(samples.iter().map(|sample| sample.over_oracle())).text(2),
            MedianRange::of(over_ours).text(2),
            MedianRange::of(before).scale(100.0).text(1),
        ])
    }
}

/// The hosts, and the product in which one of them becomes slow.
struct HostDrift<'a> {
    campaign: &'a PeerCampaign,
    hosts: &'a EmulatedHosts,
    start: RankStart<'a>,
    shape: ProductShape,
}

impl HostDrift<'_> {
    /// Measures the speeds of the hosts with the quotas before and after the cut; they have those before again.
    fn measure_speeds(&self) -> anyhow::Result<[Vec<f64>; 2]> {
        let programs = &self.campaign.programs;
        self.hosts.change_quota(HOST, AFTER)?;
        let after = programs.measure_speeds(&self.start, SPEED_S)?;
        self.hosts.change_quota(HOST, BEFORE)?;
        let before = programs.measure_speeds(&self.start, SPEED_S)?;
        Ok([before, after])
    }

    /// Multiplies once and cuts the quota meanwhile; the host has it back afterwards.
    fn run(
        &self,
        round: usize,
        who: Contestant,
        speeds: &[Vec<f64>; 2],
    ) -> anyhow::Result<DriftSample> {
        let programs = &self.campaign.programs;
        let log = LOG.map(|(name, value)| (name, value.to_owned()));
        let mut command = programs.make_mxm(&self.start, self.shape, who.options(), &log)?;
        let mut cut = QuotaCut::default();
        let output = run_observed(&mut command, |line| {
            if cut.is_due(line) {
                self.hosts.change_quota(HOST, AFTER)
            } else {
                Ok(())
            }
        });
        self.hosts.change_quota(HOST, BEFORE)?;
        let report = MxmReport::parse(&output?).with_context(|| format!("{command:?}"))?;
        ensure!(cut.cut_step.is_some(), "{command:?}: no step in the log");
        let sample = DriftSample {
            round,
            who,
            shape: self.shape,
            speeds: speeds.clone(),
            cut,
            run: report.into(),
        };
        eprintln!("round {round} {who}: {}", sample.describe());
        Ok(sample)
    }
}

impl DriftSample {
    /// Returns the seconds of the run whose division is ideal before and after the cut.
    fn oracle_s(&self) -> f64 {
        let before = self.cut.part_before();
        let [full, reduced] = [0, 1].map(|at| self.speeds[at].iter().sum::<f64>());
        self.shape.flop() * (before / full + (1.0 - before) / reduced)
    }

    fn over_oracle(&self) -> f64 {
        self.run.total_s() / self.oracle_s()
    }

    /// Returns the drifts that the report names.
    fn list_drifts(&self) -> &[DriftSummary] {
        let report = self.run.report.as_ref();
        let learning = report.and_then(|report| report.learning.as_ref());
        learning.map_or(&[], |learning| &learning.drifts)
    }

    /// Returns the drift that names the host, the step and the factor closely enough.
    fn find_named(&self) -> Option<&DriftSummary> {
        let step = self.cut.cut_step.unwrap_or(0);
        self.list_drifts().iter().find(|drift| {
            drift.host == HOST
                && drift.step.abs_diff(step) <= STEPS_OFF
                && (drift.factor / FACTOR - 1.0).abs() <= FACTOR_OFF
        })
    }

    /// Describes the run in a line.
    fn describe(&self) -> String {
        let (total_s, ratio) = (self.run.total_s(), self.over_oracle());
        let QuotaCut { cut_step, steps } = self.cut;
        let step = cut_step.unwrap_or(0);
        let drifts = self.describe_drifts();
        format!(
            "{total_s:.3} s, {ratio:.2} × the oracle's; cut after {step} of {steps} steps; named: {drifts}"
        )
    }

    fn describe_drifts(&self) -> String {
        let texts: Vec<String> = self
            .list_drifts()
            .iter()
            .map(|drift| {
                format!(
                    "{} from step {} × {:.2}",
                    drift.host, drift.step, drift.factor
                )
            })
            .collect();
        texts.join(", ")
    }

    /// Returns the line of the drifts that were named in this run.
    fn make_row(&self) -> [String; 5] {
        let [before, after] = [0, 1].map(|at| self.speeds[at][SLOW]);
        [
            self.round.to_string(),
            self.cut.cut_step.unwrap_or(0).to_string(),
            self.cut.steps.to_string(),
            format!("{:.2}", before / after),
            self.describe_drifts(),
        ]
    }
}

impl CampaignResults for DriftResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-drift",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(
            ", m = n = {SIZE}, k = {DEPTH}, on hosts with quotas of {QUOTAS}; that of {HOST} is cut to {AFTER}"
        );
        let origin = Self::PAGE.describe_origin(&self.0.origin, "", &more);
        let goals = format_table(["goal", "found", "met"], self.check_goals());
        let columns = [
            "who",
            "strategy",
            "total / the oracle's",
            "total / ours",
            "before the run, % of the total",
        ];
        let rows = CONTESTANTS.iter().filter_map(|&who| self.make_row(who));
        let table = format_table(columns, rows);
        let columns = [
            "round:",
            "cut after step:",
            "of:",
            "speed before / after:",
            "named by our report",
        ];
        let ours = self.list_samples(Contestant::Ours).into_iter();
        let drifts = format_table(columns, ours.map(DriftSample::make_row));
        Ok(format!(
            "{origin}\n\n{}{goals}\n{table}\n{drifts}",
            self.0.list_absent()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_is_cut_once_after_a_third_of_the_steps() {
        let line = |rank: usize, step: usize| {
            format!(
                "rank {rank} 2026-01-01T10:00:00Z TRACE multiply{{rank={rank}}}:step{{step={step}}}: isochron_core::product::summa: the devices' times times=[]"
            )
        };
        let begin = "rank 0 2026-01-01T10:00:00Z  INFO multiply{rank=0}: isochron_core::product::multiplication: multiplying steps=10 width=128";
        let mut cut = QuotaCut::default();
        assert!(!cut.is_due(begin) && !cut.is_due(&line(1, 9)));
        let due: Vec<usize> = (0..10).filter(|&step| cut.is_due(&line(0, step))).collect();
        assert_eq!((due, cut.cut_step), (vec![3], Some(4)));
        assert!((cut.part_before() - 0.4).abs() < 1e-12);
    }

    fn make_sample(drifts: &str) -> anyhow::Result<DriftSample> {
        let report = format!(
            r#"{{ "block": 128, "wall_s": 5.5, "balance_s": 0.5, "ideal_s": 1.0, "imbalance": 0.0,
            "nodes": [], "learning": {{ "drifts": {drifts}, "look_s": 0.5 }} }}"#
        );
        let report: MxmReport = serde_json::from_str(&report)?;
        Ok(DriftSample {
            round: 0,
            who: Contestant::Ours,
            shape: ProductShape::square(1000),
            speeds: [vec![1e9, 5e8, 5e8], vec![1e9, 1.25e8, 5e8]],
            cut: QuotaCut {
                cut_step: Some(16),
                steps: 64,
            },
            run: report.into(),
        })
    }

    #[test]
    fn the_oracle_works_at_both_speeds() -> anyhow::Result<()> {
        let sample = make_sample("[]")?;
        let expected = 0.25 * 2e9 / 2e9 + 0.75 * 2e9 / 1.625e9;
        assert!((sample.oracle_s() - expected).abs() < 1e-12);
        assert!((sample.over_oracle() - 6.0 / expected).abs() < 1e-12);
        Ok(())
    }

    #[test]
    fn a_drift_is_named_by_host_step_and_factor() -> anyhow::Result<()> {
        for (host, step, factor, is_named) in [
            ("iso-2", 17, 3.5, true),
            ("iso-2", 19, 4.7, true),
            ("iso-1", 17, 4.0, false),
            ("iso-2", 20, 4.0, false),
            ("iso-2", 17, 4.9, false),
        ] {
            let drift = format!(
                r#"[{{ "rank": 1, "host": "{host}", "step": {step}, "factor": {factor} }}]"#
            );
            let found = make_sample(&drift)?.find_named().is_some();
            assert_eq!(found, is_named, "{drift}");
        }
        Ok(())
    }
}
