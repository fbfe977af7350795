//! The lengths of messages at which the time of a level is measured.

use std::collections::BTreeMap;

use crate::model::{PiecewiseTime, Point, SpeedModel};

/// Logarithm by which a time may differ from the line through its neighbours.
const TOLERANCE: f64 = 0.03;

/// Lengths that are measured first: their ratio.
const FIRST_RATIO: f64 = 256.0;

/// The lengths of messages at which the time of a level is measured: a step machine, which is told the times and names the next
/// length. The first lengths lie far apart, from a byte to the longest one. Then the gap is halved in which a time is most likely to
/// be off the line: the one next to the time that differed most from the line through its neighbours, and the wider of two.
///
/// ```
/// use isochron_hierarchy::network::MessageLengths;
///
/// // 20 µs and 1 GB/s, and twice the time beyond 64 KiB.
/// let mut lengths = MessageLengths::new(1 << 20, 12);
/// while let Some(bytes) = lengths.next_length() {
///     let times = if bytes > 1 << 16 { 2.0 } else { 1.0 };
///     lengths.observe(bytes, times * (20e-6 + bytes as f64 * 1e-9));
/// }
/// assert!(lengths.points().len() <= 12);
/// ```
#[derive(Debug, Clone)]
pub struct MessageLengths {
    longest: u64,
    most: usize,
    /// Seconds by length, and by how much they were off the line before.
    found: BTreeMap<u64, (f64, f64)>,
}

impl MessageLengths {
    /// Starts with nothing measured, for at most so many lengths up to the longest.
    pub fn new(longest: u64, most: usize) -> Self {
        Self { longest: longest.max(1), most, found: BTreeMap::new() }
    }

    /// Returns the length to measure next; `None` at the end.
    pub fn next_length(&self) -> Option<u64> {
        if self.found.len() >= self.most {
            return None;
        }
        let mut first = 1;
        while first < self.longest {
            if !self.found.contains_key(&first) {
                return Some(first);
            }
            first = ((first as f64 * FIRST_RATIO) as u64).min(self.longest);
        }
        if !self.found.contains_key(&self.longest) {
            return Some(self.longest);
        }
        let known: Vec<(u64, f64)> =
            self.found.iter().map(|(&bytes, &(_, off))| (bytes, off)).collect();
        let doubt = |pair: &[(u64, f64)]| {
            let off = pair[0].1.max(pair[1].1);
            off * (pair[1].0 as f64 / pair[0].0 as f64).ln()
        };
        let gaps = known.windows(2).filter(|pair| halve(pair[0].0, pair[1].0).is_some());
        let widest = gaps
            .filter(|pair| pair[0].1.max(pair[1].1) > TOLERANCE)
            .max_by(|one, next| doubt(one).total_cmp(&doubt(next)))?;
        halve(widest[0].0, widest[1].0)
    }

    /// Takes in the seconds of a message of a length.
    pub fn observe(&mut self, bytes: u64, seconds: f64) {
        let expected = self.model().map(|model| model.time_s(bytes as f64));
        let is_first = self.found.keys().next_back().is_none_or(|&last| last < bytes);
        // Nothing tells the line beyond the longest length so far: its own gap is the widest.
        let off = match expected {
            Some(expected_s) if !is_first => (seconds / expected_s).ln().abs(),
            _ => 1.0,
        };
        self.found.insert(bytes, (seconds, off));
    }

    /// Returns the times so far.
    pub fn points(&self) -> Vec<Point> {
        let points = self.found.iter();
        points.map(|(&d, &(t_s, _))| Point { d, t_s, reps: 1, ci_s: 0.0 }).collect()
    }

    fn model(&self) -> Option<PiecewiseTime> {
        PiecewiseTime::from_points(&self.points()).ok().filter(|model| !model.knots().is_empty())
    }
}

/// Returns the length halfway between two by their ratio; `None` between neighbours.
fn halve(shorter: u64, longer: u64) -> Option<u64> {
    let middle = (shorter as f64 * longer as f64).sqrt().round() as u64;
    (shorter < middle && middle < longer && longer as f64 / shorter as f64 > 1.5).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest ratio of the model of 12 lengths to the truth, from 1 KB to 100 MB.
    fn find_worst(time_s: impl Fn(f64) -> f64) -> f64 {
        let mut lengths = MessageLengths::new(100_000_000, 12);
        while let Some(bytes) = lengths.next_length() {
            lengths.observe(bytes, time_s(bytes as f64));
        }
        let model = lengths.model().unwrap();
        let tried = (0..=500).map(|step| 1e3 * 1e5_f64.powf(f64::from(step) / 500.0));
        tried.map(|bytes| (model.time_s(bytes) / time_s(bytes)).ln().abs()).fold(0.0, f64::max)
    }

    #[test]
    fn few_lengths_tell_the_time_of_any() {
        for (latency_s, bytes_per_s) in [(2e-6, 1e10), (1e-4, 1e8), (1e-3, 1e9)] {
            let worst = find_worst(|bytes| latency_s + bytes / bytes_per_s);
            assert!(worst < 0.02, "{latency_s}: {worst}");
        }
        // A protocol that changes at 64 KB.
        let worst = find_worst(|bytes| 1e-5 + bytes / if bytes < 64e3 { 5e9 } else { 1e9 });
        assert!(worst < 1.0, "{worst}");
    }
}
