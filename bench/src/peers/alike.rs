//! Alike ranks of one machine: squares, and long and thin shapes.

use isochron_plot::{Bar, BarPanel, draw_bars};
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use super::PeerCampaign;
use super::contestant::Contestant;
use super::programs::{PeerBlas, PeerPrograms, RankStart};
use super::record::{PeerCase, PeerRecord};
use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, ResultsPage};
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

const CONTESTANTS: [Contestant; 4] = [
    Contestant::Ours,
    Contestant::Pdgemm,
    Contestant::Blas,
    Contestant::StarPu,
];

/// Goals of our speed over a peer's: in general, on long and thin shapes with a rank on each core, and over the BLAS
/// itself.
const GOAL: f64 = 1.0;
const LONG_GOAL: f64 = 1.4;
const BLAS_GOAL: f64 = 0.97;

/// The file of results.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct AlikeResults(PeerRecord);

/// The times of a contestant in a case.
struct CaseTimes {
    case: PeerCase,
    who: Contestant,
    times_s: Vec<f64>,
}

impl AlikeResults {
    /// Searches the peers' parameters for each shape and number of ranks, then lets all multiply in turn, round by
    /// round.
    ///
    /// The samples so far are written before the next shape or number of ranks.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let peers = ["pdgemm", "pdgemm-mkl", "starpu", "dgemm"];
        let mut results = Self(PeerRecord::begin(campaign, "alike", &peers));
        for sizes in SHAPES {
            for ranks in RANKS {
                let [m, n, k] = sizes.map(|size| campaign.scale_size(size));
                let shape = ProductShape { m, n, k };
                if !campaign.includes(shape, &name_ranks(ranks)) {
                    continue;
                }
                let mut contenders = Vec::new();
                for &blas in PeerBlas::VARIANTS {
                    contenders.extend(Contestant::prepare_all(
                        &CONTESTANTS,
                        &campaign.programs,
                        &start_here(&campaign.programs, ranks, blas),
                        shape,
                        &mut results.0.searches,
                    )?);
                }
                results.0.measure_rounds(campaign, &[contenders])?;
                if !campaign.is_part() {
                    Self::PAGE.write(&results)?;
                }
            }
        }
        Ok(results)
    }

    /// Returns the lines of a case, one for each peer.
    fn make_rows(&self, case: PeerCase) -> Vec<[String; 10]> {
        let PeerCase {
            shape,
            ranks,
            library,
        } = case;
        let with_measuring_s: Vec<f64> = self
            .0
            .list_runs(case, Contestant::Ours)
            .iter()
            .map(|run| run.total_s())
            .collect();
        let ours_s = self.0.times_s(case, Contestant::Ours);
        let mut rows = Vec::new();
        for &who in &CONTESTANTS[1..] {
            let Some(&first) = self.0.list_runs(case, who).first() else {
                continue;
            };
            let times_s = self.0.times_s(case, who);
            let ratio = MedianRange::of_ratios(&times_s, &ours_s);
            let goal = choose_goal(case, who);
            rows.push([
                shape.to_string(),
                ranks.to_string(),
                library.to_string(),
                shape.speeds_gflops(&ours_s).text(1),
                format!("{:.1}", shape.speeds_gflops(&with_measuring_s).median),
                format!("{who} {}", first.parameters).trim_end().to_owned(),
                shape.speeds_gflops(&times_s).text(1),
                ratio.text(2),
                goal.to_string(),
                yes_or_no(ratio.median >= goal),
            ]);
        }
        rows
    }

    /// Returns the line that compares the fastest of ours with the fastest peer, on the shape and the ranks of `cases`.
    fn compare_fastest(&self, cases: &[PeerCase]) -> Option<[String; 7]> {
        let ours = self.find_fastest(cases, &[Contestant::Ours])?;
        let peer = self.find_fastest(cases, &[Contestant::Pdgemm, Contestant::StarPu])?;
        let ratio = MedianRange::of_ratios(&peer.times_s, &ours.times_s);
        let goal = choose_goal(ours.case, Contestant::Pdgemm);
        Some([
            ours.case.shape.to_string(),
            ours.case.ranks.to_string(),
            ours.case.library.to_string(),
            format!("{}, {}", peer.who, peer.case.library),
            ratio.text(2),
            goal.to_string(),
            yes_or_no(ratio.median >= goal),
        ])
    }

    /// Finds the case and the contestant with the least median time.
    fn find_fastest(&self, cases: &[PeerCase], contestants: &[Contestant]) -> Option<CaseTimes> {
        cases
            .iter()
            .flat_map(|&case| {
                contestants.iter().map(move |&who| CaseTimes {
                    case,
                    who,
                    times_s: self.0.times_s(case, who),
                })
            })
            .filter(|found| !found.times_s.is_empty())
            .min_by(|a, b| median(&a.times_s).total_cmp(&median(&b.times_s)))
    }

    /// Returns the bars of each shape on this number of ranks, a series for each library and contestant.
    fn group_bars(
        &self,
        ranks: usize,
        series: &[(PeerBlas, Contestant)],
    ) -> Vec<(String, Vec<Bar>)> {
        let mut cases = self.0.list_cases();
        cases.retain(|case| case.ranks == ranks);
        cases
            .chunk_by(|a, b| a.shape == b.shape)
            .map(|cases| {
                let bars = series
                    .iter()
                    .enumerate()
                    .filter_map(|(at, &(library, who))| {
                        let case = cases.iter().find(|case| case.library == library)?;
                        let times_s = self.0.times_s(*case, who);
                        (!times_s.is_empty())
                            .then(|| make_bar(at, case.shape.speeds_gflops(&times_s)))
                    });
                (cases[0].shape.to_string(), bars.collect())
            })
            .collect()
    }
}

