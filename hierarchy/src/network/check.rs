//! The check of all links between members, step by step.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use strum::Display;

use super::groups::find_groups;
use super::table::{MessageEnd, PairLevel, PairTable};
use super::{LONGER, list_rounds};
use crate::balance::BalanceStep;
use crate::times::find_median;

/// Ratios from which the times of two kinds of pairs are told apart.
const GROUPED: [f64; 2] = [1.3; 2];

/// Least excess of a slow link in deviations of its level.
const DEVIATIONS: f64 = 5.0;

/// Load while messages are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkPass {
    /// All members exchange messages in pairs at once.
    Together,
    /// One pair exchanges messages.
    Alone,
    /// As together, while all devices compute.
    Computing,
}

/// A request to time messages between these pairs of members, which exchange them at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRequest {
    /// Load meanwhile.
    pub pass: LinkPass,
    /// Disjoint pairs of members.
    pub pairs: Vec<(usize, usize)>,
}

/// Median seconds of messages of two lengths from one member to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MessageTimes {
    /// Seconds of a short message, in which the latency counts.
    pub short_s: f64,
    /// Seconds of a long message, in which the bandwidth counts.
    pub long_s: f64,
}

/// A directed pair of members, the sender first, with its times.
pub type TimedPair = ((usize, usize), MessageTimes);

/// The times of a pair: from its first member to its second one, and back.
pub type PairTimes = [MessageTimes; 2];

/// The likely cause of a slow link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LinkCause {
    /// Adapter, cable or driver of a host: slower with all others.
    Adapter,
    /// Uplink or switch between two groups.
    Uplink,
    /// The route between two members.
    Route,
    /// Interrupts or power saving: slower at short messages.
    Latency,
    /// Contention or flow control: slower only when all send.
    Contention,
    /// Progress of messages beside computing cores: slower only while devices compute.
    Progress,
    /// Cable, connector or switch port: what is lost is sent again.
    Loss,
}

/// The part of a network that is slow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkPart {
    /// A member: what it sends, what it receives, or both.
    Member {
        /// Its number.
        member: usize,
        /// `true` if what it sends is slow.
        sends: bool,
        /// `true` if what it receives is slow.
        receives: bool,
    },
    /// Messages from one member to another.
    Pair {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// Messages between the members of two groups.
    Groups([Vec<usize>; 2]),
}

/// A slow part of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkFinding {
    /// The part.
    pub part: LinkPart,
    /// The likely cause.
    pub cause: LinkCause,
    /// The time of a message over that of the links like it, at the length that shows it; of a loss the part that was sent again.
    pub times: f64,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    /// The groups of each member, the outermost first; empty if all pairs are of one level.
    pub groups: Vec<Vec<usize>>,
    /// The slow parts.
    pub findings: Vec<LinkFinding>,
    /// Times between members while all exchange messages, by sender and receiver.
    pub times: Vec<Vec<Option<MessageTimes>>>,
}

impl LinkReport {
    /// Adds members that lose clearly more of what they send than others, with that part. On a link of little latency a message that
    /// was lost in part takes hardly longer.
    pub fn add_losses(&mut self, lossy: &[(usize, f64)]) {
        let losses = lossy.iter().map(|&(member, lost)| LinkFinding {
            part: LinkPart::Member { member, sends: true, receives: false },
            cause: LinkCause::Loss,
            times: lost,
        });
        self.findings.extend(losses);
    }

    /// Lists the directed pairs of each level with their times, by the number of groups that both members share.
    pub fn list_levels(&self) -> BTreeMap<usize, Vec<TimedPair>> {
        let mut levels: BTreeMap<usize, Vec<TimedPair>> = BTreeMap::new();
        for (from, row) in self.times.iter().enumerate() {
            for (to, times) in row.iter().enumerate() {
                let level = times.map(|times| (count_shared(&self.groups, (from, to)), times));
                if let Some((shared, times)) = level {
                    levels.entry(shared).or_default().push(((from, to), times));
                }
            }
        }
        levels
    }
}

/// Fewest members of which one is told from the others.
const FEWEST_MEMBERS: usize = 4;

/// Logarithm from which the messages between two groups, or two sides, are slow: networks are built with uplinks that are shared.
const SLOW_BETWEEN: f64 = 0.64;

/// Fewest lost segments of a member that loses some, their least part, and how much that is above the others'.
const LEAST_LOST: u64 = 20;
const LEAST_LOSS: f64 = 0.001;
const LOSSIER: f64 = 2.5;

