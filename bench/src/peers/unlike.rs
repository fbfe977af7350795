//! Hosts of unlike speed, by a quota of CPU time for each, which slows any program down alike.
//!
//! The peer gives every rank as much. Either each host has one, or faster hosts have more of them: the way of
//! Heterogeneous ScaLAPACK.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::alike::{absent, brief};
use super::bars::{Bar, Panel, bars};
use super::hosts::Hosts;
use super::programs::{Blas, Place, Programs, Shape, Start, seconds};
use super::search::Searches;
use super::{Campaign, Family};
use crate::results::{Results, list, number, series, spread, word, yes};
use crate::statistics::Spread;

pub const RESULTS: Results = Results {
    file: "bench/results/peers-unlike.json",
    page: "bench/results/peers-unlike.md",
    section: "bench peers unlike",
};

/// Seconds for which the hosts show their speeds, before each round.
const SPEED_S: f64 = 2.0;

/// What our wall time is to be of the ideal one, at most; and a peer's of ours, at least.
const IDEAL_GOAL: f64 = 1.10;
const EVEN_GOAL: f64 = 2.0;
const MANY_GOAL: f64 = 1.0;

/// Who multiplies.
const WHO: [&str; 3] = ["ours", "even grid", "many ranks"];

/// Hosts, and the numbers of ranks on them that are tried for the peer's sake.
struct Setting {
    name: &'static str,
    /// How fast each host should be.
    ratios: &'static [usize],
    quotas: &'static str,
    /// m = n = k.
    size: usize,
    /// The fastest host has a core of its own.
    cpus: &'static str,
}

/// Four hosts multiply larger matrices too: what messages cost the cores that compute, which no ideal has in it, weighs half
/// as much there.
const SETTINGS: [Setting; 3] = [
    Setting {
        name: "1 : 4",
        ratios: &[4, 1],
        quotas: "100%,25%",
        size: 4096,
        cpus: "0,1",
    },
    four("1 : 2 : 4 : 8", 4096),
    four("1 : 2 : 4 : 8, larger", 8192),
];

const fn four(name: &'static str, size: usize) -> Setting {
    Setting {
        name,
        ratios: &[8, 4, 2, 1],
        quotas: "100%,50%,25%,12.5%",
        size,
        cpus: "0,1,1,1",
    }
}

/// The ranks on each host, and the parameters that `pdgemm` is fastest with there.
struct Way {
    ranks: Vec<usize>,
    parameters: String,
}

/// All settings, one after the other, since each has hosts of its own.
pub fn measure(campaign: &Campaign<'_>) -> anyhow::Result<Value> {
    let programs = campaign.programs;
    let mut absent = programs.absences(&["pdgemm", "speed"]);
    let mut searches = Searches::default();
    let mut samples = Vec::new();
    // Without the hosts' speeds there is nothing to compare with.
    let is_possible = programs.absent("speed").is_none();
    for setting in SETTINGS.iter().filter(|_| is_possible) {
        let options = ["--quota", setting.quotas, "--cpus", setting.cpus];
        match Hosts::up(programs.cluster(), "peers", setting.ratios.len(), &options) {
            Ok(hosts) => setting.measure(campaign, &hosts, &mut searches, &mut samples)?,
            Err(error) => {
                eprintln!("absent: hosts {}: {error:#}", setting.name);
                absent.push(json!({ "peer": "hosts", "why": format!("{error:#}") }));
            }
        }
    }
    let mut results = campaign.header(Family::Unlike, absent);
    results["searches"] = searches.record();
    results["samples"] = json!(samples);
    Ok(results)
}

