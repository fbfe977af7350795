//! Measurements of the links between ranks.

use std::time::{Duration, Instant};

use isochron_hierarchy::predict::Links;

use super::contract::Comm;
use super::exchange::{REST, measure_core_s, measure_exchange_s};
use crate::error::Error;

/// Bytes of the messages that are timed, each sent to both neighbours. The shortest shows the latency. The longest
/// takes much longer than that on any network.
const LENGTHS: [usize; 5] = [1, 512, 4 << 10, 32 << 10, 256 << 10];
/// The shortest length of which the bytes take much more CPU time than the message.
const MANY_BYTES: usize = 64 << 10;
/// Exchanges in a row, attempt by attempt. The first alone shows what more of them would take.
const ATTEMPTS: [usize; 5] = [1, 1, 1, 3, 3];
/// Seconds for which a rank that looks for messages all the time does not run if its host stalls it.
const STALL_S: f64 = 1e-3;
/// Most seconds of attempts that count for nothing because of stalls.
const MOST_STALLED_S: f64 = 0.25;
/// A length that takes this many times as long as the shortest shows the bandwidth: longer ones are not tried.
const MUCH_LONGER: f64 = 64.0;
/// A length shows the bandwidth if it takes at least this many times as long as the shortest, or if it is the longest.
const CLEARLY_LONGER: f64 = 1.5;
/// Seconds for which a busy host may keep a rank from its core. A single length that takes no longer shows no
/// bandwidth.
const TIME_SLICE_S: f64 = 0.005;
/// Exchanges of which the CPU time is measured.
const TRIES: usize = 4;

/// Bounds of the seconds that measuring the links may take, and its part of the run in between.
const LEAST_BUDGET_S: f64 = 0.020;
const LARGEST_BUDGET_S: f64 = 1.0;
const BUDGET_SHARE: f64 = 0.005;
/// Part of a run that checking the times of an earlier job may take, and the seconds of an attempt beside its
/// exchanges.
const CHECK_SHARE: f64 = 1e-3;
const CHECK_S: f64 = 2e-3;
/// Exchanges of an attempt to check, the most attempts, and the factor by which their times may differ from those
/// known.
const CHECKS: usize = 3;
const CHECK_ATTEMPTS: u32 = 3;
const CHECK_TOLERANCE: f64 = 2.0;
/// Messages of the shortest length for which there is time in any case, and the most seconds that they get.
const SHORT_MESSAGES: f64 = 20.0;
const SHORT_MESSAGES_S: f64 = 0.25;

/// Times of messages of growing length between all ranks at once, as far as they are worth their time.
///
/// A longer message is tried only if it is expected to fit the budget. That is 0.5 % of the run's predicted seconds, but
/// at most 1 s, and at least 20 ms or 20 of the shortest messages. All ranks decide alike, because all use the times of
/// the slowest link.
///
/// A rank that has used up its CPU quota stands still until the next period, which looks like a slow link. So an
/// attempt in which a rank stood still counts for nothing, and is made again after a longer rest. Such attempts take at
/// most 0.25 s beyond the budget, and no more than 1 s together with the others.
///
/// A ladder may [recall](Self::recall) the times of an earlier job. Before a run that is long enough, a message checks
/// them.
#[derive(Debug, Clone, Default)]
pub struct LinkLadder {
    /// The lengths measured so far, the first of [`LENGTHS`].
    rungs: Vec<Rung>,
    spent_s: f64,
    /// `true` if a message took longer than all were to take: nothing else is tried.
    is_slow: bool,
    /// Seconds of the attempts that were stalled, and their number since the last one that was not.
    stalled_s: f64,
    stalls_in_a_row: u32,
    origin: LinkOrigin,
    /// Seconds of CPU time that each rank needs for a byte of a message, by rank; empty if they were not measured.
    core_s: Vec<f64>,
}

/// The origin of the times of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkOrigin {
    /// They were measured.
    #[default]
    Measured,
    /// An earlier job has measured them.
    Recalled,
    /// An earlier job has measured them, and a message took about as long.
    Checked,
}

/// The time of one length.
#[derive(Debug, Clone, Copy)]
struct Rung {
    bytes: usize,
    /// Seconds of the fastest exchange with both neighbours.
    time_s: f64,
    attempts: usize,
}

/// Messages to be timed.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// Index of the length.
    index: usize,
    /// Exchanges in a row.
    tries: usize,
    /// Time without work before.
    rest: Duration,
}