/// Lists the members that lose clearly more than others, with the part that they lose: `sent` are the segments that each has sent,
/// and those of them that were lost, as far as they are known.
pub fn list_lossy(sent: &[Option<[u64; 2]>]) -> Vec<(usize, f64)> {
    if sent.len() < FEWEST_MEMBERS {
        return Vec::new();
    }
    let part = |member: usize| sent[member].map(|[all, lost]| lost as f64 / all.max(1) as f64);
    let lossy = (0..sent.len()).filter_map(|member| {
        let [_, lost] = sent[member]?;
        let others = (0..sent.len()).filter(|&other| other != member).filter_map(part);
        let usual = find_median(&others.collect::<Vec<_>>());
        let own = part(member)
            .filter(|own| lost >= LEAST_LOST && *own > LEAST_LOSS.max(LOSSIER * usual))?;
        Some((member, own))
    });
    lossy.collect()
}

/// The tables of a look: short and long messages.
type LookTables = [PairTable; 2];

const SHORT: usize = 0;
const LONG: usize = 1;

/// A part that is slow, and its logarithms by length.
#[derive(Debug, Clone, PartialEq)]
struct SlowPart {
    part: LinkPart,
    logs: [f64; 2],
}

impl SlowPart {
    fn cause(&self) -> LinkCause {
        let [short, long] = self.logs;
        match self.part {
            _ if short > 2.0 * long.max(0.0) => LinkCause::Latency,
            LinkPart::Member { .. } => LinkCause::Adapter,
            LinkPart::Pair { .. } => LinkCause::Route,
            LinkPart::Groups(_) => LinkCause::Uplink,
        }
    }

    /// Returns a pair that shows the deviation.
    fn pair(&self, members: usize, is_healthy: impl Fn(usize) -> bool) -> (usize, usize) {
        match &self.part {
            LinkPart::Pair { from, to } => (*from, *to),
            LinkPart::Groups([one, other]) => (one[0], other[0]),
            LinkPart::Member { member, sends, .. } => {
                let mut others = (0..members).filter(|other| other != member);
                let other = others.clone().find(|&other| is_healthy(other)).or(others.next());
                let other = other.unwrap_or(*member);
                if *sends { (*member, other) } else { (other, *member) }
            }
        }
    }

    fn has_member(&self, wanted: usize) -> bool {
        match &self.part {
            LinkPart::Pair { from, to } => [*from, *to].contains(&wanted),
            LinkPart::Member { member, .. } => *member == wanted,
            LinkPart::Groups(_) => false,
        }
    }
}

/// The check of all links between members. It asks for rounds of messages with [`step`](Self::step), and is told their times
/// with [`observe`](Self::observe).
///
/// After a look, in which every pair exchanges short and long messages while the others do, a suspicion causes a second one. What
/// both show beyond their noise is slow: first members, by the median over their partners, then pairs of groups, then pairs.
/// Members and pairs are compared with the level of pairs like theirs, of which [groups](LinkReport::groups) tell. A slow part and
/// a sound one are then timed alone. Last, messages are timed while all devices compute.
#[derive(Debug, Clone)]
pub struct LinkCheck {
    members: usize,
    computes: bool,
    asked: VecDeque<LinkRequest>,
    together: Vec<LookTables>,
    computing: Vec<LookTables>,
    /// The times of single pairs, once they were asked for.
    alone: Option<LookTables>,
}

impl LinkCheck {
    /// Begins a check of the links between `members`; if it `computes`, also while devices compute.
    pub fn new(members: usize, computes: bool) -> Self {
        let mut check = Self {
            members,
            computes,
            asked: VecDeque::new(),
            together: Vec::new(),
            computing: Vec::new(),
            alone: None,
        };
        check.ask_look(LinkPass::Together);
        check
    }

    fn new_tables(&self) -> LookTables {
        [PairTable::new(self.members), PairTable::new(self.members)]
    }

    fn ask_look(&mut self, pass: LinkPass) {
        let rounds = list_rounds(self.members).into_iter();
        self.asked.extend(rounds.map(|pairs| LinkRequest { pass, pairs }));
        let tables = self.new_tables();
        match pass {
            LinkPass::Together => self.together.push(tables),
            LinkPass::Computing => self.computing.push(tables),
            LinkPass::Alone => {}
        }
    }

    /// Returns the next request, or what was found.
    pub fn step(&self) -> BalanceStep<LinkRequest, LinkReport> {
        match self.asked.front() {
            Some(request) => BalanceStep::Measure(request.clone()),
            None => BalanceStep::Done(self.judge()),
        }
    }