pub fn name_ranks(ranks: usize) -> String {
    format!("{ranks} ranks")
}

/// Starts ranks on this machine that share its cores.
pub fn start_here(programs: &PeerPrograms, ranks: usize, blas: PeerBlas) -> RankStart<'static> {
    RankStart {
        name: name_ranks(ranks),
        hosts: None,
        ranks: vec![ranks],
        threads: (programs.cores / ranks).max(1),
        blas,
        is_bound: true,
    }
}

/// Returns the goal of our speed over a contestant's.
fn choose_goal(case: PeerCase, who: Contestant) -> f64 {
    match who {
        Contestant::Blas => BLAS_GOAL,
        Contestant::Pdgemm if case.ranks == 2 && !case.shape.is_square() => LONG_GOAL,
        _ => GOAL,
    }
}

impl CampaignResults for AlikeResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-alike",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.0.origin.machine.cores);
        let cases = self.0.list_cases();
        let all = format_table(
            [
                "m×n×k",
                "ranks:",
                "BLAS",
                "ours, GFLOP/s",
                "with the measuring:",
                "peer",
                "its GFLOP/s",
                "ours / peer's",
                "goal:",
                "met",
            ],
            cases.iter().flat_map(|&case| self.make_rows(case)),
        );
        // The libraries of a shape and a number of ranks follow each other.
        let alike = cases.chunk_by(|a, b| (a.shape, a.ranks) == (b.shape, b.ranks));
        let fastest = format_table(
            [
                "m×n×k",
                "ranks:",
                "ours",
                "peer",
                "ours / peer's",
                "goal:",
                "met",
            ],
            alike.filter_map(|cases| self.compare_fastest(cases)),
        );
        Ok(format!(
            "{}\n\n{}![speeds](peers-alike.svg)\n\n{all}\n\
             The faster of the two libraries for us against the fastest of ScaLAPACK and StarPU with any:\n\n{fastest}",
            Self::PAGE.describe_origin(&self.0.origin, &cores, ""),
            self.0.list_absent(),
        ))
    }

    fn draw_plot(&self) -> anyhow::Result<Option<String>> {
        let mut series = Vec::new();
        for &library in PeerBlas::VARIANTS {
            series.extend(CONTESTANTS.map(|who| (library, who)));
        }
        // StarPU is built with OpenBLAS only.
        series.retain(|&pair| pair != (PeerBlas::Mkl, Contestant::StarPu));
        let names = series
            .iter()
            .map(|(library, who)| format!("{who}, {library}"));
        let panels = RANKS.map(|ranks| BarPanel {
            title: format!("{ranks} rank{}, GFLOP/s", if ranks == 1 { "" } else { "s" }),
            groups: self.group_bars(ranks, &series),
        });
        Ok(Some(draw_bars(&names.collect::<Vec<_>>(), &panels)))
    }
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
