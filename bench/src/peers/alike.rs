//! Alike ranks of one machine: squares, and long and thin shapes.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::bars::{Bar, Panel, bars};
use super::programs::{Blas, Place, Programs, Shape, Start, seconds};
use super::search::Searches;
use super::{Campaign, Family};
use crate::results::{Results, list, number, series, spread, word, yes};
use crate::statistics::Spread;

pub const RESULTS: Results = Results {
    file: "bench/results/peers-alike.json",
    page: "bench/results/peers-alike.md",
    section: "bench peers alike",
};

const SHAPES: [[usize; 3]; 6] = [
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [65_536, 512, 512],
    [1024, 1024, 65_536],
    [512, 65_536, 512],
    [8192, 8192, 8192],
];
const RANKS: [usize; 3] = [1, 2, 4];

/// What our speed is to be of a peer's, at least: in general, on long and thin shapes with a rank on each core, and of the
/// BLAS itself.
const GOAL: f64 = 1.0;
const LONG_GOAL: f64 = 1.4;
const BLAS_GOAL: f64 = 0.97;

/// Who multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Pdgemm,
    /// The BLAS itself, with threads of its own.
    Blas,
    StarPu,
}

impl Who {
    const PEERS: [Self; 3] = [Self::Pdgemm, Self::Blas, Self::StarPu];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Pdgemm => "pdgemm",
            Self::Blas => "BLAS",
            Self::StarPu => "StarPU",
        }
    }

    /// The program of a peer.
    fn program(self, blas: Blas) -> Option<&'static str> {
        match self {
            // Our own program can call a library that is there.
            Self::Ours => (blas == Blas::Mkl).then_some(blas.pdgemm()),
            Self::Pdgemm => Some(blas.pdgemm()),
            Self::Blas => Some("dgemm"),
            Self::StarPu => Some("starpu"),
        }
    }
}

/// Somebody who multiplies a shape on so many ranks with a BLAS.
struct Contender {
    who: Who,
    blas: Blas,
    shape: Shape,
    ranks: usize,
    /// What a peer was found to be fastest with.
    parameters: String,
}

/// For each shape and number of ranks, searches the peers' parameters and then lets everybody multiply in turn, round by
/// round; what is found is kept before the next begins.
pub fn measure(campaign: &Campaign<'_>) -> anyhow::Result<Value> {
    let programs = campaign.programs;
    let absent = programs.absences(&["pdgemm", "pdgemm-mkl", "starpu", "dgemm"]);
    let mut results = campaign.header(Family::Alike, absent);
    let mut searches = Searches::default();
    let mut samples = Vec::new();
    let settings = SHAPES
        .into_iter()
        .flat_map(|sizes| RANKS.map(|ranks| (sizes, ranks)));
    for (sizes, ranks) in settings {
        let [m, n, k] = sizes.map(|size| campaign.size(size));
        let all = contenders(programs, Shape { m, n, k }, ranks, &mut searches)?;
        for round in 0..campaign.rounds {
            for turn in 0..all.len() {
                // Every round starts with another one.
                let contender = &all[(round + turn) % all.len()];
                samples.push(contender.sample(programs, round)?);
            }
        }
        results["searches"] = searches.record();
        results["samples"] = json!(samples);
        if !campaign.quick {
            RESULTS.keep(&results)?;
        }
    }
    Ok(results)
}

/// Everybody who can multiply this shape on so many ranks.
fn contenders(
    programs: &Programs,
    shape: Shape,
    ranks: usize,
    searches: &mut Searches,
) -> anyhow::Result<Vec<Contender>> {
    let mut all = Vec::new();
    for blas in Blas::ALL {
        for who in [Who::Ours, Who::Pdgemm, Who::Blas, Who::StarPu] {
            let on_one_node = matches!(who, Who::Blas | Who::StarPu);
            // MKL is there where its ScaLAPACK was built.
            let is_there = (blas == Blas::OpenBlas || programs.absent(blas.pdgemm()).is_none())
                && who
                    .program(blas)
                    .is_none_or(|name| programs.absent(name).is_none());
            let is_other = who == Who::StarPu && blas != Blas::OpenBlas;
            if !is_there || is_other || (on_one_node && ranks > 1) {
                continue;
            }
            let mut contender = Contender {
                who,
                blas,
                shape,
                ranks,
                parameters: String::new(),
            };
            contender.search(programs, searches)?;
            all.push(contender);
        }
    }
    Ok(all)
}