    /// Takes in the times of the pairs of the last request.
    ///
    /// # Panics
    /// Without a request, or if the times are not those of its pairs.
    pub fn observe(&mut self, times: &[PairTimes]) {
        let Some(request) = self.asked.pop_front() else {
            panic!("times without a request");
        };
        assert_eq!(times.len(), request.pairs.len(), "times of each pair");
        let tables = match request.pass {
            LinkPass::Together => self.together.last_mut(),
            LinkPass::Computing => self.computing.last_mut(),
            LinkPass::Alone => self.alone.as_mut(),
        };
        let Some([short, long]) = tables else {
            return;
        };
        for (&(a, b), times) in request.pairs.iter().zip(times) {
            for (place, pair) in [(a, b), (b, a)].into_iter().enumerate() {
                short.set(pair, times[place].short_s);
                long.set(pair, times[place].long_s);
            }
        }
        if self.asked.is_empty() {
            self.ask_more();
        }
    }

    /// Asks for what is needed next; for nothing at the end.
    fn ask_more(&mut self) {
        if self.computing.is_empty() {
            let found = self.find_deviations(&self.groups());
            if self.together.len() == 1 && !found.is_empty() {
                return self.ask_look(LinkPass::Together);
            }
            if self.alone.is_none() && !found.is_empty() {
                self.alone = Some(self.new_tables());
                let groups = self.groups();
                let mut pairs = Vec::new();
                for deviation in &found {
                    let pair = self.pair_of(deviation, &found);
                    pairs.extend([Some(pair), self.find_sound(deviation, pair, &found, &groups)]);
                }
                let mut pairs: Vec<(usize, usize)> = pairs.into_iter().flatten().collect();
                pairs.sort_unstable();
                pairs.dedup();
                let requests = pairs
                    .into_iter()
                    .map(|pair| LinkRequest { pass: LinkPass::Alone, pairs: vec![pair] });
                return self.asked.extend(requests);
            }
            if self.computes {
                self.ask_look(LinkPass::Computing);
            }
        } else if self.computing.len() == 1 && !self.find_hindered().is_empty() {
            self.ask_look(LinkPass::Computing);
        }
    }

    fn pair_of(&self, deviation: &SlowPart, found: &[SlowPart]) -> (usize, usize) {
        deviation.pair(self.members, |other| !found.iter().any(|found| found.has_member(other)))
    }

    /// Finds a pair that nothing was found about and that is as near as the one that shows a deviation; of two groups one within a
    /// group.
    fn find_sound(
        &self,
        deviation: &SlowPart,
        pair: (usize, usize),
        found: &[SlowPart],
        groups: &[Vec<usize>],
    ) -> Option<(usize, usize)> {
        let is_sound = |member: &usize| !found.iter().any(|found| found.has_member(*member));
        let members: Vec<usize> = (0..self.members).filter(is_sound).collect();
        let mut pairs = members.iter().flat_map(|&a| members.iter().map(move |&b| (a, b)));
        match &deviation.part {
            LinkPart::Groups([one, _]) => {
                pairs.find(|(a, b)| a != b && one.contains(a) && one.contains(b))
            }
            _ => {
                let shared = count_shared(groups, pair);
                pairs.find(|&other| other.0 != other.1 && count_shared(groups, other) == shared)
            }
        }
    }

