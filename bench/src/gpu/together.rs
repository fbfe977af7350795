//! The host's cores alone, the GPU alone, and both as IDPA balances them.

use super::budget::TimeBudget;
use super::jobs::{MxmJob, PlatformDevice};
use super::record::{GpuFigures, GpuResults};
use super::rows::{PartTable, TableRow};
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
    let gpu = PlatformDevice::new("gpu", Some(false), &host);
    let cpu = PlatformDevice::new("cpu", None, &rest);
    let nodes = [
        (GPU_ALONE, vec![gpu.clone()], whole),
        (CORES_ALONE, vec![cpu.clone()], part),
        (TOGETHER, vec![gpu, cpu], whole),
    ];
    let count = if rest.is_empty() { 1 } else { nodes.len() };
    let mut abouts = Vec::new();
    let mut jobs = Vec::new();
    for (who, devices, shape) in nodes.into_iter().take(count) {
        let n_devices = devices.len();
        let job = MxmJob {
            platform: campaign.write_platform(&who.replace(' ', "-"), &[devices])?,
            ranks: 1,
            shape,
            block: campaign.scale.block,
            words: Vec::new(),
            log: "isochron_core::session=debug",
        };
        abouts.push((SPEED, who));
        jobs.push((job, n_devices));
    }
    let (rounds, launcher) = (budget.rounds(campaign.rounds), &campaign.launcher);
    let record = &mut campaign.record;
    record.sample_in_turn(GpuPart::Together, rounds, &abouts, |at, _| {
        let (job, n_devices) = &jobs[at];
        let (report, log) = job.run(launcher, budget)?;
        Ok(GpuFigures::Run {
            report: Box::new(report),
            iterations: Some(count_iterations(&log, *n_devices)),
        })
    })
}

/// Counts IDPA's measurements of the node's devices: each leaves a line in its span for each device.
fn count_iterations(log: &str, devices: usize) -> usize {
    log.lines()
        .filter(|line| line.contains("model{") && line.contains(": measured device="))
        .count()
        / devices.max(1)
}

/// Makes a row for each alone, and two for both: speed and iterations.
pub fn make_table(results: &GpuResults) -> PartTable {
    let (host, others) = results.split_cores();
    let side = results.scale.side;
    PartTable::new(
        format!(
            "**The GPU and the cores.** `isochron mxm` with m = n = k = {side} on one rank, each device by itself and both \
             balanced by IDPA: the GPU with {host} host core(s), and {others} other core(s), which alone multiply the first {} \
             columns only. Speeds are of the multiplication, with all transfers of the GPU.",
            side / CPU_PART,
        ),
        make_rows(results),
    )
}

fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    let [gpu, cpu, both] = [GPU_ALONE, CORES_ALONE, TOGETHER].map(|who| {
        results.report_figures(GpuPart::Together, (SPEED, who), |report| {
            Some(1e9 * report.gflops?)
        })
    });
    let about = (SPEED, TOGETHER);
    let share = results.report_figures(GpuPart::Together, about, |report| {
        Some(100.0 * cores_share(report))
    });
    let iterations = results.figures(GpuPart::Together, about, |figures| match figures {
        GpuFigures::Run { iterations, .. } => iterations.map(|count| count as f64),
        _ => None,
    });
    let sum: Vec<f64> = gpu.iter().zip(&cpu).map(|(gpu, cpu)| gpu + cpu).collect();
    let ratio = MedianRange::of_ratios(&both, &sum);
    let joint = [ratio, MedianRange::of(share), MedianRange::of(iterations)];
    let alone = [MedianRange::NONE; 3];
    let mut rows = vec![make_row(GPU_ALONE, &gpu, alone)];
    if cpu.is_empty() && both.is_empty() {
        let row = make_row(TOGETHER, &both, joint);
        rows.push(row.without_goal("the GPU leaves no other core, or no time"));
        return rows;
    }
    rows.push(make_row(CORES_ALONE, &cpu, alone));
    let [ratio, share, iterations] = joint.map(|range| range.median);
    let row = make_row(TOGETHER, &both, joint);
    rows.push(if share == 0.0 {
        row.without_goal("the plan leaves the cores out: their share is too small to matter")
    } else {
        row.with_goal(format!("≥ {GOAL} of the sum"), ratio, ratio >= GOAL)
    });
    rows.push(make_row(TOGETHER, &both, joint).with_goal(
        format!("≤ {ITERATIONS} iterations"),
        iterations,
        (1.0..=ITERATIONS).contains(&iterations),
    ));
    rows
}

/// Makes a row of speeds in flop/s. `joint`: the speed over the sum of the speeds alone, the cores' share of the work
/// in percent, and IDPA's iterations.
fn make_row(what: &str, speeds: &[f64], joint: [MedianRange; 3]) -> TableRow {
    let [ratio, share, iterations] = joint;
    TableRow::new(what)
        .with_speed("GFLOP/s", MedianRange::of(speeds.iter().copied()))
        .with_range("of the sum of both alone", ratio, 3)
        .with_range("the cores' share, %", share, 2)
        .with_range("IDPA's iterations", iterations, 0)
}

/// Returns the part of the work that the cores did.
fn cores_share(report: &MxmReport) -> f64 {
    let all: f64 = report.devices().map(|device| device.units).sum();
    report
        .devices()
        .filter(|device| device.kind == "cpu")
        .map(|device| device.units)
        .sum::<f64>()
        / all
}

#[cfg(test)]
mod tests {
    use super::super::record::{GpuSample, make_test_results};
    use super::*;
    use serde_json::json;

    #[test]
    fn iterations_are_counted_in_the_log() {
        let log = "\
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron_core::session: measured device=\"gpu\" rows=8
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron_core::session: measured device=\"cpu\" rows=8
2026-01-01T00:00:00Z DEBUG measure{rows=8 columns=[4, 4]}: isochron_core::session: measured device=\"gpu\" rows=8
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
        Ok(make_rows(&make_test_results(samples)))
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
