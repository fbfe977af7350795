//! Measurements of the network between ranks.

use std::time::Instant;

use isochron_hierarchy::network::{Network, Survey, SurveyedPair, list_rounds};

use super::contract::Comm;
use super::exchange::{REST, measure_core_s, measure_pair_s};
use crate::error::Error;

/// Bytes of the messages that are timed. The shortest shows the latency.
const LENGTHS: [usize; 4] = [1, 4 << 10, 64 << 10, 256 << 10];
/// The least bytes whose copies take much more CPU time than the rest of a message.
const MANY_BYTES: usize = 64 << 10;
/// Messages of a pair in a row, if there is time for more than one.
const TRIES: usize = 3;
/// Times as much as for the shortest length for which there must be time before the second is tried more than once.
const MANY_TIMES: f64 = 8.0;
/// Sweeps of the longest length.
const REPEATS: usize = 3;
/// A length that takes this many times as long as the shortest shows the bandwidth: longer ones are not tried.
const MUCH_LONGER: f64 = 64.0;

/// Bounds of the seconds that measuring may take, and its part of the run in between. Only slow networks take as much.
const LEAST_BUDGET_S: f64 = 0.030;
const LARGEST_BUDGET_S: f64 = 1.0;
const BUDGET_SHARE: f64 = 0.04;
/// Part of a run that checking the times of an earlier job may take, the seconds of a check beside its messages, and the factor by
/// which the times may differ.
const CHECK_SHARE: f64 = 1e-3;
const CHECK_S: f64 = 2e-3;
const CHECK_TOLERANCE: f64 = 2.0;
/// Most attempts to check. A single one within the tolerance is enough, since disturbances only delay.
const CHECKS: u32 = 4;
/// Messages whose CPU time is measured.
const CORE_TRIES: usize = 4;

/// Times of messages of growing length between ranks in pairs, as far as they are worth their time.
///
/// Ranks exchange messages in [rounds](list_rounds) of disjoint pairs, both ways at once: first the ranks of each host, then the
/// hosts, by their first ranks. A sweep is one length in all rounds. A longer length is tried only if it is expected to fit the
/// budget: 4 % of the run's predicted seconds, but at least 30 ms and at most 1 s. All ranks decide alike, since all use the times
/// of all. Disturbances only delay: of several messages the fastest counts, and the [network](Survey::to_network) is made from
/// fast pairs.
///
/// A probe may [recall](Self::recall) the times of an earlier job. Before a run that is long enough, a round checks them.
#[derive(Debug, Clone, Default)]
pub struct NetworkProbe {
    /// The host of each rank, by number.
    hosts: Vec<usize>,
    /// The seconds of messages of [`LENGTHS`], as far as they are known.
    survey: Survey,
    /// Seconds of the first length in all rounds, with one message a pair.
    first_s: f64,
    /// Seconds of the last length in all rounds, with one message a pair.
    last_s: f64,
    /// Sweeps of the last length.
    repeats: usize,
    spent_s: f64,
    origin: NetworkOrigin,
    /// Seconds of CPU time that each rank needs for a byte of a message, by rank; empty if they were not measured.
    core_s: Vec<f64>,
    /// A network that was given.
    given: Option<Network>,
}

/// The origin of the times of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkOrigin {
    /// They were measured.
    #[default]
    Measured,
    /// An earlier job has measured them.
    Recalled,
    /// An earlier job has measured them, and a message took about as long.
    Checked,
}

/// A length to be timed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TimedLength {
    bytes: usize,
    /// Messages of each pair in a row.
    tries: usize,
    /// The last round alone, as a check.
    is_check: bool,
}

/// The seconds of the pairs of each round, and those of all together.
type RoundTimes = (Vec<Vec<f64>>, f64);

/// Makes a sweep.
type MakeSweep<'s> = dyn FnMut(TimedLength) -> Result<RoundTimes, Error> + 's;

impl NetworkProbe {
    /// Begins without times, for ranks on these hosts, by number.
    pub fn on(hosts: Vec<usize>) -> Self {
        let rounds = list_rank_rounds(&hosts).into_iter().map(|pairs| {
            let hosts = pairs.into_iter().map(|(a, b)| (hosts[a], hosts[b]));
            hosts.map(|hosts| SurveyedPair { hosts, times_s: Vec::new(), spread: 0.0 }).collect()
        });
        let survey = Survey { lengths: Vec::new(), rounds: rounds.collect() };
        Self { hosts, survey, ..Self::default() }
    }

