//! The sizes at which a full model is measured.

use super::Point;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The rule by which sizes are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeRule {
    /// As many sizes as this, evenly from the first to the last.
    Even(usize),
    /// Sizes where the times need them.
    Adaptive {
        /// First distance of two sizes in units, and the smallest one; at least 1.
        step: u64,
        /// Part of a time by which it may differ from the line through its neighbours.
        tolerance: f64,
    },
}

/// The sizes at which full models of several devices are measured: a step machine, which is told the times and names
/// the next size. All devices are measured at the same sizes, because those that share memory are measured together.
///
/// With [`SizeRule::Adaptive`] it first walks from the first size to the last. The step doubles where the time of every
/// device lies on the line through the two sizes before, and halves where it does not. No step is longer than a twelfth
/// of the range, because two bends may hide between distant sizes. Then each size whose time is off the line between
/// its neighbours gets another one halfway to each of them, until they are a first step apart. A size that is alone off
/// the line of the two sizes on either side was disturbed, or is a spike: more sizes next to it would tell nothing.
///
/// All sizes but the last are whole steps from the first one.
///
/// The next size depends on the sizes measured so far and not on their order. So a campaign that was interrupted goes
/// on where it stopped once its points are observed.
///
/// # References
/// Clarke's thesis, section 3.1.4 (algorithm 1) and appendix A.2 (the two methods of the tool that builds models).
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{ModelSizes, Point, SizeRule};
///
/// let rule = SizeRule::Adaptive { step: 10, tolerance: 0.02 };
/// let mut sizes = ModelSizes::new(10..=1000, rule);
/// while let Some(d) = sizes.next_size() {
///     let time = Point { d, t_s: 0.5 + d as f64, reps: 5, ci_s: 0.0 };
///     sizes.observe(d, &[Some(time)]);
/// }
/// // One line needs few points.
/// assert_eq!(sizes.measured()[..7], [10, 20, 30, 50, 90, 170, 250]);
/// assert_eq!(sizes.measured().len(), 17);
/// ```
#[derive(Debug, Clone)]
pub struct ModelSizes {
    first: u64,
    last: u64,
    rule: SizeRule,
    /// The point of each device, `None` where a size was hopeless, by size.
    found: BTreeMap<u64, Vec<Option<Point>>>,
}

/// Number of longest steps in the range.
const LONGEST: u64 = 12;

impl ModelSizes {
    /// Starts with nothing measured, for sizes from the first to the last of `range`.
    ///
    /// # Panics
    /// If the range is empty, begins at 0, or the rule asks for no sizes or steps.
    #[must_use]
    pub fn new(range: RangeInclusive<u64>, rule: SizeRule) -> Self {
        let (first, last) = range.into_inner();
        assert!(0 < first && first <= last, "sizes of {first}..={last}");
        let asks = match rule {
            SizeRule::Even(count) => count > 0,
            SizeRule::Adaptive { step, tolerance } => step > 0 && tolerance > 0.0,
        };
        assert!(asks, "{rule:?}");
        Self { first, last, rule, found: BTreeMap::new() }
    }

    /// Takes in the points of all devices at a size; `None` for a device to which the size is hopeless.
    pub fn observe(&mut self, d: u64, points: &[Option<Point>]) {
        self.found.insert(d, points.to_vec());
    }

    /// Returns the sizes that were measured, ascending.
    #[must_use]
    pub fn measured(&self) -> Vec<u64> {
        self.found.keys().copied().collect()
    }

    /// Returns the size to measure next, or `None` at the end: when all are measured, or the rest is hopeless to every
    /// device.
    #[must_use]
    pub fn next_size(&self) -> Option<u64> {
        self.list_left().first().copied()
    }

    /// Returns the sizes that are likely to be measured still, the next one first; none at the end. Later ones may change
    /// with the times of earlier ones.
    #[must_use]
    pub fn list_left(&self) -> Vec<u64> {
        let mut left = match self.rule {
            SizeRule::Even(count) => self.list_even_left(count),
            SizeRule::Adaptive { step, tolerance } => match self.find_place(step, tolerance) {
                Some((next, last_step)) => self.list_walk(next, last_step, step),
                None => self.list_halfway(step, tolerance),
            },
        };
        let end = self.hopeless_from();
        left.retain(|&d| d < end);
        left
    }

