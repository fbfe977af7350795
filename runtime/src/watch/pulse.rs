//! The time that this rank has spent without progress, and the time that it may spend.

use super::activity::{Activity, RankPhase};
use super::sign::Sign;

/// Longest time in seconds that counts between two looks, which are a second apart.
///
/// A process that was suspended, alone or with the whole job, did not look meanwhile. So that time counts for nothing.
pub const LONGEST_PAUSE_S: f64 = 2.0;

/// Time in seconds without progress after which a rank is named.
pub const QUIET_S: f64 = 10.0;
/// The same where the job is to end before. Signs come every second, and some may be late.
const LEAST_QUIET_S: f64 = 3.0;

/// Returns the seconds without progress after which a rank is named, in a job that ends after `timeout_s` without progress.
pub fn limit_quiet(timeout_s: f64) -> f64 {
    timeout_s.clamp(LEAST_QUIET_S, QUIET_S)
}

/// The same for a rank that is busy with code of others whose length is unknown: drivers, and kernels of users.
const BUSY_S: f64 = 60.0;

/// A step may take this many times the mean of the steps before it, or what was predicted.
const STEPS_LATE: f64 = 8.0;
/// Anything may take this many times the longest time without progress so far in the same phase.
const TIMES_LATE: f64 = 2.0;

/// The first steps, of which there are this part of all, may take as long as all work is expected to take.
const SEEN_PART: u32 = 4;

/// Seconds between two looks at the work of the process.
const WORK_S: f64 = 3.0;
/// Less than this part of a core is no computation, but the polling of messages.
const LEAST_CORES: f64 = 0.05;

/// The progress of this rank.
#[derive(Debug, Default)]
pub struct Pulse {
    quiet_s: f64,
    /// Time without progress after which a rank is named.
    limit_s: f64,
    now: Activity,
    /// Seconds since the phase began, and the longest time without progress in it.
    phase_s: f64,
    longest_s: f64,
    /// The step with which the phase began.
    first_step: u32,
    /// The CPU time at the last look, and the seconds since then.
    known_s: Option<f64>,
    since_s: f64,
    is_busy: bool,
}

impl Pulse {
    /// Makes the pulse of a rank that is named after `limit_s` without progress.
    pub fn new(limit_s: f64) -> Self {
        Self { limit_s, ..Self::default() }
    }

    /// Takes in what this rank does `elapsed_s` after the last look. `measure` measures the CPU time of the process.
    pub(super) fn beat(
        &mut self,
        elapsed_s: f64,
        now: Activity,
        measure: impl FnOnce() -> f64,
    ) -> Sign {
        let elapsed_s = elapsed_s.min(LONGEST_PAUSE_S);
        let before = std::mem::replace(&mut self.now, now);
        self.phase_s += elapsed_s;
        if before.phase != now.phase {
            (self.phase_s, self.longest_s, self.first_step) = (0.0, 0.0, now.step.max(1));
        }
        if (before.phase, before.done) == (now.phase, now.done) {
            self.quiet_s += elapsed_s;
            self.look_at_work(elapsed_s, measure);
        } else {
            if !before.waits && before.phase == now.phase {
                self.longest_s = self.longest_s.max(self.quiet_s);
            }
            (self.quiet_s, self.known_s, self.is_busy) = (0.0, None, false);
        }
        self.describe()
    }

    /// Looks at the work of a quiet process once in a while.
    fn look_at_work(&mut self, elapsed_s: f64, measure: impl FnOnce() -> f64) {
        self.since_s += elapsed_s;
        if self.known_s.is_some() && self.since_s < WORK_S {
            return;
        }
        let cpu_s = measure();
        if let Some(before_s) = self.known_s {
            self.is_busy = cpu_s - before_s > LEAST_CORES * self.since_s;
        }
        (self.known_s, self.since_s) = (Some(cpu_s), 0.0);
    }