/// Times of some exchanges in a row, in seconds: that of one of them, that of all together, and the longest for which a
/// rank did not run.
type Timing = [f64; 3];

/// Makes an attempt.
type ExchangeAttempt<'x> = dyn FnMut(Attempt) -> Result<Timing, Error> + 'x;

impl LinkLadder {
    /// Takes the times of an earlier job: the bytes and the seconds of messages, and the CPU time of a byte by rank.
    /// Returns `None` without a time of the shortest message.
    pub fn recall(times: &[(usize, f64)], core_s: Vec<f64>) -> Option<Self> {
        let rungs = LENGTHS.iter().map_while(|&bytes| {
            let &(_, time_s) = times.iter().find(|(known, _)| *known == bytes)?;
            Some(Rung { bytes, time_s, attempts: ATTEMPTS.len() })
        });
        let rungs: Vec<Rung> = rungs.collect();
        (!rungs.is_empty()).then(|| Self {
            rungs,
            core_s,
            origin: LinkOrigin::Recalled,
            ..Self::default()
        })
    }

    /// Returns the same times as if a message had just taken as long as known.
    #[must_use]
    pub fn checked(self) -> Self {
        Self { origin: LinkOrigin::Checked, ..self }
    }

    /// Lists the bytes and the seconds of the messages that were timed.
    pub fn list_times(&self) -> Vec<(usize, f64)> {
        self.rungs.iter().map(|rung| (rung.bytes, rung.time_s)).collect()
    }

    /// The CPU time of a byte by rank; empty if it was not measured.
    pub fn core_s(&self) -> &[f64] {
        &self.core_s
    }

    /// The origin of the times.
    pub fn origin(&self) -> LinkOrigin {
        self.origin
    }

