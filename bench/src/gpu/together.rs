//! The host's cores alone, the GPU alone, and both as IDPA balances them.

use super::budget::TimeBudget;
use super::jobs::{MxmJob, PlatformDevice};
use super::part_records::TogetherRecord;
use super::record::{GpuFigures, GpuResults};
use super::rows::TableRow;
use super::{GpuCampaign, GpuPart};
use crate::report::MxmReport;
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goal of the speed together over the sum of the speeds alone.
const GOAL: f64 = 0.95;
/// The most measurements of IDPA.
const ITERATIONS: f64 = 6.0;
/// The cores alone have this part of the columns: all columns would take minutes.
const CPU_PART: usize = 8;

/// Names of the devices.
const GPU: &str = "gpu";
const CPU: &str = "cpu";

/// The measured thing, and the contestants.
const SPEED: &str = "speed";
const GPU_ALONE: &str = "GPU alone";
const CORES_ALONE: &str = "cores alone";
const TOGETHER: &str = "together";

/// Measures each alone and both together, in turn.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.split_cores();
    let whole = ProductShape::square(campaign.scale.side);
    let part = ProductShape {
        n: whole.n / CPU_PART,
        ..whole
    };
    let gpu = PlatformDevice::gpu(GPU, &host);
    let cpu = PlatformDevice::cpu(CPU, &rest);
    let mut jobs = vec![(GPU_ALONE, vec![gpu.clone()], whole)];
    if !rest.is_empty() {
        jobs.push((CORES_ALONE, vec![cpu.clone()], part));
        jobs.push((TOGETHER, vec![gpu, cpu], whole));
    }
    campaign.record.results.together = Some(TogetherRecord {
        side: whole.m,
        columns_of_the_cores: part.n,
        host_cores: host,
        cores: rest,
    });
    for round in budget.rounds(campaign.rounds) {
        for turn in 0..jobs.len() {
            let (who, devices, shape) = &jobs[(round + turn) % jobs.len()];
            let job = MxmJob {
                nodes: std::slice::from_ref(devices),
                shape: *shape,
                block: campaign.scale.block,
                words: &[],
                log: "isochron::session=debug",
            };
            let about = (SPEED, *who);
            if campaign.record.has_failed(GpuPart::Together, about) {
                continue;
            }
            let found = campaign.multiply(&who.replace(' ', "-"), &job, budget);
            let at = (GpuPart::Together, round);
            campaign.record.sample(at, about, || {
                let (report, log) = found?;
                Ok(GpuFigures::Run {
                    report: Box::new(report),
                    iterations: Some(count_iterations(&log, devices.len())),
                })
            })?;
        }
    }
    Ok(())
}

/// Counts IDPA's measurements of the node's devices: each leaves a line in its span for each device.
fn count_iterations(log: &str, devices: usize) -> usize {
    let lines = log
        .lines()
        .filter(|line| line.contains("model{") && line.contains(": measured device="));
    lines.count() / devices.max(1)
}

/// Makes a row for each alone, and two for both: speed and iterations.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    if results.together.is_none() {
        return Vec::new();
    }
    let [gpu, cpu, both] = [GPU_ALONE, CORES_ALONE, TOGETHER].map(|who| results.job_speeds(who));
    let none = MedianRange::NONE;
    let alone = JointFigures {
        ratio: none,
        share: none,
        iterations: none,
    };
    let sum: Vec<f64> = gpu.iter().zip(&cpu).map(|(gpu, cpu)| gpu + cpu).collect();
    let joint = JointFigures::new(results, MedianRange::of_ratios(&both, &sum));
    let mut rows = vec![alone.make_row(GPU_ALONE, gpu)];
    if cpu.is_empty() && both.is_empty() {
        let row = joint.make_row(TOGETHER, both);
        rows.push(row.without_goal("the GPU leaves no other core, or no time"));
        return rows;
    }
    rows.push(alone.make_row(CORES_ALONE, cpu));
    let row = joint.make_row(TOGETHER, both.clone());
    let ratio = joint.ratio.median;
    rows.push(if joint.share.median == 0.0 {
        row.without_goal("the plan leaves the cores out: their share is too small to matter")
    } else {
        row.with_goal(format!("≥ {GOAL} of the sum"), ratio, ratio >= GOAL)
    });
    let iterations = joint.iterations.median;
    rows.push(joint.make_row(TOGETHER, both).with_goal(
        format!("≤ {ITERATIONS} iterations"),
        iterations,
        (1.0..=ITERATIONS).contains(&iterations),
    ));
    rows
}

