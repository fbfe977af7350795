//! Measured sizes that contradict their neighbours.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Knot;
use super::means::Mean;
use super::shape::restrict_shape;

/// A measured size that contradicts the others: its speed differs by more than confidence intervals and
/// a tolerance explain.
///
/// **Bounds.** A speed function is expected to rise concavely and then to fall, with a time that
/// increases. The two neighbours on either side then bound the speed of a size. The speed is
/// * at least that on the line between the neighbours if the right one is faster, else at least the right
///   one's. For the smallest size the line starts at the origin, because a smaller size takes less time.
/// * at most that on the line through the two left neighbours if it rises, else at most the left one's.
///   If there is only one left neighbour, the line starts at the origin.
/// * at most that on the line through the two right neighbours, if they certainly rise.
///
/// A cliff thus contradicts nothing; a dip and a spike do. The uncertainty of a measured speed is the
/// half-width of its confidence interval or 5 %, whichever is larger. A bound is as uncertain as its
/// speeds can make it at worst. If the true speeds are admissible and within the intervals of the
/// measured ones, nothing is flagged.
///
/// **Blame.** An outlier makes its neighbours contradict each other as well. Candidates are single sizes
/// and runs of up to three adjacent ones. The candidate that resolves most per size by its removal is
/// flagged first and taken out of the comparison, until no contradiction is left. Among equals it is the
/// one farther from the line between its neighbours, then the slower one, because disturbances only slow
/// down. If the second size is three times as fast as the others, for example, the first one may be too
/// slow. If the speed jumps up and stays there, all sizes on one side of the jump are flagged.
///
/// **Wide valleys.** A valley may be so wide that no size contradicts the next. Some sizes are left out
/// by the shape restriction nevertheless. Those that contradict its fit of the unflagged sizes are flagged
/// last ([`Reason::OutOfShape`]).
///
/// # Deviations
/// * **contradicting measurements**: the thesis leaves a point out of the fit (section 3.2.1); here a
///   contradicting size is also flagged, because it should be measured again before it is believed.
///
/// # References
/// Clarke's thesis, section 3.2.1, for the shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// The size in units.
    pub d: u64,
    /// Its measured speed in units per second; the mean of several measurements.
    pub speed: f64,
    /// The nearest speed that the others allow, in units per second.
    pub allowed: f64,
    /// Difference of the two that imprecision explains, in units per second.
    pub tolerance: f64,
    /// The kind of contradiction.
    pub reason: Reason,
}

/// The kind of contradiction between a measured size and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Slower than its neighbours allow.
    TooSlow,
    /// Faster than its neighbours allow.
    TooFast,
    /// Consistent with its neighbours, but left out by the shape restriction and off the fit of the
    /// others.
    OutOfShape,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            d,
            speed,
            allowed,
            tolerance,
            reason,
        } = self;
        let allows = match reason {
            Reason::TooSlow => "its neighbours allow no less than",
            Reason::TooFast => "its neighbours allow no more than",
            Reason::OutOfShape => "the fit of the other sizes says",
        };
        write!(
            f,
            "d = {d}: {speed:.4e} units/s, but {allows} {allowed:.4e} ± {tolerance:.1e}"
        )
    }
}

/// Least relative uncertainty of a measured speed.
const TOLERANCE: f64 = 0.05;

/// A bound on a speed, and its uncertainty.
#[derive(Debug, Clone, Copy)]
struct SpeedBound {
    speed: f64,
    uncertainty: f64,
}

impl Mean {
    fn uncertainty(&self) -> f64 {
        self.ci.max(TOLERANCE * self.knot.speed)
    }

    /// Returns the flag for `reason` if this speed breaks the bound.
    fn check_bound(&self, bound: SpeedBound, reason: Reason) -> Option<Flag> {
        let speed = self.knot.speed;
        let tolerance = self.uncertainty() + bound.uncertainty;
        let beyond = match reason {
            Reason::TooSlow => bound.speed - speed,
            Reason::TooFast => speed - bound.speed,
            Reason::OutOfShape => (speed - bound.speed).abs(),
        };
        (beyond > tolerance).then_some(Flag {
            d: self.knot.d as u64,
            speed,
            allowed: bound.speed,
            tolerance,
            reason,
        })
    }
}

