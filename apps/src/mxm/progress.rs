//! The line of progress on a terminal.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use isochron_core::comm::Comm;
use isochron_core::multiply::Plan;
use isochron_core::progress::{Observer, Progress};

use crate::terminal_line::TerminalLine;

/// The progress of planning and of a multiplication on the terminal.
pub(super) struct ProgressLine {
    line: TerminalLine,
    /// Work of the whole multiplication.
    flop: f64,
    /// Start of the multiplication.
    start: Cell<Instant>,
    /// The names of the nodes, by rank; empty until the plan is known.
    nodes: RefCell<Vec<String>>,
    /// The node that all others wait for, with the words for it.
    slowest: Cell<Option<(usize, &'static str)>>,
}

impl ProgressLine {
    /// Makes the line of the head rank; `None` if there is no terminal to show it on.
    pub(super) fn on_terminal(comm: &dyn Comm, flop: f64) -> Option<Self> {
        let line = TerminalLine::of_rank(comm.rank() == 0);
        line.is_shown().then(|| Self {
            line,
            flop,
            start: Cell::new(Instant::now()),
            nodes: RefCell::default(),
            slowest: Cell::new(None),
        })
    }

    /// Takes in the names of the nodes, and which one the plan expects to be slowest.
    pub(super) fn note_plan(&self, plan: &Plan) {
        let nodes = plan.nodes().iter();
        let named = nodes.map(|node| {
            let name = if node.name.is_empty() {
                &node.host
            } else {
                &node.name
            };
            format!("node {} ({name})", node.rank)
        });
        self.nodes.replace(named.collect());
        let balance = plan.decision().balance.as_ref();
        let times_s = balance.map_or(&[][..], |balance| &balance.times_s);
        let ranks = (0..times_s.len()).filter(|&rank| times_s[rank] > 0.0);
        let slowest = ranks.max_by(|&a, &b| times_s[a].total_cmp(&times_s[b]));
        self.slowest
            .set(slowest.map(|rank| (rank, "expected slowest")));
    }

    /// Clears the line.
    pub(super) fn clear(&self) {
        self.line.clear();
    }

    fn describe(&self, progress: Progress) -> String {
        let elapsed_s = self.start.get().elapsed().as_secs_f64();
        let nodes = self.nodes.borrow();
        let slowest = self.slowest.get().filter(|_| nodes.len() > 1);
        let slowest =
            slowest.and_then(|(rank, words)| Some(format!("{words}: {}", nodes.get(rank)?)));
        describe_progress(progress, (self.flop, elapsed_s), slowest.as_deref())
    }
}

impl Observer for ProgressLine {
    fn observe(&self, progress: Progress) {
        match progress {
            Progress::Slowest { rank } => return self.slowest.set(Some((rank, "slowest"))),
            Progress::Multiplying { step: 0, .. } => self.start.set(Instant::now()),
            _ => {}
        }
        self.line.refresh(|| self.describe(progress));
    }
}

/// Describes the progress, the most important first: a narrow terminal cuts the end.
fn describe_progress(
    progress: Progress,
    (flop, elapsed_s): (f64, f64),
    slowest: Option<&str>,
) -> String {
    let mut text = match progress {
        Progress::Measuring { iteration } => return format!("measuring: iteration {iteration}"),
        Progress::Multiplying { step: 0, steps } => format!("multiplying: step 1 of {steps}"),
        Progress::Multiplying { step, steps } => {
            let done = step as f64 / steps as f64;
            let gflops = done * flop / elapsed_s / 1e9;
            let left_s = elapsed_s * (1.0 - done) / done;
            let next = step + 1;
            format!("multiplying: step {next} of {steps}, {left_s:.0} s left, {gflops:.1} GFLOP/s")
        }
        Progress::Slowest { .. } => String::new(),
    };
    if let Some(slowest) = slowest {
        text += &format!(", {slowest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_the_speed_the_time_left_and_the_slowest_node() {
        let [first, later] = [0, 16].map(|step| Progress::Multiplying { step, steps: 64 });
        assert_eq!(
            describe_progress(first, (1e12, 0.0), None),
            "multiplying: step 1 of 64"
        );
        assert_eq!(
            describe_progress(later, (1e12, 2.0), Some("slowest: node 1 (b)")),
            "multiplying: step 17 of 64, 6 s left, 125.0 GFLOP/s, slowest: node 1 (b)"
        );
        let measuring = Progress::Measuring { iteration: 3 };
        assert_eq!(
            describe_progress(measuring, (1e12, 9.0), None),
            "measuring: iteration 3"
        );
    }
}
