//! The line of progress on a terminal.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use isochron_core::comm::Comm;
use isochron_core::plan::Plan;
use isochron_core::progress::{Observer, Progress};
use isochron_hierarchy::balance::{BalanceConfig, Rule};

use crate::terminal_line::TerminalLine;

/// The measurements before the run, as far as they are known.
#[derive(Clone, Copy)]
pub(super) struct MeasuringLimits {
    /// About the most measurements of all nodes; `None` if the run itself is to learn.
    most: Option<u32>,
    /// The imbalance that is sought.
    epsilon: f64,
}

impl MeasuringLimits {
    /// Returns the limits of balancing with these settings.
    pub(super) fn of(config: &BalanceConfig) -> Self {
        // Before the first division, a small point of each node is measured.
        let most = match config.rule() {
            Rule::Even | Rule::Functional { learns: true } => None,
            Rule::Constant { is_single: true } => Some(1),
            Rule::Constant { .. } | Rule::Functional { .. } => {
                Some(config.max_iterations.saturating_add(1))
            }
        };
        Self { most, epsilon: config.epsilon }
    }
}

/// The progress of planning and of a multiplication on the terminal.
pub(super) struct ProgressLine {
    line: TerminalLine,
    limits: MeasuringLimits,
    /// Work of the whole multiplication.
    flop: f64,
    /// Start of the measurements, and then of the multiplication.
    start: Cell<Instant>,
    n_ranks: usize,
    /// The names of the nodes, by rank; empty until the plan is known.
    nodes: RefCell<Vec<String>>,
    /// The node that all others wait for, with the words for it.
    slowest: Cell<Option<(usize, &'static str)>>,
    /// The imbalance of the last measurement.
    imbalance: Cell<Option<f64>>,
}

impl ProgressLine {
    /// Makes the line of the head rank; `None` if there is no terminal to show it on.
    pub(super) fn on_terminal(comm: &dyn Comm, flop: f64, limits: MeasuringLimits) -> Option<Self> {
        let line = TerminalLine::of_rank(comm.rank() == 0);
        line.is_shown().then(|| Self {
            line,
            limits,
            flop,
            start: Cell::new(Instant::now()),
            n_ranks: comm.size(),
            nodes: RefCell::default(),
            slowest: Cell::new(None),
            imbalance: Cell::new(None),
        })
    }

    /// Takes in the names of the nodes, and which one the plan expects to be slowest.
    pub(super) fn note_plan(&self, plan: &Plan) {
        let named = plan.nodes().iter().map(|node| {
            let name = if node.name.is_empty() { &node.host } else { &node.name };
            format!("node {} ({name})", node.rank)
        });
        self.nodes.replace(named.collect());
        let balance = plan.decision().balance.as_ref();
        let times_s = balance.map_or(&[][..], |balance| &balance.times_s);
        let slowest = (0..times_s.len())
            .filter(|&rank| times_s[rank] > 0.0)
            .max_by(|&a, &b| times_s[a].total_cmp(&times_s[b]));
        self.slowest.set(slowest.map(|rank| (rank, "expected slowest")));
    }

    /// Clears the line.
    pub(super) fn clear(&self) {
        self.line.clear();
    }

    fn describe(&self, progress: Progress<'_>) -> String {
        let elapsed_s = self.start.get().elapsed().as_secs_f64();
        let text = match progress {
            Progress::Measuring { iteration } => {
                describe_measuring(iteration, elapsed_s, self.limits, self.imbalance.get())
            }
            Progress::Multiplying { step, steps } => {
                describe_steps(step, steps, self.flop, elapsed_s)
            }
            _ => String::new(),
        };
        text + &self.describe_slowest()
    }