/// Returns the flags of `means`, both ascending in `d`.
pub(super) fn find_contradictions(means: &[Mean]) -> Vec<Flag> {
    let mut flags: Vec<Option<Flag>> = vec![None; means.len()];
    for (index, flag) in flag_neighbours(means) {
        flags[index] = Some(flag);
    }
    let rest = (0..means.len()).filter(|&i| flags[i].is_none()).collect();
    for (index, flag) in flag_out_of_shape(means, rest) {
        flags[index] = Some(flag);
    }
    // A bound below 0 helps to find the outlier, but is of no use to a reader.
    (flags.into_iter().flatten())
        .map(|flag| Flag {
            allowed: flag.allowed.max(0.0),
            ..flag
        })
        .collect()
}

/// Largest number of adjacent outliers that are recognised as such.
const LONGEST_RUN: usize = 3;

/// Takes sizes out, run after run, until no neighbours contradict each other. Returns their indices and
/// flags.
fn flag_neighbours(means: &[Mean]) -> Vec<(usize, Flag)> {
    let mut chain = Chain::new(means);
    let mut versions = vec![0_u32; means.len()];
    let mut suspects = BinaryHeap::new();
    for i in 0..means.len() {
        chain.suspect_runs(i, 0, &mut suspects);
    }
    let mut found = Vec::new();
    while let Some(Suspect { run, version, .. }) = suspects.pop() {
        let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
            continue;
        };
        if version != versions[first] {
            continue;
        }
        // The gain of a run depends on two sizes on either side, and these on two more. Runs that begin
        // further away do not change.
        let mut near = chain.neighbourhood(first, last, 4 + LONGEST_RUN);
        near.retain(|i| !run.contains(i));
        chain.unlink(first, last);
        found.extend(run.iter().filter_map(|&i| {
            let flag = chain.contradiction_between(chain.left[first], i, chain.right[last])?;
            Some((i, flag))
        }));
        run.iter().for_each(|&i| versions[i] = u32::MAX);
        for i in near {
            versions[i] += 1;
            chain.suspect_runs(i, versions[i], &mut suspects);
        }
    }
    found
}

/// Adjacent sizes that all contradict the neighbours around them; the greatest is taken out first.
struct Suspect {
    /// Reduction of the excess over all bounds around the run, per size removed, in units per second.
    gain: f64,
    /// Mean distance from the line between the neighbours, in units per second.
    distance: f64,
    /// Mean speed in units per second.
    speed: f64,
    run: Vec<usize>,
    /// Number of the assessment of runs that begin at the same size; only the last one counts.
    version: u32,
}