impl Contender {
    fn start(&self, programs: &Programs) -> Start<'static> {
        Start {
            place: Place::Here(self.ranks),
            threads: (programs.cores / self.ranks).max(1),
        }
    }

    /// Finds a peer's parameters.
    fn search(&mut self, programs: &Programs, searches: &mut Searches) -> anyhow::Result<()> {
        let on = format!("{} ranks", self.ranks);
        self.parameters = match self.who {
            Who::Pdgemm => {
                let there = (&self.start(programs), on.as_str());
                searches.pdgemm(programs, there, self.blas, self.shape)?
            }
            Who::StarPu => searches.starpu(programs, self.shape)?,
            Who::Ours | Who::Blas => String::new(),
        };
        Ok(())
    }

    /// One multiplication.
    fn sample(&self, programs: &Programs, round: usize) -> anyhow::Result<Value> {
        let (shape, blas) = (self.shape, self.blas);
        let start = self.start(programs);
        let parameters = std::slice::from_ref(&self.parameters);
        let one = |answers: Vec<Value>| answers.into_iter().next().context("an answer");
        let (took_s, measuring_s, more) = match self.who {
            Who::Ours => {
                let report = programs.mxm(&start, blas, shape, &[])?;
                let measuring_s = number(&report, "/balance_s");
                (number(&report, "/wall_s"), measuring_s, brief(&report))
            }
            Who::Pdgemm => {
                let answers = programs.pdgemm(&start, blas, shape, 1, parameters)?;
                (seconds(&one(answers)?), 0.0, Value::Null)
            }
            Who::Blas => (seconds(&programs.dgemm(blas, shape)?), 0.0, Value::Null),
            Who::StarPu => {
                let answers = programs.starpu(shape, 1, parameters)?;
                (seconds(&one(answers)?), 0.0, Value::Null)
            }
        };
        let (who, library, ranks) = (self.who.name(), blas.name(), self.ranks);
        let gflops = shape.flop() / took_s / 1e9;
        eprintln!(
            "round {round} {}, {ranks} ranks: {who}, {library}: {took_s:.4} s, {gflops:.1} GFLOP/s",
            shape.text()
        );
        Ok(json!({
            "round": round, "m": shape.m, "n": shape.n, "k": shape.k, "ranks": ranks, "who": who, "library": library,
            "parameters": self.parameters, "seconds": took_s, "measuring_s": measuring_s, "report": more,
        }))
    }
}

/// What of a report explains its time.
pub fn brief(report: &Value) -> Value {
    let keys = [
        "block",
        "panel",
        "lookahead",
        "links",
        "split",
        "wall_s",
        "balance_s",
        "ideal_s",
        "imbalance",
        "messages",
        "bytes",
        "nodes",
    ];
    let mut brief = json!({});
    for key in keys {
        brief[key] = report[key].clone();
    }
    for node in brief["nodes"].as_array_mut().into_iter().flatten() {
        for device in node["devices"].as_array_mut().into_iter().flatten() {
            if let Some(device) = device.as_object_mut() {
                device.remove("threads");
            }
        }
    }
    brief
}

/// The samples of one row of the table.
#[derive(Clone, Copy)]
struct Row {
    shape: Shape,
    ranks: usize,
    blas: Blas,
}

