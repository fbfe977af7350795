//! Measured sizes that contradict their neighbours.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::means::{Mean, measured};
use super::shape::restrict;
use super::{Knot, ModelError, Point};

/// A measured size whose speed contradicts the others', by more than confidence intervals and
/// a tolerance explain.
///
/// **What the others allow.** A speed function is supposed to rise concavely and then to fall, with
/// a time that increases. Then the two neighbours on either side bound the speed of a size: it is
/// * at least that on the line between the neighbours if the right one is the faster, and at least the
///   right one's if not; the smallest size's line comes from the origin, since a smaller size takes
///   less time;
/// * at most that on the line through the two left neighbours, if it rises, and at most the left one's
///   if it falls; beside the smallest size the line comes from the origin again;
/// * at most that on the line through the two right neighbours, if they surely rise.
///
/// So a cliff contradicts nothing, a dip and a spike do. Each measured speed is known to half its
/// confidence interval or 5 %, whichever is more, and a bound is as uncertain as the speeds that it
/// comes from can make it at worst. If the true speeds are admissible and within the intervals of the
/// measured ones, then nothing is flagged.
///
/// **Who is to blame.** An outlier makes its neighbours contradict each other as well. The size, or the
/// run of up to three adjacent sizes, whose removal resolves most for each size removed is flagged first
/// and taken out of the comparison, until no contradiction is left. Of two that resolve as much it is the
/// one farther from the line between its neighbours, and if that does not decide either the slower one,
/// since disturbances only slow down: the second size being three times as fast as the others, the first
/// one may as well be too slow. Where the speed jumps up and stays there, everything
/// on one side of the jump is flagged.
///
/// **What neighbours cannot see.** A valley may be so wide that no size contradicts the next. Sizes
/// which the shape restriction leaves out all the same, and whose speed its fit of the unflagged sizes
/// contradicts, are flagged last ([`Reason::OutOfShape`]).
///
/// # References
/// Clarke's thesis, section 3.2.1, for the shape. The flags are our own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// The size in units.
    pub d: u64,
    /// Its measured speed (the mean, if it was measured several times) in units per second.
    pub speed: f64,
    /// The nearest speed that the others allow, in units per second.
    pub allowed: f64,
    /// By how much the two may differ for lack of precision, in units per second.
    pub tolerance: f64,
    /// How it contradicts the others.
    pub reason: Reason,
}

/// How a measured size contradicts the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Slower than its neighbours allow.
    TooSlow,
    /// Faster than its neighbours allow.
    TooFast,
    /// Consistent with its neighbours, but left out by the shape restriction, and off the fit of the
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

/// The part of a speed that it may always be wrong by.
const TOLERANCE: f64 = 0.05;

/// A bound on a speed, and how far off it may be.
#[derive(Debug, Clone, Copy)]
struct Bound {
    speed: f64,
    uncertainty: f64,
}

impl Mean {
    fn uncertainty(&self) -> f64 {
        self.ci.max(TOLERANCE * self.knot.speed)
    }

