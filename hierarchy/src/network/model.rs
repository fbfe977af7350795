//! The network of a job as a planner knows it: the times of messages, and what they share on their way.

use serde::{Deserialize, Serialize};

/// The network between the ranks of a job: the time of a message as a function of its bytes, by level, and the resources that
/// messages share.
///
/// Ranks may lie in groups behind uplinks, and groups within groups. Pairs of ranks with as many common groups are of one level.
/// Messages that travel together take as long as the busiest resource: the adapter of a rank, or an uplink.
///
/// # Example
/// ```
/// use isochron_hierarchy::network::{MessageCurve, Network, Uplink};
///
/// let flat = Network::flat(1e-4, 1e8);
/// assert!((flat.level(0).message_s(1e6) - 0.0101).abs() < 1e-12);
/// // Two groups of two ranks.
/// let uplink = |first: usize| Uplink { ranks: vec![first, first + 1], bytes_per_s: 2e7 };
/// let [far, near] = [1e-3, 1e-4].map(|latency_s| MessageCurve::line(latency_s, 1e8));
/// let grouped = Network::grouped(vec![far, near], vec![uplink(0), uplink(2)]);
/// assert_eq!([[0, 1], [1, 2]].map(|[a, b]| grouped.level_of(a, b)), [1, 0]);
/// ```
///
/// # References
/// Alonso, Reddy and Lastovetsky 2009, section 1 (a model of communication that reflects the levels of a network).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Network {
    /// The times of messages, by the number of groups that two ranks have in common.
    levels: Vec<MessageCurve>,
    /// The groups of ranks, each before those within it.
    #[serde(default)]
    uplinks: Vec<Uplink>,
    /// Bytes per second that each rank receives at most; empty if all are alike.
    #[serde(default)]
    adapters: Vec<f64>,
    /// Seconds that each rank's arithmetic loses for a byte of a message, sent or received; empty if none does.
    #[serde(default)]
    byte_s: Vec<f64>,
}

/// The seconds of a message as a piecewise linear function of its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MessageCurve {
    /// Its corners, by bytes. The last two give the seconds of longer messages.
    points: Vec<MessagePoint>,
    /// Relative standard deviation of the times of links like these; 0 if it is not known.
    #[serde(default)]
    noise: f64,
}

/// The time of a message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct MessagePoint {
    /// Bytes.
    bytes: f64,
    /// Seconds.
    time_s: f64,
}

/// The link between a group of ranks and all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Uplink {
    /// The ranks of the group, ascending.
    pub ranks: Vec<usize>,
    /// Bytes per second that it carries each way.
    pub bytes_per_s: f64,
}

/// What messages that travel together bring to each rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhaseTraffic {
    /// For each rank, the traffic that it receives, by level.
    pub received: Vec<Vec<Traffic>>,
    /// The elements through each uplink, the busier way.
    pub through: Vec<f64>,
}

/// The elements and messages that one node receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Elements.
    pub elements: f64,
    /// Messages: a mean, since a panel may come from one node or from two.
    pub messages: f64,
}

impl PhaseTraffic {
    /// Returns what ranks receive from anywhere: the time of all of it is of the outermost level.
    pub fn of(received: impl IntoIterator<Item = Traffic>) -> Self {
        let received = received.into_iter().map(|traffic| vec![traffic]).collect();
        Self { received, through: Vec::new() }
    }

