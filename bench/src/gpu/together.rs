//! The host's cores alone, the GPU alone, and both as IDPA balances them.

use serde_json::{Value, json};

use super::clock::Clock;
use super::jobs::{Device, Job, devices};
use super::record::figures;
use super::rows::Row;
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::{list, number};
use crate::statistics::Spread;

/// What both are to reach together of the sum of their speeds alone, at least.
const GOAL: f64 = 0.95;
/// How often IDPA may measure, at most.
const ITERATIONS: f64 = 6.0;
/// The cores alone have this part of the columns: they would take minutes for all.
const CPU_PART: usize = 8;

/// Names of the devices.
const GPU: &str = "gpu";
const CPU: &str = "cpu";

/// Each alone and both together, in turn.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.divided_cores();
    let side = campaign.scale.side;
    let whole = Shape {
        m: side,
        n: side,
        k: side,
    };
    let part = Shape {
        n: side / CPU_PART,
        ..whole
    };
    let (gpu, cpu) = (Device::gpu(GPU, &host), Device::cpu(CPU, &rest));
    let mut jobs = vec![("GPU alone", vec![gpu.clone()], whole)];
    if !rest.is_empty() {
        jobs.push(("cores alone", vec![cpu.clone()], part));
        jobs.push(("together", vec![gpu, cpu], whole));
    }
    campaign.record.results["together"] = json!({
        "side": side, "columns_of_the_cores": part.n, "host_cores": host, "cores": rest,
    });
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..jobs.len() {
            let (who, devices, shape) = &jobs[(round + turn) % jobs.len()];
            let job = Job {
                nodes: std::slice::from_ref(devices),
                shape: *shape,
                block: campaign.scale.block,
                words: &[],
                log: "isochron::session=debug",
            };
            if campaign.record.has_failed(Part::Together, ("speed", who)) {
                continue;
            }
            let found = campaign.multiply(&who.replace(' ', "-"), &job, clock);
            campaign
                .record
                .sample((Part::Together, round), ("speed", who), || {
                    let (report, log) = found?;
                    Ok(json!({ "iterations": iterations(&log, devices.len()), "report": report }))
                })?;
        }
    }
    Ok(())
}

/// How often IDPA has measured all devices of the one node: a line tells each of its measurements, inside its span.
fn iterations(log: &str, devices: usize) -> usize {
    let is_it = |line: &&str| line.contains("model{") && line.contains(": measured device=");
    log.lines().filter(is_it).count() / devices.max(1)
}

/// A row for each alone, and for both their speed and IDPA's iterations.
pub fn rows(results: &Value) -> Vec<Row> {
    if results["together"].is_null() {
        return Vec::new();
    }
    let of = |who: &str, figure: &dyn Fn(&Value) -> f64| {
        figures(results, Part::Together, ("speed", who), |sample| {
            figure(sample)
        })
    };
    let speeds = |who: &str| of(who, &|sample| 1e9 * number(sample, "/report/gflops"));
    let [gpu, cpu, both] = ["GPU alone", "cores alone", "together"].map(speeds);
    let sum: Vec<f64> = gpu.iter().zip(&cpu).map(|(gpu, cpu)| gpu + cpu).collect();
    let ratio = Spread::of_ratios(&both, &sum);
    let iterations = Spread::of(of("together", &|sample| number(sample, "/iterations")));
    let share = Spread::of(of("together", &|sample| cores_share(&sample["report"])));
    let row = |what: &str, speeds: Vec<f64>, ratio: Spread, share: Spread, iterations: Spread| {
        Row::new(what)
            .speed("GFLOP/s", Spread::of(speeds))
            .spread("of the sum of both alone", ratio, 3)
            .spread("the cores' share, %", share.scaled(100.0), 2)
            .spread("IDPA's iterations", iterations, 0)
    };
    let none = Spread::of([]);
    let mut rows = vec![row("GPU alone", gpu, none, none, none)];
    if cpu.is_empty() && both.is_empty() {
        rows.push(
            row("together", both, ratio, share, iterations)
                .no_goal("no core is left beside the GPU's, or no time"),
        );
        return rows;
    }
    rows.push(row("cores alone", cpu, none, none, none));
    let joint = row("together", both.clone(), ratio, share, iterations);
    rows.push(if share.median == 0.0 {
        joint.no_goal("the plan leaves the cores out: their share is too small to matter")
    } else {
        joint.goal(
            format!("≥ {GOAL} of the sum"),
            ratio.median,
            ratio.median >= GOAL,
        )
    });
    let often = row("together", both, ratio, share, iterations);
    rows.push(often.goal(
        format!("≤ {ITERATIONS} iterations"),
        iterations.median,
        (1.0..=ITERATIONS).contains(&iterations.median),
    ));
    rows
}

/// The part of the work that the cores did.
fn cores_share(report: &Value) -> f64 {
    let units = |kind: Option<&str>| {
        let devices =
            devices(report).filter(|device| kind.is_none_or(|kind| device["kind"] == kind));
        devices.map(|device| number(device, "/units")).sum::<f64>()
    };
    units(Some("cpu")) / units(None)
}

/// What the table shows.
pub fn words(results: &Value) -> String {
    let about = &results["together"];
    let count = |key: &str| list(about, key).count();
    format!(
        "**The GPU and the cores.** `isochron mxm` with m = n = k = {} on one rank, each device by itself and both balanced by \
         IDPA: the GPU with {} host core(s), and {} other core(s), which alone multiply the first {} columns only. Speeds are \
         of the multiplication, with all transfers of the GPU.",
        about["side"],
        count("host_cores"),
        count("cores"),
        about["columns_of_the_cores"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_counted_in_the_log() {
        let log = "\
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"gpu\" rows=8
2026-01-01T00:00:00Z DEBUG model{rows=8 cols=8}:measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"cpu\" rows=8
2026-01-01T00:00:00Z DEBUG measure{rows=8 columns=[4, 4]}: isochron::session: measured device=\"gpu\" rows=8
2026-01-01T00:00:00Z  INFO something else";
        assert_eq!(iterations(log, 2), 1);
        assert_eq!(iterations("", 2), 0);
    }

    #[test]
    fn cores_without_work_are_left_out() {
        let sample = |who: &str, gflops: f64, units: f64| {
            let devices =
                json!([{ "kind": "cuda", "units": 9.0 }, { "kind": "cpu", "units": units }]);
            json!({
                "part": "together", "what": "speed", "who": who, "round": 0, "iterations": 2,
                "report": { "gflops": gflops, "nodes": [{ "devices": devices }] },
            })
        };
        let results = |units: f64| {
            let samples = [
                sample("GPU alone", 90.0, 0.0),
                sample("cores alone", 10.0, 1.0),
                sample("together", 96.0, units),
            ];
            json!({ "together": { "side": 8 }, "samples": samples })
        };
        let text = |units: f64| format!("{:?}", rows(&results(units)));
        assert_eq!(rows(&results(1.0)).len(), 4);
        assert_eq!(
            text(1.0).matches("met: Some(true)").count(),
            2,
            "{}",
            text(1.0)
        );
        assert!(text(0.0).contains("leaves the cores out"));
    }
}