    /// Takes this speed for a size that `bound` is a `reason` to doubt, if it breaks the bound.
    fn breaks(&self, bound: Bound, reason: Reason) -> Option<Flag> {
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

/// The measured sizes that contradict their neighbours, ascending in `d`, whatever model is made of the
/// points; floors have no say. `O(n log n)` for `n` points.
///
/// # Errors
/// [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Point, Reason, contradictions};
///
/// // 10 units a second, but for one measurement that was disturbed.
/// let times = [(10, 1.0), (20, 2.0), (30, 9.0), (40, 4.0), (50, 5.0)];
/// let points = times.map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
/// let flags = contradictions(&points)?;
/// assert_eq!((flags.len(), flags[0].d, flags[0].reason), (1, 30, Reason::TooSlow));
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
pub fn contradictions(points: &[Point]) -> Result<Vec<Flag>, ModelError> {
    points.iter().try_for_each(Point::check)?;
    Ok(among(&measured(points)))
}

/// The flags of `means`, ascending in `d` as those are.
pub(super) fn among(means: &[Mean]) -> Vec<Flag> {
    let mut flags: Vec<Option<Flag>> = vec![None; means.len()];
    for (index, flag) in resolve(means) {
        flags[index] = Some(flag);
    }
    let rest = (0..means.len()).filter(|&i| flags[i].is_none()).collect();
    for (index, flag) in out_of_shape(means, rest) {
        flags[index] = Some(flag);
    }
    // How far below 0 a bound lies tells who is to blame, but no more than that.
    let readable = |flag: Flag| Flag {
        allowed: flag.allowed.max(0.0),
        ..flag
    };
    flags.into_iter().flatten().map(readable).collect()
}

/// How many adjacent outliers are recognised as such.
const LONGEST_RUN: usize = 3;

/// The sizes to take out, run after run, until no neighbours contradict each other.
fn resolve(means: &[Mean]) -> Vec<(usize, Flag)> {
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
        // What a run's removal resolves depends on two sizes on either side, and those on two more: no
        // run that begins further away changes.
        let mut near = chain.near(first, last, 4 + LONGEST_RUN);
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

/// Adjacent sizes all of which contradict the neighbours around them; the greatest are taken out first.
struct Suspect {
    /// What the removal of each resolves, on average: by how much less the bounds around the run are
    /// broken, in units per second.
    gain: f64,
    /// Distance from the line between the neighbours, on average, in units per second.
    distance: f64,
    /// Mean speed.
    speed: f64,
    run: Vec<usize>,
    /// Which assessment of the runs that begin where this one does; only the last one counts.
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
        self.link(left, right, left, right);
    }

    /// Undoes the last [`unlink`](Self::unlink), which was that of this run.
    fn relink(&mut self, first: usize, last: usize) {
        let (left, right) = (self.left[first], self.right[last]);
        self.link(left, right, Some(last), Some(first));
    }

    /// Sets what is left of `right` and right of `left`.
    fn link(
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

    /// The sizes from `first` to `last` and the `reach` sizes on either side of them, ascending.
    fn near(&self, first: usize, last: usize, reach: usize) -> Vec<usize> {
        let left = walk(&self.left, self.left[first]).take(reach);
        let mut near: Vec<usize> = left.collect();
        near.reverse();
        let inside = walk(&self.right, Some(first));
        near.extend(inside.take_while(|&i| i <= last));
        near.extend(walk(&self.right, self.right[last]).take(reach));
        near
    }

    /// How `i` breaks the bounds that its neighbours set, by the one that it breaks most.
    fn contradiction(&self, i: usize) -> Option<Flag> {
        self.contradiction_between(self.left[i], i, self.right[i])
    }

    /// The same with these neighbours.
    fn contradiction_between(
        &self,
        left: Option<usize>,
        i: usize,
        right: Option<usize>,
    ) -> Option<Flag> {
        let mean = &self.means[i];
        let at = |index: Option<usize>| index.map(|index| &self.means[index]);
        let next_left = at(left.and_then(|left| self.left[left]));
        let next_right = at(right.and_then(|right| self.right[right]));
        let (left, right) = (at(left), at(right));
        let d = mean.knot.d;
        let slow = right.map(|right| least(d, left, right));
        let fast = left.map(|left| most_from_left(d, left, next_left));
        let fast_too =
            (right.zip(next_right)).and_then(|(right, next)| most_from_right(d, right, next));
        let too_fast = |bound: Option<Bound>| mean.breaks(bound?, Reason::TooFast);
        [
            slow.and_then(|bound| mean.breaks(bound, Reason::TooSlow)),
            too_fast(fast),
            too_fast(fast_too),
        ]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.excess().total_cmp(&b.excess()))
    }

    /// Adds the suspect runs that begin at `first`.
    fn suspect_runs(&mut self, first: usize, version: u32, suspects: &mut BinaryHeap<Suspect>) {
        let longest = walk(&self.right, Some(first)).take(LONGEST_RUN);
        let longest: Vec<usize> = longest.collect();
        for length in 1..=longest.len() {
            let run = longest[..length].to_vec();
            suspects.extend(self.suspect(run, version));
        }
    }

    fn suspect(&mut self, run: Vec<usize>, version: u32) -> Option<Suspect> {
        let (&first, &last) = (run.first()?, run.last()?);
        let (left, right) = (self.left[first], self.right[last]);
        let guilty = |&i: &usize| self.contradiction_between(left, i, right).is_some();
        if !run.iter().all(guilty) {
            return None;
        }
        let mut near = self.near(first, last, 2);
        let before = self.broken(&near);
        near.retain(|i| !run.contains(i));
        self.unlink(first, last);
        let after = self.broken(&near);
        self.relink(first, last);
        let length = run.len() as f64;
        let knots = || run.iter().map(|&i| self.means[i].knot);
        let distances = knots().map(|knot| (knot.speed - self.line(left, right, knot.d)).abs());
        Some(Suspect {
            gain: (before - after) / length,
            distance: distances.sum::<f64>() / length,
            speed: knots().map(|knot| knot.speed).sum::<f64>() / length,
            run,
            version,
        })
    }

    /// The speed at `d` on the line between two neighbours, that of the only one at an end.
    fn line(&self, left: Option<usize>, right: Option<usize>, d: f64) -> f64 {
        let knot = |i: usize| self.means[i].knot;
        match (left.map(knot), right.map(knot)) {
            (Some(left), Some(right)) => left.toward(right, d),
            (Some(only), None) | (None, Some(only)) => only.speed,
            (None, None) => 0.0,
        }
    }

    /// By how much `sizes` break their bounds together.
    fn broken(&self, sizes: &[usize]) -> f64 {
        let flags = sizes.iter().filter_map(|&i| self.contradiction(i));
        flags.map(|flag| flag.excess()).sum()
    }
}

/// The sizes from `start` on, along `links`.
fn walk(links: &[Option<usize>], start: Option<usize>) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(start, |&i| links[i])
}

impl Flag {
    fn excess(&self) -> f64 {
        (self.speed - self.allowed).abs() - self.tolerance
    }
}

/// The least speed at `d` between two neighbours.
fn least(d: f64, left: Option<&Mean>, right: &Mean) -> Bound {
    const ORIGIN: Knot = Knot { d: 0.0, speed: 0.0 };
    let Some(left) = left else {
        return Bound {
            speed: ORIGIN.toward(right.knot, d),
            uncertainty: right.uncertainty() * (d / right.knot.d),
        };
    };
    Bound {
        speed: if left.knot.speed <= right.knot.speed {
            left.knot.toward(right.knot, d)
        } else {
            right.knot.speed
        },
        // Not a mean of the two: measured as falling, the truth may still rise, and the reverse.
        uncertainty: left.uncertainty().max(right.uncertainty()),
    }
}

/// The greatest speed at `d` that concavity leaves to the right of `left`.
fn most_from_left(d: f64, left: &Mean, next: Option<&Mean>) -> Bound {
    let (next_d, next_speed, next_uncertainty) = next.map_or((0.0, 0.0, 0.0), |next| {
        (next.knot.d, next.knot.speed, next.uncertainty())
    });
    let reach = (d - left.knot.d) / (left.knot.d - next_d);
    let rise = (left.knot.speed - next_speed).max(0.0);
    Bound {
        speed: left.knot.speed + rise * reach,
        uncertainty: (1.0 + reach) * left.uncertainty() + reach * next_uncertainty,
    }
}

/// The greatest speed at `d` that concavity leaves to the left of `right`, if the function surely
/// still rises from there to `next`.
fn most_from_right(d: f64, right: &Mean, next: &Mean) -> Option<Bound> {
    let rise = next.knot.speed - right.knot.speed;
    let reach = (right.knot.d - d) / (next.knot.d - right.knot.d);
    (rise > right.uncertainty() + next.uncertainty()).then(|| Bound {
        speed: right.knot.speed - rise * reach,
        uncertainty: (1.0 + reach) * right.uncertainty() + reach * next.uncertainty(),
    })
}

/// The sizes, of those at the indices `rest`, that are off the shape-restricted fit of `rest`.
fn out_of_shape(means: &[Mean], rest: Vec<usize>) -> Vec<(usize, Flag)> {
    let by_speed = |a: &&Mean, b: &&Mean| a.knot.speed.total_cmp(&b.knot.speed);
    // Of several peaks the fit takes the first.
    let Some(peak) = rest.iter().rev().map(|&i| &means[i]).max_by(by_speed) else {
        return Vec::new();
    };
    let knots: Vec<Knot> = rest.iter().map(|&i| means[i].knot).collect();
    let mut fit = restrict(&knots).into_iter().peekable();
    let mut left: Option<&Mean> = None;
    let mut found = Vec::new();
    let mut rising = Vec::new();
    for i in rest {
        let mean = &means[i];
        if fit.next_if(|knot| knot.d == mean.knot.d).is_some() {
            let off = |i: usize| {
                let bound = least(means[i].knot.d, left, mean);
                Some((i, means[i].breaks(bound, Reason::OutOfShape)?))
            };
            found.extend(rising.drain(..).filter_map(off));
            left = Some(mean);
        } else if mean.knot.d < peak.knot.d {
            // Below the line to a corner that is still to come.
            rising.push(i);
        } else if let Some(left) = left {
            // Faster than the last corner. If that is nothing but the peak's error, the truth may still
            // rise: it falls from the peak that was measured by the errors of both.
            let bound = Bound {
                speed: left.knot.speed,
                uncertainty: left.uncertainty() + peak.uncertainty(),
            };
            found.extend(mean.breaks(bound, Reason::OutOfShape).map(|flag| (i, flag)));
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
        let flags = among(&means);
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