impl Setting {
    fn measure(
        &self,
        campaign: &Campaign<'_>,
        hosts: &Hosts,
        searches: &mut Searches,
        samples: &mut Vec<Value>,
    ) -> anyhow::Result<()> {
        let programs = campaign.programs;
        let size = campaign.size(self.size);
        let shape = Shape {
            m: size,
            n: size,
            k: size,
        };
        let alone = vec![1; self.ratios.len()];
        let start = |ranks| Start {
            place: Place::On(hosts, ranks),
            threads: 1,
        };
        let mut ways = Vec::new();
        if programs.absent("pdgemm").is_none() {
            let speeds = programs.speeds(&start(&alone), SPEED_S)?;
            ways.push(self.fastest(programs, hosts, shape, searches, vec![alone.clone()])?);
            ways.push(self.fastest(programs, hosts, shape, searches, self.many(&speeds))?);
        }
        for round in 0..campaign.rounds {
            let speeds = programs.speeds(&start(&alone), SPEED_S)?;
            for turn in 0..=ways.len() {
                let who = (round + turn) % (ways.len() + 1);
                let mut sample = if who == 0 {
                    let report = programs.mxm(&start(&alone), Blas::OpenBlas, shape, &[])?;
                    json!({
                        "ranks": alone, "parameters": "", "seconds": number(&report, "/wall_s"),
                        "measuring_s": number(&report, "/balance_s"), "report": brief(&report),
                    })
                } else {
                    let Way { ranks, parameters } = &ways[who - 1];
                    let parameters = std::slice::from_ref(parameters);
                    let answers =
                        programs.pdgemm(&start(ranks), Blas::OpenBlas, shape, 1, parameters)?;
                    let took_s = seconds(answers.first().context("an answer")?);
                    json!({
                        "ranks": ranks, "parameters": parameters[0], "seconds": took_s, "measuring_s": 0.0,
                    })
                };
                sample["setting"] = json!(self.name);
                sample["round"] = json!(round);
                sample["who"] = json!(WHO[who]);
                sample["speeds"] = json!(speeds);
                sample["ideal_s"] = json!(shape.flop() / speeds.iter().sum::<f64>());
                sample["size"] = json!(size);
                eprintln!(
                    "{} round {round} {}: {:.3} s, ideal {:.3} s",
                    self.name,
                    WHO[who],
                    number(&sample, "/seconds"),
                    number(&sample, "/ideal_s")
                );
                samples.push(sample);
            }
        }
        Ok(())
    }

    /// More ranks on faster hosts: as the quotas say, and as the speeds do, of which the slowest host's is one rank.
    fn many(&self, speeds: &[f64]) -> Vec<Vec<usize>> {
        let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let obtained = speeds.iter().map(|speed| (speed / least).round() as usize);
        let mut ways = vec![self.ratios.to_vec(), obtained.collect()];
        ways.dedup();
        ways
    }

    /// The fastest of several numbers of ranks, each with its best block size and grid.
    fn fastest(
        &self,
        programs: &Programs,
        hosts: &Hosts,
        shape: Shape,
        searches: &mut Searches,
        ways: Vec<Vec<usize>>,
    ) -> anyhow::Result<Way> {
        let mut best: Option<(f64, Way)> = None;
        for ranks in ways {
            let on = format!("{} by {ranks:?} ranks", self.name);
            let start = Start {
                place: Place::On(hosts, &ranks),
                threads: 1,
            };
            let parameters = searches.pdgemm(programs, (&start, &on), Blas::OpenBlas, shape)?;
            let took_s =
                searches.best_s(&format!("pdgemm, {}, {on}", Blas::OpenBlas.name()), shape);
            if best.as_ref().is_none_or(|(least, _)| took_s < *least) {
                best = Some((took_s, Way { ranks, parameters }));
            }
        }
        best.map(|(_, way)| way).context("no way to spread ranks")
    }
}

/// A figure of the samples of a setting by somebody, by round.
fn figures(results: &Value, setting: &str, who: &str, figure: fn(&Value) -> f64) -> Vec<f64> {
    let is = |sample: &Value| sample["setting"] == setting && sample["who"] == who;
    series(results, is, figure)
}

fn wall_s(sample: &Value) -> f64 {
    number(sample, "/seconds")
}

fn over_ideal(sample: &Value) -> f64 {
    wall_s(sample) / number(sample, "/ideal_s")
}

fn with_measuring(sample: &Value) -> f64 {
    (wall_s(sample) + number(sample, "/measuring_s")) / number(sample, "/ideal_s")
}