    /// Makes what pieces bring that move from one rank to another, given by sender, receiver and elements. Links carry both ways at once:
    /// for each rank and uplink the busier way counts, for a rank with a message of each level.
    pub fn of_moves(
        network: &Network,
        ranks: usize,
        pieces: impl IntoIterator<Item = (usize, usize, f64)>,
    ) -> Self {
        let levels = network.count_levels();
        let mut of_ranks = vec![vec![[0.0; 2]; levels]; ranks];
        let mut of_uplinks = vec![[0.0; 2]; network.uplinks().len()];
        for (from, to, elements) in pieces {
            let level = network.level_of(from, to).min(levels - 1);
            for (way, rank) in [from, to].into_iter().enumerate() {
                of_ranks[rank][level][way] += elements;
                let other = from + to - rank;
                let crossed = network.uplinks().iter().zip(&mut of_uplinks);
                crossed
                    .filter(|(uplink, _)| uplink.has(rank) && !uplink.has(other))
                    .for_each(|(_, ways)| ways[way] += elements);
            }
        }
        let busier = |[goes, comes]: [f64; 2]| goes.max(comes);
        let receive = |elements| Traffic { elements, messages: f64::from(elements > 0.0) };
        let received = of_ranks
            .into_iter()
            .map(|levels| levels.into_iter().map(|ways| receive(busier(ways))).collect());
        let received = received.collect();
        Self { received, through: of_uplinks.into_iter().map(busier).collect() }
    }
}

impl Traffic {
    /// Returns the sum over nodes.
    pub fn total(nodes: &[Self]) -> Self {
        Self {
            elements: nodes.iter().map(|node| node.elements).sum(),
            messages: nodes.iter().map(|node| node.messages).sum(),
        }
    }
}

/// Bytes of the second corner of a straight line.
const FAR_BYTES: f64 = 1048576.0;

impl MessageCurve {
    /// Makes a straight line: `latency_s + v / bytes_per_s` seconds for `v` bytes.
    pub fn line(latency_s: f64, bytes_per_s: f64) -> Self {
        Self::new([(0.0, latency_s), (FAR_BYTES, latency_s + FAR_BYTES / bytes_per_s)])
    }

    /// Makes a function of the seconds of messages of growing bytes. A message that took longer than one of more bytes was
    /// disturbed, and counts as the longer one.
    pub fn new(times: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = times.into_iter().map(|(bytes, time_s)| MessagePoint { bytes, time_s });
        let mut points: Vec<MessagePoint> = points.collect();
        for index in (1..points.len()).rev() {
            points[index - 1].time_s = points[index - 1].time_s.min(points[index].time_s);
        }
        Self { points, noise: 0.0 }
    }

    /// Returns the same function with this relative standard deviation of its times.
    #[must_use]
    pub fn with_noise(self, noise: f64) -> Self {
        Self { noise, ..self }
    }

    /// Returns the seconds of a message without content.
    pub fn latency_s(&self) -> f64 {
        self.points.first().map_or(0.0, |first| first.time_s)
    }

    /// Returns the seconds of a message of these bytes.
    pub fn message_s(&self, bytes: f64) -> f64 {
        let next = self.points.partition_point(|point| point.bytes <= bytes);
        match self.points[..] {
            [] => 0.0,
            [only] => only.time_s,
            [first, ..] if next == 0 => first.time_s,
            _ => {
                let before = next.min(self.points.len() - 1) - 1;
                let [from, to] = [self.points[before], self.points[before + 1]];
                let slope = (to.time_s - from.time_s) / (to.bytes - from.bytes);
                from.time_s + (bytes - from.bytes) * slope
            }
        }
    }

    /// Returns the bytes per second of the longest messages.
    pub fn bytes_per_s(&self) -> f64 {
        match self.points[..] {
            [.., before, last] => (last.bytes - before.bytes) / (last.time_s - before.time_s),
            _ => f64::INFINITY,
        }
    }

    /// Returns the seconds of this traffic, one message after the other.
    pub fn time_s(&self, traffic: &Traffic, element_bytes: usize) -> f64 {
        let bytes = traffic.elements * element_bytes as f64;
        if traffic.messages > 0.0 {
            traffic.messages * self.message_s(bytes / traffic.messages)
        } else {
            bytes / self.bytes_per_s()
        }
    }

    /// Lists the lines of the function: the bytes from which each holds, its seconds at 0 bytes, and its bytes per second.
    pub(super) fn list_lines(&self) -> impl Iterator<Item = [f64; 3]> {
        self.points.windows(2).map(|corners| {
            let [from, to] = [corners[0], corners[1]];
            let slope = (to.time_s - from.time_s) / (to.bytes - from.bytes);
            [from.bytes, from.time_s - from.bytes * slope, 1.0 / slope]
        })
    }

