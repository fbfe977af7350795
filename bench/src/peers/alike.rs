//! Alike ranks of one machine: squares, and long and thin shapes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use isochron_plot::{Bar, BarPanel, draw_bars};
use serde::{Deserialize, Serialize};

use super::programs::{PeerBlas, PeerPrograms, RankPlace, RankStart};
use super::search::{ParameterSearches, SearchRecord};
use super::{Family, FamilyResults, PeerCampaign, PeerOrigin, write_plot};
use crate::report::{MxmReport, TIME_KEYS};
use crate::results::{ResultsPage, RoundSample, figures_by_round, yes_or_no};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

const SHAPES: [[usize; 3]; 6] = [
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [65_536, 512, 512],
    [1024, 1024, 65_536],
    [512, 65_536, 512],
    [8192, 8192, 8192],
];
const RANKS: [usize; 3] = [1, 2, 4];

/// Goals of our speed over a peer's: in general, on long and thin shapes with a rank on each core, and over the BLAS itself.
const GOAL: f64 = 1.0;
const LONG_GOAL: f64 = 1.4;
const BLAS_GOAL: f64 = 0.97;

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Contestant {
    #[serde(rename = "ours")]
    Ours,
    #[serde(rename = "pdgemm")]
    Pdgemm,
    /// The BLAS itself, with its own threads.
    #[serde(rename = "BLAS")]
    Blas,
    #[serde(rename = "StarPU")]
    StarPu,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct AlikeResults {
    #[serde(flatten)]
    origin: PeerOrigin,
    searches: Vec<SearchRecord>,
    samples: Vec<AlikeSample>,
    #[serde(default)]
    summary: Vec<AlikeRow>,
    #[serde(default)]
    best: Vec<BestRow>,
}

/// One multiplication.
#[derive(Serialize, Deserialize)]
struct AlikeSample {
    round: usize,
    #[serde(flatten)]
    case: AlikeCase,
    who: Contestant,
    /// The fastest parameters of a peer.
    parameters: String,
    seconds: f64,
    /// Seconds in which ours measured before.
    measuring_s: f64,
    /// Ours: the part of the report that explains the time.
    report: Option<MxmReport>,
}

/// A shape on a number of ranks with a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct AlikeCase {
    #[serde(flatten)]
    shape: ProductShape,
    ranks: usize,
    library: PeerBlas,
}

/// The figures of a case.
#[derive(Serialize, Deserialize)]
struct AlikeRow {
    #[serde(flatten)]
    case: AlikeCase,
    gflops: MedianRange,
    gflops_with_measuring: MedianRange,
    peers: Vec<PeerFigures>,
    met: bool,
}

/// A peer in a case.
#[derive(Serialize, Deserialize)]
struct PeerFigures {
    who: Contestant,
    parameters: String,
    gflops: MedianRange,
    /// Our speed over the peer's.
    ratio: MedianRange,
    goal: f64,
    met: bool,
}

/// The faster of our two libraries against the fastest peer with any.
#[derive(Serialize, Deserialize)]
struct BestRow {
    #[serde(flatten)]
    shape: ProductShape,
    ranks: usize,
    ours: PeerBlas,
    peer: String,
    ratio: MedianRange,
    goal: f64,
    met: bool,
}

/// A contestant in a case, with its parameters.
struct Contender {
    who: Contestant,
    case: AlikeCase,
    parameters: String,
}

impl RoundSample for AlikeSample {
    fn round(&self) -> usize {
        self.round
    }
}

impl Contestant {
    const PEERS: [Self; 3] = [Self::Pdgemm, Self::Blas, Self::StarPu];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Pdgemm => "pdgemm",
            Self::Blas => "BLAS",
            Self::StarPu => "StarPU",
        }
    }

    /// Returns `true` if the contestant can run a case. StarPU is built with OpenBLAS; MKL is there if its ScaLAPACK is.
    fn can_run(self, case: AlikeCase, programs: &PeerPrograms) -> bool {
        let has_library = case.library == PeerBlas::OpenBlas || programs.has(case.library.pdgemm());
        let is_able = match self {
            Self::Ours => true,
            Self::Pdgemm => programs.has(case.library.pdgemm()),
            Self::Blas => case.ranks == 1 && programs.has("dgemm"),
            Self::StarPu => {
                case.ranks == 1 && case.library == PeerBlas::OpenBlas && programs.has("starpu")
            }
        };
        has_library && is_able
    }
}