    /// Returns the groups that all looks agree on.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut found = self.together.iter().map(|tables| {
            let groups = find_groups(self.members, &tables[LONG], GROUPED);
            let is_flat = groups.iter().all(Vec::is_empty);
            if is_flat { find_groups(self.members, &tables[SHORT], GROUPED) } else { groups }
        });
        let first = found.next().unwrap_or_default();
        if found.all(|other| other == first) { first } else { vec![Vec::new(); self.members] }
    }

    /// Finds what all looks show beyond their noise.
    fn find_deviations(&self, groups: &[Vec<usize>]) -> Vec<SlowPart> {
        let mut excess = Excess::of(&self.together, groups);
        let mut found: Vec<SlowPart> = self.compare_groups(groups).into_iter().collect();
        found.extend(excess.take_sides());
        found.extend(excess.take_members());
        found.extend(excess.take_groups(groups));
        found.extend(excess.take_pairs());
        found
    }

    /// Compares two groups with themselves: the level between more groups is that of the network.
    fn compare_groups(&self, groups: &[Vec<usize>]) -> Option<SlowPart> {
        let outermost = list_outermost(groups);
        let [one, other] = &outermost[..] else {
            return None;
        };
        let logs = [SHORT, LONG].map(|length| {
            let of_looks = self.together.iter().map(|tables| {
                let kind = |shares: bool| {
                    let pairs = tables[length].pairs();
                    let logs: Vec<f64> = pairs
                        .filter(|(pair, _)| (count_shared(groups, *pair) > 0) == shares)
                        .map(|(_, log)| log)
                        .collect();
                    find_median(&logs)
                };
                kind(false) - kind(true)
            });
            of_looks.fold(f64::INFINITY, f64::min)
        });
        (logs[LONG] > SLOW_BETWEEN)
            .then(|| SlowPart { part: LinkPart::Groups([one.clone(), other.clone()]), logs })
    }

    /// Finds members whose messages take longer while devices compute than those of others do.
    fn find_hindered(&self) -> Vec<SlowPart> {
        let [short, long] = self.find_means();
        let over: Vec<LookTables> = self
            .computing
            .iter()
            .map(|tables| [tables[SHORT].over(&short), tables[LONG].over(&long)])
            .collect();
        Excess::of(&over, &vec![Vec::new(); self.members]).take_members()
    }

    /// Returns `true` if a slow pair is as fast as a sound one while nothing else is sent.
    fn is_fast_alone(
        &self,
        deviation: &SlowPart,
        found: &[SlowPart],
        groups: &[Vec<usize>],
    ) -> bool {
        let pair = self.pair_of(deviation, found);
        let sound = self.find_sound(deviation, pair, found, groups);
        let length = if deviation.logs[SHORT] > deviation.logs[LONG] { SHORT } else { LONG };
        let excess =
            self.alone.as_ref().zip(sound).and_then(|(alone, sound)| {
                Some(alone[length].log(pair)? - alone[length].log(sound)?)
            });
        excess.is_some_and(|excess| excess < 0.5 * deviation.logs[length])
    }

    fn judge(&self) -> LinkReport {
        let groups = self.groups();
        let found =
            if self.together.len() > 1 { self.find_deviations(&groups) } else { Vec::new() };
        let mut findings: Vec<LinkFinding> = found
            .iter()
            .map(|deviation| {
                let is_fast = self.is_fast_alone(deviation, &found, &groups);
                let cause = if is_fast { LinkCause::Contention } else { deviation.cause() };
                describe(deviation, cause)
            })
            .collect();
        if self.computing.len() > 1 {
            let hindered = self.find_hindered().into_iter();
            let hindered = hindered.filter(|deviation| {
                !(0..self.members).any(|member| {
                    deviation.has_member(member)
                        && found.iter().any(|found| found.has_member(member))
                })
            });
            findings.extend(hindered.map(|deviation| describe(&deviation, LinkCause::Progress)));
        }
        LinkReport { groups, findings, times: self.list_times() }
    }

    /// Returns the geometric means over the looks, by length.
    fn find_means(&self) -> LookTables {
        [SHORT, LONG].map(|length| {
            PairTable::mean(&self.together.iter().map(|tables| &tables[length]).collect::<Vec<_>>())
        })
    }

    /// Lists the geometric means over the looks, by sender and receiver.
    fn list_times(&self) -> Vec<Vec<Option<MessageTimes>>> {
        let [short, long] = self.find_means();
        let time = |pair| {
            Some(MessageTimes { short_s: short.log(pair)?.exp(), long_s: long.log(pair)?.exp() })
        };
        let rows = (0..self.members).map(|from| {
            (0..self.members).map(|to| if from == to { None } else { time((from, to)) }).collect()
        });
        rows.collect()
    }
}

fn describe(deviation: &SlowPart, cause: LinkCause) -> LinkFinding {
    let log = deviation.logs.iter().copied().filter(|log| log.is_finite()).fold(0.0, f64::max);
    LinkFinding { part: deviation.part.clone(), cause, times: log.exp() }
}

/// Returns the number of groups that two members share.
fn count_shared(groups: &[Vec<usize>], (a, b): (usize, usize)) -> usize {
    let both = groups[a].iter().zip(&groups[b]);
    both.take_while(|(one, other)| one == other).count()
}

/// Lists the members of each outermost group.
fn list_outermost(groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let numbers = groups.iter().filter_map(|path| path.first());
    let count = numbers.max().map_or(0, |last| last + 1);
    let mut outermost = vec![Vec::new(); count];
    for (member, path) in groups.iter().enumerate() {
        path.first().into_iter().for_each(|&number| outermost[number].push(member));
    }
    outermost
}

