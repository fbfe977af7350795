//! The time of an update on a paced device that gathers several updates and computes them together.

use crate::contract::Depth;

/// The updates of a paced device since it computed last.
///
/// The pace prescribes a time for each update, but the device works by visits: it gathers panels in next to no time,
/// and then computes all of them. Its time and the prescribed one can be compared only over a whole visit. So a
/// gathered update counts as the time it used. The update that ends the visit counts as the rest of the larger sum:
/// `max(Σ prescribed, Σ used)` over the visit.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    k_max: usize,
    /// The inner dimension for which a visit has room.
    room: usize,
    k_total: usize,
    /// The inner dimension of the job's updates to come. At 0 the device computes, and counts from `k_total` again.
    left: usize,
    filled: usize,
    prescribed_s: f64,
    used_s: f64,
    counted_s: f64,
}

impl Visit {
    /// Starts a job whose device computes after `together` updates with `k = k_max`, and with the last update.
    pub fn new(depth: Depth, together: usize) -> Self {
        Self {
            k_max: depth.k_max,
            room: depth.k_max.saturating_mul(together),
            k_total: depth.k_total,
            left: depth.k_total,
            ..Self::default()
        }
    }

    /// Returns the seconds that an update counts as, which has taken `used_s` and should have taken `prescribed_s`. `k`
    /// is its inner dimension; `gathers` is `false` for a product with 0, whose panels are not gathered.
    pub fn count_update(&mut self, k: usize, gathers: bool, used_s: f64, prescribed_s: f64) -> f64 {
        self.filled += if gathers { k } else { 0 };
        self.left = self.left.saturating_sub(k);
        self.used_s += used_s;
        self.prescribed_s += prescribed_s;
        let next = self.k_max.min(self.left);
        let goes_on = self.left > 0 && self.filled + next <= self.room;
        if self.left == 0 {
            self.left = self.k_total;
        }
        if goes_on && self.room > self.k_max {
            self.counted_s += used_s;
            return used_s;
        }
        self.end_visit()
    }

    /// Returns the seconds that the end of a job counts as, which has taken `used_s` and should have taken
    /// `prescribed_s`. It includes the updates that were gathered and are computed only then; without any it is the
    /// larger of the two.
    pub fn count_end(&mut self, used_s: f64, prescribed_s: f64) -> f64 {
        self.used_s += used_s;
        self.prescribed_s += prescribed_s;
        self.end_visit()
    }

    fn end_visit(&mut self) -> f64 {
        let counts_s = self.prescribed_s.max(self.used_s) - self.counted_s;
        *self = Self {
            k_max: self.k_max,
            room: self.room,
            k_total: self.k_total,
            left: self.left,
            ..Self::default()
        };
        counts_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds that the updates of a job count as, with `(k, used_s)` given and 1 s prescribed for each,
    /// and the seconds of its end, which takes 0.5 s.
    fn count_job(together: usize, updates: &[(usize, f64)]) -> (Vec<f64>, f64) {
        let mut visit = Visit::new(Depth::endless(4), together);
        let updates = updates.iter().map(|&(k, used_s)| visit.count_update(k, true, used_s, 1.0));
        (updates.collect(), visit.count_end(0.5, 0.0))
    }

    #[test]
    fn an_update_alone_counts_as_prescribed_or_as_used() {
        let (updates, end) = count_job(1, &[(4, 0.25), (1, 3.0), (0, 0.5)]);
        assert_eq!(updates, [1.0, 3.0, 1.0]);
        assert_eq!(end, 0.5);
    }

    #[test]
    fn a_visit_counts_as_prescribed_when_the_device_is_faster() {
        // Four updates take 2 s and should take 4 s. They count as 4 s, although the last one alone took longer than
        // prescribed.
        let used = [(4, 0.125), (4, 0.125), (4, 0.125), (4, 1.625)];
        let (updates, _) = count_job(4, &used);
        assert_eq!(updates.iter().sum::<f64>(), 4.0);
        assert_eq!(updates[..3], [0.125; 3]);
    }

    #[test]
    fn a_visit_counts_as_used_when_the_device_is_slower() {
        let used = [(4, 0.5), (4, 0.5), (4, 0.5), (4, 6.0), (4, 0.5)];
        let (updates, end) = count_job(4, &used);
        assert_eq!(updates[..4].iter().sum::<f64>(), 7.5);
        // The last one is computed at the end: it takes a second, half of which is already counted.
        assert_eq!((updates[4], end), (0.5, 0.5));
    }

    #[test]
    fn the_last_update_of_a_job_ends_a_visit_and_more_begin_another() {
        // Six updates are announced, and four belong together: visits of 4, 2, 4 and 2.
        let mut visit = Visit::new(Depth::of(4, 6), 4);
        let ends: Vec<f64> = (0..12).map(|_| visit.count_update(4, true, 0.0, 1.0)).collect();
        assert_eq!(ends, [0.0, 0.0, 0.0, 4.0, 0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 0.0, 2.0]);
    }

    #[test]
    fn products_with_0_are_not_gathered_but_are_of_the_job() {
        let mut visit = Visit::new(Depth::of(4, 4), 8);
        let counted =
            [true, false, false, true].map(|gathers| visit.count_update(4, gathers, 0.0, 1.0));
        assert_eq!(counted, [0.0, 0.0, 0.0, 4.0]);
    }

    #[test]
    fn narrow_updates_make_longer_visits() {
        let (updates, end) = count_job(2, &[(2, 0.0), (1, 0.0), (2, 0.0), (4, 0.0), (4, 0.0)]);
        assert_eq!(updates, [0.0, 0.0, 3.0, 0.0, 2.0]);
        assert_eq!(end, 0.5);
    }
}
