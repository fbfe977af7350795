//! A network from the times of messages between hosts in pairs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::groups::find_groups;
use super::table::PairTable;
use super::{MessageCurve, Network, Uplink};
use crate::times::find_median;

/// Ratio of the fastest adapter to the slowest from which adapters are told apart. Smaller differences change no plan by much, and
/// busy hosts make them.
const UNLIKE: f64 = 1.5;

/// Ratios from which two kinds of pairs are told apart: of the fastest slow pair to the slowest fast one, and of their medians.
const APART: [f64; 2] = [1.2, 1.7];

/// Ratio to the shortest message from which the time of the longest shows the bandwidth.
const CLEARLY_LONGER: f64 = 1.5;

/// Expected range of three normal values, in standard deviations.
const RANGE_OF_THREE: f64 = 1.693;

/// Bytes of messages that take twice the latency or more on any network.
const LONGEST: f64 = 524_288.0;

/// The times of messages between ranks of two hosts, or of one, both ways at once, while other pairs exchange them too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SurveyedPair {
    /// The hosts, by number.
    pub hosts: (usize, usize),
    /// Seconds of a message of each length.
    pub times_s: Vec<f64>,
    /// Of repeated messages of the last length, those of the slowest one over those of the fastest; 0 without repetitions.
    #[serde(default)]
    pub spread: f64,
}

impl SurveyedPair {
    fn last_s(&self) -> f64 {
        self.times_s.last().copied().unwrap_or(0.0)
    }
}

/// The rounds in which hosts, or ranks within them, exchanged messages in pairs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Survey {
    /// Bytes of the messages, ascending.
    pub lengths: Vec<f64>,
    /// The pairs of each round.
    pub rounds: Vec<Vec<SurveyedPair>>,
}

impl Survey {
    /// Makes the network of ranks on these hosts, by number; `None` if no pair was timed.
    ///
    /// Members of a group reach each other clearly faster than others. An uplink carries what crossed it in the round in which that
    /// was most, and an adapter what it did in its fastest pair: disturbances only delay.
    pub fn to_network(&self, hosts: &[usize]) -> Option<Network> {
        let count = hosts.iter().max().map_or(0, |last| last + 1);
        let near = self.fit(self.pairs().filter(|pair| pair.hosts.0 == pair.hosts.1));
        let all = self.fit(self.between()).or_else(|| near.clone())?;
        let mut table = PairTable::new(count);
        self.between().for_each(|pair| table.set(pair.hosts, pair.last_s()));
        let mut paths = find_groups(count, &table, APART);
        let depth = paths.iter().map(Vec::len).max().unwrap_or(0);
        // Groups that are not divided are one within themselves, so that all hosts are as deep.
        paths.iter_mut().for_each(|path| path.resize(depth, 0));
        let rates: Vec<f64> = (0..count).map(|host| self.find_rate(host)).collect();
        let [least, most] =
            [f64::min, f64::max].map(|choose| rates.iter().copied().reduce(choose).unwrap_or(1.0));
        let are_unlike = most.is_finite() && most > UNLIKE * least;
        let mut levels = self.fit_levels(&paths, depth, &all);
        let mut uplinks = self.find_uplinks(hosts, &paths, &all);
        let has_near = count > 1 && hosts.len() > count;
        for host in (0..count).filter(|_| has_near) {
            let ranks = list_ranks(hosts, |other| other == host);
            let bytes_per_s = if are_unlike { rates[host] } else { levels[depth].bytes_per_s() };
            uplinks.extend((ranks.len() > 1).then_some(Uplink { ranks, bytes_per_s }));
        }
        levels.extend(has_near.then(|| near.unwrap_or(all)));
        // Ranks that share a host share its uplink.
        let is_alone = |host: usize| hosts.iter().filter(|&&other| other == host).count() == 1;
        let adapters = hosts.iter().filter(|_| are_unlike);
        let adapters =
            adapters.map(|&host| if is_alone(host) { rates[host] } else { f64::MAX }).collect();
        Some(Network::grouped(levels, uplinks).with_adapters(adapters))
    }

