//! The judgement over silent ranks: who is the cause of a standstill, and when it is said.
//!
//! The machine is pure: it is fed with the ranks' signs and with the seconds that pass. The head rank judges over all ranks.
//! The others know its signs and their own, and the first one of each host speaks once the head is lost.

use super::activity::RankPhase;
use super::cause::{Cause, Kind, ProcessState, SeenRank, name_ranks};
use super::pulse::{LONGEST_PAUSE_S, QUIET_S, limit_quiet};
use super::sign::Sign;

/// Longest pause in seconds between two lines about the same rank. The first ones double.
const LONGEST_REPEAT_S: f64 = 320.0;
/// Ranks that have been silent for this part of the time are named together with the first one.
const SILENT_TOGETHER: f64 = 0.7;
/// Part of the time that some rank has to stand still before silent ones are its cause.
const STANDS_STILL: f64 = 0.5;
/// Factor of the time after which waiting of all is a standstill: a large message may be under way.
const WAITS_LONGER: f64 = 6.0;

/// The rank that judges over all.
pub const HEAD: usize = 0;

/// The judge of one rank.
#[derive(Debug)]
pub struct Judge {
    ranks: Vec<SeenRank>,
    me: usize,
    /// Seconds since the start, without those in which this process did not run.
    now_s: f64,
    /// Seconds of standstill after which the job is ended; infinite for never.
    timeout_s: f64,
    named: Option<Named>,
    /// `true` once it was said which ranks are not heard.
    has_told_unheard: bool,
}

/// A cause that was named.
#[derive(Debug)]
struct Named {
    cause: Cause,
    /// The time of standstill at which it is named again.
    next_s: f64,
}

/// Words for the users.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// A line.
    Line(String),
    /// A line, after which the job ends.
    End(String),
}

impl Judge {
    /// Makes the judge of rank `me`, where the ranks are on these hosts.
    pub fn new(hosts: &[String], me: usize, timeout_s: f64) -> Self {
        let seen =
            hosts.iter().map(|host| SeenRank { host: host.clone(), sign: None, heard_s: 0.0 });
        Self {
            ranks: seen.collect(),
            me,
            now_s: 0.0,
            timeout_s,
            named: None,
            has_told_unheard: false,
        }
    }

    /// Takes in the sign of a rank.
    pub fn hear(&mut self, rank: usize, sign: Sign) {
        if let Some(seen) = self.ranks.get_mut(rank) {
            (seen.sign, seen.heard_s) = (Some(sign), self.now_s);
        }
    }

    /// Notes that signs may be lost in the time that passes next: no rank is silent for it.
    pub fn excuse_silence(&mut self, seconds: f64) {
        for seen in &mut self.ranks {
            seen.heard_s += seconds.min(LONGEST_PAUSE_S);
        }
    }

    /// Returns `true` if a rank has ended its work, or if this one ends its own.
    pub fn has_ended(&self, rank: usize) -> bool {
        let signs = [rank, self.me].map(|rank| self.ranks[rank].sign);
        let mut known = signs.into_iter().flatten();
        known.any(|sign| sign.has_ended || sign.phase == RankPhase::End)
    }

    /// Lets time pass, and returns what is to be said. `look` tells the state of the process of a rank.
    pub fn advance(
        &mut self,
        seconds: f64,
        look: &mut dyn FnMut(usize) -> ProcessState,
    ) -> Vec<Said> {
        self.now_s += seconds.min(LONGEST_PAUSE_S);
        let cause = self.find_cause().filter(|_| self.may_speak());
        let mut said = Vec::from_iter(self.tell_unheard(look).map(Said::Line));
        let is_over = self.named.as_ref().is_some_and(|named| self.is_over(&named.cause));
        if let Some(named) = self.named.take_if(|_| is_over) {
            said.extend(self.describe_end_of(&named.cause).map(Said::Line));
        }
        let Some(cause) = cause else {
            return said;
        };
        let states: Vec<_> = cause.ranks.iter().map(|&rank| look(rank)).collect();
        let end_s = self.find_end(&cause, &states);
        let due_s = self
            .named
            .as_ref()
            .filter(|named| named.cause.is_same(&cause))
            .map_or(0.0, |named| named.next_s);
        if end_s.is_some() || cause.stands_s >= due_s {
            let line = cause.describe(&self.ranks, states[0]);
            said.push(match end_s {
                Some(end_s) => {
                    Said::End(format!("{line}; the job ends, after {end_s:.0} s without progress"))
                }
                None => Said::Line(line),
            });
            let next_s = (2.0 * cause.stands_s).min(cause.stands_s + LONGEST_REPEAT_S);
            self.named = Some(Named { cause, next_s });
        } else if let Some(named) = &mut self.named {
            named.cause = cause;
        }
        said
    }

