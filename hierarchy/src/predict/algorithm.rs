//! The time of any parallel algorithm before it runs.
//!
//! An [`Algorithm`] has the work of each process, the messages between them, and the order of both. [`timeof()`] predicts its
//! seconds on [places](Platform) of unlike speed, and [`choose()`] the fastest of several algorithms with the places of its processes.
//!
//! The time of actions in sequence is the sum. Branches that begin together ([`Scheme::par`]) take as long as the longest one, but no less
//! than any resource is busy in all of them: a process computes one thing at a time, an adapter sends and receives one byte
//! after the other, and so do the uplinks of groups.
//!
//! # References
//! Lastovetsky and Reddy, "HeteroMPI: towards a message-passing library for heterogeneous networks of computers", JPDC 66 (2006):
//! performance models of algorithms, `HMPI_Timeof` and `HMPI_Group_auto_create`. Alonso, Reddy and Lastovetsky 2009, section 4.
//!
//! # Deviations
//!
//! * **shared resources**: in the paper branches of `par` do not disturb each other. Here their messages share adapters and
//!   uplinks, as a [`Network`] has them.

use std::collections::BTreeMap;

use crate::model::SpeedModel;
use crate::network::Network;
use crate::predict::{choose_fewest, find_bounds};

/// A parallel algorithm as a performance model sees it.
pub trait Algorithm {
    /// Number of processes.
    fn processes(&self) -> usize;

    /// Work of a process, in the units that the speeds of the platform are measured with.
    fn volume(&self, process: usize) -> f64;

    /// Units of the problem that lies in the memory of a process at once, at which its speed is taken. The whole volume, unless a process
    /// goes over its data several times.
    fn size(&self, process: usize) -> f64 {
        self.volume(process)
    }

    /// Bytes from one process to another in the whole run.
    fn bytes(&self, from: usize, to: usize) -> f64;

    /// Gives the order of the work and of the messages, each in percent of the whole. It does not depend on the places.
    fn scheme(&self, order: &mut Scheme);
}

/// The places of a cluster that may run processes, and the network between them.
#[derive(Debug)]
pub struct Platform {
    /// The speed of each place as a function of the units.
    pub speeds: Vec<Box<dyn SpeedModel>>,
    /// The network between the places, by their number.
    pub network: Network,
    /// Relative standard error of the speeds, as far as they were measured; 0 if it is not known.
    pub noise: f64,
}

/// A predicted run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedRun {
    /// Seconds.
    pub seconds: f64,
    /// The seconds that nine of ten runs take: the least and the most.
    pub bounds_s: [f64; 2],
    /// Seconds in which the busiest process computes.
    pub compute_s: f64,
    /// The process that computes longest.
    pub slowest: usize,
    /// The part that is busy longest.
    pub binds: Binding,
}

/// A part of a platform that an algorithm keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// The place of this process computes.
    Work(usize),
    /// The place of this process sends.
    Sends(usize),
    /// The place of this process receives.
    Receives(usize),
    /// This one of the network's [uplinks](Network::uplinks) carries messages.
    Uplink(usize),
}

/// The algorithm of least predicted seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Its number among the candidates.
    pub candidate: usize,
    /// The place of each of its processes.
    pub places: Vec<usize>,
    /// Its prediction.
    pub run: PredictedRun,
    /// `true` if all places of its processes were compared; else some were exchanged as long as that helped.
    pub is_exact: bool,
    /// The predicted seconds of every candidate at its best places, in their order; infinite for one with more processes than places.
    pub seconds: Vec<f64>,
}