impl Row {
    fn all(results: &Value) -> Vec<Self> {
        let mut shapes: Vec<Shape> = Vec::new();
        for sample in list(results, "samples") {
            let [m, n, k] = ["/m", "/n", "/k"].map(|key| number(sample, key) as usize);
            let shape = Shape { m, n, k };
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        let mut rows = Vec::new();
        for shape in shapes {
            for ranks in RANKS {
                let of = |blas| Self { shape, ranks, blas };
                rows.extend(Blas::ALL.map(of));
            }
        }
        rows.retain(|row| !row.times(results, Who::Ours, "/seconds").is_empty());
        rows
    }

    /// A time of somebody by round.
    fn times(&self, results: &Value, who: Who, key: &str) -> Vec<f64> {
        let Shape { m, n, k } = self.shape;
        let is = |sample: &Value| {
            let is_shape = sample["m"] == m && sample["n"] == n && sample["k"] == k;
            is_shape
                && sample["ranks"] == self.ranks
                && sample["library"] == self.blas.name()
                && sample["who"] == who.name()
        };
        series(results, is, |sample| number(sample, key))
    }

    fn parameters<'a>(&self, results: &'a Value, who: Who) -> &'a str {
        let Shape { m, n, k } = self.shape;
        let found = list(results, "samples").find(|sample| {
            sample["m"] == m
                && sample["n"] == n
                && sample["k"] == k
                && sample["ranks"] == self.ranks
                && sample["library"] == self.blas.name()
                && sample["who"] == who.name()
        });
        found.map_or("", |sample| word(sample, "/parameters"))
    }

    fn gflops(&self, times_s: &[f64]) -> Spread {
        Spread::of(times_s.iter().map(|t_s| self.shape.flop() / t_s / 1e9))
    }

    fn goal(&self, who: Who) -> f64 {
        let Shape { m, n, k } = self.shape;
        let is_square = m == n && n == k;
        match who {
            Who::Blas => BLAS_GOAL,
            Who::Pdgemm if self.ranks == 2 && !is_square => LONG_GOAL,
            _ => GOAL,
        }
    }

    fn summary(&self, results: &Value) -> Value {
        let ours = self.times(results, Who::Ours, "/seconds");
        let measuring = self.times(results, Who::Ours, "/measuring_s");
        let whole: Vec<f64> = ours.iter().zip(&measuring).map(|(a, b)| a + b).collect();
        let mut peers = Vec::new();
        for who in Who::PEERS {
            let times = self.times(results, who, "/seconds");
            if times.is_empty() {
                continue;
            }
            let ratio = Spread::of_ratios(&times, &ours);
            let goal = self.goal(who);
            peers.push(json!({
                "who": who.name(), "parameters": self.parameters(results, who), "gflops": self.gflops(&times).json(),
                "ratio": ratio.json(), "goal": goal, "met": ratio.median >= goal,
            }));
        }
        let Shape { m, n, k } = self.shape;
        let met = peers.iter().all(|peer| peer["met"] == true);
        json!({
            "m": m, "n": n, "k": k, "ranks": self.ranks, "library": self.blas.name(),
            "gflops": self.gflops(&ours).json(), "gflops_with_measuring": self.gflops(&whole).json(),
            "peers": peers, "met": met,
        })
    }
}

/// Speeds and ratios of every row, the best of ours against the best of all peers, and the plot.
pub fn sum_up(results: &mut Value, folder: &str) -> anyhow::Result<()> {
    let rows = Row::all(results);
    let summary: Vec<Value> = rows.iter().map(|row| row.summary(results)).collect();
    results["summary"] = json!(summary);
    results["best"] = json!(best(results, &rows));
    let file = format!("{folder}/peers-alike.svg");
    std::fs::write(&file, plot(results)).context(file)
}

/// For each shape and number of ranks the faster of our two libraries against the fastest peer with any.
fn best(results: &Value, rows: &[Row]) -> Vec<Value> {
    let median = |times: &[f64]| Spread::of(times.iter().copied()).median;
    let fastest = |row: &Row, candidates: &[Who]| {
        let same = rows
            .iter()
            .filter(|other| other.shape == row.shape && other.ranks == row.ranks);
        let all = same.flat_map(|row| candidates.iter().map(move |&who| (*row, who)));
        let timed = all.map(|(row, who)| (row, who, row.times(results, who, "/seconds")));
        timed
            .filter(|(_, _, times)| !times.is_empty())
            .min_by(|a, b| median(&a.2).total_cmp(&median(&b.2)))
    };
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| row.blas == Blas::OpenBlas) {
        let ours = fastest(row, &[Who::Ours]);
        let peer = fastest(row, &[Who::Pdgemm, Who::StarPu]);
        if let (Some((our_row, _, ours)), Some((peer_row, who, peer))) = (ours, peer) {
            let ratio = Spread::of_ratios(&peer, &ours);
            let goal = row.goal(Who::Pdgemm);
            found.push(json!({
                "m": row.shape.m, "n": row.shape.n, "k": row.shape.k, "ranks": row.ranks,
                "ours": our_row.blas.name(), "peer": format!("{}, {}", who.name(), peer_row.blas.name()),
                "ratio": ratio.json(), "goal": goal, "met": ratio.median >= goal,
            }));
        }
    }
    found
}