    /// Fits the time of messages by the number of groups that two hosts have in common. A level without a pair takes that of all.
    fn fit_levels(
        &self,
        paths: &[Vec<usize>],
        depth: usize,
        all: &MessageCurve,
    ) -> Vec<MessageCurve> {
        let common = |(a, b): (usize, usize)| {
            paths[a].iter().zip(&paths[b]).take_while(|(one, other)| one == other).count()
        };
        let of_level = |level| self.fit(self.between().filter(|pair| common(pair.hosts) == level));
        (0..=depth).map(|level| of_level(level).unwrap_or_else(|| all.clone())).collect()
    }

    /// Finds the groups of hosts, with the bytes per second of their uplinks.
    fn find_uplinks(
        &self,
        hosts: &[usize],
        paths: &[Vec<usize>],
        all: &MessageCurve,
    ) -> Vec<Uplink> {
        let groups = paths.iter().flat_map(|path| (1..=path.len()).map(|depth| &path[..depth]));
        let groups: BTreeSet<&[usize]> = groups.collect();
        let uplinks = groups.into_iter().map(|group| {
            let is_in = |host: usize| paths[host].starts_with(group);
            let bytes_per_s = self.find_crossing(is_in).unwrap_or_else(|| all.bytes_per_s());
            Uplink { ranks: list_ranks(hosts, is_in), bytes_per_s }
        });
        uplinks.collect()
    }

    fn pairs(&self) -> impl Iterator<Item = &SurveyedPair> {
        self.rounds.iter().flatten()
    }

    fn between(&self) -> impl Iterator<Item = &SurveyedPair> {
        self.pairs().filter(|pair| pair.hosts.0 != pair.hosts.1)
    }

    /// Returns the lower quartile of these pairs as a function, since disturbances only delay; `None` without any.
    fn fit<'p>(&self, pairs: impl Iterator<Item = &'p SurveyedPair>) -> Option<MessageCurve> {
        let pairs: Vec<&SurveyedPair> = pairs.collect();
        let quartile = |length: usize| {
            let times_s = pairs.iter().filter_map(|pair| pair.times_s.get(length).copied());
            let mut times_s: Vec<f64> = times_s.collect();
            times_s.sort_unstable_by(f64::total_cmp);
            times_s.get(times_s.len() / 4).copied()
        };
        let times_s: Vec<f64> = (0..self.lengths.len()).map_while(quartile).collect();
        let (&short_s, &long_s) = (times_s.first()?, times_s.last()?);
        let last = times_s.len() - 1;
        let longest = self.lengths[last];
        let line = MessageCurve::line(short_s, self.rate(short_s, long_s));
        // Beyond the longest message the function goes on as if it were a line.
        let end_s = |bytes: f64| {
            long_s.max(line.message_s(longest)) + line.message_s(bytes) - line.message_s(longest)
        };
        let between = self.lengths.iter().copied().zip(times_s).skip(1);
        let ends = [2.0, 4.0].map(|times| (times * longest, end_s(times * longest)));
        let spreads = pairs.iter().filter(|pair| pair.spread > 1.0).map(|pair| pair.spread.ln());
        let noise = find_median(&spreads.collect::<Vec<_>>()) / RANGE_OF_THREE;
        let curve = MessageCurve::new([(0.0, short_s)].into_iter().chain(between).chain(ends));
        Some(curve.with_noise(noise))
    }

    /// Returns the bytes per second by which the longest messages take longer than the shortest. If they seem hardly longer, the clock is
    /// too coarse for both, or there was no time for a longer one: the longest ones take twice the latency or more.
    fn rate(&self, short_s: f64, long_s: f64) -> f64 {
        let bytes = self.lengths.last().copied().unwrap_or(1.0);
        let least_s = 0.5 * long_s * (bytes / LONGEST).min(1.0);
        bytes / (long_s - short_s).max(least_s).max(1e-9)
    }

    /// Returns the bytes per second of a host in its fastest pair; infinite if that is not known.
    fn find_rate(&self, host: usize) -> f64 {
        let own = self.between().filter(|pair| pair.hosts.0 == host || pair.hosts.1 == host);
        let rates = own.filter_map(|pair| {
            let short_s = *pair.times_s.first()?;
            // Shorter messages show no bandwidth.
            let is_shown = pair.last_s() > CLEARLY_LONGER * short_s;
            Some(if is_shown { self.rate(short_s, pair.last_s()) } else { f64::INFINITY })
        });
        rates.reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    /// Returns the bytes per second between these hosts and others in the round in which they were most; `None` if none met.
    fn find_crossing(&self, is_in: impl Fn(usize) -> bool) -> Option<f64> {
        let of_round = self.rounds.iter().filter_map(|round| {
            let crossing = round.iter().filter(|pair| is_in(pair.hosts.0) != is_in(pair.hosts.1));
            let count = crossing.clone().count();
            let slowest = crossing.max_by(|a, b| a.last_s().total_cmp(&b.last_s()))?;
            Some(count as f64 * self.rate(*slowest.times_s.first()?, slowest.last_s()))
        });
        of_round.reduce(f64::max)
    }
}

