//! Two hosts on a slow network: how much of the communication is hidden behind the arithmetic.
//!
//! What communication would take alone is its bytes over the bandwidth that the network showed in the same run, without a
//! word about latencies: that makes it as short as it could be, and what was hidden of it as little as it could be. A
//! rank that waits for one that is late waits for communication here.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::alike::{absent, brief};
use super::hosts::{Hosts, slowest_link};
use super::programs::{Blas, Place, Programs, Shape, Start, seconds};
use super::search::Searches;
use super::timeline::timeline;
use super::{Campaign, Family};
use crate::results::{Results, list, number, series, spread, yes};
use crate::statistics::Spread;

pub const RESULTS: Results = Results {
    file: "bench/results/peers-overlap.json",
    page: "bench/results/peers-overlap.md",
    section: "bench peers overlap",
};

/// The network, and sizes m = n = k: communication is longer than arithmetic, about as long, and shorter.
pub const NETWORK: [&str; 4] = ["--bandwidth", "1gbit", "--latency", "100us"];
const SIZES: [usize; 4] = [1024, 2048, 4096, 6144];
/// The size of the timeline.
const TIMELINE: usize = 4096;

/// What is to be hidden, at least, where arithmetic is longer; and the wall time to be of the longer of both, at most.
const HIDDEN_GOAL: f64 = 0.8;
const WALL_GOAL: f64 = 1.1;

const RANKS: [usize; 2] = [1, 1];

/// Ours and `pdgemm` in turn, and a timeline of one of ours.
pub fn measure(campaign: &Campaign<'_>) -> anyhow::Result<Value> {
    let programs = campaign.programs;
    let mut absent = programs.absences(&["pdgemm"]);
    let options = [&NETWORK[..], &["--cpus", "0,1"]].concat();
    let hosts = match Hosts::up(programs.cluster(), "peers", RANKS.len(), &options) {
        Ok(hosts) => hosts,
        Err(error) => {
            eprintln!("absent: hosts: {error:#}");
            absent.push(json!({ "peer": "hosts", "why": format!("{error:#}") }));
            return Ok(campaign.header(Family::Overlap, absent));
        }
    };
    let start = Start {
        place: Place::On(&hosts, &RANKS),
        threads: 1,
    };
    let mut searches = Searches::default();
    let mut checks = vec![hosts.check()?];
    let mut samples = Vec::new();
    for round in 0..campaign.rounds {
        for size in SIZES {
            let size = campaign.size(size);
            let shape = Shape {
                m: size,
                n: size,
                k: size,
            };
            for turn in 0..2 {
                let is_ours = (round + turn) % 2 == 0;
                if !is_ours && programs.absent("pdgemm").is_some() {
                    continue;
                }
                let mut sample = if is_ours {
                    ours(programs, &start, shape)?
                } else {
                    pdgemm(programs, &start, shape, &mut searches)?
                };
                sample["round"] = json!(round);
                sample["size"] = json!(size);
                eprintln!(
                    "round {round} {size} {}: {:.3} s",
                    sample["who"],
                    number(&sample, "/seconds")
                );
                samples.push(sample);
            }
        }
    }
    checks.push(hosts.check()?);
    let size = campaign.size(TIMELINE);
    let mut results = campaign.header(Family::Overlap, absent);
    results["timeline"] = traced(
        programs,
        &start,
        Shape {
            m: size,
            n: size,
            k: size,
        },
    )?;
    results["network"] = json!(NETWORK);
    results["checks"] = json!(checks);
    results["searches"] = searches.record();
    results["samples"] = json!(samples);
    Ok(results)
}

fn ours(programs: &Programs, start: &Start<'_>, shape: Shape) -> anyhow::Result<Value> {
    let report = programs.mxm(start, Blas::OpenBlas, shape, &[])?;
    Ok(json!({
        "who": "ours", "seconds": number(&report, "/wall_s"), "measuring_s": number(&report, "/balance_s"),
        "report": brief(&report),
    }))
}