    /// Returns the first size that is hopeless to every device; no larger one needs to be measured.
    fn hopeless_from(&self) -> u64 {
        let mut found = self.found.iter();
        found.find(|(_, points)| points.iter().all(Option::is_none)).map_or(u64::MAX, |(&d, _)| d)
    }

    fn list_even_left(&self, count: usize) -> Vec<u64> {
        let mut left: Vec<u64> = list_even(self.first..=self.last, count)
            .filter(|d| !self.found.contains_key(d))
            .collect();
        left.dedup();
        left
    }

    /// Returns the next size of the walk from the first size to the last, with the step that leads to it; `None` at the end
    /// of the walk.
    fn find_place(&self, first_step: u64, tolerance: f64) -> Option<(u64, u64)> {
        let mut d = self.first;
        let (mut step, longest) = (first_step, self.find_longest_step(first_step));
        let mut walked = Vec::new();
        while self.found.contains_key(&d) {
            if d == self.last || d >= self.hopeless_from() {
                return None;
            }
            walked.push(d);
            if let [.., a, b, c] = walked[..] {
                step = if self.is_straight([a, b, c], 2, tolerance) {
                    step.saturating_mul(2).min(longest)
                } else {
                    (step / 2 / first_step).max(1) * first_step
                };
            }
            d = d.saturating_add(step).min(self.last);
        }
        Some((d, step))
    }

    /// Lists the rest of the walk from size `d` and the step that led to it, as if the times followed a line.
    fn list_walk(&self, mut d: u64, mut step: u64, first_step: u64) -> Vec<u64> {
        let longest = self.find_longest_step(first_step);
        let mut sizes = vec![d];
        while d < self.last {
            step = step.saturating_mul(2).min(longest);
            d = d.saturating_add(step).min(self.last);
            sizes.push(d);
        }
        sizes
    }

    /// Lists the sizes halfway between each size that is off the line between its neighbours and these.
    fn list_halfway(&self, step: u64, tolerance: f64) -> Vec<u64> {
        let sizes = self.measured();
        let believed = self.list_believed(&sizes, tolerance);
        let bent = believed
            .windows(3)
            .filter_map(|d| d.try_into().ok())
            .filter(|&d: &[u64; 3]| !self.is_straight(d, 1, tolerance));
        let mut halfway = Vec::new();
        for [a, _, c] in bent {
            let within: Vec<u64> = sizes.iter().copied().filter(|d| (a..=c).contains(d)).collect();
            for gap in within.windows(2).filter(|gap| gap[1] - gap[0] >= 2 * step) {
                let steps = (gap[0] + (gap[1] - gap[0]) / 2 - self.first) / step;
                halfway.push(self.first + steps * step);
            }
        }
        // Triples overlap.
        halfway.sort_unstable();
        halfway.dedup();
        halfway
    }

    /// Lists the sizes without those that are alone off the line of the two sizes on either side.
    fn list_believed(&self, sizes: &[u64], tolerance: f64) -> Vec<u64> {
        let places = (0..sizes.len()).filter(|&at| {
            let around = at.checked_sub(2).and_then(|first| sizes.get(first..at + 3));
            let Some(&[a, b, c, d, e]) = around else {
                return true;
            };
            let [own, before, behind] = [[b, c, d], [a, b, d], [b, d, e]]
                .map(|triple| self.is_straight(triple, 1, tolerance));
            own || !before || !behind
        });
        places.map(|at| sizes[at]).collect()
    }

    /// Returns the longest step: a twelfth of the range, in whole first steps.
    fn find_longest_step(&self, first_step: u64) -> u64 {
        ((self.last - self.first) / LONGEST / first_step).max(1) * first_step
    }

    /// Returns `true` if on every device the time at `sizes[which]` lies on the line through the other two, within the
    /// tolerance and the half-widths of the confidence intervals.
    fn is_straight(&self, sizes: [u64; 3], which: usize, tolerance: f64) -> bool {
        let found = sizes.map(|d| &self.found[&d]);
        (0..found[0].len()).all(|device| {
            let points = found.map(|points| points.get(device).copied().flatten());
            let [Some(a), Some(b), Some(c)] = points else {
                return true;
            };
            is_on_line([a, b, c], which, tolerance)
        })
    }
}