impl Ord for Suspect {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain
            .total_cmp(&other.gain)
            .then(self.distance.total_cmp(&other.distance))
            .then(other.speed.total_cmp(&self.speed))
            .then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for Suspect {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Suspect {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Suspect {}

/// The sizes not yet taken out, doubly linked in ascending order.
struct Chain<'a> {
    means: &'a [Mean],
    left: Vec<Option<usize>>,
    right: Vec<Option<usize>>,
}

impl<'a> Chain<'a> {
    fn new(means: &'a [Mean]) -> Self {
        let n = means.len();
        Self {
            means,
            left: (0..n).map(|i| i.checked_sub(1)).collect(),
            right: (1..=n).map(|i| (i < n).then_some(i)).collect(),
        }
    }

    /// Takes out the run from `first` to `last`.
    fn unlink(&mut self, first: usize, last: usize) {
        let (left, right) = (self.left[first], self.right[last]);
        self.set_links(left, right, left, right);
    }

    /// Undoes the last [`unlink`](Self::unlink), which must be that of this run.
    fn relink(&mut self, first: usize, last: usize) {
        let (left, right) = (self.left[first], self.right[last]);
        self.set_links(left, right, Some(last), Some(first));
    }

    /// Sets `before` as the left neighbour of `right`, and `after` as the right neighbour of `left`.
    fn set_links(
        &mut self,
        left: Option<usize>,
        right: Option<usize>,
        before: Option<usize>,
        after: Option<usize>,
    ) {
        if let Some(left) = left {
            self.right[left] = after;
        }
        if let Some(right) = right {
            self.left[right] = before;
        }
    }

    /// Returns the sizes from `first` to `last` and `reach` sizes on either side of them, ascending.
    fn neighbourhood(&self, first: usize, last: usize, reach: usize) -> Vec<usize> {
        let left = follow_links(&self.left, self.left[first]).take(reach);
        let mut near: Vec<usize> = left.collect();
        near.reverse();
        let inside = follow_links(&self.right, Some(first));
        near.extend(inside.take_while(|&i| i <= last));
        near.extend(follow_links(&self.right, self.right[last]).take(reach));
        near
    }

    /// Returns the flag for the bound of its neighbours that `i` breaks most.
    fn contradiction_at(&self, i: usize) -> Option<Flag> {
        self.contradiction_between(self.left[i], i, self.right[i])
    }

    /// Returns the flag of `i` with these neighbours.
    fn contradiction_between(
        &self,
        left: Option<usize>,
        i: usize,
        right: Option<usize>,
    ) -> Option<Flag> {
        let mean = &self.means[i];
        let next_left = left.and_then(|left| self.left[left]);
        let next_right = right.and_then(|right| self.right[right]);
        let [left, right, next_left, next_right] =
            [left, right, next_left, next_right].map(|index| Some(&self.means[index?]));
        let d = mean.knot.d;
        let least = right.map(|right| least_between(d, left, right));
        let most = left.map(|left| most_from_left(d, left, next_left));
        let most_too =
            (right.zip(next_right)).and_then(|(right, next)| most_from_right(d, right, next));
        [
            (least, Reason::TooSlow),
            (most, Reason::TooFast),
            (most_too, Reason::TooFast),
        ]
        .into_iter()
        .filter_map(|(bound, reason)| mean.check_bound(bound?, reason))
        .max_by(|a, b| a.excess().total_cmp(&b.excess()))
    }

    /// Adds the suspect runs that begin at `first`.
    fn suspect_runs(&mut self, first: usize, version: u32, suspects: &mut BinaryHeap<Suspect>) {
        let reachable = follow_links(&self.right, Some(first)).take(LONGEST_RUN);
        let longest: Vec<usize> = reachable.collect();
        for length in 1..=longest.len() {
            let run = longest[..length].to_vec();
            suspects.extend(self.assess_run(run, version));
        }
    }

    /// Returns the run as a suspect if all of its sizes contradict its neighbours.
    fn assess_run(&mut self, run: Vec<usize>, version: u32) -> Option<Suspect> {
        let (&first, &last) = (run.first()?, run.last()?);
        let (left, right) = (self.left[first], self.right[last]);
        if !(run.iter()).all(|&i| self.contradiction_between(left, i, right).is_some()) {
            return None;
        }
        let mut near = self.neighbourhood(first, last, 2);
        let before = self.sum_excess(&near);
        near.retain(|i| !run.contains(i));
        self.unlink(first, last);
        let after = self.sum_excess(&near);
        self.relink(first, last);
        let length = run.len() as f64;
        let knots: Vec<Knot> = run.iter().map(|&i| self.means[i].knot).collect();
        let distances = (knots.iter()).map(|knot| {
            let expected = self.interpolate_between(left, right, knot.d);
            (knot.speed - expected).abs()
        });
        Some(Suspect {
            gain: (before - after) / length,
            distance: distances.sum::<f64>() / length,
            speed: knots.iter().map(|knot| knot.speed).sum::<f64>() / length,
            run,
            version,
        })
    }

    /// Returns the speed at `d` on the line between two neighbours, or the speed of the only one.
    fn interpolate_between(&self, left: Option<usize>, right: Option<usize>, d: f64) -> f64 {
        match [left, right].map(|index| Some(self.means[index?].knot)) {
            [Some(left), Some(right)] => left.interpolate_to(right, d),
            [Some(only), None] | [None, Some(only)] => only.speed,
            [None, None] => 0.0,
        }
    }

    /// Returns the sum of the excesses of `sizes` over their bounds.
    fn sum_excess(&self, sizes: &[usize]) -> f64 {
        let flags = sizes.iter().filter_map(|&i| self.contradiction_at(i));
        flags.map(|flag| flag.excess()).sum()
    }
}

/// Returns the sizes from `start` on, along `links`.
fn follow_links(links: &[Option<usize>], start: Option<usize>) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(start, |&i| links[i])
}

impl Flag {
    fn excess(&self) -> f64 {
        (self.speed - self.allowed).abs() - self.tolerance
    }
}

/// Returns the least speed at `d` between two neighbours.
fn least_between(d: f64, left: Option<&Mean>, right: &Mean) -> SpeedBound {
    const ORIGIN: Knot = Knot { d: 0.0, speed: 0.0 };
    let Some(left) = left else {
        return SpeedBound {
            speed: ORIGIN.interpolate_to(right.knot, d),
            uncertainty: right.uncertainty() * (d / right.knot.d),
        };
    };
    SpeedBound {
        speed: if left.knot.speed <= right.knot.speed {
            left.knot.interpolate_to(right.knot, d)
        } else {
            right.knot.speed
        },
        // A mean would be too small: speeds measured as falling may truly rise, and the reverse.
        uncertainty: left.uncertainty().max(right.uncertainty()),
    }
}

/// Returns the greatest speed at `d` that concavity allows to the right of `left`.
fn most_from_left(d: f64, left: &Mean, next: Option<&Mean>) -> SpeedBound {
    let (next_d, next_speed, next_uncertainty) = next.map_or((0.0, 0.0, 0.0), |next| {
        (next.knot.d, next.knot.speed, next.uncertainty())
    });
    let reach = (d - left.knot.d) / (left.knot.d - next_d);
    let rise = (left.knot.speed - next_speed).max(0.0);
    SpeedBound {
        speed: left.knot.speed + rise * reach,
        uncertainty: (1.0 + reach) * left.uncertainty() + reach * next_uncertainty,
    }
}

/// Returns the greatest speed at `d` that concavity allows to the left of `right`, if the function
/// certainly rises from there to `next`.
fn most_from_right(d: f64, right: &Mean, next: &Mean) -> Option<SpeedBound> {
    let rise = next.knot.speed - right.knot.speed;
    let reach = (right.knot.d - d) / (next.knot.d - right.knot.d);
    (rise > right.uncertainty() + next.uncertainty()).then(|| SpeedBound {
        speed: right.knot.speed - rise * reach,
        uncertainty: (1.0 + reach) * right.uncertainty() + reach * next.uncertainty(),
    })
}

/// Returns the indices of `rest` that are off its shape-restricted fit, with their flags.
fn flag_out_of_shape(means: &[Mean], rest: Vec<usize>) -> Vec<(usize, Flag)> {
    // Of several peaks the fit takes the first.
    let descending = rest.iter().rev().map(|&i| &means[i]);
    let Some(peak) = descending.max_by(|a, b| a.knot.speed.total_cmp(&b.knot.speed)) else {
        return Vec::new();
    };
    let knots: Vec<Knot> = rest.iter().map(|&i| means[i].knot).collect();
    let mut fit = restrict_shape(&knots).into_iter().peekable();
    let mut left: Option<&Mean> = None;
    let mut found = Vec::new();
    let mut rising = Vec::new();
    for i in rest {
        let mean = &means[i];
        if fit.next_if(|knot| knot.d == mean.knot.d).is_some() {
            found.extend(rising.drain(..).filter_map(|i: usize| {
                let bound = least_between(means[i].knot.d, left, mean);
                Some((i, means[i].check_bound(bound, Reason::OutOfShape)?))
            }));
            left = Some(mean);
        } else if mean.knot.d < peak.knot.d {
            // The size lies below the line to a later corner.
            rising.push(i);
        } else if let Some(left) = left {
            // The size is faster than the last corner. The error of the peak may hide a speed that still
            // rises, so that the bound has the uncertainty of both.
            let bound = SpeedBound {
                speed: left.knot.speed,
                uncertainty: left.uncertainty() + peak.uncertainty(),
            };
            let flag = mean.check_bound(bound, Reason::OutOfShape);
            found.extend(flag.map(|flag| (i, flag)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(speeds: &[f64], ci: f64) -> Vec<(u64, Reason)> {
        let means: Vec<Mean> = speeds
            .iter()
            .enumerate()
            .map(|(i, &speed)| Mean {
                knot: Knot {
                    d: 100.0 * (i + 1) as f64,
                    speed,
                },
                ci: ci * speed,
                weight: 3.0,
            })
            .collect();
        let flags = find_contradictions(&means);
        flags.iter().map(|flag| (flag.d, flag.reason)).collect()
    }

    #[test]
    fn admissible_speeds_are_not_flagged() {
        assert!(flagged(&[], 0.0).is_empty());
        assert!(flagged(&[7.0], 0.0).is_empty());
        assert!(flagged(&[50.0, 80.0, 100.0, 99.0, 20.0, 15.0, 1.0], 0.0).is_empty());
        assert!(flagged(&[1000.0, 100.0, 99.0], 0.0).is_empty());
    }

    #[test]
    fn one_outlier_is_flagged_and_not_its_neighbours() {
        let flat = [100.0; 9];
        for place in 0..9 {
            let d = 100 * (place as u64 + 1);
            let (mut dip, mut spike) = (flat, flat);
            (dip[place], spike[place]) = (30.0, 300.0);
            // The function may fall at the end, fall from the start, or begin too slow.
            let too_slow = [(d, Reason::TooSlow)];
            let too_fast = [(d, Reason::TooFast)];
            assert_eq!(flagged(&dip, 0.01), &too_slow[usize::from(place == 8)..]);
            match place {
                0 => assert!(flagged(&spike, 0.01).is_empty()),
                1 => assert_eq!(flagged(&spike, 0.01), [(100, Reason::TooSlow)]),
                _ => assert_eq!(flagged(&spike, 0.01), too_fast),
            }
        }
    }

    #[test]
    fn wide_intervals_explain_what_narrow_ones_do_not() {
        let speeds = [100.0, 100.0, 60.0, 100.0, 100.0];
        assert_eq!(flagged(&speeds, 0.02), [(300, Reason::TooSlow)]);
        assert!(flagged(&speeds, 0.3).is_empty());
    }

    #[test]
    fn several_outliers_are_all_found() {
        let mut speeds = [100.0; 12];
        (speeds[2], speeds[3], speeds[8]) = (40.0, 35.0, 250.0);
        let flags = flagged(&speeds, 0.0);
        assert_eq!(
            flags,
            [
                (300, Reason::TooSlow),
                (400, Reason::TooSlow),
                (900, Reason::TooFast)
            ]
        );
    }

    #[test]
    fn a_time_that_falls_with_the_size_blames_the_slower_measurement() {
        // 100 units in 10 s, 200 units in 5 s.
        assert_eq!(flagged(&[10.0, 40.0], 0.0), [(100, Reason::TooSlow)]);
    }

    #[test]
    fn a_wide_valley_is_out_of_shape() {
        let speeds = [
            100.0, 97.0, 94.0, 91.0, 88.0, 85.0, 88.0, 91.0, 94.0, 97.0, 100.0, 103.0,
        ];
        let flags = flagged(&speeds, 0.0);
        assert!(!flags.is_empty());
        assert!(
            flags
                .iter()
                .all(|&(_, reason)| reason == Reason::OutOfShape)
        );
        assert!(flags.iter().any(|&(d, _)| d == 600));
    }

    #[test]
    fn a_flag_reads_as_a_sentence() {
        let flag = Flag {
            d: 300,
            speed: 33.0,
            allowed: 100.0,
            tolerance: 7.0,
            reason: Reason::TooSlow,
        };
        assert_eq!(
            flag.to_string(),
            "d = 300: 3.3000e1 units/s, but its neighbours allow no less than 1.0000e2 ± 7.0e0"
        );
    }
}
