//! The line of progress on a terminal.

use isochron_core::Error;
use isochron_core::comm::Comm;

use super::solution::{SolveConfig, SweepRecord};
use crate::terminal_line::{TerminalLine, describe_slowest};

/// Iterations by which the next ones are judged.
const RECENT: usize = 10;

/// The progress of the iterations on the terminal.
pub struct SolveProgress {
    line: TerminalLine,
    /// The host of each rank.
    hosts: Vec<String>,
}

impl SolveProgress {
    /// Makes the line of the head rank.
    ///
    /// # Errors
    /// The errors of messages.
    ///
    /// # Collective
    /// All ranks.
    pub fn start(comm: &dyn Comm) -> Result<Self, Error> {
        Ok(Self {
            line: TerminalLine::of_rank(comm.rank() == 0),
            hosts: comm.gather(&comm.host().to_owned())?,
        })
    }

    /// Shows the iterations so far: at least one.
    pub fn show(&self, history: &[SweepRecord], config: &SolveConfig) {
        self.line.refresh(|| describe_progress(history, config, &self.hosts));
    }
}

/// Describes the progress, the most important first: a narrow terminal cuts the end.
fn describe_progress(history: &[SweepRecord], config: &SolveConfig, hosts: &[String]) -> String {
    let (done, most) = (history.len(), config.max_iterations);
    let mut text = format!("iterating: {done} of at most {most} iterations");
    let Some(last) = history.last() else {
        return text;
    };
    let recent = &history[done - done.min(RECENT)..];
    let iteration_s = recent.iter().map(|sweep| sweep.wall_s).sum::<f64>() / recent.len() as f64;
    let at_most = most.saturating_sub(done as u64) as f64;
    let (word, left) = match estimate_left(recent, config.tolerance) {
        Some(left) if left < at_most => ("about", left),
        _ => ("at most", at_most),
    };
    let left_s = left * iteration_s;
    text += &format!(", {word} {left_s:.0} s left, residual {:.1e}", last.residual);
    if config.tolerance > 0.0 {
        text += &format!(" (goal {:.1e})", config.tolerance);
    }
    text + &describe_slowest(&last.times_s, hosts)
}

/// Estimates the iterations until the residual is within the tolerance, if it goes on to shrink as in the recent ones;
/// `None` if it does not shrink, or has no goal.
fn estimate_left(recent: &[SweepRecord], tolerance: f64) -> Option<f64> {
    let [first, .., last] = recent else {
        return None;
    };
    let rate = (first.residual / last.residual).ln() / (recent.len() - 1) as f64;
    let left = (last.residual / tolerance).ln() / rate;
    (rate > 0.0 && left.is_finite()).then_some(left.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_record(residual: f64) -> SweepRecord {
        SweepRecord {
            rows: vec![3, 1],
            times_s: vec![0.5, 0.25],
            residual,
            moved: 0,
            moving_s: 0.0,
            wall_s: 1.0,
        }
    }

    fn describe(residuals: &[f64], tolerance: f64) -> String {
        let history: Vec<SweepRecord> = residuals.iter().copied().map(make_record).collect();
        let config = SolveConfig { tolerance, max_iterations: 30 };
        describe_progress(&history, &config, &["a", "b"].map(str::to_owned))
    }

    #[test]
    fn the_time_left_follows_from_the_residuals() {
        // Seven more tenths.
        assert_eq!(
            describe(&[1.0, 0.1, 0.01, 0.001], 1e-10),
            "iterating: 4 of at most 30 iterations, about 7 s left, residual 1.0e-3 (goal 1.0e-10), slowest: rank 0 (a)"
        );
        // No goal, no second iteration, no decrease, and a goal that is too far.
        for (residuals, tolerance, left) in [
            (&[1.0, 0.1][..], 0.0, "at most 28 s left"),
            (&[1.0], 1e-10, "at most 29 s left"),
            (&[1.0, 2.0], 1e-10, "at most 28 s left"),
            (&[1.0, 0.9], 1e-10, "at most 28 s left"),
        ] {
            let text = describe(residuals, tolerance);
            assert!(text.contains(left), "{text}");
            assert_eq!(text.contains("goal"), tolerance > 0.0, "{text}");
        }
    }
}
