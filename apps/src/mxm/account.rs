//! The time account of the process.

use std::rc::Rc;
use std::time::Instant;

use super::progress::ProgressLine;
use crate::trace::Recorder;
use isochron_core::internal::watch::{self, RankPhase};
use isochron_core::report::Account;

/// A phase of the process; [`Account`] has the seconds of each.
#[derive(Clone, Copy)]
pub(super) enum AccountPhase {
    Start,
    Devices,
    Matrices,
    Plan,
    Multiply,
    Check,
    Write,
    End,
}

impl From<AccountPhase> for RankPhase {
    fn from(phase: AccountPhase) -> Self {
        match phase {
            AccountPhase::Start => Self::Start,
            AccountPhase::Devices => Self::Devices,
            AccountPhase::Matrices => Self::Matrices,
            AccountPhase::Plan => Self::Plan,
            AccountPhase::Multiply => Self::Multiply,
            AccountPhase::Check => Self::Check,
            AccountPhase::Write => Self::Write,
            AccountPhase::End => Self::End,
        }
    }
}

/// A stopwatch that runs in exactly one phase at any time.
pub(super) struct Stopwatch<'a> {
    /// The line of progress, which a new phase clears.
    pub line: Option<&'a ProgressLine>,
    /// Records the phases.
    pub recorder: Option<Rc<Recorder>>,
    account: Account,
    phase: AccountPhase,
    start: Instant,
    /// Start of the phase.
    since: Instant,
}

impl Stopwatch<'_> {
    /// Makes a stopwatch that has run in [`AccountPhase::Start`] since `start`.
    pub(super) fn started_at(start: Instant) -> Self {
        Self {
            line: None,
            recorder: None,
            account: Account::default(),
            phase: AccountPhase::Start,
            start,
            since: start,
        }
    }

    /// Ends the phase and enters the next.
    pub(super) fn enter(&mut self, next: AccountPhase) {
        let phase = RankPhase::from(next);
        watch::enter(phase);
        if let Some(recorder) = &self.recorder {
            recorder.enter(phase.describe());
        }
        self.enter_at(next, Instant::now());
        if let Some(line) = self.line {
            line.clear();
        }
    }

    fn enter_at(&mut self, next: AccountPhase, now: Instant) {
        let seconds = match self.phase {
            AccountPhase::Start => &mut self.account.start_s,
            AccountPhase::Devices => &mut self.account.devices_s,
            AccountPhase::Matrices => &mut self.account.matrices_s,
            AccountPhase::Plan => &mut self.account.plan_s,
            AccountPhase::Multiply => &mut self.account.multiply_s,
            AccountPhase::Check => &mut self.account.check_s,
            AccountPhase::Write => &mut self.account.write_s,
            AccountPhase::End => &mut self.account.end_s,
        };
        *seconds += (now - self.since).as_secs_f64();
        self.account.process_s = (now - self.start).as_secs_f64();
        (self.phase, self.since) = (next, now);
    }

    /// Ends the work: only the end of MPI is to come.
    pub(super) fn end_work(mut self) -> Stopwatch<'static> {
        self.enter(AccountPhase::End);
        Stopwatch {
            line: None,
            recorder: None,
            account: self.account,
            phase: self.phase,
            start: self.start,
            since: self.since,
        }
    }

    /// Ends the phase and closes the account.
    pub(super) fn close(mut self) -> Account {
        self.enter_at(AccountPhase::End, Instant::now());
        self.account
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_moment_counts_in_one_phase() {
        let start = Instant::now();
        let mut watch = Stopwatch::started_at(start);
        let phases = [
            AccountPhase::Devices,
            AccountPhase::Plan,
            AccountPhase::Matrices,
            AccountPhase::Check,
            AccountPhase::Multiply,
            AccountPhase::Matrices,
            AccountPhase::Check,
            AccountPhase::Multiply,
            AccountPhase::Write,
            AccountPhase::End,
            AccountPhase::End,
        ];
        for (index, phase) in (0..).zip(phases) {
            // The phases last 1, 2, 4, ... seconds.
            watch.enter_at(phase, start + Duration::from_secs((2 << index) - 1));
        }
        let expected = Account {
            start_s: 1.0,
            devices_s: 2.0,
            plan_s: 4.0,
            matrices_s: 8.0 + 64.0,
            check_s: 16.0 + 128.0,
            multiply_s: 32.0 + 256.0,
            write_s: 512.0,
            end_s: 1024.0,
            process_s: 2047.0,
        };
        assert_eq!(watch.account, expected);
    }
}