    fn is_sound(&self) -> bool {
        let is_time = |point: &MessagePoint| point.time_s.is_finite() && point.time_s >= 0.0;
        self.points.len() > 1
            && self.noise >= 0.0
            && self.points[0].bytes >= 0.0
            && self.points.iter().all(is_time)
            && self.points.is_sorted_by(|a, b| a.bytes < b.bytes && a.time_s <= b.time_s)
    }
}

impl Network {
    /// Makes a network of equal links: a message of `v` bytes takes `latency_s + v / bytes_per_s` seconds.
    pub fn flat(latency_s: f64, bytes_per_s: f64) -> Self {
        Self::grouped(vec![MessageCurve::line(latency_s, bytes_per_s)], Vec::new())
    }

    /// Makes a network of groups. `levels` has one function more than groups lie within each other.
    ///
    /// # Panics
    /// If there is no level.
    pub fn grouped(levels: Vec<MessageCurve>, mut uplinks: Vec<Uplink>) -> Self {
        assert!(!levels.is_empty(), "a network without times of messages");
        uplinks.sort_by_key(|uplink| (usize::MAX - uplink.ranks.len(), uplink.ranks.clone()));
        Self { levels, uplinks, adapters: Vec::new(), byte_s: Vec::new() }
    }

    /// Returns the same network where each rank receives at most these bytes per second.
    #[must_use]
    pub fn with_adapters(self, adapters: Vec<f64>) -> Self {
        Self { adapters, ..self }
    }

    /// Returns the same network where each rank's arithmetic loses these seconds for a byte of a message.
    #[must_use]
    pub fn with_byte_s(self, byte_s: Vec<f64>) -> Self {
        Self { byte_s, ..self }
    }

    /// Returns the same network with messages that take a `factor`-th of the time.
    #[must_use]
    pub fn sped_up(&self, factor: f64) -> Self {
        let mut faster = self.clone();
        let points = faster.levels.iter_mut().flat_map(|level| &mut level.points);
        points.for_each(|point| point.time_s /= factor);
        faster.uplinks.iter_mut().for_each(|uplink| uplink.bytes_per_s *= factor);
        faster.adapters.iter_mut().for_each(|rate| *rate *= factor);
        faster
    }

    /// The function of messages between ranks with this number of common groups.
    pub fn level(&self, common: usize) -> &MessageCurve {
        &self.levels[common.min(self.levels.len() - 1)]
    }

    /// Number of levels.
    pub fn count_levels(&self) -> usize {
        self.levels.len()
    }

    /// Relative standard deviation of the times of messages: that of the level in which they differ most.
    pub fn noise(&self) -> f64 {
        self.levels.iter().map(|level| level.noise).fold(0.0, f64::max)
    }

    /// Bytes per second that a rank receives at most; infinite if it receives as fast as messages travel.
    pub fn adapter(&self, rank: usize) -> f64 {
        self.adapters.get(rank).copied().unwrap_or(f64::INFINITY)
    }

    /// Seconds that a rank's arithmetic loses for a byte of a message that it sends or receives, because the cores that compute also handle messages.
    pub fn byte_s(&self, rank: usize) -> f64 {
        self.byte_s.get(rank).copied().unwrap_or(0.0)
    }

    /// The groups, each before those within it.
    pub fn uplinks(&self) -> &[Uplink] {
        &self.uplinks
    }

    /// Lists the ranks of the groups, each group before those within it.
    pub fn list_groups(&self) -> Vec<&[usize]> {
        self.uplinks.iter().map(|uplink| uplink.ranks.as_slice()).collect()
    }

    /// Returns the number of groups that both ranks are in.
    pub fn level_of(&self, a: usize, b: usize) -> usize {
        self.uplinks.iter().filter(|uplink| uplink.has(a) && uplink.has(b)).count()
    }