    /// Returns the seconds of standstill after which a rank is named.
    fn limit_s(&self) -> f64 {
        limit_quiet(self.timeout_s)
    }

    /// Returns the seconds since the last sign of a rank.
    fn silent_s(&self, rank: usize) -> f64 {
        if rank == self.me { 0.0 } else { self.now_s - self.ranks[rank].heard_s }
    }

    /// Lists the ranks whose signs come here, and that have not ended.
    fn list_watched(&self) -> impl Iterator<Item = usize> {
        let all = 0..self.ranks.len();
        all.filter(|&rank| self.me == HEAD || rank == HEAD || rank == self.me)
            .filter(|&rank| !self.ranks[rank].sign.is_some_and(|sign| sign.has_ended))
    }

    /// Lists the watched ranks that give signs, with their signs.
    fn list_alive(&self) -> impl Iterator<Item = (usize, Sign)> {
        let limit_s = SILENT_TOGETHER * self.limit_s();
        self.list_watched()
            .filter(move |&rank| self.silent_s(rank) < limit_s)
            .filter_map(|rank| Some((rank, self.ranks[rank].sign?)))
    }

    /// Returns the seconds that a rank has spent without progress, as far as is known.
    fn quiet_s(&self, rank: usize, sign: &Sign) -> f64 {
        sign.quiet_s + self.silent_s(rank)
    }

    /// Finds the ranks that hold up the job: silent ones first, then those that make no progress and do not wait. If all
    /// wait, the one that has waited longest stands for them.
    fn find_cause(&self) -> Option<Cause> {
        self.find_silent().or_else(|| self.find_busy()).or_else(|| self.find_waiting())
    }

    /// Tells once which ranks the head does not hear: such a rank is not taken for a silent one.
    fn tell_unheard(&mut self, look: &mut dyn FnMut(usize) -> ProcessState) -> Option<String> {
        if self.has_told_unheard || self.now_s < QUIET_S || self.me != HEAD {
            return None;
        }
        self.has_told_unheard = true;
        let unheard = self.list_watched().filter(|&rank| self.ranks[rank].sign.is_none());
        let unheard: Vec<_> = unheard.filter(|&rank| look(rank) == ProcessState::Unknown).collect();
        let names = |ranks: &[usize]| name_ranks(ranks, &self.ranks);
        (!unheard.is_empty()).then(|| {
            format!(
                "{} gets no signs of {} (a firewall may drop UDP): it cannot tell whether they stand still",
                names(&[self.me]),
                names(&unheard)
            )
        })
    }

    fn find_silent(&self) -> Option<Cause> {
        let limit_s = self.limit_s();
        let heard = self.list_watched().filter(|&rank| self.ranks[rank].sign.is_some());
        let heard: Vec<_> = heard.map(|rank| (rank, self.silent_s(rank))).collect();
        let stands_s = heard.iter().map(|(_, silent_s)| *silent_s).fold(0.0, f64::max);
        if stands_s < limit_s || !self.stands_still(STANDS_STILL * limit_s) {
            return None;
        }
        let ranks = heard
            .into_iter()
            .filter(|(_, silent_s)| *silent_s >= SILENT_TOGETHER * limit_s)
            .map(|(rank, _)| rank)
            .collect();
        Some(Cause { kind: Kind::Silent, ranks, stands_s })
    }

    /// Returns `true` if a rank that gives signs has made no progress for this time.
    fn stands_still(&self, seconds: f64) -> bool {
        self.list_alive().any(|(rank, sign)| self.quiet_s(rank, &sign) >= seconds)
    }