    fn describe(&self) -> Sign {
        let Activity { phase, step, .. } = self.now;
        let done = step.saturating_sub(self.first_step);
        let mean_s =
            if done > 0 { (self.phase_s - self.quiet_s).max(0.0) / f64::from(done) } else { 0.0 };
        let expected_s = STEPS_LATE * self.now.step_s.max(mean_s);
        let known_s = expected_s.max(TIMES_LATE * self.longest_s).max(self.now.call_s);
        let patience_s = match phase {
            RankPhase::Print => f64::MAX,
            RankPhase::Devices | RankPhase::Work if self.is_busy => known_s.max(BUSY_S),
            _ => known_s,
        };
        // Some devices put off the work of many steps to one.
        let seen_enough =
            phase == RankPhase::Multiply && done >= (self.now.steps / SEEN_PART).max(1);
        let work_s = if seen_enough { 0.0 } else { self.now.work_s };
        let bound_s = match phase {
            // Nothing says how long a user's kernel may take.
            RankPhase::Work if self.is_busy => f64::MAX,
            _ => patience_s.max(work_s),
        };
        Sign {
            phase,
            step,
            steps: self.now.steps,
            waits: self.now.waits,
            is_busy: self.is_busy,
            quiet_s: self.quiet_s,
            patience_s: patience_s.max(self.limit_s),
            bound_s,
            step_s: mean_s,
            ..Sign::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;

    fn computing(phase: RankPhase, step: u32) -> Activity {
        Activity { phase, step, steps: 100, done: u64::from(step), ..Activity::default() }
    }

    /// Beats for some seconds while a process uses `cores`, and returns the last sign.
    fn beat_for(pulse: &mut Pulse, seconds: u32, now: Activity, cores: f64) -> Sign {
        let mut sign = None;
        for second in 0..seconds {
            sign = Some(pulse.beat(1.0, now, || f64::from(second) * cores));
        }
        sign.expect("a second")
    }

    #[test]
    fn progress_ends_the_quiet_time() {
        let mut pulse = Pulse::new(QUIET_S);
        let quiet = beat_for(&mut pulse, 9, computing(RankPhase::Multiply, 1), 0.0);
        assert_eq!(quiet.quiet_s, 8.0);
        let sign = beat_for(&mut pulse, 1, computing(RankPhase::Multiply, 2), 0.0);
        assert_eq!(sign.quiet_s, 0.0);
        let sign = beat_for(&mut pulse, 1, computing(RankPhase::Check, 2), 0.0);
        assert_eq!(sign.quiet_s, 0.0);
    }

    #[test]
    fn a_suspended_process_does_not_count_the_time() {
        let mut pulse = Pulse::new(QUIET_S);
        let now = computing(RankPhase::Multiply, 1);
        beat_for(&mut pulse, 3, now, 0.0);
        let sign = pulse.beat(3600.0, now, || 0.0);
        assert_eq!(sign.quiet_s, 2.0 + LONGEST_PAUSE_S);
    }

    /// A library that spins uses a core and does nothing.
    #[test]
    fn a_busy_processor_is_no_progress() {
        for phase in RankPhase::iter().filter(|phase| *phase != RankPhase::Print) {
            for cores in [0.0, 1.0] {
                let mut pulse = Pulse::new(QUIET_S);
                let sign = beat_for(&mut pulse, 30, computing(phase, 0), cores);
                let is_foreign = matches!(phase, RankPhase::Devices | RankPhase::Work);
                let patience_s = if is_foreign && cores > 0.0 { BUSY_S } else { QUIET_S };
                assert_eq!(sign.patience_s, patience_s, "{phase:?} {cores}");
                let is_endless = phase == RankPhase::Work && cores > 0.0;
                assert_eq!(sign.bound_s == f64::MAX, is_endless, "{phase:?} {cores}");
            }
        }
    }

    #[test]
    fn a_long_call_may_take_as_long_as_its_size_lets_expect() {
        for phase in [RankPhase::Plan, RankPhase::Multiply, RankPhase::Write] {
            let mut now = computing(phase, 0);
            now.call_s = 100.0;
            let mut pulse = Pulse::new(QUIET_S);
            let sign = beat_for(&mut pulse, 60, now, 1.0);
            assert_eq!((sign.patience_s, sign.bound_s), (100.0, 100.0));
            now.call_s = 0.0;
            let sign = beat_for(&mut pulse, 60, now, 1.0);
            assert_eq!((sign.patience_s, sign.bound_s), (QUIET_S, 0.0));
        }
    }

    #[test]
    fn a_step_may_take_as_long_as_the_prediction_and_the_steps_before_it_let_expect() {
        let mut pulse = Pulse::new(QUIET_S);
        let mut now = computing(RankPhase::Multiply, 1);
        (now.step_s, now.work_s) = (5.0, 500.0);
        let sign = beat_for(&mut pulse, 20, now, 0.0);
        assert_eq!((sign.patience_s, sign.bound_s), (40.0, 500.0));
        now.step = 26;
        now.done = 26;
        let sign = beat_for(&mut pulse, 1, now, 0.0);
        assert_eq!((sign.patience_s, sign.bound_s), (40.0, 40.0));
        // Without a prediction, paced devices sleep through most of a step.
        let mut pulse = Pulse::new(QUIET_S);
        for step in 1..=4 {
            beat_for(&mut pulse, 6, computing(RankPhase::Multiply, step), 0.0);
        }
        let sign = beat_for(&mut pulse, 20, computing(RankPhase::Multiply, 5), 0.0);
        assert!(sign.patience_s > 40.0, "{sign:?}");
        assert_eq!(sign.patience_s, sign.bound_s);
    }

    #[test]
    fn a_printing_rank_is_never_late() {
        let sign = beat_for(&mut Pulse::new(QUIET_S), 1000, computing(RankPhase::Print, 0), 0.0);
        assert_eq!(sign.patience_s, f64::MAX);
    }
}