fn pdgemm(
    programs: &Programs,
    start: &Start<'_>,
    shape: Shape,
    searches: &mut Searches,
) -> anyhow::Result<Value> {
    let parameters = searches.pdgemm(programs, (start, "2 hosts"), Blas::OpenBlas, shape)?;
    let chosen = std::slice::from_ref(&parameters);
    let answers = programs.pdgemm(start, Blas::OpenBlas, shape, 1, chosen)?;
    let took_s = seconds(answers.first().context("an answer")?);
    Ok(json!({ "who": "pdgemm", "seconds": took_s, "parameters": parameters }))
}

/// What happened when, in one multiplication of ours that tells it.
fn traced(programs: &Programs, start: &Start<'_>, shape: Shape) -> anyhow::Result<Value> {
    let variables = [
        ("ISOCHRON_LOG", "isochron::multiply=trace".to_owned()),
        ("NO_COLOR", "1".to_owned()),
    ];
    let (report, log) = programs.mxm_with(start, Blas::OpenBlas, shape, &[], &variables)?;
    let events = log.lines().filter(|line| line.contains("multiply{"));
    Ok(json!({ "report": brief(&report), "log": events.collect::<Vec<_>>() }))
}

/// Seconds of one multiplication of ours: the arithmetic of the slowest node, its communication by itself, and what of the
/// communication was waited for.
struct Parts {
    compute_s: f64,
    travel_s: f64,
    exposed_s: f64,
}

fn parts(sample: &Value, bytes_per_s: f64) -> Parts {
    let most = |key: &str| {
        let nodes = list(&sample["report"], "nodes").map(|node| number(node, key));
        nodes.fold(0.0, f64::max)
    };
    Parts {
        compute_s: most("/busy_s"),
        // Of two nodes one receives what the other one sends.
        travel_s: most("/bytes") / bytes_per_s,
        exposed_s: most("/exposed_s"),
    }
}

/// Bytes per second of the link in the better of the checks: they disturb themselves, and less is what they find then.
fn bandwidth(results: &Value) -> f64 {
    let found = list(results, "checks").map(|check| slowest_link(check).1);
    found.fold(0.0, f64::max)
}

pub fn sum_up(results: &mut Value, folder: &str) -> anyhow::Result<()> {
    let bytes_per_s = bandwidth(results);
    let mut sizes: Vec<u64> = list(results, "samples")
        .filter_map(|sample| sample["size"].as_u64())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rows: Vec<Value> = sizes
        .iter()
        .map(|size| row(results, *size, bytes_per_s))
        .collect();
    results["bytes_per_s"] = json!(bytes_per_s);
    results["summary"] = json!(rows);
    let lines = list(&results["timeline"], "log").filter_map(Value::as_str);
    let file = format!("{folder}/peers-overlap.svg");
    std::fs::write(&file, timeline(lines)).context(file)
}