impl AlikeCase {
    fn start(self, programs: &PeerPrograms) -> RankStart<'static> {
        RankStart {
            place: RankPlace::Here(self.ranks),
            threads: (programs.cores / self.ranks).max(1),
        }
    }

    /// Returns the goal of our speed over the contestant's.
    fn goal(self, who: Contestant) -> f64 {
        match who {
            Contestant::Blas => BLAS_GOAL,
            Contestant::Pdgemm if self.ranks == 2 && !self.shape.is_square() => LONG_GOAL,
            _ => GOAL,
        }
    }

    fn speeds_gflops(self, times_s: &[f64]) -> MedianRange {
        MedianRange::of(times_s.iter().map(|t_s| self.shape.flop() / t_s / 1e9))
    }
}

/// Finds the contestants that can multiply this shape on this number of ranks, with their parameters.
fn find_contenders(
    programs: &PeerPrograms,
    shape: ProductShape,
    ranks: usize,
    searches: &mut ParameterSearches,
) -> anyhow::Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    for library in PeerBlas::ALL {
        let case = AlikeCase {
            shape,
            ranks,
            library,
        };
        for who in [Contestant::Ours].into_iter().chain(Contestant::PEERS) {
            if who.can_run(case, programs) {
                contenders.push(Contender {
                    who,
                    case,
                    parameters: find_parameters(who, case, programs, searches)?,
                });
            }
        }
    }
    Ok(contenders)
}

fn find_parameters(
    who: Contestant,
    case: AlikeCase,
    programs: &PeerPrograms,
    searches: &mut ParameterSearches,
) -> anyhow::Result<String> {
    match who {
        Contestant::Pdgemm => {
            let place = format!("{} ranks", case.ranks);
            let start = case.start(programs);
            searches.find_pdgemm(programs, (&start, &place), case.library, case.shape)
        }
        Contestant::StarPu => searches.find_starpu(programs, case.shape),
        Contestant::Ours | Contestant::Blas => Ok(String::new()),
    }
}

impl Contender {
    /// Multiplies once.
    fn sample(&self, programs: &PeerPrograms, round: usize) -> anyhow::Result<AlikeSample> {
        let AlikeCase {
            shape,
            ranks,
            library,
        } = self.case;
        let start = self.case.start(programs);
        let parameters = std::slice::from_ref(&self.parameters);
        let mut sample = AlikeSample {
            round,
            case: self.case,
            who: self.who,
            parameters: self.parameters.clone(),
            seconds: f64::NAN,
            measuring_s: 0.0,
            report: None,
        };
        let answers = match self.who {
            Contestant::Ours => {
                let report = programs.run_mxm(&start, library, shape)?;
                sample.seconds = report.wall_s;
                sample.measuring_s = report.balance_s;
                sample.report = Some(report.with_keys(TIME_KEYS));
                Vec::new()
            }
            Contestant::Pdgemm => programs.run_pdgemm(&start, library, shape, 1, parameters)?,
            Contestant::Blas => programs.run_dgemm(library, shape)?,
            Contestant::StarPu => programs.run_starpu(shape, 1, parameters)?,
        };
        if self.who != Contestant::Ours {
            sample.seconds = answers.first().context("an answer")?.first_s();
        }
        let gflops = shape.flop() / sample.seconds / 1e9;
        eprintln!(
            "round {round} {shape}, {ranks} ranks: {}, {}: {:.4} s, {gflops:.1} GFLOP/s",
            self.who.name(),
            library.name(),
            sample.seconds
        );
        Ok(sample)
    }
}

impl FamilyResults for AlikeResults {
    const PAGE: ResultsPage = ResultsPage {
        file: "bench/results/peers-alike.json",
        page: "bench/results/peers-alike.md",
        section: "bench peers alike",
    };