/// The reason why a time cannot be predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// The scheme names a process that does not exist, lets one send to itself, has a negative percentage, or sections that do not
    /// begin and end in pairs.
    #[error("the scheme has {0}")]
    Scheme(String),
    /// The percentages of some work or message do not add up.
    #[error("the scheme has {percent} % of {what}, not 100 %")]
    Percent {
        /// Work or message.
        what: String,
        /// Sum in the scheme.
        percent: f64,
    },
    /// A volume or a number of bytes that is negative or not finite.
    #[error("{0}")]
    Number(String),
    /// Places that do not exist, come twice, or are too few.
    #[error("{0}")]
    Places(String),
    /// No algorithm to choose from fits the platform.
    #[error("no algorithm has at most {0} processes, the places of the platform")]
    NoCandidate(usize),
}

/// The order of the actions of an [`Algorithm`].
///
/// No scheme can deadlock: a transfer is one action of both processes, and the order is one of sections within sections, in which
/// nothing waits for something later. An algorithm whose processes wait for each other in a circle has no scheme.
#[derive(Debug, Default)]
pub struct Scheme {
    actions: Vec<Action>,
    /// Repetitions of the next action, by all open sections together.
    times: f64,
    /// The repetitions around each open section, from outside.
    open: Vec<f64>,
    /// The first section that ends without having begun, in words.
    unbegun: Option<String>,
    /// Percent of the work of each process, and of the messages of each pair.
    computed: BTreeMap<usize, f64>,
    sent: BTreeMap<(usize, usize), f64>,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// A process does this part of its work.
    Compute(usize, f64),
    /// One process sends this part of its bytes to another.
    Transfer(usize, usize, f64),
    Begin(Section),
    End,
}

#[derive(Debug, Clone, Copy)]
struct Section {
    is_parallel: bool,
    times: f64,
}

impl Scheme {
    /// Lets a process do this percentage of its whole work.
    pub fn compute(&mut self, process: usize, percent: f64) {
        *self.computed.entry(process).or_default() += self.times * percent;
        self.actions.push(Action::Compute(process, percent / 100.0));
    }

    /// Lets a process send this percentage of its bytes for another one, as one message.
    pub fn transfer(&mut self, from: usize, to: usize, percent: f64) {
        *self.sent.entry((from, to)).or_default() += self.times * percent;
        self.actions.push(Action::Transfer(from, to, percent / 100.0));
    }

    /// Lets the actions that `branches` gives begin together: each is a branch, and so is each [sequence](Self::seq).
    pub fn par(&mut self, branches: impl FnOnce(&mut Self)) {
        self.begin_par();
        branches(self);
        self.end();
    }

    /// Lets actions follow each other, as they do outside of [`par`](Self::par).
    pub fn seq(&mut self, actions: impl FnOnce(&mut Self)) {
        self.repeat(1, actions);
    }

    /// Repeats actions one after the other, with the same percentages each time.
    pub fn repeat(&mut self, times: usize, actions: impl FnOnce(&mut Self)) {
        self.begin_repeat(times);
        actions(self);
        self.end();
    }

    /// Begins a section as [`par`](Self::par) does, for programs without closures.
    pub fn begin_par(&mut self) {
        self.begin(Section { is_parallel: true, times: 1.0 });
    }

    /// Begins a section as [`repeat`](Self::repeat) does, for programs without closures.
    pub fn begin_repeat(&mut self, times: usize) {
        self.begin(Section { is_parallel: false, times: times as f64 });
    }

    fn begin(&mut self, section: Section) {
        self.open.push(self.times);
        self.times *= section.times;
        self.actions.push(Action::Begin(section));
    }

    /// Ends the section that has begun last.
    pub fn end(&mut self) {
        if let Some(outer) = self.open.pop() {
            self.times = outer;
            self.actions.push(Action::End);
        } else {
            let actions = self.actions.len();
            let words = || format!("an end after {actions} actions, where no section is open");
            self.unbegun.get_or_insert_with(words);
        }
    }