/// The figures of both together.
struct JointFigures {
    /// The speed over the sum of the speeds alone.
    ratio: MedianRange,
    /// The cores' share of the work.
    share: MedianRange,
    iterations: MedianRange,
}

impl JointFigures {
    fn new(results: &GpuResults, ratio: MedianRange) -> Self {
        let about = (SPEED, TOGETHER);
        let share = results.figures(GpuPart::Together, about, |figures| {
            figures.report().map(cores_share)
        });
        let iterations = results.figures(GpuPart::Together, about, |figures| match figures {
            GpuFigures::Run { iterations, .. } => iterations.map(|count| count as f64),
            _ => None,
        });
        Self {
            ratio,
            share: MedianRange::of(share),
            iterations: MedianRange::of(iterations),
        }
    }

    fn make_row(&self, what: &str, speeds: Vec<f64>) -> TableRow {
        TableRow::new(what)
            .with_speed("GFLOP/s", MedianRange::of(speeds))
            .with_range("of the sum of both alone", self.ratio, 3)
            .with_range("the cores' share, %", self.share.scale(100.0), 2)
            .with_range("IDPA's iterations", self.iterations, 0)
    }
}

impl GpuResults {
    /// Returns the speeds of a contestant in flop/s, by round.
    fn job_speeds(&self, who: &str) -> Vec<f64> {
        self.figures(GpuPart::Together, (SPEED, who), |figures| {
            Some(1e9 * figures.report()?.gflops?)
        })
    }
}

/// Returns the part of the work that the cores did.
fn cores_share(report: &MxmReport) -> f64 {
    let all: f64 = report.devices().map(|device| device.units).sum();
    let cores = report.devices().filter(|device| device.kind == "cpu");
    cores.map(|device| device.units).sum::<f64>() / all
}

/// Describes the table.
pub fn describe(results: &GpuResults) -> String {
    let Some(about) = &results.together else {
        return String::new();
    };
    format!(
        "**The GPU and the cores.** `isochron mxm` with m = n = k = {} on one rank, each device by itself and both balanced by \
         IDPA: the GPU with {} host core(s), and {} other core(s), which alone multiply the first {} columns only. Speeds are \
         of the multiplication, with all transfers of the GPU.",
        about.side,
        about.host_cores.len(),
        about.cores.len(),
        about.columns_of_the_cores,
    )
}

#[cfg(test)]
mod tests {
    use super::super::record::{GpuSample, make_test_results};
    use super::*;
    use serde_json::json;

    #[test]
    fn iterations_are_counted_in_the_log() {
        let log = "\
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"gpu\" rows=8
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"cpu\" rows=8
2026-01-01T00:00:00Z DEBUG measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"gpu\" rows=8
2026-01-01T00:00:00Z  INFO something else";
        assert_eq!(count_iterations(log, 2), 1);
        assert_eq!(count_iterations("", 2), 0);
    }

    fn make_sample(who: &str, gflops: f64, cpu_units: f64) -> anyhow::Result<GpuSample> {
        let devices = json!([
            { "kind": "cuda", "units": 9.0 }, { "kind": "cpu", "units": cpu_units },
        ]);
        let node = json!({ "busy_s": 1.0, "bytes": 0, "devices": devices });
        let report = json!({
            "block": 1, "wall_s": 1.0, "balance_s": 0.0, "ideal_s": 1.0, "imbalance": 0.0, "gflops": gflops,
            "nodes": [node],
        });
        Ok(serde_json::from_value(json!({
            "part": "together", "what": SPEED, "who": who, "round": 0, "iterations": 2, "report": report,
        }))?)
    }

    fn make_test_rows(cpu_units: f64) -> anyhow::Result<Vec<TableRow>> {
        let samples = vec![
            make_sample(GPU_ALONE, 90.0, 0.0)?,
            make_sample(CORES_ALONE, 10.0, 1.0)?,
            make_sample(TOGETHER, 96.0, cpu_units)?,
        ];
        let mut results = make_test_results(samples);
        results.together = Some(TogetherRecord {
            side: 8,
            columns_of_the_cores: 1,
            host_cores: vec![0],
            cores: vec![1],
        });
        Ok(make_rows(&results))
    }

    #[test]
    fn cores_without_work_are_left_out() -> anyhow::Result<()> {
        let rows = make_test_rows(1.0)?;
        let verdicts: Vec<Option<bool>> = rows.iter().map(TableRow::is_met).collect();
        assert_eq!(verdicts, [None, None, Some(true), Some(true)], "{rows:?}");
        let text = format!("{:?}", make_test_rows(0.0)?);
        assert!(text.contains("leaves the cores out"), "{text}");
        Ok(())
    }
}