/// Finds the level of the pairs that share each number of groups.
fn find_levels(table: &PairTable, groups: &[Vec<usize>]) -> Vec<Option<PairLevel>> {
    let depth = groups.iter().map(Vec::len).max().unwrap_or(0);
    let mut logs = vec![Vec::new(); depth + 1];
    for (pair, log) in table.pairs() {
        logs[count_shared(groups, pair)].push(log);
    }
    logs.iter_mut().map(|logs| PairLevel::of(logs)).collect()
}

/// Logarithms of the pairs' times over the levels of their classes.
struct Excess {
    members: usize,
    /// By look and length.
    above: Vec<LookTables>,
    /// The logarithm that is beyond the noise, by length.
    limits: [f64; 2],
    /// The directed pairs that something found explains.
    explained: Vec<bool>,
}

impl Excess {
    fn of(looks: &[LookTables], groups: &[Vec<usize>]) -> Self {
        let mut limits = [LONGER.ln(); 2];
        let above = looks.iter().map(|tables| {
            [SHORT, LONG].map(|length| {
                let levels = find_levels(&tables[length], groups);
                let scatter =
                    levels.iter().flatten().map(|level| level.scatter).fold(0.0, f64::max);
                limits[length] = limits[length].max(DEVIATIONS * scatter);
                tables[length].above_levels(&levels, |pair| count_shared(groups, pair))
            })
        });
        let (above, members) = (above.collect(), groups.len());
        Self { members, above, limits, explained: vec![false; members * members] }
    }

    /// Returns the least of the looks of a value, by length; `None` if a look lacks it.
    fn least(&self, find: impl Fn(&PairTable) -> Option<f64>) -> Option<[f64; 2]> {
        let mut least = [f64::INFINITY; 2];
        for tables in &self.above {
            for length in [SHORT, LONG] {
                least[length] = least[length].min(find(&tables[length])?);
            }
        }
        (!self.above.is_empty()).then_some(least)
    }

    /// Returns how far a value is beyond the noise, in its limits.
    fn beyond(&self, logs: [f64; 2]) -> f64 {
        (logs[SHORT] / self.limits[SHORT]).max(logs[LONG] / self.limits[LONG])
    }

    fn is_explained(&self, (from, to): (usize, usize)) -> bool {
        self.explained[from * self.members + to]
    }

    fn explain(&mut self, is_part: impl Fn((usize, usize)) -> bool) {
        for (index, explained) in self.explained.iter_mut().enumerate() {
            *explained |= is_part((index / self.members, index % self.members));
        }
    }

    /// Takes out the members that are slow, the slowest first.
    fn take_members(&mut self) -> Vec<SlowPart> {
        let mut sides: Vec<(usize, MessageEnd, [f64; 2])> = Vec::new();
        loop {
            let all =
                (0..self.members).flat_map(|member| MessageEnd::BOTH.map(|side| (member, side)));
            let left = all.filter(|(member, side)| {
                !sides.iter().any(|(other, of, _)| other == member && of == side)
            });
            let slow = left.filter_map(|(member, side)| {
                let is_counted =
                    |other: usize| other != member && !self.is_explained(side.pair(member, other));
                let logs = self.least(|table| table.of_member(member, side, is_counted))?;
                (self.beyond(logs) > 1.0).then_some((member, side, logs))
            });
            let worst = slow.max_by(|one, next| self.beyond(one.2).total_cmp(&self.beyond(next.2)));
            let Some((member, side, logs)) = worst else {
                break;
            };
            self.explain(|(from, to)| match side {
                MessageEnd::Sends => from == member,
                MessageEnd::Receives => to == member,
            });
            sides.push((member, side, logs));
        }
        let mut found: Vec<SlowPart> = Vec::new();
        for (member, side, logs) in sides {
            let known = found.iter_mut().find(|deviation| deviation.has_member(member));
            match known.map(|deviation| (&mut deviation.part, &mut deviation.logs)) {
                Some((LinkPart::Member { sends, receives, .. }, of_both)) => {
                    (*sends, *receives) = (true, true);
                    *of_both = [SHORT, LONG].map(|length| of_both[length].max(logs[length]));
                }
                _ => found.push(SlowPart {
                    part: LinkPart::Member {
                        member,
                        sends: side == MessageEnd::Sends,
                        receives: side == MessageEnd::Receives,
                    },
                    logs,
                }),
            }
        }
        found
    }

