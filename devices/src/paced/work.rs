//! A program's own work, slowed down on purpose.

use std::time::Instant;

use isochron_hierarchy::model::SpeedModel;

use crate::contract::DeviceError;
use crate::host::cpu_time::thread_cpu_time_s;
use crate::paced::Pace;
use crate::paced::worker::{PaceClock, sleep_precisely};

/// Work of the calling thread that takes the time of a pace: one machine emulates unlike ones.
///
/// ```
/// use isochron_devices::{Pace, PacedWork};
///
/// let mut work = PacedWork::new(Some(Pace::Slowdown(3.0)))?;
/// let (sum, seconds) = work.run(100_000, || (0..100_000_u64).sum::<u64>());
/// assert_eq!(sum, 4_999_950_000);
/// assert!(seconds >= 0.0);
/// # Ok::<(), isochron_devices::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct PacedWork {
    pace: Option<Pace>,
    clock: PaceClock,
}

impl PacedWork {
    /// Makes work of this pace, or of the machine's own speed without one.
    ///
    /// # Errors
    /// Returns [`DeviceError::Config`] for a slowdown below 1, or a model without points.
    pub fn new(pace: Option<Pace>) -> Result<Self, DeviceError> {
        if let Some(pace) = &pace {
            pace.check_values("this thread")?;
        }
        let clock = PaceClock::default();
        Ok(Self { pace, clock })
    }

    /// Returns the description of the pace, if there is one.
    pub fn describe(&self) -> Option<String> {
        self.pace.as_ref().map(Pace::describe)
    }

    /// Does `work` on this number of elements, then waits until the time of the pace is up. Returns the work's result and
    /// the seconds that it counts for.
    ///
    /// [`Pace::Slowdown`] multiplies the CPU time that the work used. [`Pace::Points`] takes the model's seconds for
    /// as many units of `b×b` elements, but never fewer than the CPU time. Without a pace the seconds are those of the
    /// wall clock.
    pub fn run<R>(&mut self, elements: u64, work: impl FnOnce() -> R) -> (R, f64) {
        let (start, cpu_s) = (Instant::now(), thread_cpu_time_s());
        let result = work();
        let used_s = thread_cpu_time_s() - cpu_s;
        let Some(pace) = &self.pace else {
            return (result, start.elapsed().as_secs_f64());
        };
        let target_s = match pace {
            Pace::Slowdown(factor) => factor * used_s,
            Pace::Points { model, block, .. } if elements > 0 => {
                let units = elements as f64 / (*block as f64).powi(2);
                model.raw().time_s(units).max(used_s)
            }
            Pace::Points { .. } => used_s,
        };
        sleep_precisely(self.clock.wait_s(start.elapsed().as_secs_f64(), target_s));
        self.clock.settle_debt(start.elapsed().as_secs_f64(), target_s);
        (result, target_s)
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::model::{PiecewiseFpm, Point};

    use super::*;

    #[test]
    fn work_counts_for_the_seconds_of_its_pace() {
        let point = Point { d: 10, t_s: 0.02, reps: 1, ci_s: 0.0 };
        let model = PiecewiseFpm::from_points(vec![point]).unwrap();
        let pace = Pace::Points { name: "a".to_owned(), model, block: 8 };
        let mut work = PacedWork::new(Some(pace)).unwrap();
        let start = Instant::now();
        assert_eq!(work.run(5 * 64, || 7), (7, 0.01));
        assert_eq!(work.run(10 * 64, || 8), (8, 0.02));
        assert!(start.elapsed().as_secs_f64() >= 0.03 - PaceClock::MAX_DEBT_S);
        assert!(work.run(0, || ()).1 >= 0.0);
        assert_eq!(work.describe().unwrap(), "points a");
    }

    #[test]
    fn work_without_a_pace_takes_its_own_time() {
        let mut work = PacedWork::new(None).unwrap();
        let mut inner_s = 0.0;
        let ((), seconds) = work.run(1, || {
            let start = Instant::now();
            std::hint::black_box((0..10_000_u64).map(std::hint::black_box).sum::<u64>());
            inner_s = start.elapsed().as_secs_f64();
        });
        assert!(seconds >= inner_s && work.describe().is_none());
    }

    #[test]
    fn a_pace_that_makes_faster_is_refused() {
        let refused = PacedWork::new(Some(Pace::Slowdown(0.5))).unwrap_err();
        assert!(refused.to_string().contains("0.5"), "{refused}");
    }
}