    fn find_busy(&self) -> Option<Cause> {
        let limit_s = self.limit_s();
        let mut late: Vec<_> = self
            .list_alive()
            .filter(|(_, sign)| !sign.waits)
            .map(|(rank, sign)| (rank, self.quiet_s(rank, &sign), sign.patience_s))
            .filter(|(_, quiet_s, patience_s)| *quiet_s >= patience_s.max(limit_s))
            .collect();
        late.sort_by(|a, b| b.1.total_cmp(&a.1));
        let stands_s = late.first()?.1;
        let ranks = late.into_iter().map(|(rank, ..)| rank).collect();
        Some(Cause { kind: Kind::Busy, ranks, stands_s })
    }

    /// Only a head that hears all ranks knows that all of them wait, and no rank that is silent for some time is the cause.
    fn find_waiting(&self) -> Option<Cause> {
        let alive: Vec<_> = self.list_alive().collect();
        let hears_all = self.me == HEAD && alive.len() == self.list_watched().count();
        if !hears_all || !alive.iter().all(|(_, sign)| sign.waits) {
            return None;
        }
        let quiet = alive.iter().map(|(rank, sign)| (self.quiet_s(*rank, sign), *rank));
        let mut quiet: Vec<_> = quiet.collect();
        quiet.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((stands_s, _), (_, rank)) = (*quiet.first()?, *quiet.last()?);
        let is_long = stands_s >= WAITS_LONGER * self.limit_s();
        is_long.then_some(Cause { kind: Kind::Waiting, ranks: vec![rank], stands_s })
    }

    /// Returns `true` if it is on this rank to speak: the head, or else the first other rank of each host.
    fn may_speak(&self) -> bool {
        let host = &self.ranks[self.me].host;
        let mut before = HEAD + 1..self.me;
        self.me == HEAD || self.is_head_lost() && !before.any(|rank| self.ranks[rank].host == *host)
    }

    /// Returns `true` if no signs of the head come here, or no more.
    fn is_head_lost(&self) -> bool {
        let has_ended = self.ranks[HEAD].sign.is_some_and(|sign| sign.has_ended);
        has_ended || self.silent_s(HEAD) >= self.limit_s()
    }

    /// Returns the seconds without progress after which the job ends, if they are over.
    fn find_end(&self, cause: &Cause, states: &[ProcessState]) -> Option<f64> {
        if self.is_traced() || states.contains(&ProcessState::Traced) {
            return None;
        }
        let timeout_s = self.timeout_s;
        let is_over = cause.stands_s >= timeout_s;
        match cause.kind {
            Kind::Silent => is_over && self.stands_still(STANDS_STILL * timeout_s),
            // Work may take longer.
            Kind::Busy => return self.find_late(cause),
            Kind::Waiting => is_over,
        }
        .then_some(timeout_s)
    }

    /// Returns the longest time that a rank of the cause might have taken, and is over.
    fn find_late(&self, cause: &Cause) -> Option<f64> {
        self.list_alive()
            .filter(|(rank, sign)| cause.ranks.contains(rank) && !sign.waits)
            .map(|(rank, sign)| (self.quiet_s(rank, &sign), sign.bound_s.max(self.timeout_s)))
            .filter(|(quiet_s, limit_s)| quiet_s >= limit_s)
            .map(|(_, limit_s)| limit_s)
            .reduce(f64::max)
    }

    fn is_traced(&self) -> bool {
        let mut signs = self.ranks.iter().filter_map(|seen| seen.sign);
        signs.any(|sign| sign.is_traced && !sign.has_ended)
    }

    /// Returns `true` if ranks that were named give signs again, or make progress.
    fn is_over(&self, cause: &Cause) -> bool {
        let limit_s = self.limit_s();
        let mut ranks = cause.ranks.iter().copied();
        match cause.kind {
            Kind::Silent => ranks.all(|rank| self.silent_s(rank) < limit_s),
            Kind::Busy => ranks.any(|rank| {
                let sign = self.ranks[rank].sign;
                sign.is_some_and(|sign| self.quiet_s(rank, &sign) < limit_s)
            }),
            Kind::Waiting => !self.stands_still(limit_s),
        }
    }

    /// Describes the end of a standstill; nothing if the rank has ended.
    fn describe_end_of(&self, cause: &Cause) -> Option<String> {
        let seen = &self.ranks[*cause.ranks.first()?];
        let has_ended = seen.sign.is_some_and(|sign| sign.has_ended);
        (!has_ended).then(|| cause.describe_end(&self.ranks))
    }
}

#[cfg(test)]
mod tests;
