//! The time that a campaign still takes, by the work of the sizes left and the speeds seen.

use super::part::Size;

/// A size that was measured.
#[derive(Debug, Clone, Copy)]
struct SizeCost {
    /// Its useful work.
    work: f64,
    /// Seconds of a run on the part that took longest.
    run_s: f64,
    /// Seconds of measuring it, with all repetitions and all that goes with them.
    wall_s: f64,
}

/// The measured sizes of a campaign, with their costs.
pub struct RemainingTime {
    /// Seconds after which a measurement is not repeated any more.
    max_seconds: f64,
    seen: Vec<SizeCost>,
}

impl RemainingTime {
    /// Starts with no size, for measurements that stop repeating after these seconds.
    pub fn new(max_seconds: f64) -> Self {
        Self { max_seconds, seen: Vec::new() }
    }

    /// Takes in the work of a size that was measured, the seconds of a run on each part that has a time, and those of
    /// measuring it.
    pub fn observe(&mut self, work: f64, runs_s: impl Iterator<Item = f64>, wall_s: f64) {
        let run_s = runs_s.fold(0.0, f64::max);
        self.seen.push(SizeCost { work, run_s, wall_s });
    }

    /// Estimates the seconds that sizes of this work take: each at the speed of the measured size nearest to it, and with as
    /// many repetitions, unless these exceed the seconds that repetitions may take. `None` before a size was measured.
    pub fn estimate_s(&self, left: &[f64]) -> Option<f64> {
        left.iter().map(|&work| self.estimate_size_s(work)).sum()
    }

    fn estimate_size_s(&self, work: f64) -> Option<f64> {
        let nearest = self.seen.iter().min_by(|a, b| {
            let [a, b] = [a, b].map(|cost| (cost.work / work).ln().abs());
            a.total_cmp(&b)
        })?;
        let larger = work / nearest.work;
        let limit_s = self.max_seconds.max(larger * nearest.run_s);
        Some((larger * nearest.wall_s).min(limit_s.max(nearest.wall_s)))
    }
}

/// Returns the work of a size: the kernel's complexity, or its units if the kernel states none.
pub fn weigh_size((m, n): Size, complexity: f64) -> f64 {
    if complexity.is_finite() && complexity > 0.0 { complexity } else { m as f64 * n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sizes_are_expected_to_take_longer() {
        let mut remaining = RemainingTime::new(10.0);
        assert_eq!(remaining.estimate_s(&[1.0]), None);
        // Five repetitions of 0.01 s on the slower part.
        remaining.observe(100.0, [0.01, 0.004].into_iter(), 0.05);
        assert_eq!(remaining.estimate_s(&[]), Some(0.0));
        assert_eq!(remaining.estimate_s(&[200.0, 400.0]), Some(0.1 + 0.2));
        // The speed has fallen: the nearest size counts.
        remaining.observe(400.0, [0.4].into_iter(), 2.0);
        assert_eq!(remaining.estimate_s(&[100.0, 800.0]), Some(0.05 + 4.0));
    }

    #[test]
    fn repetitions_end_after_the_seconds_of_a_measurement() {
        let mut remaining = RemainingTime::new(10.0);
        remaining.observe(100.0, [1.0].into_iter(), 5.0);
        assert_eq!(remaining.estimate_s(&[400.0]), Some(10.0));
        // A single run takes longer.
        assert_eq!(remaining.estimate_s(&[1600.0]), Some(16.0));
    }

    #[test]
    fn a_kernel_that_states_no_work_is_weighed_by_its_units() {
        assert_eq!(weigh_size((6, 2), 48.0), 48.0);
        for unstated in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(weigh_size((6, 2), unstated), 12.0);
        }
    }
}
