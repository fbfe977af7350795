//! The report of a run, for scripts and for people.

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::devices::PacedWork;
use isochron_core::hierarchy::balance::imbalance;
use isochron_core::hierarchy::partition::Partitioner;
use serde::Serialize;

use super::options::JacobiStrategy;
use super::solution::{Solution, SweepRecord};
use crate::documents::FormatVersion;
use crate::lines::{count, wrap};
use crate::table::TextTable;

/// The document for scripts.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct JacobiDocument {
    /// Version of the format.
    pub schema: FormatVersion<1>,
    /// Number of unknowns.
    pub n: usize,
    /// File of A, or the rule that made it.
    pub source: String,
    /// Strategy that divided the rows.
    pub strategy: JacobiStrategy,
    /// Partitioner of the strategy `fpm`; `null` for others.
    pub partitioner: Option<Partitioner>,
    /// Residual at which the method ends.
    pub tolerance: f64,
    /// Least `│a_ii│ / Σ_{j≠i} │a_ij│` of all rows; `null` if A is diagonal.
    pub dominance: Option<f64>,
    /// `true` if the residual is within the tolerance.
    pub converged: bool,
    /// Number of iterations.
    pub iterations: usize,
    /// Largest `│b - A·x│` of the result, over the largest `│b│`.
    pub residual: f64,
    /// Outcome of the check; `null` without one.
    pub verified: Option<bool>,
    /// Largest difference from the known solution, over its largest element; `null` without `--verify solution`.
    pub error: Option<f64>,
    /// Seconds of all iterations, with messages and moving.
    pub wall_s: f64,
    /// Seconds among them in which rows moved.
    pub moving_s: f64,
    /// Number of times that a row changed its rank.
    pub moved: u64,
    /// Checksum of the bits of x. It is the same for any division of the rows.
    pub checksum: String,
    /// The ranks.
    pub ranks: Vec<JacobiRank>,
    /// Every iteration, in order.
    pub history: Vec<SweepRecord>,
}

/// A rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct JacobiRank {
    /// The rank.
    rank: usize,
    /// Its host.
    host: String,
    /// Its emulated pace; `null` if it is not slowed down.
    paced: Option<String>,
    /// Its rows in the last iteration.
    rows: u64,
    /// Its seconds for its rows, in all iterations.
    busy_s: f64,
}

/// Lists the ranks of the job.
///
/// # Collective
/// All ranks.
pub fn list_ranks(
    comm: &dyn Comm,
    pace: &PacedWork,
    solution: &Solution,
) -> Result<Vec<JacobiRank>, Error> {
    let all = comm.gather(&(comm.host().to_owned(), pace.describe()))?;
    let last = solution.history.last();
    Ok(all
        .into_iter()
        .enumerate()
        .map(|(rank, (host, paced))| JacobiRank {
            rank,
            host,
            paced,
            rows: last.map_or(0, |sweep| sweep.rows[rank]),
            busy_s: solution.history.iter().map(|sweep| sweep.times_s[rank]).sum(),
        })
        .collect())
}

impl JacobiDocument {
    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let above = format!(
            "A {n}×{n}, {}, divided over {}, strategy {}\n",
            self.source,
            count(self.ranks.len() as u64, "rank"),
            self.name_strategy(),
            n = self.n
        );
        format!(
            "{}\n{}\n{}{}",
            wrap(&above, width),
            self.list_ranks(),
            self.list_moves(),
            wrap(&self.describe_end(), width)
        )
    }

    fn name_strategy(&self) -> String {
        let partitioner = self.partitioner.map(|partitioner| format!(" by {partitioner}"));
        format!("{}{}", self.strategy, partitioner.unwrap_or_default())
    }

    fn list_ranks(&self) -> TextTable {
        let mut table = TextTable::new(2, "rank|paced|rows|share|busy s");
        for rank in &self.ranks {
            table.add_row([
                format!("{} {}", rank.rank, rank.host),
                rank.paced.clone().unwrap_or_default(),
                rank.rows.to_string(),
                format!("{:.1} %", 100.0 * rank.rows as f64 / self.n as f64),
                format!("{:.3}", rank.busy_s),
            ]);
        }
        table
    }

    /// Lists the iterations after which rows moved.
    fn list_moves(&self) -> String {
        let mut table = TextTable::new(0, "iteration|rows moved|s|imbalance|after it");
        for (index, pair) in
            self.history.windows(2).enumerate().filter(|(_, pair)| pair[0].moved > 0)
        {
            table.add_row([
                (index + 1).to_string(),
                pair[0].moved.to_string(),
                format!("{:.4}", pair[0].moving_s),
                percent_apart(&pair[0]),
                percent_apart(&pair[1]),
            ]);
        }
        match self.moved {
            0 => String::new(),
            _ => format!("{table}\n"),
        }
    }

    fn describe_end(&self) -> String {
        // Without a tolerance, all iterations were asked for.
        let (reached, goal) = match (self.tolerance > 0.0, self.converged) {
            (true, true) => ("converged", format!(" (goal {:.0e})", self.tolerance)),
            (true, false) => ("not converged", format!(" (goal {:.0e})", self.tolerance)),
            (false, _) => ("ended", String::new()),
        };
        let checked = match (self.verified, self.error) {
            (None, _) => "not verified".to_owned(),
            (_, None) => "verified by its residual".to_owned(),
            (_, Some(error)) => format!("verified, {error:.1e} from the known solution"),
        };
        format!(
            "{reached} after {}: residual {:.2e} of the largest |b|{goal}, {checked}\n\
             {:.3} s, of which moving {} took {:.3} s\n",
            count(self.iterations as u64, "iteration"),
            self.residual,
            self.wall_s,
            count(self.moved, "row"),
            self.moving_s
        )
    }
}

fn percent_apart(sweep: &SweepRecord) -> String {
    format!("{:.0} %", 100.0 * imbalance(&sweep.times_s))
}