    /// Returns the group of a rank that lies within `depth` others, by its place among the [uplinks](Self::uplinks).
    pub fn group_of(&self, rank: usize, depth: usize) -> Option<usize> {
        // Each group comes before those within it.
        let mut groups = (0..self.uplinks.len()).filter(|&group| self.uplinks[group].has(rank));
        groups.nth(depth)
    }

    /// Returns the network between some of the ranks, in this order; a rank that comes again is another one with its links. A group of all
    /// of them is left out.
    #[must_use]
    pub fn among(&self, ranks: &[usize]) -> Self {
        let uplinks = self.uplinks.iter().map(|uplink| {
            let kept = (0..ranks.len()).filter(|&place| uplink.has(ranks[place]));
            Uplink { ranks: kept.collect(), bytes_per_s: uplink.bytes_per_s }
        });
        let (mut kept, mut gone) = (Vec::new(), 0);
        for uplink in uplinks.filter(|uplink| !uplink.ranks.is_empty()) {
            if uplink.ranks.len() == ranks.len() { gone += 1 } else { kept.push(uplink) }
        }
        let adapters = ranks.iter().filter_map(|&rank| self.adapters.get(rank).copied());
        let last = self.levels.len() - 1;
        let byte_s = ranks.iter().filter_map(|&rank| self.byte_s.get(rank).copied());
        Self::grouped(self.levels[gone.min(last)..].to_vec(), kept)
            .with_adapters(adapters.collect())
            .with_byte_s(byte_s.collect())
    }

    /// Returns the seconds until all have received what travels in a phase: those of the busiest adapter or uplink, or 0 without
    /// ranks.
    pub fn phase_s(&self, phase: &PhaseTraffic, element_bytes: usize) -> f64 {
        self.list_phase_s(phase, element_bytes).fold(0.0, f64::max)
    }

