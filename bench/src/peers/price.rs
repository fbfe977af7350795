//! The price of learning on alike ranks: our default strategy against an even split, which is ideal there.

use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::alike::{name_ranks, start_here};
use super::contestant::Contestant;
use super::programs::PeerBlas;
use super::record::{PeerCase, PeerRecord};
use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, ResultsPage};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// Sizes m, n and k with the numbers of ranks.
const CASES: [([usize; 3], usize); 6] = [
    ([4096; 3], 2),
    ([4096; 3], 4),
    ([8192; 3], 2),
    ([8192; 3], 4),
    ([65_536, 512, 512], 2),
    ([1024, 1024, 65_536], 2),
];

/// Goals: the most of our total time over the even split's, for squares and for long and thin shapes.
const SQUARE_GOAL: f64 = 1.02;
const LONG_GOAL: f64 = 1.05;

/// The file of results.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceResults(PeerRecord);

impl PriceResults {
    /// Runs ours and the even split in turn, case by case.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut record = PeerRecord::begin(campaign, "price", &[]);
        for (sizes, ranks) in CASES {
            let [m, n, k] = sizes.map(|size| campaign.scale_size(size));
            let shape = ProductShape { m, n, k };
            if !campaign.includes(shape, &name_ranks(ranks)) {
                continue;
            }
            let contenders = Contestant::prepare_all(
                &[Contestant::Ours, Contestant::Even],
                &campaign.programs,
                &start_here(&campaign.programs, ranks, PeerBlas::OpenBlas),
                shape,
                &mut record.searches,
            )?;
            record.measure_rounds(campaign, &[contenders])?;
        }
        Ok(Self(record))
    }

    /// Returns the line of a case.
    fn make_row(&self, case: PeerCase) -> [String; 9] {
        let ours = self.0.list_runs(case, Contestant::Ours);
        let even = self.0.list_runs(case, Contestant::Even);
        let [ours_s, even_s] =
            [&ours, &even].map(|runs| runs.iter().map(|run| run.total_s()).collect::<Vec<_>>());
        let before_s = MedianRange::of(ours.iter().map(|run| run.measuring_s));
        let ratio = MedianRange::of_ratios(&ours_s, &even_s);
        let alone = MedianRange::of_ratios(
            &self.0.times_s(case, Contestant::Ours),
            &self.0.times_s(case, Contestant::Even),
        );
        let goal = if case.shape.is_square() {
            SQUARE_GOAL
        } else {
            LONG_GOAL
        };
        [
            case.shape.to_string(),
            case.ranks.to_string(),
            MedianRange::of(even_s).text(3),
            MedianRange::of(ours_s).text(3),
            format!("{:.3}", before_s.median),
            alone.text(3),
            ratio.text(3),
            goal.to_string(),
            yes_or_no(ratio.median <= goal),
        ]
    }
}

impl CampaignResults for PriceResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-price",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.0.origin.machine.cores);
        let origin = Self::PAGE.describe_origin(&self.0.origin, &cores, "");
        let columns = [
            "m×n×k",
            "ranks:",
            "even split, s",
            "ours, s",
            "of it before the run, s:",
            "wall / even split's",
            "total / even split's",
            "goal:",
            "met",
        ];
        let cases = self.0.list_cases().into_iter();
        let table = format_table(columns, cases.map(|case| self.make_row(case)));
        Ok(format!("{origin}\n\n{table}"))
    }
}
