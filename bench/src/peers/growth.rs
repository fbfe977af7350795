//! More and more hosts with the same work each, and the volume that layouts predict for many more nodes.

use serde::{Deserialize, Serialize};

use super::PeerCampaign;
use super::contestant::Contestant;
use super::overlap::NETWORK;
use super::programs::RankStart;
use super::record::{PeerCase, PeerRecord};
use super::volume::{draw_volumes, format_volumes, predict_volumes};
use crate::markdown::format_table;
use crate::results::{CampaignResults, ResultsPage};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// m = n = k of one host. For p hosts m and n are √p times as large, and k is the same.
const SIZE: usize = 2048;
const MOST: usize = 4;
/// The divisor of m and n.
const BLOCK: usize = 128;
/// The quota at which a host is as fast with all the others as alone: two of them share a core.
const QUOTA: &str = "50%";

/// The file of results.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrowthResults(PeerRecord);

impl GrowthResults {
    /// Runs ours and `pdgemm` in turn on one to four hosts.
    pub fn measure(campaign: &PeerCampaign) -> anyhow::Result<Self> {
        let mut record = PeerRecord::begin(campaign, "growth", &["pdgemm"]);
        let options = [&NETWORK[..], &["--quota", QUOTA, "--cpus", "0,1"]].concat();
        let Some(hosts) = record.bring_up_hosts(campaign, MOST, &options) else {
            return Ok(Self(record));
        };
        let mut products = Vec::new();
        for count in 1..=MOST {
            let k = campaign.scale_size(SIZE);
            let m = (k as f64 * (count as f64).sqrt() / BLOCK as f64).round() as usize * BLOCK;
            let ranks = (0..MOST).map(|host| usize::from(host < count)).collect();
            let start = RankStart::on_hosts(&format!("{count} of {MOST} hosts"), &hosts, ranks);
            let shape = ProductShape { m, n: m, k };
            if !campaign.includes(shape, &start.name) {
                continue;
            }
            products.push(Contestant::prepare_all(
                &[Contestant::Ours, Contestant::Pdgemm],
                &campaign.programs,
                &start,
                shape,
                &mut record.searches,
            )?);
        }
        record.measure_rounds(campaign, &products)?;
        Ok(Self(record))
    }

    /// Returns the speeds of a contestant in 10⁹ flop/s a host, by round.
    fn speeds(&self, case: PeerCase, who: Contestant) -> Vec<f64> {
        let times_s = self.0.times_s(case, who).into_iter();
        let gflop = case.shape.flop() / 1e9 / case.ranks as f64;
        times_s.map(|time_s| gflop / time_s).collect()
    }

    /// Returns the line of a number of hosts: the speeds a host, and the parts kept of one host's.
    fn make_row(&self, case: PeerCase, one_host: PeerCase) -> [String; 8] {
        let ours = self.speeds(case, Contestant::Ours);
        let pdgemm = self.speeds(case, Contestant::Pdgemm);
        let [ours_kept, pdgemm_kept] = [(Contestant::Ours, &ours), (Contestant::Pdgemm, &pdgemm)]
            .map(|(who, speeds)| {
                MedianRange::of_ratios(speeds, &self.speeds(one_host, who))
                    .scale(100.0)
                    .text(0)
            });
        let ratio = MedianRange::of_ratios(&ours, &pdgemm).text(2);
        [
            case.ranks.to_string(),
            case.shape.m.to_string(),
            case.shape.k.to_string(),
            MedianRange::of(ours).text(1),
            ours_kept,
            MedianRange::of(pdgemm).text(1),
            pdgemm_kept,
            ratio,
        ]
    }
}

impl CampaignResults for GrowthResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "peers-growth",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(", on hosts of {QUOTA} of a core each, joined by 1 Gbit/s with 100 µs");
        let origin = Self::PAGE.describe_origin(&self.0.origin, "", &more);
        let absent = self.0.list_absent();
        let cases = self.0.list_cases();
        let columns = [
            "hosts:",
            "m = n:",
            "k:",
            "ours, GFLOP/s a host",
            "of one host's, %",
            "pdgemm, GFLOP/s a host",
            "of one host's, %",
            "ours / pdgemm",
        ];
        let rows = cases.iter().map(|&case| self.make_row(case, cases[0]));
        let table = format_table(columns, rows);
        let volumes = format_volumes(&predict_volumes()?);
        Ok(format!(
            "{origin}\n\n{absent}{table}\n\
             The volume that an average node receives, in GB, as the layouts predict it. The nodes' speeds differ by a factor \
             of up to 100, and the matrices grow with the number of nodes.\n\n\
             ![predicted volume](peers-growth.svg)\n\n{volumes}"
        ))
    }

    fn draw_plot(&self) -> anyhow::Result<Option<String>> {
        Ok(Some(draw_volumes(&predict_volumes()?)))
    }
}