/// Lists sizes evenly from the first to the last of a range.
pub(super) fn list_even(range: RangeInclusive<u64>, count: usize) -> impl Iterator<Item = u64> {
    let (first, last) = range.into_inner();
    let gaps = (count as u64 - 1).max(1);
    (0..count as u64).map(move |i| {
        let part = u128::from(last - first) * u128::from(i) / u128::from(gaps);
        // At most `last - first`.
        first + part as u64
    })
}

fn is_on_line(points: [Point; 3], which: usize, tolerance: f64) -> bool {
    let others: Vec<Point> = (0..3).filter(|&i| i != which).map(|i| points[i]).collect();
    let (a, b, point) = (others[0], others[1], points[which]);
    let part = (point.d as f64 - a.d as f64) / (b.d as f64 - a.d as f64);
    let line_s = a.t_s + part * (b.t_s - a.t_s);
    let noise_s = point.ci_s + (1.0 - part).abs() * a.ci_s + part.abs() * b.ci_s;
    (line_s - point.t_s).abs() <= tolerance * point.t_s + noise_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fit, SpeedModel};
    use crate::partition::{Partition, Partitioner};

    /// Measures devices with made-up times until the end.
    fn measure(
        rule: SizeRule,
        range: RangeInclusive<u64>,
        times_s: &[fn(f64) -> f64],
    ) -> ModelSizes {
        let mut sizes = ModelSizes::new(range, rule);
        while let Some(d) = sizes.next_size() {
            assert_eq!(sizes.list_left().first(), Some(&d));
            let points = times_s.iter().map(|time_s| Some(make_point(d, time_s(d as f64))));
            sizes.observe(d, &points.collect::<Vec<_>>());
        }
        assert!(sizes.list_left().is_empty());
        sizes
    }

    fn make_point(d: u64, t_s: f64) -> Point {
        Point { d, t_s, reps: 3, ci_s: 0.0 }
    }

    const ADAPTIVE: SizeRule = SizeRule::Adaptive { step: 20, tolerance: 0.02 };

    /// A device whose caches end at 600 and 1500 units.
    fn with_caches_s(d: f64) -> f64 {
        1e-3 + 1e-5 * d + 2e-5 * (d - 600.0).max(0.0) + 5e-5 * (d - 1500.0).max(0.0)
    }

    fn straight_s(d: f64) -> f64 {
        3e-5 * d
    }

    #[test]
    fn even_sizes_have_both_ends() {
        let sizes = measure(SizeRule::Even(4), 10..=100, &[straight_s]);
        assert_eq!(sizes.measured(), [10, 40, 70, 100]);
        assert_eq!(measure(SizeRule::Even(1), 7..=100, &[straight_s]).measured(), [7]);
        // More sizes than units: each once.
        assert_eq!(measure(SizeRule::Even(9), 1..=3, &[straight_s]).measured(), [1, 2, 3]);
    }

    fn count_near(sizes: &[u64], bend: u64, distance: u64) -> usize {
        sizes.iter().filter(|d| d.abs_diff(bend) <= distance).count()
    }

    #[test]
    fn adaptive_sizes_are_dense_at_bends_alone() {
        let measured = measure(ADAPTIVE, 20..=4000, &[with_caches_s, straight_s]).measured();
        let near = [600, 1500, 3500].map(|bend| count_near(&measured, bend, 80));
        assert!(near[0] >= 3 && near[1] >= 3, "{measured:?}");
        assert!(near[2] <= 2, "{measured:?}");
        assert_eq!((measured.first(), measured.last()), (Some(&20), Some(&4000)));
    }

    fn divide(sizes: &ModelSizes, total: u64) -> Partition {
        let models: Vec<Box<dyn SpeedModel>> = (0..2)
            .map(|device| {
                let points = sizes.found.values().filter_map(|points| points[device]);
                Fit::PiecewiseTime.model(&points.collect::<Vec<_>>()).expect("a model")
            })
            .collect();
        let models: Vec<&dyn SpeedModel> = models.iter().map(AsRef::as_ref).collect();
        Partitioner::default().divide(&models, total).expect("a partition")
    }

    #[test]
    fn half_the_points_of_an_even_grid_divide_as_well() {
        let times_s: [fn(f64) -> f64; 2] = [with_caches_s, straight_s];
        let full = measure(SizeRule::Even(100), 20..=4000, &times_s);
        let adaptive = measure(ADAPTIVE, 20..=4000, &times_s);
        assert!(
            2 * adaptive.measured().len() <= full.measured().len(),
            "{:?}",
            adaptive.measured()
        );
        for total in (100..6000).step_by(50) {
            let [best_s, found_s] = [&full, &adaptive].map(|sizes| {
                divide(sizes, total)
                    .units
                    .iter()
                    .zip(times_s)
                    .map(|(&d, time_s)| time_s(d as f64))
                    .fold(0.0, f64::max)
            });
            assert!(found_s <= 1.02 * best_s, "{total} units: {found_s} and {best_s}");
        }
    }

    #[test]
    fn a_campaign_goes_on_where_it_stopped() {
        let times_s: [fn(f64) -> f64; 1] = [with_caches_s];
        let whole = measure(ADAPTIVE, 20..=4000, &times_s);
        let mut resumed = ModelSizes::new(20..=4000, ADAPTIVE);
        for (&d, points) in whole.found.iter().rev().skip(5) {
            resumed.observe(d, points);
        }
        let mut asked = 0;
        while let Some(d) = resumed.next_size() {
            resumed.observe(d, &[Some(make_point(d, with_caches_s(d as f64)))]);
            asked += 1;
        }
        assert_eq!((resumed.measured(), asked), (whole.measured(), 5));
    }

    #[test]
    fn the_sizes_left_are_those_of_a_line_until_a_bend_is_seen() {
        let mut sizes = ModelSizes::new(20..=4000, ADAPTIVE);
        let expected = sizes.list_left();
        let straight = measure(ADAPTIVE, 20..=4000, &[straight_s]).measured();
        // The first step is taken three times before it doubles.
        assert!(expected.len() <= straight.len() && straight.len() <= expected.len() + 2);
        for d in [20, 40, 60] {
            sizes.observe(d, &[Some(make_point(d, straight_s(d as f64)))]);
        }
        assert_eq!(sizes.list_left(), straight[3..]);
        let even = ModelSizes::new(1..=3, SizeRule::Even(9));
        assert_eq!(even.list_left(), [1, 2, 3]);
    }

    #[test]
    fn noise_within_the_intervals_asks_for_nothing() {
        let mut sizes = ModelSizes::new(20..=4000, ADAPTIVE);
        while let Some(d) = sizes.next_size() {
            let t_s = 1e-3 * d as f64;
            let noise_s = 0.04 * t_s;
            let sign = [-1.0, 1.0][(d / 20 % 2) as usize];
            let point = Point { ci_s: noise_s, ..make_point(d, t_s + sign * noise_s) };
            sizes.observe(d, &[Some(point)]);
        }
        assert!(sizes.measured().len() < 20, "{:?}", sizes.measured());
    }

    #[test]
    fn a_disturbed_size_asks_for_nothing_and_a_bend_does() {
        let plain = measure(ADAPTIVE, 20..=4000, &[straight_s]).measured();
        let mut sizes = ModelSizes::new(20..=4000, ADAPTIVE);
        while let Some(d) = sizes.next_size() {
            let factor = if d == plain[9] { 1.3 } else { 1.0 };
            sizes.observe(d, &[Some(make_point(d, factor * straight_s(d as f64)))]);
        }
        // The walk is careful behind it, and nothing lies closer.
        let disturbed = sizes.measured();
        assert!(disturbed.len() <= plain.len() + 3, "{disturbed:?}");
        let bend = measure(ADAPTIVE, 20..=4000, &[with_caches_s]).measured();
        assert!(count_near(&bend, 600, 40) >= 3, "{bend:?}");
    }

    #[test]
    fn all_sizes_but_the_last_are_whole_steps_from_the_first() {
        let measured = measure(ADAPTIVE, 7..=3991, &[with_caches_s]).measured();
        let (last, others) = measured.split_last().expect("sizes");
        assert_eq!(*last, 3991);
        assert!(others.iter().all(|d| (d - 7) % 20 == 0), "{measured:?}");
    }

    #[test]
    fn sizes_that_are_hopeless_to_all_end_it() {
        for rule in [SizeRule::Even(50), ADAPTIVE] {
            let mut sizes = ModelSizes::new(20..=4000, rule);
            while let Some(d) = sizes.next_size() {
                let points = [300, 1000].map(|limit| (d < limit).then(|| make_point(d, d as f64)));
                sizes.observe(d, &points);
            }
            let hopeless = sizes.measured().iter().filter(|&&d| d >= 1000).count();
            assert_eq!(hopeless, 1, "{:?}", sizes.measured());
        }
    }
}