    /// Measures the links, or goes on with longer messages if a run of `run_s` predicted seconds allows more time. It
    /// is 0 if the run's time is unknown.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn climb(&mut self, comm: &dyn Comm, run_s: f64) -> Result<(), Error> {
        if comm.size() == 1 {
            return Ok(());
        }
        // Only now all ranks are here.
        let run_s = comm.largest(run_s)?;
        let mut start = Instant::now();
        let before_s = self.spent_s;
        self.climb_by(run_s, &mut |attempt| {
            let [exchange_s, stall_s] =
                measure_exchange_s(comm, LENGTHS[attempt.index], attempt.tries, attempt.rest)?;
            let took_s = start.elapsed().as_secs_f64();
            start = Instant::now();
            largest_timing(comm, [exchange_s, took_s, stall_s])
        })?;
        if self.spent_s > before_s {
            tracing::debug!(links = ?self.links(), self.spent_s, "measured the links");
        }
        Ok(())
    }

    /// Measures by `exchange`, which makes an attempt on the slowest link.
    fn climb_by(&mut self, run_s: f64, exchange: &mut ExchangeAttempt<'_>) -> Result<(), Error> {
        if self.origin != LinkOrigin::Measured {
            if self.confirm(run_s, exchange)? {
                return Ok(());
            }
            *self = Self::default();
        }
        while let Some(attempt) = self.next_attempt(self.budget_s(run_s)) {
            let Attempt { index, tries, .. } = attempt;
            let [time_s, took_s, stall_s] = exchange(attempt)?;
            tracing::trace!(bytes = LENGTHS[index], time_s, took_s, stall_s, "exchanged messages");
            if stall_s > STALL_S && self.may_stall_for(took_s) {
                self.stalled_s += took_s;
                self.stalls_in_a_row += 1;
                continue;
            }
            self.stalls_in_a_row = 0;
            if took_s <= self.budget_s(run_s) {
                self.add(index, [time_s, took_s]);
                continue;
            }
            // A stall of a host, or a link that carries only the first bytes fast: another message tells.
            let mean_s = took_s / tries as f64;
            let again = if mean_s < LARGEST_BUDGET_S / 2.0 {
                let [time_s, took_s, _] = exchange(Attempt { tries: 1, ..attempt })?;
                [time_s, took_s]
            } else {
                [mean_s, 0.0]
            };
            self.add(index, again);
            if again[0] > self.budget_s(run_s) {
                self.is_slow = true;
                self.spent_s += took_s;
                self.rungs[index].time_s = mean_s.min(again[0]);
            }
        }
        Ok(())
    }

    /// Returns `true` if a run of `run_s` predicted seconds needs no message to measure the links.
    pub fn is_settled(&self, run_s: f64) -> bool {
        match (self.origin, self.rungs.last()) {
            (LinkOrigin::Checked, _) => true,
            (LinkOrigin::Recalled, Some(last)) => {
                CHECK_S + (CHECKS + 1) as f64 * last.time_s > CHECK_SHARE * run_s
            }
            _ => self.next_length(self.budget_s(run_s)).is_none(),
        }
    }

    /// Checks the times of an earlier job, once and if that is cheap. Returns `false` if they are off.
    fn confirm(&mut self, run_s: f64, exchange: &mut ExchangeAttempt<'_>) -> Result<bool, Error> {
        if self.is_settled(run_s) {
            return Ok(true);
        }
        let index = self.rungs.len() - 1;
        let known_s = self.rungs[index].time_s;
        self.origin = LinkOrigin::Checked;
        // Disturbances only delay: one attempt that takes as long as known is enough.
        for attempt in 0..CHECK_ATTEMPTS {
            let [time_s, took_s, stall_s] =
                exchange(Attempt { index, tries: CHECKS, rest: REST * 4u32.pow(attempt) })?;
            self.spent_s += took_s;
            tracing::debug!(known_s, time_s, stall_s, "checked the links");
            let ratio = time_s / known_s;
            if (1.0 / CHECK_TOLERANCE..CHECK_TOLERANCE).contains(&ratio) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns `true` if another attempt of this length may count for nothing.
    fn may_stall_for(&self, took_s: f64) -> bool {
        let stalled_s = self.stalled_s + took_s;
        stalled_s <= MOST_STALLED_S && self.spent_s + stalled_s <= LARGEST_BUDGET_S
    }

    /// Returns the seconds that all exchanges may take before a run of `run_s` seconds.
    fn budget_s(&self, run_s: f64) -> f64 {
        budget_s(run_s, self.rungs.first().map_or(0.0, |first| first.time_s))
    }

    /// Adds the time of a length. Shorter messages take no longer: disturbances only delay.
    fn add(&mut self, index: usize, [time_s, took_s]: [f64; 2]) {
        self.spent_s += took_s;
        if index == self.rungs.len() {
            self.rungs.push(Rung { bytes: LENGTHS[index], time_s, attempts: 0 });
        }
        self.rungs[index].attempts += 1;
        for rung in &mut self.rungs[..=index] {
            rung.time_s = rung.time_s.min(time_s);
        }
    }

    /// Returns the next attempt, after a rest that is longer the more were stalled; `None` if the budget allows no
    /// more.
    fn next_attempt(&self, budget_s: f64) -> Option<Attempt> {
        let (index, tries) = self.next_length(budget_s)?;
        Some(Attempt { index, tries, rest: REST * 4u32.pow(self.stalls_in_a_row.min(2)) })
    }

    /// Returns the index of the length to try next and the number of exchanges; `None` if the budget allows no more.
    fn next_length(&self, budget_s: f64) -> Option<(usize, usize)> {
        let (Some(first), Some(last)) = (self.rungs.first(), self.rungs.last()) else {
            return Some((0, ATTEMPTS[0]));
        };
        if self.is_slow {
            return None;
        }
        if self.is_next_affordable(first, last, budget_s) {
            return Some((self.rungs.len(), ATTEMPTS[0]));
        }
        // The time left goes into a more precise time of the last length.
        let left_s = budget_s - self.spent_s;
        let again = ATTEMPTS.get(last.attempts).copied();
        again
            .filter(|&tries| tries as f64 * last.time_s <= left_s)
            .map(|tries| (self.rungs.len() - 1, tries))
    }

    /// Returns `true` if there is a longer length that is worth its time.
    fn is_next_affordable(&self, first: &Rung, last: &Rung, budget_s: f64) -> bool {
        let Some(&bytes) = LENGTHS.get(self.rungs.len()) else {
            return false;
        };
        let is_shown = last.time_s >= MUCH_LONGER * first.time_s;
        let growth = bytes as f64 / last.bytes as f64;
        let expected_s = first.time_s + growth * (last.time_s - first.time_s).max(0.0);
        // One message says nothing about the bandwidth. The second is hardly longer on the wire. If it takes no longer than
        // a host may stall a rank, the third tells a slow link from a busy host.
        let is_needed = match self.rungs.len() {
            1 => first.time_s <= budget_s,
            2 => is_shown && last.time_s <= TIME_SLICE_S,
            _ => false,
        };
        is_needed || (!is_shown && expected_s <= budget_s - self.spent_s)
    }

    /// Returns latency and bandwidth of the slowest link; `None` if nothing was measured, as with a single rank.
    pub fn links(&self) -> Option<Links> {
        let (first, last) = (self.rungs.first()?, self.rungs.last()?);
        let before = self.rungs.iter().nth_back(1).unwrap_or(last);
        // A busy host delays messages of all lengths but the very first.
        let is_doubtful = (self.rungs.get(1)).is_some_and(|second| {
            second.time_s >= MUCH_LONGER * first.time_s && second.time_s <= TIME_SLICE_S
        });
        let is_clear = self.rungs.len() > 2 && last.time_s >= CLEARLY_LONGER * before.time_s;
        let short_s = if is_doubtful && !is_clear { last.time_s } else { first.time_s };
        Some(fit_links(short_s, 2 * last.bytes, last.time_s))
    }

    /// Measures the CPU time, in seconds, that each rank needs for each byte that it sends or receives in long
    /// messages, unless it is known. All ranks send and receive meanwhile. The time goes into copies and system calls,
    /// which occupy a core. 0 for a single rank, and on links that are too slow for it to matter: they let only short
    /// messages through in time, whose CPU time says nothing about that of a byte.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn measure_core_s(&mut self, comm: &dyn Comm) -> Result<Vec<f64>, Error> {
        if !self.core_s.is_empty() {
            return Ok(self.core_s.clone());
        }
        let mut core_s = vec![0.0; comm.size()];
        if let Some((bytes, tries)) = self.core_messages() {
            core_s[comm.rank()] = find_core_s(comm, bytes, tries)?;
            comm.sum_f64(&mut core_s)?;
            self.core_s.clone_from(&core_s);
        }
        Ok(core_s)
    }

    /// Returns the bytes and the number of the messages that show the CPU time of a byte; `None` if there is no time
    /// for any.
    fn core_messages(&self) -> Option<(usize, usize)> {
        let last = self.rungs.last()?;
        let bytes = last.bytes.max(MANY_BYTES);
        let time_s = last.time_s * bytes as f64 / last.bytes as f64;
        let tries = (LEAST_BUDGET_S / time_s).min(TRIES as f64) as usize;
        let is_in_time = last.bytes >= MANY_BYTES || tries > 0;
        is_in_time.then(|| (bytes, tries.max(1)))
    }
}

