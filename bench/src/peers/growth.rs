//! More and more hosts with as much work each, and the volume that layouts predict for many more nodes.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::alike::{absent, brief};
use super::hosts::Hosts;
use super::overlap::NETWORK;
use super::programs::{Blas, Place, Shape, Start, seconds};
use super::search::Searches;
use super::volume::{self, COLUMNS};
use super::{Campaign, Family};
use crate::results::{Results, list, number, series, spread};
use crate::statistics::Spread;

pub const RESULTS: Results = Results {
    file: "bench/results/peers-growth.json",
    page: "bench/results/peers-growth.md",
    section: "bench peers growth",
};

/// m = n = k of one host; of p hosts m and n are √p times as large, and k is the same.
const SIZE: usize = 2048;
const MOST: usize = 4;
/// m and n are a multiple of it.
const BLOCK: usize = 128;
/// As fast a host with all the others as alone: two of them share a core.
const QUOTA: &str = "50%";

/// Ours and `pdgemm` in turn on one to four hosts.
pub fn measure(campaign: &Campaign<'_>) -> anyhow::Result<Value> {
    let programs = campaign.programs;
    let mut absent = programs.absences(&["pdgemm"]);
    let mut searches = Searches::default();
    let mut samples = Vec::new();
    let options = [&NETWORK[..], &["--quota", QUOTA, "--cpus", "0,1"]].concat();
    match Hosts::up(programs.cluster(), "peers", MOST, &options) {
        Ok(hosts) => {
            for round in 0..campaign.rounds {
                for count in 1..=MOST {
                    for turn in 0..2 {
                        let is_ours = (round + turn) % 2 == 0;
                        if is_ours || programs.absent("pdgemm").is_none() {
                            let searches = &mut searches;
                            let mut sample = sample(campaign, &hosts, count, is_ours, searches)?;
                            sample["round"] = json!(round);
                            samples.push(sample);
                        }
                    }
                }
            }
        }
        Err(error) => {
            eprintln!("absent: hosts: {error:#}");
            absent.push(json!({ "peer": "hosts", "why": format!("{error:#}") }));
        }
    }
    let mut results = campaign.header(Family::Growth, absent);
    results["quota"] = json!(QUOTA);
    results["searches"] = searches.record();
    results["samples"] = json!(samples);
    Ok(results)
}

fn sample(
    campaign: &Campaign<'_>,
    hosts: &Hosts,
    count: usize,
    is_ours: bool,
    searches: &mut Searches,
) -> anyhow::Result<Value> {
    let programs = campaign.programs;
    let size = campaign.size(SIZE);
    let side = (size as f64 * (count as f64).sqrt() / BLOCK as f64).round() as usize * BLOCK;
    let shape = Shape {
        m: side,
        n: side,
        k: size,
    };
    let ranks: Vec<usize> = (0..MOST).map(|host| usize::from(host < count)).collect();
    let start = Start {
        place: Place::On(hosts, &ranks),
        threads: 1,
    };
    let blas = Blas::OpenBlas;
    let mut sample = if is_ours {
        let report = programs.mxm(&start, blas, shape, &[])?;
        json!({
            "who": "ours", "seconds": number(&report, "/wall_s"), "measuring_s": number(&report, "/balance_s"),
            "report": brief(&report),
        })
    } else {
        let on = format!("{count} of {MOST} hosts");
        let parameters = searches.pdgemm(programs, (&start, &on), blas, shape)?;
        let chosen = std::slice::from_ref(&parameters);
        let answers = programs.pdgemm(&start, blas, shape, 1, chosen)?;
        let took_s = seconds(answers.first().context("an answer")?);
        json!({ "who": "pdgemm", "seconds": took_s, "parameters": parameters })
    };
    sample["hosts"] = json!(count);
    sample["m"] = json!(side);
    sample["k"] = json!(size);
    sample["flop"] = json!(shape.flop());
    eprintln!(
        "{count} hosts {}: {:.3} s",
        sample["who"],
        number(&sample, "/seconds")
    );
    Ok(sample)
}

pub fn sum_up(results: &mut Value, folder: &str) -> anyhow::Result<()> {
    results["predicted"] = json!(volume::predicted()?);
    let speeds = |who: &str, count: usize| {
        let is = |sample: &Value| sample["who"] == who && sample["hosts"] == count;
        series(results, is, |sample| {
            number(sample, "/flop") / number(sample, "/seconds") / 1e9 / count as f64
        })
    };
    let mut summary = Vec::new();
    for count in 1..=MOST {
        let first = list(results, "samples").find(|sample| sample["hosts"] == count);
        let Some(first) = first else { continue };
        let mut row = json!({ "hosts": count, "m": first["m"], "k": first["k"] });
        for who in ["ours", "pdgemm"] {
            let (each, alone) = (speeds(who, count), speeds(who, 1));
            row[who] = Spread::of(each.iter().copied()).json();
            row[format!("{who}_kept")] = Spread::of_ratios(&each, &alone).json();
        }
        row["ratio"] = Spread::of_ratios(&speeds("ours", count), &speeds("pdgemm", count)).json();
        summary.push(row);
    }
    results["summary"] = json!(summary);
    let file = format!("{folder}/peers-growth.svg");
    std::fs::write(&file, volume::plot(results)).context(file)
}

pub fn tables(results: &Value) -> String {
    let quota = format!(
        ", on hosts of {} of a core each, joined by 1 Gbit/s with 100 µs",
        results["quota"].as_str().unwrap_or("?")
    );
    let mut text = RESULTS.origin(results, "", &quota) + "\n\n";
    absent(&mut text, results);
    text.push_str(
        "| hosts | m = n | k | ours, GFLOP/s a host | of one host's, % | pdgemm, GFLOP/s a host | of one host's, % | ours / pdgemm \
         |\n|---:|---:|---:|---|---|---|---|---|\n",
    );
    for row in list(results, "summary") {
        let cell = |key: &str, scale, decimals| spread(&row[key]).scaled(scale).text(decimals);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row["hosts"],
            row["m"],
            row["k"],
            cell("ours", 1.0, 1),
            cell("ours_kept", 100.0, 0),
            cell("pdgemm", 1.0, 1),
            cell("pdgemm_kept", 100.0, 0),
            cell("ratio", 1.0, 2),
        );
    }
    predicted(&mut text, results);
    text
}

fn predicted(text: &mut String, results: &Value) {
    text.push_str(
        "\nWhat an average node receives, in GB, as the layouts predict it: nodes whose speeds differ by a factor of up to 100, \
         and matrices that grow with their number.\n\n![predicted volume](peers-growth.svg)\n\n| nodes | m = n = k |",
    );
    for (_, name) in COLUMNS {
        let _ = write!(text, " {name} |");
    }
    text.push_str(" columns / lower bound |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for row in list(results, "predicted") {
        let _ = write!(text, "| {} | {} |", row["nodes"], row["size"]);
        for (key, _) in COLUMNS {
            let _ = write!(text, " {:.2} |", number(row, &format!("/{key}")) / 1e9);
        }
        let _ = writeln!(text, " {:.3} |", number(row, "/br") / number(row, "/bound"));
    }
}
