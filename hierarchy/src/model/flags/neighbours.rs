//! Sizes that contradict their neighbours, taken out one run after another.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::bounds::{least_between, most_from_left, most_from_right};
use super::{Flag, Reason};
use crate::model::Knot;
use crate::model::means::Mean;

/// Largest number of adjacent outliers that are recognised as such.
const LONGEST_RUN: usize = 3;

/// Takes sizes out, run after run, until no neighbours contradict each other. Returns their indices and
/// flags.
pub(super) fn flag_neighbours(means: &[Mean]) -> Vec<(usize, Flag)> {
    let mut chain = Chain::new(means);
    let mut versions = vec![0_u32; means.len()];
    let mut suspects = BinaryHeap::new();
    for i in 0..means.len() {
        chain.suspect_runs(i, 0, &mut suspects);
    }
    let mut found = Vec::new();
    while let Some(Suspect { first, length, version, .. }) = suspects.pop() {
        if version != versions[first] {
            continue;
        }
        let run: Vec<usize> = chain.run(first, length).collect();
        let last = run[length - 1];
        // The gain of a run depends on two sizes on either side, and these on two more. Runs that begin
        // further away do not change.
        let mut near = chain.neighbourhood(first, last, 4 + LONGEST_RUN);
        near.retain(|i| !run.contains(i));
        chain.unlink(first, last);
        found.extend(run.iter().filter_map(|&i| {
            let flag =
                chain.contradiction_between(chain.left_of(first), i, chain.right_of(last))?;
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
    /// The first size, and the number of sizes.
    first: usize,
    length: usize,
    /// Number of the assessment of runs that begin at the same size; only the last one counts.
    version: u32,
}

impl Ord for Suspect {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain
            .total_cmp(&other.gain)
            .then(self.distance.total_cmp(&other.distance))
            .then(other.speed.total_cmp(&self.speed))
            .then((other.first, other.length).cmp(&(self.first, self.length)))
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
    left: Vec<Link>,
    right: Vec<Link>,
}

/// The index of a neighbour, or one beyond all indices for none: there may be millions of links.
#[derive(Clone, Copy)]
struct Link(usize);

impl Link {
    fn to(index: Option<usize>) -> Self {
        Self(index.unwrap_or(usize::MAX))
    }

    fn index(self) -> Option<usize> {
        (self.0 != usize::MAX).then_some(self.0)
    }
}

impl<'a> Chain<'a> {
    fn new(means: &'a [Mean]) -> Self {
        let n = means.len();
        Self {
            means,
            left: (0..n).map(|i| Link::to(i.checked_sub(1))).collect(),
            right: (1..=n).map(|i| Link::to((i < n).then_some(i))).collect(),
        }
    }

    /// Takes out the run from `first` to `last`.
    fn unlink(&mut self, first: usize, last: usize) {
        let (left, right) = (self.left_of(first), self.right_of(last));
        self.set_links(left, right, left, right);
    }

    /// Undoes the last [`unlink`](Self::unlink), which must be that of this run.
    fn relink(&mut self, first: usize, last: usize) {
        let (left, right) = (self.left_of(first), self.right_of(last));
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
            self.right[left] = Link::to(after);
        }
        if let Some(right) = right {
            self.left[right] = Link::to(before);
        }
    }

    /// Returns the sizes from `first` to `last` and `reach` sizes on either side of them, ascending.
    fn neighbourhood(&self, first: usize, last: usize, reach: usize) -> Vec<usize> {
        let mut near: Vec<usize> =
            follow_links(&self.left, self.left_of(first)).take(reach).collect();
        near.reverse();
        let inside = follow_links(&self.right, Some(first));
        near.extend(inside.take_while(|&i| i <= last));
        near.extend(follow_links(&self.right, self.right_of(last)).take(reach));
        near
    }

    /// Returns the flag for the bound of its neighbours that `i` breaks most.
    fn contradiction_at(&self, i: usize) -> Option<Flag> {
        self.contradiction_between(self.left_of(i), i, self.right_of(i))
    }

    /// Returns the flag of `i` with these neighbours.
    fn contradiction_between(
        &self,
        left: Option<usize>,
        i: usize,
        right: Option<usize>,
    ) -> Option<Flag> {
        let mean = &self.means[i];
        let next_left = left.and_then(|left| self.left_of(left));
        let next_right = right.and_then(|right| self.right_of(right));
        let [left, right, next_left, next_right] =
            [left, right, next_left, next_right].map(|index| Some(&self.means[index?]));
        let d = mean.knot.d;
        let least = right.map(|right| least_between(d, left, right));
        let most = left.map(|left| most_from_left(d, left, next_left));
        let most_too =
            (right.zip(next_right)).and_then(|(right, next)| most_from_right(d, right, next));
        [(least, Reason::TooSlow), (most, Reason::TooFast), (most_too, Reason::TooFast)]
            .into_iter()
            .filter_map(|(bound, reason)| mean.check_bound(bound?, reason))
            .max_by(|a, b| a.excess().total_cmp(&b.excess()))
    }

    /// Adds the suspect runs that begin at `first`.
    fn suspect_runs(&mut self, first: usize, version: u32, suspects: &mut BinaryHeap<Suspect>) {
        for length in 1..=self.run(first, LONGEST_RUN).count() {
            suspects.extend(self.assess_run(first, length, version));
        }
    }

    /// Returns `length` adjacent sizes from `first` on, or all to its right if there are fewer.
    fn run(&self, first: usize, length: usize) -> impl Iterator<Item = usize> + Clone + '_ {
        follow_links(&self.right, Some(first)).take(length)
    }

    fn left_of(&self, i: usize) -> Option<usize> {
        self.left[i].index()
    }

    fn right_of(&self, i: usize) -> Option<usize> {
        self.right[i].index()
    }

    /// Returns the run of `length` sizes from `first` on as a suspect if all of them contradict its neighbours.
    fn assess_run(&mut self, first: usize, length: usize, version: u32) -> Option<Suspect> {
        let last = self.run(first, length).last()?;
        let (left, right) = (self.left_of(first), self.right_of(last));
        if !(self.run(first, length)).all(|i| self.contradiction_between(left, i, right).is_some())
        {
            return None;
        }
        let run: Vec<usize> = self.run(first, length).collect();
        let mut near = self.neighbourhood(first, last, 2);
        let before = self.sum_excess(&near);
        near.retain(|i| !run.contains(i));
        self.unlink(first, last);
        let after = self.sum_excess(&near);
        self.relink(first, last);
        let n_sizes = length as f64;
        let knots: Vec<Knot> = run.iter().map(|&i| self.means[i].knot).collect();
        let distances = (knots.iter()).map(|knot| {
            let expected = self.interpolate_between(left, right, knot.d);
            (knot.speed - expected).abs()
        });
        Some(Suspect {
            gain: (before - after) / n_sizes,
            distance: distances.sum::<f64>() / n_sizes,
            speed: knots.iter().map(|knot| knot.speed).sum::<f64>() / n_sizes,
            first,
            length,
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
        sizes.iter().filter_map(|&i| self.contradiction_at(i)).map(|flag| flag.excess()).sum()
    }
}

/// Returns the sizes from `start` on, along `links`.
fn follow_links(links: &[Link], start: Option<usize>) -> impl Iterator<Item = usize> + Clone + '_ {
    std::iter::successors(start, |&i| links[i].index())
}
