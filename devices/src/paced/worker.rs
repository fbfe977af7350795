//! A worker that is slower than its hardware on purpose: one machine emulates an unlike cluster.

use crate::contract::{
    Depth, DeviceClock, DeviceError, DeviceInfo, JobNeeds, JobShape, PanelPair, Scalar,
    ThreadPlace, UpdateTime, Updates, ViewMut, Worker,
};
use crate::paced::model_time::{check_model, model_time_s};
use crate::paced::turns::Turns;
use crate::paced::visit::Visit;
use isochron_hierarchy::model::PiecewiseFpm;
use std::time::{Duration, Instant};

/// The pace of a slowed device.
#[derive(Debug, Clone)]
pub enum Pace {
    /// Factor of at least 1 on the CPU time that an update, or the beginning or the end of a job, really used (for a
    /// GPU on the busy time).
    Slowdown(f64),
    /// Times of a recorded model: an update takes `t(d)·k/b` seconds with `d = rows·cols/b²` units, but never less than
    /// it really used.
    ///
    /// If a device gathers several updates before it computes, they take that time together. The model has times of
    /// updates only, so the beginning and the end of a job take the time that they really used. The times hold for
    /// elements of every type, whatever type was recorded.
    Points {
        /// Source of the model, for reports.
        name: String,
        /// The recorded times.
        model: PiecewiseFpm,
        /// Block size `b` of the model's units.
        block: u64,
    },
}

impl Pace {
    pub(crate) fn check_values(&self, device: &str) -> Result<(), DeviceError> {
        let reason = match self {
            Self::Slowdown(factor) if !(factor.is_finite() && *factor >= 1.0) => {
                format!("a slowdown must be a number of at least 1, not {factor}")
            }
            Self::Points { name, model, block } => match check_model(model, *block) {
                Ok(()) => return Ok(()),
                Err(reason) => format!("{name}: {reason}"),
            },
            Self::Slowdown(_) => return Ok(()),
        };
        Err(DeviceError::Config { device: device.to_owned(), reason })
    }

    fn clock(&self) -> DeviceClock {
        match self {
            Self::Slowdown(_) => DeviceClock::Slowed,
            Self::Points { .. } => DeviceClock::Prescribed,
        }
    }

    /// Describes the pace, for reports.
    pub fn describe(&self) -> String {
        match self {
            Self::Slowdown(factor) => format!("slowdown {factor}"),
            Self::Points { name, .. } => format!("points {name}"),
        }
    }

    /// Returns the prescribed seconds of an update of `rows × cols` with inner dimension `k` that really used `used_s`.
    /// They may be fewer than that.
    fn target_s(&self, used_s: f64, rows: usize, cols: usize, k: usize) -> f64 {
        match self {
            Self::Slowdown(factor) => factor * used_s,
            Self::Points { model, block, .. } => model_time_s(model, *block, rows, cols, k),
        }
    }

    /// Returns the fewest seconds of the beginning or the end of a job that really used `used_s`.
    fn frame_s(&self, used_s: f64) -> f64 {
        match self {
            Self::Slowdown(factor) => factor * used_s,
            Self::Points { .. } => 0.0,
        }
    }
}

/// A worker that does the real arithmetic and then waits until the time of its pace is up.
///
/// The results are those of the worker inside, bit by bit. [`UpdateTime::busy_s`] is the time that the pace prescribes,
/// not the wall time, so the balancer's view does not depend on the load of the machine. The wall time follows it in
/// the long run. The worker sleeps while it waits, and other emulated nodes use the core. Paced devices that share a
/// core take turns on it, so none is slowed down by the data that another leaves in the caches.
pub struct PacedWorker {
    inner: Box<dyn Worker>,
    info: DeviceInfo,
    pace: Pace,
    clock: PaceClock,
    turns: Turns,
    visit: Visit,
}

impl PacedWorker {
    /// Slows `inner` down.
    ///
    /// # Errors
    /// Returns [`DeviceError::Config`] for a slowdown under 1, a block size of 0 or a model without points.
    pub fn new(inner: Box<dyn Worker>, pace: Pace) -> Result<Self, DeviceError> {
        let mut info = inner.info().clone();
        pace.check_values(&info.name)?;
        info.paced = Some(pace.describe());
        info.clock = pace.clock();
        Ok(Self {
            turns: Turns::new(&info.cores),
            inner,
            info,
            pace,
            clock: PaceClock::default(),
            visit: Visit::default(),
        })
    }
}

impl From<PacedWorker> for Box<dyn Worker> {
    // A crate that boxed the device itself would compile the arithmetic of all element types again.
    #[inline(never)]
    fn from(worker: PacedWorker) -> Self {
        Box::new(worker)
    }
}