/// Lists the ranks on these hosts.
fn list_ranks(hosts: &[usize], is_in: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..hosts.len()).filter(|&rank| is_in(hosts[rank])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::list_rounds;

    const BYTES: f64 = 65536.0;
    const LATENCY_S: f64 = 1e-4;

    /// Surveys hosts with these adapters, in bytes per second, in two groups up to the host `cut`, with an uplink of each.
    fn survey(adapters: &[f64], cut: usize, uplink: f64) -> Survey {
        let rounds = list_rounds(adapters.len()).into_iter().map(|round| {
            let crosses = |(a, b): &(usize, usize)| (*a < cut) != (*b < cut);
            let crossing = round.iter().filter(|pair| crosses(pair)).count() as f64;
            let time = |pair: (usize, usize)| {
                let adapter = adapters[pair.0].min(adapters[pair.1]);
                let rate = if crosses(&pair) { adapter.min(uplink / crossing) } else { adapter };
                let times_s = vec![LATENCY_S, LATENCY_S + BYTES / rate];
                SurveyedPair { hosts: pair, times_s, spread: 0.0 }
            };
            round.into_iter().map(time).collect()
        });
        Survey { lengths: vec![1.0, BYTES], rounds: rounds.collect() }
    }

    #[test]
    fn groups_are_found_with_their_uplinks() {
        let network = survey(&[1e8; 6], 3, 2.5e7).to_network(&[0, 1, 2, 3, 4, 5]).unwrap();
        assert_eq!(network.list_groups(), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(network.find_contradiction(6), None);
        for uplink in network.uplinks() {
            assert!((uplink.bytes_per_s / 2.5e7 - 1.0).abs() < 1e-6, "{uplink:?}");
        }
        assert!((network.level(1).bytes_per_s() / 1e8 - 1.0).abs() < 1e-6);
        assert!(network.level(0).bytes_per_s() < 3e7);
    }

    #[test]
    fn an_equal_network_is_that_of_all_messages_and_a_slow_adapter_is_its_ranks() {
        let flat = survey(&[1e8; 4], 4, 1e9).to_network(&[0, 1, 2, 3]).unwrap();
        assert!(flat.uplinks().is_empty() && flat.count_levels() == 1);
        for bytes in [0.0, 1e4, BYTES, 1e7] {
            let wanted_s = LATENCY_S + bytes / 1e8;
            assert!((flat.level(0).message_s(bytes) / wanted_s - 1.0).abs() < 1e-9, "{bytes}");
        }
        // Two ranks on each host.
        let mut slow = survey(&[1e8, 5e7, 1e8, 1e8], 4, 1e9);
        slow.rounds.push(vec![SurveyedPair {
            hosts: (2, 2),
            times_s: vec![1e-6, 1.1e-5],
            spread: 0.0,
        }]);
        let network = slow.to_network(&[0, 0, 1, 1, 2, 2, 3, 3]).unwrap();
        assert_eq!(network.find_contradiction(8), None);
        assert_eq!(network.list_groups().len(), 4);
        assert_eq!(network.level(1).latency_s(), 1e-6);
        assert!((network.uplinks()[1].bytes_per_s / 5e7 - 1.0).abs() < 1e-6);
    }
}