    /// Searches the peers' parameters for each shape and number of ranks, then lets all multiply in turn, round by round.
    ///
    /// The samples so far are written before the next shape or number of ranks.
    fn measure(campaign: &PeerCampaign<'_>) -> anyhow::Result<Self> {
        let programs = campaign.programs;
        let absent = programs.find_absent(&["pdgemm", "pdgemm-mkl", "starpu", "dgemm"]);
        let mut results = Self {
            origin: campaign.make_origin(Family::Alike, absent),
            searches: Vec::new(),
            samples: Vec::new(),
            summary: Vec::new(),
            best: Vec::new(),
        };
        let mut searches = ParameterSearches::default();
        for sizes in SHAPES {
            for ranks in RANKS {
                let [m, n, k] = sizes.map(|size| campaign.scale_size(size));
                let shape = ProductShape { m, n, k };
                let contenders = find_contenders(programs, shape, ranks, &mut searches)?;
                for round in 0..campaign.rounds {
                    for turn in 0..contenders.len() {
                        // Every round starts with another one.
                        let contender = &contenders[(round + turn) % contenders.len()];
                        results.samples.push(contender.sample(programs, round)?);
                    }
                }
                results.searches = searches.records();
                if !campaign.quick {
                    Self::PAGE.write(&results)?;
                }
            }
        }
        Ok(results)
    }

    fn sum_up(&mut self, folder: &Path) -> anyhow::Result<()> {
        let cases = self.find_cases();
        self.summary = cases.iter().map(|&case| self.summarize(case)).collect();
        let openblas = cases.iter().filter(|c| c.library == PeerBlas::OpenBlas);
        self.best = openblas
            .filter_map(|&case| self.find_best(case, &cases))
            .collect();
        write_plot(folder, "peers-alike.svg", &self.draw_plot())
    }

    fn format_tables(&self) -> String {
        let origin = &self.origin.origin;
        let cores = format!(" on {} cores", origin.machine.cores);
        let mut text = Self::PAGE.describe_origin(origin, &cores, "") + "\n\n";
        self.origin.list_absent(&mut text);
        text.push_str(
            "![speeds](peers-alike.svg)\n\n\
             | m×n×k | ranks | BLAS | ours, GFLOP/s | with the measuring | peer | its GFLOP/s | ours / peer's | goal | met |\n\
             |---|---:|---|---|---:|---|---|---|---:|---|\n",
        );
        for row in &self.summary {
            for peer in &row.peers {
                row.format_peer(&mut text, peer);
            }
        }
        text.push_str(
            "\nThe faster of the two libraries for us against the fastest of ScaLAPACK and StarPU with any:\n\n\
             | m×n×k | ranks | ours | peer | ours / peer's | goal | met |\n|---|---:|---|---|---|---:|---|\n",
        );
        for row in &self.best {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.shape,
                row.ranks,
                row.ours.name(),
                row.peer,
                row.ratio.text(2),
                row.goal,
                yes_or_no(row.met),
            );
        }
        text
    }
}

impl AlikeRow {
    /// Adds the line of a peer to the table.
    fn format_peer(&self, text: &mut String, peer: &PeerFigures) {
        let space = if peer.parameters.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} | {}{space}{} | {} | {} | {} | {} |",
            self.case.shape,
            self.case.ranks,
            self.case.library.name(),
            self.gflops.text(1),
            self.gflops_with_measuring.median,
            peer.who.name(),
            peer.parameters,
            peer.gflops.text(1),
            peer.ratio.text(2),
            peer.goal,
            yes_or_no(peer.met),
        );
    }
}

impl AlikeResults {
    fn samples(&self, case: AlikeCase, who: Contestant) -> impl Iterator<Item = &AlikeSample> {
        let samples = self.samples.iter();
        samples.filter(move |sample| sample.case == case && sample.who == who)
    }

    /// Returns the times of a contestant by round.
    fn times(&self, case: AlikeCase, who: Contestant) -> Vec<f64> {
        figures_by_round(self.samples(case, who), |sample| sample.seconds)
    }

    /// Returns the cases that ours has multiplied, shapes in the order of measurement.
    fn find_cases(&self) -> Vec<AlikeCase> {
        let mut shapes: Vec<ProductShape> = Vec::new();
        for sample in &self.samples {
            if !shapes.contains(&sample.case.shape) {
                shapes.push(sample.case.shape);
            }
        }
        let mut cases = Vec::new();
        for shape in shapes {
            for ranks in RANKS {
                cases.extend(PeerBlas::ALL.map(|library| AlikeCase {
                    shape,
                    ranks,
                    library,
                }));
            }
        }
        cases.retain(|&case| self.samples(case, Contestant::Ours).next().is_some());
        cases
    }