fn shape_of(row: &Value) -> String {
    let [m, n, k] = ["/m", "/n", "/k"].map(|key| number(row, key) as usize);
    Shape { m, n, k }.text()
}

fn plot(results: &Value) -> String {
    let names = Blas::ALL.map(|blas| {
        let mut names: Vec<String> = [Who::Ours, Who::Pdgemm, Who::Blas]
            .map(|who| format!("{}, {}", who.name(), blas.name()))
            .into();
        if blas == Blas::OpenBlas {
            names.push(format!("{}, {}", Who::StarPu.name(), blas.name()));
        }
        names
    });
    let names = names.concat();
    let panels = RANKS.map(|ranks| {
        let rows = || list(results, "summary").filter(move |row| row["ranks"] == ranks);
        let mut groups: Vec<(String, Vec<Bar>)> = Vec::new();
        for row in rows() {
            let bar = |who: &str, value: &Value| {
                let name = format!("{who}, {}", word(row, "/library"));
                let series = names.iter().position(|known| *known == name);
                series.map(|series| Bar {
                    series,
                    height: spread(value),
                })
            };
            let mut found: Vec<Bar> = bar(Who::Ours.name(), &row["gflops"]).into_iter().collect();
            found.extend(
                list(row, "peers").filter_map(|peer| bar(word(peer, "/who"), &peer["gflops"])),
            );
            let name = shape_of(row);
            match groups.last_mut() {
                Some((last, bars)) if *last == name => bars.extend(found),
                _ => groups.push((name, found)),
            }
        }
        Panel {
            title: format!("{ranks} rank{}, GFLOP/s", if ranks == 1 { "" } else { "s" }),
            groups,
        }
    });
    bars(&names, &panels)
}

pub fn tables(results: &Value) -> String {
    let cores = format!(" on {} cores", results["machine"]["cores"]);
    let mut text = RESULTS.origin(results, &cores, "") + "\n\n";
    absent(&mut text, results);
    text.push_str(
        "![speeds](peers-alike.svg)\n\n\
         | m×n×k | ranks | BLAS | ours, GFLOP/s | with the measuring | peer | its GFLOP/s | ours / peer's | goal | met |\n\
         |---|---:|---|---|---:|---|---|---|---:|---|\n",
    );
    for row in list(results, "summary") {
        for peer in list(row, "peers") {
            let parameters = match word(peer, "/parameters") {
                "" => String::new(),
                parameters => format!(" {parameters}"),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.1} | {}{parameters} | {} | {} | {} | {} |",
                shape_of(row),
                row["ranks"],
                word(row, "/library"),
                spread(&row["gflops"]).text(1),
                number(row, "/gflops_with_measuring/median"),
                word(peer, "/who"),
                spread(&peer["gflops"]).text(1),
                spread(&peer["ratio"]).text(2),
                number(peer, "/goal"),
                yes(&peer["met"]),
            );
        }
    }
    text.push_str(
        "\nThe faster of the two libraries for us against the fastest of ScaLAPACK and StarPU with any:\n\n\
         | m×n×k | ranks | ours | peer | ours / peer's | goal | met |\n|---|---:|---|---|---|---:|---|\n",
    );
    for row in list(results, "best") {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            shape_of(row),
            row["ranks"],
            word(row, "/ours"),
            word(row, "/peer"),
            spread(&row["ratio"]).text(2),
            number(row, "/goal"),
            yes(&row["met"]),
        );
    }
    text
}

/// A line for each peer that could not be had.
pub fn absent(text: &mut String, results: &Value) {
    for peer in list(results, "absent") {
        let why = word(peer, "/why").replace('\n', " ");
        let _ = writeln!(text, "Absent: `{}` ({why}).\n", word(peer, "/peer"));
    }
}