pub fn sum_up(results: &mut Value, folder: &str) -> anyhow::Result<()> {
    let mut summary = Vec::new();
    for setting in &SETTINGS {
        let ours = figures(results, setting.name, WHO[0], wall_s);
        if ours.is_empty() {
            continue;
        }
        for who in WHO {
            let times = figures(results, setting.name, who, wall_s);
            if times.is_empty() {
                continue;
            }
            let first = list(results, "samples")
                .find(|sample| sample["setting"] == setting.name && sample["who"] == who);
            let ideal = Spread::of(figures(results, setting.name, who, over_ideal));
            let ratio = Spread::of_ratios(&times, &ours);
            let (goal, met) = match who {
                "ours" => (IDEAL_GOAL, ideal.median <= IDEAL_GOAL),
                "even grid" if setting.ratios.len() == 2 => (EVEN_GOAL, ratio.median >= EVEN_GOAL),
                _ => (MANY_GOAL, ratio.median > MANY_GOAL),
            };
            summary.push(json!({
                "setting": setting.name, "who": who, "size": first.map(|sample| &sample["size"]),
                "ranks": first.map(|sample| &sample["ranks"]), "parameters": first.map(|sample| &sample["parameters"]),
                "over_ideal": ideal.json(), "ratio": ratio.json(), "goal": goal, "met": met,
                "with_measuring_over_ideal":
                    Spread::of(figures(results, setting.name, who, with_measuring)).json(),
                "speeds": median_speeds(results, setting.name),
            }));
        }
    }
    results["summary"] = json!(summary);
    let file = format!("{folder}/peers-unlike.svg");
    std::fs::write(&file, plot(results)).context(file)
}

/// The median of each host's speed, in flop/s.
fn median_speeds(results: &Value, setting: &str) -> Vec<f64> {
    let samples = || list(results, "samples").filter(|sample| sample["setting"] == setting);
    let hosts = samples()
        .next()
        .map_or(0, |sample| list(sample, "speeds").count());
    let of_host = |host: usize| {
        let speeds = samples().filter_map(|sample| sample["speeds"][host].as_f64());
        Spread::of(speeds).median
    };
    (0..hosts).map(of_host).collect()
}

fn plot(results: &Value) -> String {
    let names = WHO.map(str::to_owned);
    let groups = SETTINGS.iter().map(|setting| {
        let rows = list(results, "summary").filter(|row| row["setting"] == setting.name);
        let bar = |row: &Value| {
            let series = WHO.iter().position(|who| row["who"] == *who)?;
            Some(Bar {
                series,
                height: spread(&row["over_ideal"]),
            })
        };
        (setting.name.to_owned(), rows.filter_map(bar).collect())
    });
    let panel = Panel {
        title: "wall time / ideal".to_owned(),
        groups: groups.collect(),
    };
    bars(&names, &[panel])
}

pub fn tables(results: &Value) -> String {
    let mut text = RESULTS.origin(results, "", "") + "\n\n";
    absent(&mut text, results);
    text.push_str(
        "![wall time over the ideal one](peers-unlike.svg)\n\n\
         | hosts | m = n = k | GFLOP/s obtained | who | ranks on the hosts | block and grid | wall / ideal | with the measuring | wall / ours | \
         goal | met |\n|---|---:|---|---|---|---|---|---:|---|---|---|\n",
    );
    for row in list(results, "summary") {
        let speeds = list(row, "speeds").filter_map(Value::as_f64);
        let speeds: Vec<String> = speeds.map(|speed| format!("{:.1}", speed / 1e9)).collect();
        let ranks: Vec<String> = list(row, "ranks").map(Value::to_string).collect();
        let goal = number(row, "/goal");
        let goal = match word(row, "/who") {
            "ours" => format!("wall / ideal ≤ {goal}"),
            "even grid" if ranks.len() == 2 => format!("wall / ours ≥ {goal}"),
            _ => format!("wall / ours > {goal}"),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {goal} | {} |",
            word(row, "/setting"),
            row["size"],
            speeds.join(", "),
            word(row, "/who"),
            ranks.join(", "),
            word(row, "/parameters"),
            spread(&row["over_ideal"]).text(2),
            number(row, "/with_measuring_over_ideal/median"),
            spread(&row["ratio"]).text(2),
            yes(&row["met"]),
        );
    }
    text
}