    /// Returns the first mistake in the sections or the percentages, in words.
    fn find_mistake(&self) -> Option<String> {
        let negative = self.actions.iter().find_map(|action| match *action {
            Action::Compute(process, part) if part < 0.0 => {
                Some(format!("{} % of the work of process {process}", 100.0 * part))
            }
            Action::Transfer(from, to, part) if part < 0.0 => {
                Some(format!("{} % of the bytes from process {from} to {to}", 100.0 * part))
            }
            _ => None,
        });
        let unended = (!self.open.is_empty()).then(|| "a section without an end".to_owned());
        self.unbegun.clone().or(unended).or(negative)
    }
}

/// The actions of an algorithm, with all that does not depend on the places.
struct ReadAlgorithm {
    actions: Vec<Action>,
    /// Work and size of each process.
    works: Vec<[f64; 2]>,
    /// Bytes of each pair that sends.
    bytes: BTreeMap<(usize, usize), f64>,
}

/// Percent by which a sum may be off by rounding.
const ROUNDING: f64 = 1e-6;

impl ReadAlgorithm {
    fn record(algorithm: &dyn Algorithm) -> Result<Self, AlgorithmError> {
        let processes = algorithm.processes();
        let mut scheme = Scheme { times: 1.0, ..Scheme::default() };
        algorithm.scheme(&mut scheme);
        if let Some(mistake) = scheme.find_mistake() {
            return Err(AlgorithmError::Scheme(mistake));
        }
        let number = |what: String, value: f64| {
            let is_number = value.is_finite() && value >= 0.0;
            if is_number {
                Ok(value)
            } else {
                Err(AlgorithmError::Number(format!("{value} {what}")))
            }
        };
        if let Some((&process, _)) = scheme.computed.range(processes..).next() {
            return Err(AlgorithmError::Scheme(format!(
                "work of the process {process} of {processes}"
            )));
        }
        for &(from, to) in scheme.sent.keys() {
            if from.max(to) >= processes || from == to {
                let what = format!("a message from process {from} to {to} of {processes}");
                return Err(AlgorithmError::Scheme(what));
            }
        }
        let mut works = Vec::new();
        for process in 0..processes {
            let volume =
                number(format!("units of work of process {process}"), algorithm.volume(process))?;
            let size = number(
                format!("units in the memory of process {process}"),
                algorithm.size(process),
            )?;
            let percent = scheme.computed.get(&process).copied().unwrap_or(0.0);
            check_percent(volume, percent, || format!("the work of process {process}"))?;
            works.push([volume, size]);
        }
        let mut bytes = BTreeMap::new();
        for (from, to) in (0..processes).flat_map(|from| (0..processes).map(move |to| (from, to))) {
            if from != to {
                let sent = number(
                    format!("bytes from process {from} to {to}"),
                    algorithm.bytes(from, to),
                )?;
                let percent = scheme.sent.get(&(from, to)).copied().unwrap_or(0.0);
                check_percent(sent, percent, || format!("the bytes from process {from} to {to}"))?;
                bytes.extend((percent > 0.0).then_some(((from, to), sent)));
            }
        }
        Ok(Self { actions: scheme.actions, works, bytes })
    }

    fn processes(&self) -> usize {
        self.works.len()
    }

    /// Predicts the run on these places, with its bounds.
    fn predict_with_bounds(&self, platform: &Platform, places: &[usize]) -> PredictedRun {
        let noise = [platform.noise, platform.network.noise()];
        let bounds_s =
            find_bounds(noise, |slower| self.predict_slower(platform, places, slower).seconds);
        PredictedRun { bounds_s, ..self.predict(platform, places) }
    }

    /// Predicts the run on these places.
    fn predict(&self, platform: &Platform, places: &[usize]) -> PredictedRun {
        self.predict_slower(platform, places, [1.0; 2])
    }