    /// Takes out pairs of groups, of more than two, whose members are slow with each other.
    fn take_groups(&mut self, groups: &[Vec<usize>]) -> Vec<SlowPart> {
        let outermost = list_outermost(groups);
        let mut found = Vec::new();
        if outermost.len() < 3 {
            return found;
        }
        for (place, one) in outermost.iter().enumerate() {
            for other in &outermost[place + 1..] {
                let is_between = |(from, to): (usize, usize)| {
                    (one.contains(&from) && other.contains(&to))
                        || (other.contains(&from) && one.contains(&to))
                };
                let logs = self.least(|table| {
                    let between = table.pairs().filter(|(pair, _)| is_between(*pair));
                    let logs: Vec<f64> = between
                        .filter(|(pair, _)| !self.is_explained(*pair))
                        .map(|(_, log)| log)
                        .collect();
                    (logs.len() > 2).then(|| find_median(&logs))
                });
                if let Some(logs) = logs.filter(|logs| self.beyond(*logs) > 1.0) {
                    self.explain(is_between);
                    let part = LinkPart::Groups([one.clone(), other.clone()]);
                    found.push(SlowPart { part, logs });
                }
            }
        }
        found
    }

    /// Lists the directed pairs that are slow and not explained.
    fn list_slow(&self) -> Vec<((usize, usize), [f64; 2])> {
        let all = (0..self.members).flat_map(|from| (0..self.members).map(move |to| (from, to)));
        let slow = all.filter(|pair| !self.is_explained(*pair)).filter_map(|pair| {
            let logs = self.least(|table| table.log(pair))?;
            (self.beyond(logs) > 1.0).then_some((pair, logs))
        });
        slow.collect()
    }

    /// Takes out two sides of members between which most pairs are slow, while none is within a side: they share something that
    /// all pairs between them pass, if not in every round.
    fn take_sides(&mut self) -> Vec<SlowPart> {
        let slow = self.list_slow();
        let mut found = Vec::new();
        for sides in list_sides(self.members, &slow) {
            let is_between = |(from, to): (usize, usize)| {
                (sides[0].contains(&from) && sides[1].contains(&to))
                    || (sides[1].contains(&from) && sides[0].contains(&to))
            };
            let part: Vec<[f64; 2]> =
                slow.iter().filter(|(pair, _)| is_between(*pair)).map(|(_, logs)| *logs).collect();
            let is_group = sides.iter().all(|side| side.len() > 1);
            let logs = [SHORT, LONG].map(|length| {
                find_median(&part.iter().map(|logs| logs[length]).collect::<Vec<_>>())
            });
            if is_group && part.len() > sides[0].len() * sides[1].len() && logs[LONG] > SLOW_BETWEEN
            {
                self.explain(is_between);
                found.push(SlowPart { part: LinkPart::Groups(sides), logs });
            }
        }
        found
    }

    /// Takes out single pairs that are slow; one that is slow both ways is one.
    fn take_pairs(&self) -> Vec<SlowPart> {
        let slow = self.list_slow();
        let is_first = |(from, to): (usize, usize)| {
            from < to || !slow.iter().any(|(pair, _)| *pair == (to, from))
        };
        let pairs = slow.iter().filter(|(pair, _)| is_first(*pair));
        pairs
            .map(|&((from, to), logs)| SlowPart { part: LinkPart::Pair { from, to }, logs })
            .collect()
    }
}

/// Lists the two sides of each connected part of a graph of members in which edges lie only between sides.
fn list_sides(members: usize, edges: &[((usize, usize), [f64; 2])]) -> Vec<[Vec<usize>; 2]> {
    let mut side_of = vec![None; members];
    let mut parts = Vec::new();
    for start in 0..members {
        if side_of[start].is_some() {
            continue;
        }
        let (mut sides, mut is_divided) = ([Vec::new(), Vec::new()], true);
        let mut reached = vec![(start, 0)];
        while let Some((member, side)) = reached.pop() {
            match side_of[member] {
                Some(known) => is_divided &= known == side,
                None => {
                    side_of[member] = Some(side);
                    sides[side].push(member);
                    let ends = edges.iter().map(|(ends, _)| *ends);
                    let others = ends.filter_map(|(from, to)| match member {
                        _ if from == member => Some(to),
                        _ if to == member => Some(from),
                        _ => None,
                    });
                    reached.extend(others.map(|other| (other, 1 - side)));
                }
            }
        }
        if is_divided {
            sides.iter_mut().for_each(|side| side.sort_unstable());
            parts.push(sides);
        }
    }
    parts
}
