//! Times of messages between members, by directed pair, and what deviates in them.

use super::LONGER;
use crate::times::find_median;

/// The logarithms of the seconds of messages from one member to another, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PairTable {
    members: usize,
    logs: Vec<Option<f64>>,
}

/// The level of a class of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairLevel {
    pub log: f64,
    /// Robust standard deviation of its pairs.
    pub scatter: f64,
}

impl PairTable {
    pub fn new(members: usize) -> Self {
        Self { members, logs: vec![None; members * members] }
    }

    /// Sets the seconds of messages from one member to another; a time of 0 counts as unknown.
    pub fn set(&mut self, (from, to): (usize, usize), seconds: f64) {
        self.logs[from * self.members + to] = (seconds > 0.0).then(|| seconds.ln());
    }

    pub fn log(&self, (from, to): (usize, usize)) -> Option<f64> {
        self.logs[from * self.members + to]
    }

    /// Returns the mean over both directions, as far as they are known.
    pub fn log_both(&self, (a, b): (usize, usize)) -> Option<f64> {
        let both = [self.log((a, b)), self.log((b, a))];
        let known = both.iter().flatten();
        let count = known.clone().count();
        (count > 0).then(|| known.sum::<f64>() / count as f64)
    }

    /// Lists the directed pairs that are known, with their logarithms.
    pub fn pairs(&self) -> impl Iterator<Item = ((usize, usize), f64)> {
        let known = self.logs.iter().enumerate();
        known.filter_map(|(index, log)| {
            Some(((index / self.members, index % self.members), (*log)?))
        })
    }

    /// Returns the table of the means of one or more; a pair that one of them lacks is unknown.
    pub fn mean(tables: &[&Self]) -> Self {
        let first = tables[0];
        let logs = (0..first.logs.len()).map(|index| {
            let known: Option<Vec<f64>> = tables.iter().map(|table| table.logs[index]).collect();
            known.map(|logs| logs.iter().sum::<f64>() / logs.len() as f64)
        });
        Self { members: first.members, logs: logs.collect() }
    }

    /// Returns this table over another: the logarithms of the ratios.
    pub fn over(&self, other: &Self) -> Self {
        let logs = self.logs.iter().zip(&other.logs).map(|(own, other)| Some((*own)? - (*other)?));
        Self { members: self.members, logs: logs.collect() }
    }

    /// Returns what each pair's time is above the level of its class; unknown in a class without one.
    pub fn above_levels(
        &self,
        classes: &[Option<PairLevel>],
        class_of: impl Fn((usize, usize)) -> usize,
    ) -> Self {
        let mut above = Self::new(self.members);
        for (pair, log) in self.pairs() {
            above.logs[pair.0 * self.members + pair.1] =
                classes[class_of(pair)].map(|level| log - level.log);
        }
        above
    }

    /// Returns the median over partners of the messages that a member sends, or of those that it receives; `None` with fewer
    /// than three.
    pub fn of_member(
        &self,
        member: usize,
        side: MessageEnd,
        is_counted: impl Fn(usize) -> bool,
    ) -> Option<f64> {
        let partners = (0..self.members).filter(|&other| is_counted(other));
        let logs: Vec<f64> =
            partners.filter_map(|other| self.log(side.pair(member, other))).collect();
        (logs.len() >= FEWEST_PARTNERS).then(|| find_median(&logs))
    }
}

/// Fewest partners that tell a member from a pair.
const FEWEST_PARTNERS: usize = 3;

/// Fewest directed pairs of a class that has a level.
const FEWEST_PAIRS: usize = 8;

/// A direction of messages, seen from a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageEnd {
    Sends,
    Receives,
}

impl MessageEnd {
    pub const BOTH: [Self; 2] = [Self::Sends, Self::Receives];

    pub fn pair(self, member: usize, other: usize) -> (usize, usize) {
        match self {
            Self::Sends => (member, other),
            Self::Receives => (other, member),
        }
    }
}

impl PairLevel {
    /// Returns the level of most pairs of a class: the middle of the shortest half of their logarithms; of halves that are
    /// about as short the lower one, since faults only delay. `None` of few pairs.
    ///
    /// # References
    /// The shortest half, and its correction for few values: Rousseeuw and Leroy, "Robust Regression and Outlier Detection",
    /// 1987.
    pub fn of(logs: &mut [f64]) -> Option<Self> {
        if logs.len() < FEWEST_PAIRS {
            return None;
        }
        logs.sort_unstable_by(f64::total_cmp);
        let half = logs.len().div_ceil(2);
        let lengths = || logs.windows(half).map(|held| held[half - 1] - held[0]);
        let shortest = lengths().fold(f64::INFINITY, f64::min);
        let much_shorter = (2.0 * shortest).max(LONGER.ln());
        let first = lengths().position(|length| length <= much_shorter)?;
        let held = &logs[first..first + half];
        // The half of normally distributed values is 1.349 standard deviations wide, and that of few values narrower.
        let few = 1.0 + 5.0 / (logs.len() - 1) as f64;
        let scatter = few * (held[half - 1] - held[0]) / 1.349;
        Some(Self { log: find_median(held), scatter })
    }
}
