//! Calls of small products: a prepared product against ScaLAPACK's call on two ranks, and against the BLAS itself on one.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::alike::start_here;
use super::programs::{PeerAnswer, PeerBlas, PeerPrograms};
use crate::goal::check_most;
use crate::markdown::format_table;
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

/// Sizes m = n = k, each with the number of calls in a program.
const SIZES: [(usize, usize); 5] = [(64, 4000), (128, 2000), (256, 600), (512, 100), (1024, 20)];

/// Goals of a call over ScaLAPACK's, by size.
const GOALS: [(usize, f64); 2] = [(64, 3.0), (256, 1.1)];

/// The time of a call over ScaLAPACK's up to which a size is useful.
const USEFUL: f64 = 1.1;

/// The goal of the microseconds that a call on one rank takes beyond the BLAS, at the smallest size.
const GOAL_BEYOND_US: f64 = 20.0;

/// A caller of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Caller {
    /// A prepared product on two ranks.
    #[serde(rename = "prepared, 2 ranks")]
    Prepared,
    #[serde(rename = "pdgemm, 2 ranks")]
    ScaLapack,
    /// A prepared product on one rank, with all cores.
    #[serde(rename = "prepared, 1 rank")]
    Alone,
    /// The library with all cores.
    #[serde(rename = "dgemm")]
    Blas,
}

const CALLERS: [Caller; 4] = [
    Caller::Prepared,
    Caller::ScaLapack,
    Caller::Alone,
    Caller::Blas,
];

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct SmallResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<SmallSample>,
}

/// The calls of a program.
#[derive(Serialize, Deserialize)]
struct SmallSample {
    round: usize,
    size: usize,
    who: Caller,
    /// Median seconds of a call, after the first tenth.
    call_s: f64,
}

impl SmallResults {
    /// Runs all callers in turn, size by size.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut samples = Vec::new();
        for round in 0..campaign.rounds {
            for (size, calls) in SIZES {
                if !campaign.includes(ProductShape::square(size), "2 ranks") {
                    continue;
                }
                let calls = if campaign.quick { 10 } else { calls };
                for &who in list_in_turn(&CALLERS, round) {
                    let call_s = who.time_call(&campaign.programs, size, calls)?;
                    eprintln!("round {round} {who:?} {size}: {:.1} us", 1e6 * call_s);
                    samples.push(SmallSample {
                        round,
                        size,
                        who,
                        call_s,
                    });
                }
            }
        }
        let command = format!(
            "cargo xtask bench peers --only small --rounds {}",
            campaign.rounds
        );
        Ok(Self {
            origin: Origin::new(command),
            samples,
        })
    }

    fn list(&self, size: usize, who: Caller) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|sample| (sample.size, sample.who) == (size, who))
            .map(|sample| sample.call_s)
            .collect()
    }

    fn list_sizes(&self) -> impl Iterator<Item = usize> {
        SIZES
            .map(|(size, _)| size)
            .into_iter()
            .filter(|&size| self.samples.iter().any(|sample| sample.size == size))
    }

    /// Returns the time of a call on two ranks over that of ScaLAPACK.
    fn compare(&self, size: usize) -> MedianRange {
        let [ours, theirs] =
            [Caller::Prepared, Caller::ScaLapack].map(|caller| self.list(size, caller));
        MedianRange::of_ratios(&ours, &theirs)
    }

    /// Returns the smallest size from which all calls on two ranks take little longer than ScaLAPACK's; `None` if the largest
    /// takes longer.
    fn find_useful(&self) -> Option<usize> {
        let sizes: Vec<usize> = self.list_sizes().collect();
        let useful = sizes
            .iter()
            .rev()
            .take_while(|&&size| self.compare(size).median <= USEFUL);
        useful.last().copied()
    }

    /// Returns the microseconds of a call on one rank beyond those of the library.
    fn find_beyond_us(&self, size: usize) -> MedianRange {
        let [ours, library] = [Caller::Alone, Caller::Blas].map(|caller| self.list(size, caller));
        MedianRange::of(
            ours.iter()
                .zip(library)
                .map(|(ours, library)| 1e6 * (ours - library)),
        )
    }
}

impl Caller {
    /// Returns the median seconds of a call, after the first tenth.
    fn time_call(self, programs: &PeerPrograms, size: usize, calls: usize) -> anyhow::Result<f64> {
        let shape = ProductShape::square(size);
        let runs = match self {
            Self::Prepared => vec![programs.run_prepared(2, size, calls)?],
            Self::Alone => vec![programs.run_prepared(1, size, calls)?],
            Self::ScaLapack => {
                let grids = [size / 4, size / 2]
                    .into_iter()
                    .flat_map(|block| [format!("{block}:1x2"), format!("{block}:2x1")])
                    .collect::<Vec<_>>();
                let mut start = start_here(programs, 2, PeerBlas::OpenBlas);
                let mut answers = programs.run_pdgemm(&start, shape, calls, &grids)?;
                start.is_bound = false;
                answers.extend(programs.run_pdgemm(&start, shape, calls, &grids)?);
                list_seconds(answers)
            }
            Self::Blas => list_seconds(programs.run_dgemm(PeerBlas::OpenBlas, shape, calls)?),
        };
        runs.iter()
            .map(|seconds| median(&seconds[seconds.len() / 10..]))
            .min_by(f64::total_cmp)
            .context("no program has answered")
    }
}

fn list_seconds(answers: Vec<PeerAnswer>) -> Vec<Vec<f64>> {
    answers.into_iter().map(|answer| answer.seconds).collect()
}

impl CampaignResults for SmallResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-small",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.origin.machine.cores);
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, "");
        let sizes: Vec<usize> = self.list_sizes().collect();
        let over_theirs =
            GOALS
                .iter()
                .filter(|(size, _)| sizes.contains(size))
                .map(|&(size, goal)| {
                    let name = format!("{size}: a call on two ranks / ScaLAPACK's");
                    check_most(&name, self.compare(size), goal)
                });
        let smallest = sizes.first().map(|&size| {
            let name = format!("{size}: µs of a call on one rank beyond the BLAS");
            check_most(&name, self.find_beyond_us(size), GOAL_BEYOND_US)
        });
        let goals = format_table(["goal", "found", "met"], over_theirs.chain(smallest));
        let columns = [
            "m = n = k:",
            "ours, 2 ranks, µs",
            "ScaLAPACK, 2 ranks, µs",
            "ours / ScaLAPACK's",
            "ours, 1 rank, µs",
            "BLAS, µs",
            "beyond the BLAS, µs",
        ];
        let rows = sizes.iter().map(|&size| {
            let [ours, theirs, alone, library] = CALLERS.map(|caller| {
                let seconds = self.list(size, caller);
                MedianRange::of(seconds).scale(1e6).text(1)
            });
            [
                size.to_string(),
                ours,
                theirs,
                self.compare(size).text(2),
                alone,
                library,
                self.find_beyond_us(size).text(1),
            ]
        });
        let table = format_table(columns, rows);
        let useful = match self.find_useful() {
            Some(size) => format!(
                "The smallest useful size is {size}: from there on a call takes at most {USEFUL} × ScaLAPACK's. The BLAS of one rank does smaller products."
            ),
            None => format!("No size is useful: calls take more than {USEFUL} × ScaLAPACK's."),
        };
        Ok(format!("{origin}\n\n{goals}\n{table}\n{useful}\n"))
    }
}