impl Worker for PacedWorker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        self.inner.job_needs(job)
    }

    fn memory_held(&self) -> u64 {
        self.inner.memory_held()
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.inner.limit_memory(bytes);
    }

    fn copies_ahead(&self) -> bool {
        self.inner.copies_ahead()
    }

    fn threads(&self) -> Vec<ThreadPlace> {
        self.inner.threads()
    }

    fn notices(&self) -> Vec<String> {
        [self.inner.notices(), self.turns.notices()].concat()
    }

    fn likely_cores(&self) -> Option<f64> {
        match self.pace {
            Pace::Slowdown(factor) => self.inner.likely_cores().map(|cores| cores / factor),
            Pace::Points { .. } => None,
        }
    }

    fn reserve(&mut self, job: &JobShape) -> Result<(), DeviceError> {
        self.inner.reserve(job)
    }
}

impl<T: Scalar> Updates<T> for PacedWorker {
    fn scale(&mut self, beta: T, c: ViewMut<'_, T>) {
        T::updates(self.inner.as_mut()).scale(beta, c);
    }

    fn begin(&mut self, c: ViewMut<'_, T>, depth: Depth) -> Result<UpdateTime, DeviceError> {
        let job = JobShape::of::<T>(c.rows(), c.cols(), depth);
        let time = self.run_paced(
            |inner: &mut dyn Updates<T>| inner.begin(c, depth),
            |paced, used_s| paced.pace.frame_s(used_s).max(used_s),
        )?;
        // Asked for only now, since a job may have got smaller tiles than planned.
        let JobNeeds { updates_per_visit, .. } = self.inner.job_needs(&job);
        self.visit = Visit::new(depth, updates_per_visit);
        Ok(time)
    }

    fn update_ahead(
        &mut self,
        alpha: T,
        (a, b): PanelPair<'_, T>,
        next: Option<PanelPair<'_, T>>,
        c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        let (rows, cols, k) = (a.rows(), b.cols(), a.cols());
        self.run_paced(
            |inner: &mut dyn Updates<T>| inner.update_ahead(alpha, (a, b), next, c),
            |paced, used_s| {
                let prescribed_s = paced.pace.target_s(used_s, rows, cols, k);
                let gathers = alpha != T::ZERO;
                paced.visit.count_update(k, gathers, used_s, prescribed_s)
            },
        )
    }

    fn finish(&mut self, c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        // The inner worker now computes the updates that it has only gathered.
        self.run_paced(
            |inner: &mut dyn Updates<T>| inner.finish(c),
            |paced, used_s| {
                let prescribed_s = paced.pace.frame_s(used_s);
                paced.visit.count_end(used_s, prescribed_s)
            },
        )
    }
}

impl PacedWorker {
    /// Runs a call of the inner worker, and then pauses until its target is reached. `target_s` computes the target
    /// from the seconds that the call really used.
    fn run_paced<T: Scalar>(
        &mut self,
        call: impl FnOnce(&mut dyn Updates<T>) -> Result<UpdateTime, DeviceError>,
        target_s: impl FnOnce(&mut Self, f64) -> f64,
    ) -> Result<UpdateTime, DeviceError> {
        let start = Instant::now();
        let turn = self.turns.take_turn();
        let time = call(T::updates(self.inner.as_mut()))?;
        drop(turn);
        let used_s = time.used_s(self.inner.info().clock);
        let target_s = target_s(self, used_s);
        sleep_precisely(self.clock.wait_s(start.elapsed().as_secs_f64(), target_s));
        self.clock.settle_debt(start.elapsed().as_secs_f64(), target_s);
        Ok(UpdateTime { busy_s: target_s, cpu_s: time.cpu_s })
    }
}

/// The wall time overdrawn so far, which later updates pay back.
///
/// A sleep ends late, by microseconds on an idle machine and by a scheduling slice on a busy one. Carrying the excess
/// makes the wall time of many updates follow the sum of their targets.
#[derive(Debug, Default)]
pub(crate) struct PaceClock {
    debt_s: f64,
}

impl PaceClock {
    /// Largest debt in seconds, a few scheduling slices. More is forgiven: after a stop of the process, the device must
    /// not run unpaced until it has caught up.
    pub(crate) const MAX_DEBT_S: f64 = 0.020;

    /// Returns the seconds to wait after `elapsed_s` of an update that should take `target_s`.
    pub(crate) fn wait_s(&self, elapsed_s: f64, target_s: f64) -> f64 {
        (target_s - self.debt_s - elapsed_s).max(0.0)
    }

    /// Takes note that the update, waiting included, took `elapsed_s`.
    pub(crate) fn settle_debt(&mut self, elapsed_s: f64, target_s: f64) {
        self.debt_s = (self.debt_s + elapsed_s - target_s).clamp(0.0, Self::MAX_DEBT_S);
    }
}