    /// Predicts the run on these places if all work, and all messages, take this many times as long.
    fn predict_slower(
        &self,
        platform: &Platform,
        places: &[usize],
        [work, messages]: [f64; 2],
    ) -> PredictedRun {
        let works_s: Vec<f64> = (self.works.iter().zip(places))
            .map(|(&[volume, size], &place)| {
                let is_idle = size <= 0.0 || volume <= 0.0;
                let size_s = || work * platform.speeds[place].time_s(size);
                if is_idle { 0.0 } else { volume / size * size_s() }
            })
            .collect();
        let mut clock = Clock::new(places.len(), platform.network.uplinks().len());
        for action in &self.actions {
            match *action {
                Action::Compute(process, part) => {
                    let seconds = part * works_s[process];
                    clock.take(seconds, &[(process, seconds)]);
                }
                Action::Transfer(from, to, part) => {
                    let bytes = part * self.bytes.get(&(from, to)).copied().unwrap_or(0.0);
                    if bytes > 0.0 {
                        clock.transfer(&platform.network, (from, to), places, (bytes, messages));
                    }
                }
                Action::Begin(section) => clock.begin(section),
                Action::End => clock.end(),
            }
        }
        let slowest = (0..places.len()).max_by(|&a, &b| works_s[a].total_cmp(&works_s[b]));
        let slowest = slowest.unwrap_or(0);
        let compute_s = works_s.get(slowest).copied().unwrap_or(0.0);
        let seconds = clock.sections[0].seconds;
        PredictedRun { seconds, bounds_s: [seconds; 2], compute_s, slowest, binds: clock.binds() }
    }
}

fn check_percent(
    amount: f64,
    percent: f64,
    what: impl Fn() -> String,
) -> Result<(), AlgorithmError> {
    let wanted = if amount > 0.0 { 100.0 } else { percent };
    if (percent - wanted).abs() <= ROUNDING * wanted.max(1.0) {
        return Ok(());
    }
    Err(AlgorithmError::Percent { what: what(), percent })
}

/// Adds up the seconds of sections, and the busy seconds of each resource in them.
struct Clock {
    sections: Vec<OpenSection>,
    processes: usize,
    resources: usize,
}

struct OpenSection {
    section: Section,
    seconds: f64,
    /// By resource: the processes, what each sends and receives, and the uplinks outwards and inwards.
    busy_s: Vec<f64>,
    /// The resources that are busy.
    used: Vec<usize>,
}

impl Clock {
    fn new(processes: usize, uplinks: usize) -> Self {
        let mut clock =
            Self { sections: Vec::new(), processes, resources: 3 * processes + 2 * uplinks };
        clock.begin(Section { is_parallel: false, times: 1.0 });
        clock
    }

    fn begin(&mut self, section: Section) {
        let busy_s = vec![0.0; self.resources];
        self.sections.push(OpenSection { section, seconds: 0.0, busy_s, used: Vec::new() });
    }

    fn end(&mut self) {
        let Some(inner) = self.sections.pop() else { return };
        let busiest_s = inner.used.iter().map(|&resource| inner.busy_s[resource]);
        let total_s = if inner.section.is_parallel {
            busiest_s.fold(inner.seconds, f64::max)
        } else {
            inner.seconds
        };
        let times = inner.section.times;
        let busy = inner.used.iter().map(|&resource| (resource, times * inner.busy_s[resource]));
        self.take(times * total_s, &busy.collect::<Vec<_>>());
    }

    /// Takes in an action with the seconds of each resource.
    fn take(&mut self, seconds: f64, busy: &[(usize, f64)]) {
        let Some(open) = self.sections.last_mut() else { return };
        let both = [open.seconds, seconds];
        open.seconds =
            if open.section.is_parallel { both[0].max(both[1]) } else { both[0] + both[1] };
        for &(resource, busy_s) in busy.iter().filter(|(_, busy_s)| *busy_s > 0.0) {
            if open.busy_s[resource] == 0.0 {
                open.used.push(resource);
            }
            open.busy_s[resource] += busy_s;
        }
    }

