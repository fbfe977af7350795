//! Timed runs.

use std::time::Instant;

use isochron_core::prelude::*;
use serde::{Deserialize, Serialize};

use super::application::{RowApplication, RunSteps};
use crate::lines::count;
use crate::terminal_line::{TerminalLine, describe_slowest};
use crate::trace::{EventKind, Span, Tracer};

/// The times of one rank in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankTimes {
    /// Seconds of the kernel in each pass.
    pub passes_s: Vec<f64>,
    /// Seconds of the whole run, with its messages.
    pub wall_s: f64,
}

/// The times of all ranks in a run.
pub type RunTimes = Vec<RankTimes>;

/// Runs an application `runs` times after one run that is not counted; returns the times of all ranks. `hosts` are those
/// of the ranks.
///
/// # Errors
/// The errors of the application.
///
/// # Collective
/// All ranks.
pub fn time_runs<A: RowApplication>(
    comm: &dyn Comm,
    tracer: Tracer<'_>,
    application: &mut A,
    runs: u32,
    hosts: &[String],
) -> Result<Vec<RunTimes>, Error> {
    let progress = TerminalLine::of_rank(comm.rank() == 0);
    let mut timed: Vec<RunTimes> = Vec::new();
    for run in 0..=runs {
        progress.refresh(|| describe_runs(&timed, runs, hosts));
        application.restore_input();
        comm.barrier()?;
        let begun = Instant::now();
        let traced = RunSteps { tracer, first: run * (A::PASSES + 1) };
        let passes_s = tracer
            .time(EventKind::Span(Span::Step("run", run)), || application.run(comm, traced))?;
        let wall_s = begun.elapsed().as_secs_f64();
        timed.push(comm.gather(&RankTimes { passes_s, wall_s })?);
    }
    timed.remove(0);
    Ok(timed)
}

/// Describes the progress of the runs so far. The first one does not count.
fn describe_runs(timed: &[RunTimes], runs: u32, hosts: &[String]) -> String {
    let Some(last) = timed.last() else {
        return format!("running: before the first of {}", count(runs.into(), "run"));
    };
    let done = timed.len() as u32 - 1;
    let left_s = f64::from(runs - done) * find_longest_wall(last);
    let slowest = describe_slowest(&sum_passes(last), hosts);
    format!("running: {done} of {}, about {left_s:.0} s left{slowest}", count(runs.into(), "run"))
}

/// Returns the seconds of each rank's kernel in a run.
pub fn sum_passes(run: &RunTimes) -> Vec<f64> {
    run.iter().map(|rank| rank.passes_s.iter().sum()).collect()
}

/// Returns the seconds in which all kernels of a run are done, without messages: no pass begins before the slowest rank
/// has ended the one before.
pub fn sum_longest_passes(run: &RunTimes) -> f64 {
    let passes = run.first().map_or(0, |rank| rank.passes_s.len());
    (0..passes).map(|pass| run.iter().map(|rank| rank.passes_s[pass]).fold(0.0, f64::max)).sum()
}

/// Returns the seconds of a run on the rank that needed longest.
pub fn find_longest_wall(run: &RunTimes) -> f64 {
    run.iter().map(|rank| rank.wall_s).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_left_take_as_long_as_the_last_one() {
        let hosts = ["a", "b"].map(str::to_owned);
        let run = [(1.0, 2.0), (3.0, 2.5)]
            .map(|(pass_s, wall_s)| RankTimes { passes_s: vec![pass_s], wall_s });
        let timed = [run.to_vec(), run.to_vec()];
        assert_eq!(describe_runs(&timed[..0], 5, &hosts), "running: before the first of 5 runs");
        assert_eq!(
            describe_runs(&timed, 5, &hosts),
            "running: 1 of 5 runs, about 10 s left, slowest: rank 1 (b)"
        );
    }

    #[test]
    fn ranks_wait_for_the_slowest_one_in_each_pass() {
        let run = [([1.0, 4.0], 6.0), ([3.0, 2.0], 7.5)]
            .map(|(passes_s, wall_s)| RankTimes { passes_s: passes_s.to_vec(), wall_s });
        let run = run.to_vec();
        assert_eq!(sum_passes(&run), [5.0, 5.0]);
        assert_eq!((sum_longest_passes(&run), find_longest_wall(&run)), (7.0, 7.5));
    }
}