    /// Lists the seconds in which each rank receives what a phase brings it, and after them those in which each uplink carries its part.
    pub fn list_phase_s<'n>(
        &'n self,
        phase: &'n PhaseTraffic,
        element_bytes: usize,
    ) -> impl Iterator<Item = f64> + 'n {
        self.list_times(phase, element_bytes).map(|[time_s, _]| time_s)
    }

    /// Lists the seconds of each resource in a phase, and those of its bytes alone.
    fn list_times<'n>(
        &'n self,
        phase: &'n PhaseTraffic,
        element_bytes: usize,
    ) -> impl Iterator<Item = [f64; 2]> + 'n {
        let of_ranks = phase.received.iter().enumerate().map(move |(rank, levels)| {
            let of_levels = || levels.iter().zip(&self.levels);
            let time_s: f64 =
                of_levels().map(|(traffic, level)| level.time_s(traffic, element_bytes)).sum();
            let latency_s: f64 =
                of_levels().map(|(traffic, level)| traffic.messages * level.latency_s()).sum();
            let elements: f64 = levels.iter().map(|traffic| traffic.elements).sum();
            let adapter_s = elements * element_bytes as f64 / self.adapter(rank);
            let bytes_s = (time_s - latency_s).max(adapter_s);
            [latency_s + bytes_s, bytes_s]
        });
        let of_uplinks = phase.through.iter().enumerate().map(move |(place, elements)| {
            let uplink = &self.uplinks[place];
            let outer = self.uplinks[..place].iter().filter(|outer| outer.has(uplink.ranks[0]));
            let bytes_s = elements * element_bytes as f64 / uplink.bytes_per_s;
            let latency_s =
                if *elements > 0.0 { self.level(outer.count()).latency_s() } else { 0.0 };
            [latency_s + bytes_s, bytes_s]
        });
        of_ranks.chain(of_uplinks)
    }

    /// Returns `true` if `receivers` have the same `bytes` sooner by a [tree](count_rounds()) than from
    /// their holder, one after the other: `rounds·t(v) < t(0) + receivers·(t(v) - t(0))`, at the level of this number of common
    /// groups.
    pub fn favour_relays(&self, common: usize, bytes: f64, receivers: usize) -> bool {
        let level = self.level(common);
        let (latency_s, time_s) = (level.latency_s(), level.message_s(bytes));
        let relayed_s = f64::from(count_rounds(receivers)) * time_s;
        relayed_s < latency_s + receivers as f64 * (time_s - latency_s)
    }

    /// Returns the number of steps that panels must be sent ahead to arrive in time.
    ///
    /// It is one step that has arrived, and the number of steps that pass while a step's panels travel.
    /// The latter includes a reserve, because messages are slower during the arithmetic and some steps
    /// need more of them than others. A step takes `step_s` of arithmetic, but no less than the links
    /// need for its bytes. If the links are the bound, more steps on their way would wait for each other.
    pub fn lookahead(&self, step: &PhaseTraffic, element_bytes: usize, step_s: f64) -> usize {
        let steps = self.list_times(step, element_bytes).map(|[time_s, bytes_s]| {
            let passed = time_s / step_s.max(bytes_s) + RESERVE;
            // Not finite if nothing travels or nothing takes any time.
            let passed = if passed.is_finite() { passed } else { 1.0 };
            (passed.ceil() as usize).max(1).saturating_add(1)
        });
        steps.max().unwrap_or(0)
    }

    /// Returns what contradicts itself in the network of this many ranks, if anything does.
    pub fn find_contradiction(&self, ranks: usize) -> Option<String> {
        let depth = (0..ranks).map(|rank| self.level_of(rank, rank)).max().unwrap_or(0);
        if self.levels.len() <= depth {
            return Some(format!(
                "{} levels of messages for groups {depth} deep",
                self.levels.len()
            ));
        }
        if !self.levels.iter().all(MessageCurve::is_sound) {
            return Some("no times of messages, or times that fall with their bytes".to_owned());
        }
        let mut rates = self
            .uplinks
            .iter()
            .map(|uplink| uplink.bytes_per_s)
            .chain(self.adapters.iter().copied());
        if !rates.all(|rate| rate > 0.0) {
            return Some("a link that carries nothing".to_owned());
        }
        let of_ranks = [("adapters", &self.adapters), ("costs of a byte", &self.byte_s)];
        if let Some((what, of)) =
            of_ranks.into_iter().find(|(_, of)| !of.is_empty() && of.len() != ranks)
        {
            return Some(format!("{} {what} for {ranks} ranks", of.len()));
        }
        if !self.byte_s.iter().all(|byte_s| *byte_s >= 0.0) {
            return Some("a byte that takes less than no time".to_owned());
        }
        for (place, uplink) in self.uplinks.iter().enumerate() {
            let sorted = uplink.ranks.is_sorted_by(|a, b| a < b);
            if !sorted || uplink.ranks.is_empty() || uplink.ranks.iter().any(|&rank| rank >= ranks)
            {
                return Some(format!("a group of the ranks {:?} of {ranks}", uplink.ranks));
            }
            let crosses = self.uplinks[..place].iter().find(|outer| {
                let shared = uplink.ranks.iter().filter(|&&rank| outer.has(rank)).count();
                shared > 0 && shared < uplink.ranks.len()
            });
            if let Some(outer) = crosses {
                return Some(format!(
                    "the groups {:?} and {:?} overlap",
                    outer.ranks, uplink.ranks
                ));
            }
        }
        None
    }
}

impl Uplink {
    /// Returns `true` if this rank is in the group.
    pub fn has(&self, rank: usize) -> bool {
        self.ranks.binary_search(&rank).is_ok()
    }
}

/// Steps on their way in reserve.
const RESERVE: f64 = 0.75;