    /// Returns the resource that is busy longest.
    fn binds(&self) -> Binding {
        let busy_s = &self.sections[0].busy_s;
        let busiest = (0..busy_s.len()).rev().max_by(|&a, &b| busy_s[a].total_cmp(&busy_s[b]));
        let (resource, processes) = (busiest.unwrap_or(0), self.processes.max(1));
        let uplink = resource.saturating_sub(3 * processes) / 2;
        match resource / processes {
            0 => Binding::Work(resource),
            1 => Binding::Sends(resource - processes),
            2 => Binding::Receives(resource - 2 * processes),
            _ => Binding::Uplink(uplink),
        }
    }

    fn transfer(
        &mut self,
        network: &Network,
        (from, to): (usize, usize),
        places: &[usize],
        (bytes, slower): (f64, f64),
    ) {
        let (a, b) = (places[from], places[to]);
        let level = network.level(network.level_of(a, b));
        let wire_s = slower * bytes / level.bytes_per_s();
        let receiver_s = wire_s.max(slower * bytes / network.adapter(b));
        let mut busy = vec![(self.processes + from, wire_s), (2 * self.processes + to, receiver_s)];
        let crossed = network.uplinks().iter().enumerate();
        for (number, uplink) in crossed.filter(|(_, uplink)| uplink.has(a) != uplink.has(b)) {
            let resource = 3 * self.processes + 2 * number + usize::from(uplink.has(b));
            busy.push((resource, slower * bytes / uplink.bytes_per_s));
        }
        let longest_s =
            busy.iter().map(|(_, busy_s)| *busy_s).fold(slower * level.message_s(bytes), f64::max);
        self.take(longest_s, &busy);
    }
}

/// Predicts the seconds of an algorithm whose processes run on these places.
///
/// # Errors
/// Returns [`AlgorithmError::Scheme`] if the scheme names a process that does not exist, lets one send to itself, has a negative
/// percentage, or sections that do not begin and end in pairs; [`AlgorithmError::Percent`] if the percentages of some work or message do not add up to 100; [`AlgorithmError::Number`] for a volume, a
/// size or bytes below 0; [`AlgorithmError::Places`] if there is not one place of the platform for each process.
pub fn timeof(
    algorithm: &dyn Algorithm,
    platform: &Platform,
    places: &[usize],
) -> Result<PredictedRun, AlgorithmError> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let (all, wanted) = (platform.speeds.len(), algorithm.processes());
    if sorted.len() != wanted || sorted.len() != places.len() || sorted.last() >= Some(&all) {
        let what = format!("{wanted} processes need as many of the {all} places, not {places:?}");
        return Err(AlgorithmError::Places(what));
    }
    Ok(ReadAlgorithm::record(algorithm)?.predict_with_bounds(platform, places))
}

/// Most places whose arrangements are all compared.
const COMPARED: usize = 8;

/// Gain of an exchange of places that counts.
const GAIN: f64 = 1e-9;

/// Chooses the algorithm of least predicted seconds, and the place of each of its processes. Within 1 %, fewer processes win.
///
/// Of up to 8 places all arrangements are compared. Beyond, processes of much work get fast places, and two places are exchanged as
/// long as that saves time.
///
/// # Errors
/// Returns the errors of [`timeof()`] for any candidate that fits; [`AlgorithmError::NoCandidate`] if none has as few processes as there are places.
pub fn choose<A: Algorithm>(
    candidates: impl IntoIterator<Item = A>,
    platform: &Platform,
) -> Result<Choice, AlgorithmError> {
    let all = platform.speeds.len();
    let mut found = Vec::new();
    let mut seconds = Vec::new();
    for (number, candidate) in candidates.into_iter().enumerate() {
        if !(1..=all).contains(&candidate.processes()) {
            seconds.push(f64::INFINITY);
            continue;
        }
        let program = ReadAlgorithm::record(&candidate)?;
        let (places, run) = if all <= COMPARED {
            compare_all(&program, platform)
        } else {
            exchange_places(&program, platform)
        };
        seconds.push(run.seconds);
        let run = program.predict_with_bounds(platform, &places);
        found.push((number, places, run));
    }
    let sizes: Vec<(f64, usize)> =
        found.iter().map(|(_, places, run)| (run.seconds, places.len())).collect();
    let best = choose_fewest(&sizes).ok_or(AlgorithmError::NoCandidate(all))?;
    let (candidate, places, run) = found.swap_remove(best);
    Ok(Choice { candidate, places, run, is_exact: all <= COMPARED, seconds })
}