fn row(results: &Value, size: u64, bytes_per_s: f64) -> Value {
    let of = |who: &str, figure: &dyn Fn(&Value) -> f64| {
        let is = |sample: &Value| sample["size"] == size && sample["who"] == who;
        series(results, is, figure)
    };
    let part =
        |figure: fn(&Parts) -> f64| of("ours", &|sample| figure(&parts(sample, bytes_per_s)));
    let wall = of("ours", &|sample| number(sample, "/seconds"));
    let whole = of("ours", &|sample| {
        number(sample, "/seconds") + number(sample, "/measuring_s")
    });
    let pdgemm = of("pdgemm", &|sample| number(sample, "/seconds"));
    let longer = part(|parts| parts.compute_s.max(parts.travel_s));
    let sum = part(|parts| parts.compute_s + parts.travel_s);
    // In a round in which one node did all there was nothing to hide.
    let finite =
        |shares: Vec<f64>| Spread::of(shares.into_iter().filter(|share| share.is_finite()));
    let hidden = finite(of("ours", &|sample| {
        let parts = parts(sample, bytes_per_s);
        (parts.compute_s + parts.travel_s - number(sample, "/seconds")) / parts.travel_s
    }));
    let unseen = finite(part(|parts| 1.0 - parts.exposed_s / parts.travel_s));
    let over = Spread::of_ratios(&wall, &longer);
    let median = |times: Vec<f64>| Spread::of(times).median;
    let (compute_s, travel_s) = (
        median(part(|parts| parts.compute_s)),
        median(part(|parts| parts.travel_s)),
    );
    // Nothing travels where one node does all.
    let is_hiding = travel_s > 0.0;
    let computes_longer = is_hiding && compute_s >= travel_s;
    json!({
        "size": size, "compute_s": compute_s, "travel_s": travel_s, "hidden": is_hiding.then(|| hidden.json()),
        "unseen": is_hiding.then(|| unseen.json()),
        "wall_s": Spread::of(wall.iter().copied()).json(), "with_measuring_s": Spread::of(whole).json(),
        "over_longer": over.json(), "met_wall": is_hiding.then_some(over.median <= WALL_GOAL),
        "met_hidden": computes_longer.then_some(hidden.median >= HIDDEN_GOAL),
        "pdgemm_s": Spread::of(pdgemm.iter().copied()).json(),
        "pdgemm_over_sum": Spread::of_ratios(&pdgemm, &sum).json(),
        "ratio": Spread::of_ratios(&pdgemm, &wall).json(),
    })
}

pub fn tables(results: &Value) -> String {
    let more = format!(
        ", on two hosts joined by 1 Gbit/s with 100 µs, of which {:.0} MB/s were found",
        number(results, "/bytes_per_s") / 1e6
    );
    let mut text = RESULTS.origin(results, "", &more) + "\n\n";
    absent(&mut text, results);
    let _ = write!(
        text,
        "The goals are {:.0} % hidden where arithmetic is longer, and a wall time of at most {WALL_GOAL} times the longer of both.\n\n\
         | m = n = k | arithmetic, s | communication alone, s | hidden, % | met | not waited for, % | wall, s | wall / the longer | met | with the \
         measuring, s | pdgemm, s | pdgemm / sum of both | pdgemm / ours |\n\
         |---:|---:|---:|---|---|---|---|---|---|---:|---|---|---|\n",
        100.0 * HIDDEN_GOAL
    );
    for row in list(results, "summary") {
        let met = |key: &str| match row[key].as_bool() {
            Some(_) => yes(&row[key]),
            None => "",
        };
        let (met_wall, met_hidden) = (met("met_wall"), met("met_hidden"));
        let percent = |key: &str| match row[key].is_null() {
            true => "one node does all".to_owned(),
            false => spread(&row[key]).scaled(100.0).text(0),
        };
        let (hidden, unseen) = (percent("hidden"), percent("unseen"));
        let _ = writeln!(
            text,
            "| {} | {:.3} | {:.3} | {hidden} | {met_hidden} | {unseen} | {} | {} | {met_wall} | {:.3} | {} | {} | {} |",
            row["size"],
            number(row, "/compute_s"),
            number(row, "/travel_s"),
            spread(&row["wall_s"]).text(3),
            spread(&row["over_longer"]).text(2),
            number(row, "/with_measuring_s/median"),
            spread(&row["pdgemm_s"]).text(3),
            spread(&row["pdgemm_over_sum"]).text(2),
            spread(&row["ratio"]).text(2),
        );
    }
    text.push_str(
        "\n![what happens when in one multiplication](peers-overlap.svg)\n\n\
         Above, what each rank computes and which panels are on their way to it, from sending for them until they are \
         found to be there. Hidden is the part of the communication by which the wall time is shorter than the slowest rank's \
         arithmetic and the communication one after the other; not waited for is what is left when the waiting of the rank that \
         waits most is taken off, also where it waits for the other one to be done computing.\n",
    );
    text
}