/// Measures the CPU time of a byte of messages of `bytes` bytes on this rank.
fn find_core_s(comm: &dyn Comm, bytes: usize, tries: usize) -> Result<f64, Error> {
    // What the shortest message takes is part of every one.
    let short_s = measure_core_s(comm, 1, tries)?;
    let long_s = measure_core_s(comm, bytes, tries)?;
    Ok((long_s - short_s).max(0.0) / (4 * bytes) as f64)
}

/// Returns the seconds that measuring the links may take before a run of `run_s` seconds, where the shortest message
/// takes `first_s`; 0 is an unknown time.
fn budget_s(run_s: f64, first_s: f64) -> f64 {
    let least_s = (SHORT_MESSAGES * first_s).clamp(LEAST_BUDGET_S, SHORT_MESSAGES_S);
    (BUDGET_SHARE * run_s).clamp(least_s, LARGEST_BUDGET_S)
}

/// Finds the links that carry one byte in `short_s` seconds, and these bytes in `long_s`.
fn fit_links(short_s: f64, bytes: usize, long_s: f64) -> Links {
    let long_s = long_s.max(1e-9);
    // The longest messages take twice the latency or more. If a message seems hardly slower than the short one, that
    // was disturbed, the clock is too coarse for both, or there was no time for a longer one.
    let longest = 2 * LENGTHS[LENGTHS.len() - 1];
    let is_shown = bytes == longest || long_s >= CLEARLY_LONGER * short_s;
    let least_s = 0.5 * long_s * bytes as f64 / longest as f64;
    let latency_s = if is_shown { short_s } else { long_s }.min(long_s - least_s);
    Links { latency_s, bytes_per_s: bytes as f64 / (long_s - latency_s) }
}

/// Returns the largest of all ranks' values, each by itself.
fn largest_timing(comm: &dyn Comm, mine: Timing) -> Result<Timing, Error> {
    let mut all = vec![[0.0; 3]; comm.size()];
    all[comm.rank()] = mine;
    comm.sum_f64(all.as_flattened_mut())?;
    Ok(all.into_iter().fold([0.0; 3], |most, of_rank| {
        std::array::from_fn(|value| most[value].max(of_rank[value]))
    }))
}

#[cfg(test)]
mod tests;