/// Compares all arrangements of processes on places.
fn compare_all(program: &ReadAlgorithm, platform: &Platform) -> (Vec<usize>, PredictedRun) {
    let mut places: Vec<usize> = (0..program.processes()).collect();
    let mut best = (places.clone(), program.predict(platform, &places));
    while advance(&mut places, platform.speeds.len()) {
        let run = program.predict(platform, &places);
        if run.seconds < best.1.seconds {
            best = (places.clone(), run);
        }
    }
    best
}

/// Advances to the next arrangement of different numbers below `all`, in ascending order; returns `false` after the last one.
fn advance(places: &mut [usize], all: usize) -> bool {
    for position in (0..places.len()).rev() {
        let is_free = |place: &usize| !places[..position].contains(place);
        if let Some(next) = (places[position] + 1..all).find(is_free) {
            places[position] = next;
            for later in position + 1..places.len() {
                let free = (0..all).find(|place| !places[..later].contains(place));
                places[later] = free.unwrap_or_default();
            }
            return true;
        }
    }
    false
}

/// Begins with fast places for much work, and exchanges places as long as that saves time.
fn exchange_places(program: &ReadAlgorithm, platform: &Platform) -> (Vec<usize>, PredictedRun) {
    let work = |process: usize| program.works[process][0];
    let size = program.works.iter().map(|[_, size]| *size).fold(0.0, f64::max).max(1.0);
    let mut processes: Vec<usize> = (0..program.processes()).collect();
    processes.sort_by(|&a, &b| work(b).total_cmp(&work(a)));
    let mut order: Vec<usize> = (0..platform.speeds.len()).collect();
    let speed = |place: usize| platform.speeds[place].speed(size);
    order.sort_by(|&a, &b| speed(b).total_cmp(&speed(a)));
    // Places beyond the processes are free.
    let mut held = order.clone();
    for (&process, &place) in processes.iter().zip(&order) {
        held[process] = place;
    }
    let used = program.processes();
    let mut best = program.predict(platform, &held[..used]);
    loop {
        let before_s = best.seconds;
        for one in 0..used {
            for other in one + 1..held.len() {
                held.swap(one, other);
                let run = program.predict(platform, &held[..used]);
                if run.seconds < (1.0 - GAIN) * best.seconds {
                    best = run;
                } else {
                    held.swap(one, other);
                }
            }
        }
        if best.seconds >= before_s {
            held.truncate(used);
            return (held, best);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Cpm, Point};
    use crate::network::{MessageCurve, Uplink};
    use crate::predict::{GridProduct, ReductionTree, Stencil};

    /// Makes places of these speeds on a network without latency.
    fn place(speeds: &[f64], bytes_per_s: f64) -> Platform {
        let model = |&speed: &f64| {
            let point = Point { d: 1000, t_s: 1000.0 / speed, reps: 1, ci_s: 0.0 };
            Box::new(Cpm::from_points(&[point]).unwrap()) as Box<dyn SpeedModel>
        };
        let speeds = speeds.iter().map(model);
        Platform { speeds: speeds.collect(), network: Network::flat(0.0, bytes_per_s), noise: 0.0 }
    }

    /// An algorithm by its scheme: each process has 10 units of work, and each pair 100 bytes.
    struct Given(usize, fn(&mut Scheme));

    impl Algorithm for Given {
        fn processes(&self) -> usize {
            self.0
        }

        fn volume(&self, _process: usize) -> f64 {
            10.0
        }

        fn bytes(&self, from: usize, to: usize) -> f64 {
            if from < to { 100.0 } else { 0.0 }
        }

        fn scheme(&self, order: &mut Scheme) {
            (self.1)(order);
        }
    }

    fn predict_s(given: &Given, platform: &Platform) -> Result<f64, AlgorithmError> {
        let places: Vec<usize> = (0..given.0).collect();
        timeof(given, platform, &places).map(|run| run.seconds)
    }

    #[test]
    fn sequences_add_up_and_branches_share_what_they_use() {
        let platform = place(&[1.0, 2.0, 5.0], 10.0);
        // 10 s and 5 s of work, and 10 s of a message.
        let in_turn = |order: &mut Scheme| {
            order.compute(0, 100.0);
            order.transfer(0, 1, 100.0);
            order.compute(1, 100.0);
        };
        assert_eq!(predict_s(&Given(2, in_turn), &platform), Ok(25.0));
        let repeated = |order: &mut Scheme| {
            order.repeat(4, |order| {
                order.par(|order| {
                    order.seq(|order| {
                        order.compute(0, 10.0);
                        order.transfer(0, 1, 25.0);
                    });
                    order.compute(1, 25.0);
                });
            });
            order.compute(0, 60.0);
        };
        assert_eq!(predict_s(&Given(2, repeated), &platform), Ok(4.0 * 3.5 + 6.0));
        // Three messages at once: two leave the first process, and two reach the last one.
        let at_once = |order: &mut Scheme| {
            order.par(|order| {
                let pairs = [(0, 1), (0, 2), (1, 2)];
                pairs.into_iter().for_each(|(from, to)| order.transfer(from, to, 100.0));
            });
            order.par(|order| (0..3).for_each(|process| order.compute(process, 100.0)));
        };
        assert_eq!(predict_s(&Given(3, at_once), &platform), Ok(20.0 + 10.0));
        // The same process in two branches does one after the other.
        let twice =
            |order: &mut Scheme| order.par(|order| (0..2).for_each(|_| order.compute(0, 50.0)));
        assert_eq!(predict_s(&Given(1, twice), &platform), Ok(10.0));
    }

    #[test]
    fn messages_between_groups_share_an_uplink() {
        let uplinks = [vec![0, 1], vec![2, 3]].map(|ranks| Uplink { ranks, bytes_per_s: 10.0 });
        let levels = [(); 2].map(|()| MessageCurve::line(0.0, 100.0)).to_vec();
        let network = Network::grouped(levels, uplinks.to_vec());
        let platform = Platform { network, ..place(&[1e9; 4], 1.0) };
        let tree = ReductionTree { volumes: vec![0.0; 4], bytes: 50.0 };
        // Within the groups at once, and then through both uplinks.
        let run = timeof(&tree, &platform, &[0, 1, 2, 3]).unwrap();
        assert!((run.seconds - (0.5 + 5.0)).abs() < 1e-12, "{run:?}");
        assert!(matches!(run.binds, Binding::Uplink(_)), "{run:?}");
        // Places that are mixed up use the uplinks twice.
        let run = timeof(&tree, &platform, &[0, 2, 1, 3]).unwrap();
        assert!((run.seconds - (10.0 + 0.5)).abs() < 1e-12, "{run:?}");
    }

    #[test]
    fn a_product_on_a_grid_takes_its_messages_and_updates_one_after_the_other() {
        // 4×4 blocks of 10 bytes on 2×2 places: in each step two blocks of A go from either process of the column, then two of B.
        let product = GridProduct::in_proportion(4, &[2.0; 4], 2, 10.0);
        let run = timeof(&product, &place(&[2.0; 4], 10.0), &[0, 1, 2, 3]).unwrap();
        assert!((run.seconds - 4.0 * (2.0 + 2.0 + 2.0)).abs() < 1e-9, "{run:?}");
        // The wide column is fast, and the heights of the other one are unlike: the process above sends to both of it.
        let product = GridProduct::in_proportion(4, &[3.0, 1.5, 3.0, 0.5], 2, 10.0);
        assert_eq!((&*product.widths, &product.heights[1][..]), (&[3, 1][..], &[3, 1][..]));
        assert_eq!(
            [(0, 1), (2, 1), (2, 3), (1, 3)].map(|(a, b)| product.bytes(a, b)),
            [60.0, 30.0, 30.0, 30.0]
        );
    }

    #[test]
    fn a_scheme_that_is_wrong_is_refused_in_words() {
        let platform = place(&[1.0; 2], 1.0);
        type Wrong = (fn(&mut Scheme), &'static str);
        let wrong: [Wrong; 9] = [
            (|order| order.compute(0, 100.0), "0 % of the work of process 1"),
            (
                |order| (0..2).for_each(|it| order.compute(it, 100.0)),
                "the bytes from process 0 to 1",
            ),
            (|order| order.compute(2, 100.0), "work of the process 2 of 2"),
            (|order| order.transfer(1, 1, 100.0), "a message from process 1 to 1"),
            (|order| order.repeat(3, |order| order.compute(0, 50.0)), "150 % of the work"),
            (
                |order| [150.0, -50.0].into_iter().for_each(|it| order.compute(0, it)),
                "-50 % of the work",
            ),
            (|order| order.compute(0, f64::NAN), "NaN % of the work of process 0"),
            (Scheme::begin_par, "a section without an end"),
            (Scheme::end, "an end after 0 actions"),
        ];
        for (scheme, words) in wrong {
            let error = predict_s(&Given(2, scheme), &platform).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let stencil = Stencil { rows: vec![1; 3], row_bytes: 8.0, sweeps: 1 };
        for places in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 2]] {
            let error = timeof(&stencil, &platform, &places).unwrap_err().to_string();
            assert!(error.contains("3 processes need as many of the 2 places"), "{error}");
        }
        let error = choose([stencil], &platform).unwrap_err().to_string();
        assert!(error.contains("at most 2 processes"), "{error}");
    }

    #[test]
    fn an_algorithm_and_its_places_are_chosen() {
        let platform = place(&[1.0, 4.0, 1.0, 2.0], 100.0);
        // All 16 rows on the fastest place, in two parts, and in three.
        let candidates = [vec![16], vec![4, 12], vec![10, 4, 2]].map(|rows| Stencil {
            rows,
            row_bytes: 10.0,
            sweeps: 10,
        });
        let choice = choose(candidates, &platform).unwrap();
        assert_eq!((choice.candidate, &*choice.places, choice.is_exact), (2, &[1, 3, 0][..], true));
        // The process in the middle sends and receives two rows.
        assert!((choice.run.seconds - 10.0 * (2.5 + 0.2)).abs() < 1e-9, "{choice:?}");
        assert_eq!((choice.run.slowest, choice.run.compute_s), (0, 25.0));
        assert_eq!(choice.run.binds, Binding::Work(0));
        let [low_s, high_s] = choice.run.bounds_s;
        assert!(low_s < 0.99 * choice.run.seconds && 1.01 * choice.run.seconds < high_s);
        assert!((choice.seconds[0] - 40.0).abs() < 1e-9);
    }

    proptest! {
        /// An exchange of places is nearly as good as all arrangements.
        #[test]
        fn exchanged_places_are_nearly_the_best(
            speeds in prop::collection::vec(1.0f64..8.0, 4..7),
            rows in prop::collection::vec(1u64..50, 2..5),
            row_bytes in 1.0f64..100.0,
        ) {
            prop_assume!(rows.len() <= speeds.len());
            let platform = place(&speeds, 10.0);
            let program = ReadAlgorithm::record(&Stencil { rows, row_bytes, sweeps: 3 }).unwrap();
            let (places, best) = compare_all(&program, &platform);
            let (others, found) = exchange_places(&program, &platform);
            prop_assert!(found.seconds <= 1.000001 * best.seconds, "{places:?} {others:?}");
        }
    }
}
