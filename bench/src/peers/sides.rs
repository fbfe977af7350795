//! Comparisons of our multiplication with `pdgemm` on hosts.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::programs::{PeerBlas, PeerPrograms, RankStart};
use super::search::ParameterSearches;
use crate::report::{MxmReport, TIME_KEYS};
use crate::shape::ProductShape;

/// The two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    Ours,
    Pdgemm,
}

/// A multiplication by one side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SideRun {
    pub who: Side,
    /// Seconds of the multiplication.
    pub seconds: f64,
    /// Seconds in which ours measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_s: Option<f64>,
    /// Ours: the part of the report that explains the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<MxmReport>,
    /// Block and grid of `pdgemm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
}

impl Side {
    /// Returns the sides of a round that can run, the first one in turn.
    pub fn in_turn(round: usize, has_pdgemm: bool) -> impl Iterator<Item = Self> {
        let order = match round % 2 {
            0 => [Self::Ours, Self::Pdgemm],
            _ => [Self::Pdgemm, Self::Ours],
        };
        order
            .into_iter()
            .filter(move |side| has_pdgemm || *side == Self::Ours)
    }

    /// Multiplies once; `place` names the ranks in the search for parameters.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run(
        self,
        programs: &PeerPrograms,
        (start, place): (&RankStart<'_>, &str),
        shape: ProductShape,
        searches: &mut ParameterSearches,
    ) -> anyhow::Result<SideRun> {
        let blas = PeerBlas::OpenBlas;
        if self == Self::Ours {
            let report = programs.run_mxm(start, blas, shape)?;
            return Ok(SideRun {
                who: self,
                seconds: report.wall_s,
                measuring_s: Some(report.balance_s),
                report: Some(report.with_keys(TIME_KEYS)),
                parameters: None,
            });
        }
        let parameters = searches.find_pdgemm(programs, (start, place), blas, shape)?;
        let chosen = std::slice::from_ref(&parameters);
        let answers = programs.run_pdgemm(start, blas, shape, 1, chosen)?;
        Ok(SideRun {
            who: self,
            seconds: answers.first().context("an answer")?.first_s(),
            measuring_s: None,
            report: None,
            parameters: Some(parameters),
        })
    }
}