    /// Finds the hosts of the ranks, unless they are known.
    ///
    /// # Collective
    /// All ranks.
    pub fn find_hosts(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        if self.hosts.is_empty() {
            *self = Self::on(number_hosts(comm)?);
        }
        Ok(())
    }

    /// Takes the times of an earlier job: of messages between hosts, and the CPU time of a byte by rank.
    #[must_use]
    pub fn recall(self, survey: Survey, core_s: Vec<f64>) -> Self {
        Self { survey, core_s, origin: NetworkOrigin::Recalled, ..Self::on(self.hosts) }
    }

    /// Takes this network, which is not measured any more.
    #[must_use]
    pub fn given(self, network: Network) -> Self {
        Self { given: Some(network), origin: NetworkOrigin::Checked, ..self }
    }

    /// The times between hosts; without lengths if there are none.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The CPU time of a byte by rank; empty if it was not measured.
    pub fn core_s(&self) -> &[f64] {
        &self.core_s
    }

    /// The origin of the times.
    pub fn origin(&self) -> NetworkOrigin {
        self.origin
    }

    /// Returns the network; `None` if nothing was measured, as with a single rank.
    pub fn network(&self) -> Option<Network> {
        self.given.clone().or_else(|| self.survey.to_network(&self.hosts))
    }