/// Sleeps without the 50 µs by which Linux may delay a timer to save power.
pub(crate) fn sleep_precisely(wait_s: f64) {
    if wait_s <= 0.0 {
        return;
    }
    // If this fails the sleep is a little longer, which the debt evens out.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    // A prescribed time that no duration can hold is a wait without end.
    std::thread::sleep(Duration::try_from_secs_f64(wait_s).unwrap_or(Duration::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::DeviceKind;
    use crate::paced::RecordedWorker;
    use crate::team::DeviceTeam;
    use isochron_hierarchy::model::Point;

    fn make_model(points: &[(u64, f64)]) -> PiecewiseFpm {
        let points = points.iter().map(|&(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
        PiecewiseFpm::from_points(points.collect()).unwrap()
    }

    fn pace_by_points(block: u64, points: &[(u64, f64)]) -> Pace {
        Pace::Points { name: "cliff.points".to_owned(), model: make_model(points), block }
    }

    #[test]
    fn late_sleeps_are_paid_back() {
        let mut clock = PaceClock::default();
        let mut wall_s = 0.0;
        for _ in 0..1000 {
            // Each update works for 1 ms, should take 4 ms, and every sleep ends 0.3 ms late.
            let elapsed_s = 0.001 + clock.wait_s(0.001, 0.004) + 0.0003;
            clock.settle_debt(elapsed_s, 0.004);
            wall_s += elapsed_s;
        }
        assert!((wall_s - 4.0).abs() < 0.001, "{wall_s}");
    }

    #[test]
    fn a_pause_leads_to_no_burst() {
        let mut clock = PaceClock::default();
        clock.settle_debt(10.0, 0.004);
        let mut skipped_s = 0.0;
        for _ in 0..100 {
            let elapsed_s = 0.001 + clock.wait_s(0.001, 0.004);
            clock.settle_debt(elapsed_s, 0.004);
            skipped_s += 0.004 - elapsed_s;
        }
        assert!((skipped_s - PaceClock::MAX_DEBT_S).abs() < 1e-9, "{skipped_s}");
    }

    #[test]
    fn an_early_end_is_no_credit() {
        let mut clock = PaceClock::default();
        clock.settle_debt(0.001, 0.004);
        assert_eq!(clock.wait_s(0.001, 0.004), 0.003);
    }

    #[test]
    fn a_core_that_another_process_holds_is_told_by_the_team() {
        let inner = RecordedWorker::new("gpu", DeviceKind::Cuda, make_model(&[(1, 1.0)]), 1);
        let folder = tempfile::tempdir().unwrap();
        let mut worker = PacedWorker::new(Box::new(inner.unwrap()), Pace::Slowdown(1.0)).unwrap();
        worker.turns = Turns::in_folder(folder.path(), &[5], Duration::ZERO);
        let mut others = Turns::in_folder(folder.path(), &[5], Duration::ZERO);
        let _held = others.take_turn();
        let mut team = DeviceTeam::new(vec![Box::new(worker)]).unwrap();
        assert_eq!(team.notices(), Vec::<String>::new());
        let mut c = [0.0];
        for _ in 0..2 {
            let c = ViewMut::new(&mut c, 1, 1, 1);
            team.begin(c, &[1], Depth::endless(1)).unwrap();
        }
        let notices = team.notices();
        assert!(notices.len() == 1 && notices[0].starts_with("core 5 was held by "));
    }

    #[test]
    fn targets_follow_the_pace() {
        assert_eq!(Pace::Slowdown(4.0).target_s(0.5, 9, 9, 9), 2.0);
        // 64 × 128 with blocks of 32 is 8 units, which take 0.25 s for k = 32 and twice that for k = 64.
        let pace = pace_by_points(32, &[(8, 0.25)]);
        assert_eq!(pace.target_s(0.1, 64, 128, 64), 0.5);
        assert_eq!(pace.target_s(0.7, 64, 128, 64), 0.5);
        assert_eq!(pace.target_s(0.0, 64, 0, 64), 0.0);
        // The model has no times of a job's beginning and end.
        assert_eq!(pace.frame_s(0.7), 0.0);
        assert_eq!(Pace::Slowdown(4.0).frame_s(0.5), 2.0);
    }

    /// Returns the message with which a pace is refused.
    fn refuse(pace: Pace) -> String {
        let inner = RecordedWorker::new("gpu", DeviceKind::Cuda, make_model(&[(1, 1.0)]), 1);
        PacedWorker::new(Box::new(inner.unwrap()), pace).err().map(|e| e.to_string()).unwrap()
    }

    #[test]
    fn senseless_paces_are_refused() {
        assert!(refuse(Pace::Slowdown(0.5)).contains("0.5"));
        assert!(refuse(Pace::Slowdown(f64::NAN)).contains("NaN"));
        assert!(refuse(pace_by_points(0, &[(1, 1.0)])).contains("block size"));
        assert!(refuse(pace_by_points(8, &[])).contains("cliff.points: the model has no points"));
    }
}
