//! The programs that multiply in turn.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use strum::Display;

use super::programs::{PeerBlas, PeerPrograms, RankStart};
use super::search::ParameterSearches;
use crate::report::{MxmReport, TIME_KEYS};
use crate::shape::ProductShape;

/// A program that multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Contestant {
    /// Ours by its default strategy.
    Ours,
    /// Ours balanced by measuring before the run.
    Fpm,
    /// Ours divided evenly.
    #[serde(rename = "even split")]
    #[strum(serialize = "even split")]
    Even,
    Pdgemm,
    /// The BLAS itself, with its own threads.
    #[serde(rename = "BLAS")]
    #[strum(serialize = "BLAS")]
    Blas,
    #[serde(rename = "StarPU")]
    #[strum(serialize = "StarPU")]
    StarPu,
}

/// A multiplication by a contestant.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerRun {
    /// The fastest parameters of a peer, or the strategy of ours; empty for the BLAS.
    pub parameters: String,
    pub seconds: f64,
    /// Seconds in which ours measured before.
    pub measuring_s: f64,
    /// Ours: the part of the report that explains the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<MxmReport>,
}

/// A contestant with its ranks, its product and its parameters.
pub struct Entry<'a> {
    pub who: Contestant,
    pub start: RankStart<'a>,
    pub shape: ProductShape,
    pub parameters: String,
}

impl Contestant {
    /// Returns `true` if the contestant can run. StarPU is built with OpenBLAS; MKL is there if its ScaLAPACK is.
    fn can_run(self, start: &RankStart<'_>, programs: &PeerPrograms) -> bool {
        let is_openblas = start.blas == PeerBlas::OpenBlas;
        let has_pdgemm = programs.has(start.blas.pdgemm());
        match self {
            Self::Ours | Self::Fpm | Self::Even => is_openblas || has_pdgemm,
            Self::Pdgemm => has_pdgemm,
            Self::Blas => {
                start.n_ranks() == 1 && (is_openblas || has_pdgemm) && programs.has("dgemm")
            }
            Self::StarPu => start.n_ranks() == 1 && is_openblas && programs.has("starpu"),
        }
    }

    /// Returns the options of `isochron mxm` for a contestant of ours.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Fpm => &["--strategy", "fpm"],
            Self::Even => &["--strategy", "homogeneous"],
            _ => &[],
        }
    }

    /// Prepares those of `contestants` that can run, with their fastest parameters.
    ///
    /// # Errors
    /// If a peer fails in the search for its parameters.
    pub fn prepare_all<'a>(
        contestants: &[Self],
        programs: &PeerPrograms,
        start: &RankStart<'a>,
        shape: ProductShape,
        searches: &mut ParameterSearches,
    ) -> anyhow::Result<Vec<Entry<'a>>> {
        contestants
            .iter()
            .filter(|who| who.can_run(start, programs))
            .map(|&who| {
                let parameters = match who {
                    Self::Pdgemm => searches.find_pdgemm(programs, start, shape)?.best.clone(),
                    Self::StarPu => searches.find_starpu(programs, shape)?.best.clone(),
                    _ => String::new(),
                };
                Ok(Entry {
                    who,
                    start: start.clone(),
                    shape,
                    parameters,
                })
            })
            .collect()
    }
}

impl From<MxmReport> for PeerRun {
    fn from(report: MxmReport) -> Self {
        Self {
            parameters: report.strategy.clone().unwrap_or_default(),
            seconds: report.wall_s,
            measuring_s: report.balance_s,
            report: Some(report.with_keys(TIME_KEYS)),
        }
    }
}

impl PeerRun {
    /// Returns the seconds with those of measuring before.
    pub fn total_s(&self) -> f64 {
        self.seconds + self.measuring_s
    }
}

impl Entry<'_> {
    /// Multiplies once.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run(&self, programs: &PeerPrograms) -> anyhow::Result<PeerRun> {
        let Self {
            who,
            start,
            shape,
            parameters,
        } = self;
        let chosen = std::slice::from_ref(parameters);
        let answers = match who {
            Contestant::Ours | Contestant::Fpm | Contestant::Even => {
                let (report, _) = programs.run_mxm(start, *shape, who.options(), &[])?;
                return Ok(report.into());
            }
            Contestant::Pdgemm => programs.run_pdgemm(start, *shape, 1, chosen)?,
            Contestant::Blas => programs.run_dgemm(start.blas, *shape, 1)?,
            Contestant::StarPu => programs.run_starpu(*shape, 1, chosen)?,
        };
        let first = answers.first().context("an answer")?;
        Ok(PeerRun {
            parameters: parameters.clone(),
            seconds: *first.seconds.first().context("the seconds")?,
            measuring_s: 0.0,
            report: None,
        })
    }
}