/// Returns the rounds in which a message reaches all receivers when every receiver passes it on:
/// `⌈log₂(receivers + 1)⌉`.
pub fn count_rounds(receivers: usize) -> u32 {
    (receivers + 1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(elements: f64, messages: f64) -> PhaseTraffic {
        PhaseTraffic::of([Traffic { elements, messages }])
    }

    #[test]
    fn messages_take_their_latencies_and_their_bytes() {
        let gigabit = Network::flat(100e-6, 117e6);
        let found_s = gigabit.phase_s(&receive(1e6, 10.0), 8);
        assert!((found_s - (8e6 / 117e6 + 1e-3)).abs() < 1e-12);
        // A slow adapter, and an uplink.
        let slow = gigabit.clone().with_adapters(vec![58.5e6]);
        assert!((slow.phase_s(&receive(1e6, 10.0), 8) - (16e6 / 117e6 + 1e-3)).abs() < 1e-12);
        assert!(gigabit.favour_relays(0, 1e6, 7) && !gigabit.favour_relays(0, 1e6, 2));
        assert!(!gigabit.favour_relays(0, 10.0, 7));
    }

    #[test]
    fn times_between_points_are_on_lines_and_longer_ones_go_on() {
        let curve = MessageCurve::new([(1.0, 2e-5), (1000.0, 1e-5), (2000.0, 3e-5)]);
        let times_s = [0.0, 1000.0, 1500.0, 3000.0].map(|bytes| curve.message_s(bytes));
        for (found_s, wanted_s) in times_s.into_iter().zip([1e-5, 1e-5, 2e-5, 5e-5]) {
            assert!((found_s - wanted_s).abs() < 1e-15, "{times_s:?}");
        }
    }

    #[test]
    fn panels_are_sent_ahead_by_the_steps_they_travel() {
        let far = Network::flat(10e-3, 1e9);
        let step = receive(1e5, 2.0);
        // 20.8 ms on the way, 5 ms a step.
        assert_eq!(far.lookahead(&step, 8, 5e-3), 1 + 5);
        assert_eq!(far.lookahead(&step, 8, 50e-3), 1 + 2);
        assert_eq!(far.lookahead(&step, 8, 1.0), 2);
    }

    #[test]
    fn what_moves_counts_by_level_and_crosses_uplinks() {
        let levels = [1e-3, 1e-4].map(|latency_s| MessageCurve::line(latency_s, 1e9)).to_vec();
        let uplinks = [vec![0, 1], vec![2, 3]].map(|ranks| Uplink { ranks, bytes_per_s: 1e8 });
        let network = Network::grouped(levels, uplinks.to_vec());
        let moves = [(0, 1, 5.0), (1, 0, 3.0), (1, 2, 7.0), (3, 0, 4.0)];
        let phase = PhaseTraffic::of_moves(&network, 4, moves);
        let elements: Vec<Vec<f64>> = (phase.received.iter())
            .map(|levels| levels.iter().map(|traffic| traffic.elements).collect())
            .collect();
        assert_eq!(elements, [[4.0, 5.0], [7.0, 5.0], [7.0, 0.0], [4.0, 0.0]]);
        assert_eq!(phase.through, [7.0, 7.0]);
        let longest_s = network.phase_s(&phase, 1_000_000);
        assert!((longest_s - (1e-3 + 7e6 / 1e8)).abs() < 1e-12, "{longest_s}");
    }

    #[test]
    fn a_part_of_the_ranks_keeps_the_groups_that_it_is_in() {
        let levels = [1e-3, 1e-4].map(|latency_s| MessageCurve::line(latency_s, 1e9)).to_vec();
        let uplinks = [vec![0, 1], vec![2, 3]].map(|ranks| Uplink { ranks, bytes_per_s: 1e8 });
        let whole = Network::grouped(levels, uplinks.to_vec());
        let some = whole.among(&[1, 2, 3]);
        assert_eq!(
            some.uplinks().iter().map(|up| up.ranks.clone()).collect::<Vec<_>>(),
            [vec![1, 2], vec![0]]
        );
        // One group alone is flat.
        let alone = whole.among(&[2, 3]);
        assert_eq!((alone.uplinks().len(), alone.level(0).latency_s()), (0, 1e-4));
        assert_eq!(whole.find_contradiction(4), None);
        assert!(whole.find_contradiction(3).is_some_and(|words| words.contains("of 3")));
    }
}
