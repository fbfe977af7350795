//! The function of messages behind single times.

use super::MessageCurve;
use crate::times::find_median;

/// Neighbouring times whose median is the usual one there.
const NEIGHBOURS: usize = 11;

/// Deviation of the function from that median, as a logarithm, up to which it holds there.
const HELD: f64 = 0.05;

/// Fewest times between two corners.
const APART: usize = 3;

/// Corners that are placed anew once there are as many as wanted.
const REPLACED: usize = 8;

/// Passes over all corners until their times have settled.
const PASSES: usize = 4;

impl MessageCurve {
    /// Fits a function of at most `most` corners to times of messages, as bytes and seconds; `None` with fewer than two corners, or
    /// with fewer than eleven times.
    ///
    /// The sum of the relative distances is least, as far as a search that adds and replaces one corner after the other finds it: a few
    /// times that are disturbed by far count as if they were a little disturbed. Of the functions on its way the one is
    /// taken that is most often within 5 % of the median of eleven neighbouring times.
    pub fn fit(times: &[(f64, f64)], most: usize) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        if most < 2 || times.len() < NEIGHBOURS || times[0].0 >= times[times.len() - 1].0 {
            return None;
        }
        let ends = [0, times.len() - 1].map(|end| (end, times[end].1.ln()));
        let mut found = Corners { times: &times, logs: ends.to_vec() };
        found.settle();
        let mut best = found.clone();
        while found.logs.len() < most && found.add() {
            best.replace_by_better(&found);
        }
        for _ in 0..REPLACED {
            let before = found.distance();
            if !found.remove_least() || !found.add() || found.distance() >= before {
                break;
            }
            best.replace_by_better(&found);
        }
        Some(best.to_curve())
    }
}

/// A function by its corners: an index of a time, and the logarithm of the function's seconds there.
#[derive(Clone)]
struct Corners<'t> {
    times: &'t [(f64, f64)],
    logs: Vec<(usize, f64)>,
}

impl Corners<'_> {
    fn to_curve(&self) -> MessageCurve {
        MessageCurve::new(self.logs.iter().map(|&(index, log)| (self.times[index].0, log.exp())))
    }

    /// Lists the logarithms of the times over those of the function.
    fn excesses(&self) -> Vec<f64> {
        let curve = self.to_curve();
        let excess = |&(bytes, seconds): &(f64, f64)| (seconds / curve.message_s(bytes)).ln();
        self.times.iter().map(excess).collect()
    }

    fn distance(&self) -> f64 {
        self.excesses().into_iter().map(f64::abs).sum()
    }

    /// Counts the times near which the function holds.
    fn count_held(&self) -> usize {
        let excesses = self.excesses();
        let last = excesses.len() - NEIGHBOURS;
        let near = |index: usize| index.saturating_sub(NEIGHBOURS / 2).min(last);
        let medians = (0..excesses.len()).map(|index| {
            let first = near(index);
            find_median(&excesses[first..first + NEIGHBOURS])
        });
        medians.filter(|median| median.abs() <= HELD).count()
    }

    fn replace_by_better(&mut self, other: &Self) {
        if other.count_held() > self.count_held() {
            self.logs.clone_from(&other.logs);
        }
    }

    /// Moves each corner to the median of the times around it. Near times have more weight.
    fn settle(&mut self) {
        for _ in 0..PASSES {
            (0..self.logs.len()).for_each(|corner| self.move_corner(corner));
        }
    }

    fn move_corner(&mut self, corner: usize) {
        let at = |corner: usize| self.logs[corner].0;
        let log_bytes = |index: usize| self.times[index].0.max(1.0).ln();
        let (first, last) = (corner.saturating_sub(1), (corner + 1).min(self.logs.len() - 1));
        let excesses = self.excesses();
        let around = (at(first)..=at(last)).map(|index| {
            let far = if index < at(corner) { at(first) } else { at(last) };
            let (own, far) = (log_bytes(at(corner)), log_bytes(far));
            let weight = if own == far { 1.0 } else { (log_bytes(index) - far) / (own - far) };
            (excesses[index], weight)
        });
        let moved = find_weighted_median(around.collect());
        self.logs[corner].1 += moved;
    }

    /// Adds the corner that brings the function nearest to the times; returns `false` if there is no room for one.
    fn add(&mut self) -> bool {
        let curve = self.to_curve();
        let is_free = |index: &usize| self.logs.iter().all(|(at, _)| at.abs_diff(*index) >= APART);
        let with = (0..self.times.len()).filter(is_free).map(|index| {
            let mut with = self.clone();
            let corner = with.logs.partition_point(|(at, _)| *at < index);
            with.logs.insert(corner, (index, curve.message_s(self.times[index].0).ln()));
            with.move_corner(corner);
            with
        });
        let nearest = with.min_by(|a, b| a.distance().total_cmp(&b.distance()));
        let Some(mut nearest) = nearest else { return false };
        nearest.settle();
        self.logs = nearest.logs;
        true
    }

    /// Removes the corner between the ends without which the function is nearest to the times; returns `false` if there is none.
    fn remove_least(&mut self) -> bool {
        let without = (1..self.logs.len() - 1).map(|corner| {
            let mut without = self.clone();
            without.logs.remove(corner);
            without.settle();
            without
        });
        let nearest = without.min_by(|a, b| a.distance().total_cmp(&b.distance()));
        let Some(nearest) = nearest else { return false };
        self.logs = nearest.logs;
        true
    }
}

/// Returns the value below and above which half of the weight lies.
fn find_weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let middle = values.iter().find(|(_, weight)| {
        below += weight;
        below >= half
    });
    middle.map_or(0.0, |(value, _)| *value)
}
