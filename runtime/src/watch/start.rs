//! The wait for other ranks before they know each other: in the start of MPI, and until all ranks have joined the watch.

use super::cause::ProcessState;
use super::judge::Said;
use super::process::Sibling;
use super::pulse::limit_quiet;
use super::sign::Sign;

/// Time in seconds that other ranks leave the one that speaks for its last line.
const LAST_LINE_S: f64 = 2.0;

/// The judgement of a rank that has not joined the others yet.
#[derive(Debug)]
pub struct StartJudge {
    rank: usize,
    host: String,
    timeout_s: f64,
    /// The time without progress at which the next line is due.
    next_s: f64,
}

impl StartJudge {
    /// Makes the judge of a rank as its launcher numbers it.
    pub fn new(rank: usize, host: String, timeout_s: f64) -> Self {
        Self { rank, host, timeout_s, next_s: limit_quiet(timeout_s) }
    }

    /// Returns what this rank says about its wait. `list` lists the other ranks of its host.
    pub fn judge(&mut self, sign: &Sign, list: impl FnOnce() -> Vec<Sibling>) -> Option<Said> {
        if !sign.waits || sign.quiet_s < self.next_s {
            return None;
        }
        self.next_s = 2.0 * sign.quiet_s;
        let siblings = list();
        let held = [ProcessState::Stopped, ProcessState::Traced];
        let stopped: Vec<&Sibling> =
            siblings.iter().filter(|it| held.contains(&it.state)).collect();
        let traced = stopped.iter().any(|it| it.state == ProcessState::Traced);
        let timeout_s = if traced || sign.is_traced { f64::INFINITY } else { self.timeout_s };
        self.next_s = self.next_s.min(self.timeout_s.max(sign.quiet_s + 1.0));
        let is_first = siblings
            .iter()
            .filter(|it| it.state == ProcessState::Unknown)
            .map(|it| it.rank)
            .min()
            .is_none_or(|rank| self.rank < rank);
        let speaks = is_first && (self.rank == 0 || !stopped.is_empty());
        let line = speaks.then(|| self.describe(sign.quiet_s, &stopped));
        match line {
            Some(line) if sign.quiet_s >= timeout_s => {
                let reason = format!("after {timeout_s:.0} s without progress");
                Some(Said::End(format!("{line}; the job ends, {reason}")))
            }
            None if sign.quiet_s >= timeout_s + LAST_LINE_S => Some(Said::End(String::new())),
            line => line.map(Said::Line),
        }
    }

    fn describe(&self, quiet_s: f64, stopped: &[&Sibling]) -> String {
        let Self { rank, host, .. } = self;
        match stopped {
            [] => format!(
                "rank {rank} on {host} has waited for {quiet_s:.0} s for the start of MPI: another rank has not started, or its host \
                 or link is gone"
            ),
            [first, ..] => {
                let (silent, how) = (first.rank, first.state.describe());
                format!(
                    "rank {silent} on {host} has not joined the others for {quiet_s:.0} s: it was starting ({how})"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(quiet_s: f64) -> Sign {
        Sign { waits: true, quiet_s, ..Sign::default() }
    }

    fn siblings(states: &[(usize, ProcessState)]) -> Vec<Sibling> {
        states.iter().map(|&(rank, state)| Sibling { rank, state }).collect()
    }

    #[test]
    fn the_first_running_rank_of_a_host_names_a_stopped_one() {
        use ProcessState::{Stopped, Unknown};
        let mut first = StartJudge::new(1, "a".to_owned(), 600.0);
        let mut second = StartJudge::new(2, "a".to_owned(), 600.0);
        assert_eq!(first.judge(&waiting(9.0), || unreachable!()), None);
        let said = first.judge(&waiting(10.5), || siblings(&[(0, Stopped), (2, Unknown)]));
        let Some(Said::Line(line)) = said else {
            panic!("{said:?}");
        };
        assert!(line.starts_with("rank 0 on a has not joined the others for "), "{line}");
        let said = second.judge(&waiting(10.5), || siblings(&[(0, Stopped), (1, Unknown)]));
        assert_eq!(said, None);
        // It is said again after twice the time.
        assert_eq!(first.judge(&waiting(20.0), || unreachable!()), None);
        assert!(first.judge(&waiting(21.0), || siblings(&[(0, Stopped)])).is_some());
    }

    #[test]
    fn the_head_rank_speaks_for_hosts_that_nobody_sees() {
        let mut head = StartJudge::new(0, "a".to_owned(), f64::INFINITY);
        let said = head.judge(&waiting(11.0), Vec::new);
        let Some(Said::Line(line)) = said else {
            panic!("{said:?}");
        };
        assert!(line.contains("another rank has not started"), "{line}");
        let mut other = StartJudge::new(3, "b".to_owned(), f64::INFINITY);
        assert_eq!(other.judge(&waiting(11.0), Vec::new), None);
    }

    #[test]
    fn every_rank_ends_at_the_timeout_unless_a_debugger_holds_one() {
        let stopped = || siblings(&[(2, ProcessState::Stopped), (1, ProcessState::Unknown)]);
        let mut head = StartJudge::new(0, "a".to_owned(), 5.0);
        assert!(
            matches!(head.judge(&waiting(5.0), stopped), Some(Said::End(line)) if !line.is_empty())
        );
        let others = || siblings(&[(2, ProcessState::Stopped), (0, ProcessState::Unknown)]);
        let mut other = StartJudge::new(1, "a".to_owned(), 5.0);
        assert_eq!(other.judge(&waiting(5.0), others), None);
        assert_eq!(other.judge(&waiting(7.1), others), Some(Said::End(String::new())));
        let traced = || siblings(&[(1, ProcessState::Traced)]);
        let mut head = StartJudge::new(0, "a".to_owned(), 5.0);
        assert!(matches!(head.judge(&waiting(90.0), traced), Some(Said::Line(_))));
    }
}