    /// Measures the network, or goes on with longer messages if a run of `run_s` predicted seconds allows more time. It
    /// is 0 if the run's time is unknown.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn measure(&mut self, comm: &dyn Comm, run_s: f64) -> Result<(), Error> {
        if comm.size() == 1 {
            return Ok(());
        }
        // Only now all ranks are here.
        let run_s = comm.largest(run_s)?;
        let rounds = list_rank_rounds(&self.hosts);
        self.measure_by(run_s, &mut |sweep| make_sweep(comm, &rounds, sweep))?;
        tracing::debug!(network = ?self.network(), self.spent_s, "measured the network");
        Ok(())
    }

    fn measure_by(&mut self, run_s: f64, make: &mut MakeSweep<'_>) -> Result<(), Error> {
        if self.origin != NetworkOrigin::Measured && !self.confirm(run_s, make)? {
            *self = Self::on(std::mem::take(&mut self.hosts));
        }
        if self.origin != NetworkOrigin::Measured {
            return Ok(());
        }
        while let Some(sweep) = self.next_sweep(run_s) {
            let (times_s, took_s) = make(sweep)?;
            tracing::trace!(?sweep, took_s, "exchanged messages");
            self.add(sweep, times_s, took_s);
        }
        Ok(())
    }

    /// Returns `true` if a run of `run_s` predicted seconds needs no message to measure the network.
    pub fn is_settled(&self, run_s: f64) -> bool {
        match self.origin {
            NetworkOrigin::Checked => true,
            NetworkOrigin::Recalled => self.plan_check(run_s).is_none(),
            NetworkOrigin::Measured => self.next_sweep(run_s).is_none(),
        }
    }

    /// Plans the check of the times of an earlier job: the last length in the last round, which is between hosts if there are several. `None` if that is too dear.
    fn plan_check(&self, run_s: f64) -> Option<TimedLength> {
        let (&bytes, round) = (self.survey.lengths.last()?, self.survey.rounds.last()?);
        let times_s = round.iter().filter_map(|pair| pair.times_s.last().copied());
        let expected_s = CHECK_S + (TRIES + 1) as f64 * times_s.fold(0.0, f64::max);
        (expected_s <= CHECK_SHARE * run_s).then_some(TimedLength {
            bytes: bytes as usize,
            tries: TRIES,
            is_check: true,
        })
    }

    /// Checks the times of an earlier job, once and if that is cheap. Returns `false` if they are off.
    fn confirm(&mut self, run_s: f64, make: &mut MakeSweep<'_>) -> Result<bool, Error> {
        let Some(sweep) = self.plan_check(run_s).filter(|_| self.origin == NetworkOrigin::Recalled)
        else {
            return Ok(true);
        };
        self.origin = NetworkOrigin::Checked;
        for check in 0..CHECKS {
            // What keeps a host busy may be over after a while.
            std::thread::sleep(REST * (4u32.pow(check) - 1));
            let (times_s, took_s) = make(sweep)?;
            self.spent_s += took_s;
            let round = self.survey.rounds.last().into_iter().flatten();
            let known = round.filter_map(|pair| pair.times_s.last());
            let mut ratios: Vec<f64> =
                times_s[0].iter().zip(known).map(|(now_s, known_s)| now_s / known_s).collect();
            ratios.sort_by(f64::total_cmp);
            let ratio = ratios[ratios.len() / 2];
            tracing::debug!(ratio, "checked the network");
            if (1.0 / CHECK_TOLERANCE..CHECK_TOLERANCE).contains(&ratio) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the next sweep before a run of `run_s` predicted seconds; `None` if there is no time for one.
    fn next_sweep(&self, run_s: f64) -> Option<TimedLength> {
        let rounds = self.survey.rounds.len();
        let done = self.survey.lengths.len();
        if self.survey.rounds.iter().all(Vec::is_empty) {
            return None;
        }
        if done == 0 {
            return Some(TimedLength { bytes: LENGTHS[0], tries: TRIES, is_check: false });
        }
        let left_s = (BUDGET_SHARE * run_s).clamp(LEAST_BUDGET_S, LARGEST_BUDGET_S) - self.spent_s;
        let affordable = |bytes, expected_s: f64| {
            // A message of one byte brings a pair together.
            let tries = [TRIES, 1].into_iter();
            let mut tries =
                tries.filter(|&tries| self.first_s + tries as f64 * expected_s <= left_s);
            tries.next().map(|tries| TimedLength { bytes, tries, is_check: false })
        };
        let is_shown = self.last_s >= MUCH_LONGER * self.first_s;
        if let Some(&bytes) = LENGTHS.get(done).filter(|_| !is_shown) {
            if done == 1 {
                // One length above the latency has to be tried, on whatever network.
                let tries = if MANY_TIMES * self.first_s <= left_s { TRIES } else { 1 };
                return Some(TimedLength { bytes, tries, is_check: false });
            }
            let growth = bytes as f64 / self.survey.lengths[done - 1];
            let [first_s, last_s] = [0, done - 1].map(|length| self.find_slow_pair(length));
            let more_s = (growth - 1.0) * (last_s - first_s).max(0.0);
            if let Some(sweep) = affordable(bytes, self.last_s + rounds as f64 * more_s) {
                return Some(sweep);
            }
        }
        let bytes = *self.survey.lengths.last()? as usize;
        affordable(bytes, self.last_s).filter(|_| self.repeats < REPEATS)
    }

    /// Returns the seconds of a message of this length that three quarters of the pairs do not exceed.
    fn find_slow_pair(&self, length: usize) -> f64 {
        let pairs = self.survey.rounds.iter().flatten();
        let mut times_s: Vec<f64> = pairs.map(|pair| pair.times_s[length]).collect();
        times_s.sort_by(f64::total_cmp);
        times_s[times_s.len() * 3 / 4]
    }

    /// Adds the times of a sweep. Of repeated ones the fastest counts.
    fn add(&mut self, sweep: TimedLength, times_s: Vec<Vec<f64>>, took_s: f64) {
        self.spent_s += took_s;
        let one_s = took_s / sweep.tries as f64;
        let is_new = self.survey.lengths.last() != Some(&(sweep.bytes as f64));
        if is_new {
            self.survey.lengths.push(sweep.bytes as f64);
            self.repeats = 0;
        }
        self.repeats += 1;
        self.last_s = if is_new { one_s } else { self.last_s.min(one_s) };
        if self.survey.lengths.len() == 1 {
            self.first_s = self.last_s;
        }
        for (pair, time_s) in self.survey.rounds.iter_mut().flatten().zip(times_s.concat()) {
            match pair.times_s.last_mut() {
                Some(known_s) if !is_new && *known_s > 0.0 && time_s > 0.0 => {
                    let slowest_s = time_s.max(pair.spread.max(1.0) * *known_s);
                    *known_s = known_s.min(time_s);
                    pair.spread = slowest_s / *known_s;
                }
                Some(known_s) if !is_new => *known_s = known_s.min(time_s),
                _ => {
                    pair.times_s.push(time_s);
                    pair.spread = 0.0;
                }
            }
        }
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
        let longest = *self.survey.lengths.last()? as usize;
        let bytes = longest.max(MANY_BYTES);
        let time_s = self.network()?.level(0).message_s(bytes as f64);
        let tries = (LEAST_BUDGET_S / time_s).min(CORE_TRIES as f64) as usize;
        (longest >= MANY_BYTES || tries > 0).then(|| (bytes, tries.max(1)))
    }
}

/// Measures the CPU time of a byte of messages of `bytes` bytes on this rank.
fn find_core_s(comm: &dyn Comm, bytes: usize, tries: usize) -> Result<f64, Error> {
    // What the shortest message takes is part of every one.
    let short_s = measure_core_s(comm, 1, tries)?;
    let long_s = measure_core_s(comm, bytes, tries)?;
    Ok((long_s - short_s).max(0.0) / (4 * bytes) as f64)
}

/// Measures the network between the ranks as precisely as a run of these seconds is worth; `None` for a single rank. This rank's arithmetic
/// loses `message_cost` seconds for each second of CPU time of its messages.
///
/// # Errors
/// Returns the errors of [`Comm`].
///
/// # Collective
/// All ranks.
pub fn measure_network(
    comm: &dyn Comm,
    run_s: f64,
    message_cost: f64,
) -> Result<Option<Network>, Error> {
    let mut probe = NetworkProbe::on(number_hosts(comm)?);
    probe.measure(comm, run_s)?;
    let costs: Vec<f64> = comm.gather(&message_cost)?;
    let core_s = probe.measure_core_s(comm)?;
    let byte_s = costs.iter().zip(core_s).map(|(cost, core_s)| cost * core_s);
    Ok(probe.network().map(|network| network.with_byte_s(byte_s.collect())))
}

/// Numbers the hosts of all ranks by their first rank.
///
/// # Collective
/// All ranks.
pub fn number_hosts(comm: &dyn Comm) -> Result<Vec<usize>, Error> {
    let mut known: Vec<String> = Vec::new();
    let names = comm.gather(&comm.host().to_owned())?.into_iter();
    let numbers = names.map(|name| {
        known.iter().position(|known| *known == name).unwrap_or_else(|| {
            known.push(name);
            known.len() - 1
        })
    });
    Ok(numbers.collect())
}

/// Lists the rounds of ranks: first those within hosts, then the first ranks of the hosts.
fn list_rank_rounds(hosts: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let count = hosts.iter().max().map_or(0, |last| last + 1);
    let mut ranks = vec![Vec::new(); count];
    hosts.iter().enumerate().for_each(|(rank, &host)| ranks[host].push(rank));
    let within = ranks.iter().flat_map(|ranks| ranks.chunks_exact(2));
    let within: Vec<(usize, usize)> = within.map(|pair| (pair[0], pair[1])).collect();
    let first = |(a, b): (usize, usize)| (ranks[a][0], ranks[b][0]);
    let between = list_rounds(count).into_iter();
    let between = between.map(|pairs| pairs.into_iter().map(first).collect());
    [within].into_iter().chain(between).filter(|round: &Vec<_>| !round.is_empty()).collect()
}

/// Times messages in rounds. The seconds of a pair are those of its slower rank.
///
/// # Collective
/// All ranks, with the same arguments.
fn make_sweep(
    comm: &dyn Comm,
    rounds: &[Vec<(usize, usize)>],
    sweep: TimedLength,
) -> Result<RoundTimes, Error> {
    // On a busy host, a thread that has rested may run at once and for a while.
    std::thread::sleep(REST);
    let start = Instant::now();
    let me = comm.rank();
    let rounds = &rounds[if sweep.is_check { rounds.len() - 1 } else { 0 }..];
    let mut mine = Vec::new();
    for pairs in rounds {
        let pair = pairs.iter().find(|pair| pair.0 == me || pair.1 == me);
        mine.push(match pair {
            Some(&(a, b)) => measure_pair_s(comm, a + b - me, sweep.bytes, sweep.tries)?,
            None => 0.0,
        });
    }
    let took_s = start.elapsed().as_secs_f64();
    let all: Vec<(Vec<f64>, f64)> = comm.gather(&(mine, took_s))?;
    let times_s = rounds.iter().enumerate().map(|(round, pairs)| {
        pairs.iter().map(|&(a, b)| all[a].0[round].max(all[b].0[round])).collect()
    });
    Ok((times_s.collect(), all.iter().map(|(_, took_s)| *took_s).fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests;