    fn summarize(&self, case: AlikeCase) -> AlikeRow {
        let ours = self.times(case, Contestant::Ours);
        let with_measuring = figures_by_round(self.samples(case, Contestant::Ours), |sample| {
            sample.seconds + sample.measuring_s
        });
        let mut peers = Vec::new();
        for who in Contestant::PEERS {
            let Some(first) = self.samples(case, who).next() else {
                continue;
            };
            let times = self.times(case, who);
            let ratio = MedianRange::of_ratios(&times, &ours);
            let goal = case.goal(who);
            peers.push(PeerFigures {
                who,
                parameters: first.parameters.clone(),
                gflops: case.speeds_gflops(&times),
                ratio,
                goal,
                met: ratio.median >= goal,
            });
        }
        AlikeRow {
            case,
            gflops: case.speeds_gflops(&ours),
            gflops_with_measuring: case.speeds_gflops(&with_measuring),
            met: peers.iter().all(|peer| peer.met),
            peers,
        }
    }

    /// Compares the fastest of ours with the fastest peer for the shape and the ranks of a case.
    fn find_best(&self, case: AlikeCase, cases: &[AlikeCase]) -> Option<BestRow> {
        let same: Vec<AlikeCase> = cases
            .iter()
            .copied()
            .filter(|other| other.shape == case.shape && other.ranks == case.ranks)
            .collect();
        let ours = self.find_fastest(&same, &[Contestant::Ours])?;
        let peer = self.find_fastest(&same, &[Contestant::Pdgemm, Contestant::StarPu])?;
        let ratio = MedianRange::of_ratios(&peer.2, &ours.2);
        let goal = case.goal(Contestant::Pdgemm);
        Some(BestRow {
            shape: case.shape,
            ranks: case.ranks,
            ours: ours.0.library,
            peer: format!("{}, {}", peer.1.name(), peer.0.library.name()),
            ratio,
            goal,
            met: ratio.median >= goal,
        })
    }

    /// Finds the case and the contestant with the least median time; returns its times too.
    fn find_fastest(
        &self,
        cases: &[AlikeCase],
        contestants: &[Contestant],
    ) -> Option<(AlikeCase, Contestant, Vec<f64>)> {
        let mut fastest: Option<(AlikeCase, Contestant, Vec<f64>)> = None;
        for &case in cases {
            for &who in contestants {
                let times = self.times(case, who);
                let is_faster = |(_, _, best): &(_, _, Vec<f64>)| median(&times) < median(best);
                if !times.is_empty() && fastest.as_ref().is_none_or(is_faster) {
                    fastest = Some((case, who, times));
                }
            }
        }
        fastest
    }

    fn draw_plot(&self) -> String {
        let mut names = Vec::new();
        for library in PeerBlas::ALL {
            for who in [Contestant::Ours, Contestant::Pdgemm, Contestant::Blas] {
                names.push(series_name(who, library));
            }
            if library == PeerBlas::OpenBlas {
                names.push(series_name(Contestant::StarPu, library));
            }
        }
        let panels = RANKS.map(|ranks| BarPanel {
            title: format!("{ranks} rank{}, GFLOP/s", if ranks == 1 { "" } else { "s" }),
            groups: self.group_bars(ranks, &names),
        });
        draw_bars(&names, &panels)
    }

    /// Returns the bars of each shape on this number of ranks.
    fn group_bars(&self, ranks: usize, names: &[String]) -> Vec<(String, Vec<Bar>)> {
        let mut groups: Vec<(String, Vec<Bar>)> = Vec::new();
        for row in self.summary.iter().filter(|row| row.case.ranks == ranks) {
            let peers = row.peers.iter().map(|peer| (peer.who, peer.gflops));
            let all = std::iter::once((Contestant::Ours, row.gflops)).chain(peers);
            let bars = all.filter_map(|(who, gflops)| {
                let name = series_name(who, row.case.library);
                let series = names.iter().position(|known| *known == name)?;
                Some(make_bar(series, gflops))
            });
            let shape = row.case.shape.to_string();
            match groups.last_mut() {
                Some((last, known)) if *last == shape => known.extend(bars),
                _ => groups.push((shape, bars.collect())),
            }
        }
        groups
    }
}

fn series_name(who: Contestant, library: PeerBlas) -> String {
    format!("{}, {}", who.name(), library.name())
}

/// Makes a bar as high as a median, with the range over it.
pub fn make_bar(series: usize, range: MedianRange) -> Bar {
    Bar {
        series,
        height: range.median,
        low: range.min,
        high: range.max,
    }
}