    /// Names the slowest of several nodes, behind a comma.
    fn describe_slowest(&self) -> String {
        let Some((rank, words)) = self.slowest.get().filter(|_| self.n_ranks > 1) else {
            return String::new();
        };
        match self.nodes.borrow().get(rank) {
            Some(name) => format!(", {words}: {name}"),
            None => format!(", {words}: node {rank}"),
        }
    }
}

impl Observer for ProgressLine {
    fn observe(&self, progress: Progress<'_>) {
        match progress {
            Progress::Slowest { rank } => return self.slowest.set(Some((rank, "slowest"))),
            Progress::Measured { slowest, imbalance } => {
                self.slowest.set(Some((slowest, "slowest")));
                return self.imbalance.set(imbalance);
            }
            Progress::Measuring { iteration: 1 } | Progress::Multiplying { step: 0, .. } => {
                self.start.set(Instant::now());
            }
            Progress::Measuring { .. } | Progress::Multiplying { .. } => {}
            // Devices and messages change too fast for a line.
            _ => return,
        }
        self.line.refresh(|| self.describe(progress));
    }
}

/// Describes the measurements before the run, the most important first: a narrow terminal cuts the end.
fn describe_measuring(
    iteration: u32,
    elapsed_s: f64,
    limits: MeasuringLimits,
    imbalance: Option<f64>,
) -> String {
    let mut text = format!("measuring: iteration {iteration}");
    let done = iteration - 1;
    match limits.most.filter(|most| iteration <= *most) {
        Some(most) => {
            text += &format!(" of about {most}");
            if done > 0 {
                let left_s = elapsed_s / f64::from(done) * f64::from(most - done);
                text += &format!(", at most {left_s:.0} s left");
            }
        }
        None if done > 0 => text += &format!(", {elapsed_s:.1} s so far"),
        None => {}
    }
    if let Some(imbalance) = imbalance {
        let (reached, goal) = (100.0 * imbalance, 100.0 * limits.epsilon);
        text += &format!(", imbalance {reached:.1} % (goal {goal:.1} %)");
    }
    text
}

/// Describes the steps of a multiplication, in the same order.
fn describe_steps(step: usize, steps: usize, flop: f64, elapsed_s: f64) -> String {
    if step == 0 {
        return format!("multiplying: step 1 of {steps}");
    }
    let done = step as f64 / steps as f64;
    let gflops = done * flop / elapsed_s / 1e9;
    let left_s = elapsed_s * (1.0 - done) / done;
    let next = step + 1;
    format!("multiplying: step {next} of {steps}, {left_s:.0} s left, {gflops:.1} GFLOP/s")
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::balance::Strategy;

    use super::*;

    #[test]
    fn the_line_tells_the_speed_and_the_time_left() {
        assert_eq!(describe_steps(0, 64, 1e12, 0.0), "multiplying: step 1 of 64");
        assert_eq!(
            describe_steps(16, 64, 1e12, 2.0),
            "multiplying: step 17 of 64, 6 s left, 125.0 GFLOP/s"
        );
    }

    #[test]
    fn measurements_tell_their_number_the_time_left_and_the_imbalance() {
        let config = BalanceConfig {
            strategy: Strategy::Fpm,
            max_iterations: 4,
            epsilon: 0.05,
            ..BalanceConfig::default()
        };
        let fpm = MeasuringLimits::of(&config);
        assert_eq!(describe_measuring(1, 0.0, fpm, None), "measuring: iteration 1 of about 5");
        assert_eq!(
            describe_measuring(3, 4.0, fpm, Some(0.25)),
            "measuring: iteration 3 of about 5, at most 6 s left, imbalance 25.0 % (goal 5.0 %)"
        );
        // Other ways to divide may be measured too.
        assert_eq!(describe_measuring(6, 4.0, fpm, None), "measuring: iteration 6, 4.0 s so far");
        let learns = MeasuringLimits::of(&BalanceConfig::default());
        assert_eq!(
            describe_measuring(2, 0.5, learns, None),
            "measuring: iteration 2, 0.5 s so far"
        );
    }

    #[test]
    fn the_slowest_of_several_nodes_is_named_as_far_as_its_name_is_known() {
        let line = ProgressLine {
            line: TerminalLine::of_rank(false),
            limits: MeasuringLimits::of(&BalanceConfig::default()),
            flop: 1.0,
            start: Cell::new(Instant::now()),
            n_ranks: 2,
            nodes: RefCell::default(),
            slowest: Cell::new(None),
            imbalance: Cell::new(None),
        };
        assert_eq!(line.describe_slowest(), "");
        line.observe(Progress::Measured { slowest: 1, imbalance: None });
        assert_eq!(line.describe_slowest(), ", slowest: node 1");
        line.nodes.replace(vec!["node 0 (a)".to_owned(), "node 1 (b)".to_owned()]);
        line.observe(Progress::Slowest { rank: 0 });
        assert_eq!(line.describe_slowest(), ", slowest: node 0 (a)");
        let alone = ProgressLine { n_ranks: 1, ..line };
        assert_eq!(alone.describe_slowest(), "");
    }
}
