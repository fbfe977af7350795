//! Measurements of a node.

use super::*;
use crate::comm::LocalComm;
use crate::plan::Problem;
use crate::plan::measuring::PlanningTask;
use isochron_devices::{
    DeviceClock, DeviceError, DeviceInfo, DeviceKind, JobNeeds, PanelPair, UpdateTime, Updates,
    ViewMut, Worker,
};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::slice_cols;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Seconds that the device takes to begin a job.
const BEGIN_S: f64 = 1e-6;

/// A device whose times never settle. It needs all memory that it may have, and at least `least` bytes.
#[derive(Clone)]
struct FakeDevice {
    info: DeviceInfo,
    /// Updates of one visit.
    together: usize,
    least: u64,
    limit: Arc<AtomicU64>,
    /// Jobs begun, and updates made.
    counts: Arc<[AtomicUsize; 2]>,
}

impl FakeDevice {
    fn new(together: usize, least: u64) -> Self {
        Self {
            info: DeviceInfo::new("fake", DeviceKind::Cuda, DeviceClock::Cores),
            together,
            least,
            limit: Arc::new(AtomicU64::new(u64::MAX)),
            counts: Arc::default(),
        }
    }

    fn team(&self) -> DeviceTeam {
        DeviceTeam::new(vec![Box::new(self.clone())]).unwrap()
    }
}

impl Worker for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn job_needs(&self, _: &JobShape) -> JobNeeds {
        JobNeeds {
            updates_per_visit: self.together,
            host_bytes: self.limit.load(Ordering::Relaxed).max(self.least),
            ..JobNeeds::default()
        }
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }
}

impl<T: Scalar> Updates<T> for FakeDevice {
    fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
        Ok(UpdateTime { busy_s: BEGIN_S, cpu_s: 0.0 })
    }

    fn update_ahead(
        &mut self,
        _alpha: T,
        _panels: PanelPair<'_, T>,
        _next: Option<PanelPair<'_, T>>,
        _c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        let visit = self.counts[1].fetch_add(1, Ordering::Relaxed) / self.together;
        let busy_s = [1.0, 1.5][visit % 2];
        Ok(UpdateTime { busy_s, cpu_s: 0.0 })
    }

    fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        Ok(UpdateTime::default())
    }
}

/// Prepares the measurement of 64 × 64 blocks of one element, with `steps` updates.
fn prepare_measurer<'a>(
    comm: &'a LocalComm,
    team: &'a mut DeviceTeam,
    steps: usize,
) -> Ranks<'a, f64> {
    let measure = MeasureConfig { max_reps: 1000, max_seconds: 1e9, ..MeasureConfig::default() };
    let problem = Problem::new(64, 64, steps, 1).unwrap();
    let config = BalanceConfig::default();
    let mut task = PlanningTask::new(comm, team, problem, config, measure).unwrap();
    task.kernel_width = 1;
    (task.config.strategy, task.config.steps) = (Strategy::Fpm, steps as u64);
    Ranks::new(comm, team, None, measure, task, Default::default())
}

/// Counts the updates of one measurement in a run of `steps` steps.
fn updates_measured(steps: usize, together: usize) -> usize {
    let device = FakeDevice::new(together, 0);
    let mut team = device.team();
    let comm = LocalComm::new();
    let mut measurer = prepare_measurer(&comm, &mut team, steps);
    let depth = measurer.depth(false);
    measurer.measure_devices(64, depth, &[64], &mut |needed| needed).unwrap();
    device.counts[1].load(Ordering::Relaxed)
}

#[test]
fn repetitions_of_a_gathering_device_count_as_all_their_updates() {
    let plain = updates_measured(1000, 1);
    let gathering = updates_measured(1000, 8);
    // 3.5 % of the steps, and warming up.
    assert!((35..=37).contains(&plain), "{plain}");
    assert!((32..=48).contains(&gathering), "{gathering}");
}

#[test]
fn a_size_that_is_measured_twice_keeps_its_repetitions_and_no_time_of_none() {
    let mut team = FakeDevice::new(1, 0).team();
    let comm = LocalComm::new();
    let mut measurer = prepare_measurer(&comm, &mut team, 100);
    let depth = measurer.depth(false);
    let mut asked = 0;
    measurer
        .measure_devices(64, depth, &[64], &mut |_| {
            asked += 1;
            asked <= 4
        })
        .unwrap();
    // Another node needed no repetition of this size.
    let again = measurer.measure_devices(64, depth, &[64], &mut |_| false).unwrap();
    assert_eq!(again, [Sample::default()]);
    let part_s = BEGIN_S * depth.part_of_update();
    assert!(part_s > 0.0);
    let [kept] = &measurer.seen[0][..] else {
        panic!("{:?}", measurer.seen);
    };
    let mut seconds = kept.seconds.clone();
    seconds.sort_by(f64::total_cmp);
    assert_eq!((kept.units, kept.at_least), (64 * 64, false));
    assert_eq!(seconds, [1.0, 1.0, 1.5, 1.5].map(|time_s| time_s + part_s));
}

/// Measures a greedy device that needs `least` bytes: returns its limit, its number of jobs, and the refusal.
fn with_greedy(least: u64) -> (u64, usize, Option<Error>) {
    let device = FakeDevice::new(1, least);
    let mut team = device.team();
    let comm = LocalComm::new();
    let mut measurer = prepare_measurer(&comm, &mut team, 10);
    let refusal = measurer.measure(Extent { rows: 64, cols: 64 }, false).err();
    let missing = measurer.operands.missing_bytes(64, 64, 1);
    assert_eq!(missing > 0, refusal.is_some(), "allocated in vain, or not");
    let (limit, jobs) = (&device.limit, &device.counts[0]);
    let (limit, jobs) = (limit.load(Ordering::Relaxed), jobs.load(Ordering::Relaxed));
    (limit, jobs, refusal)
}

#[test]
fn devices_are_limited_to_the_memory_left_after_the_matrices() {
    let (limit, jobs, refusal) = with_greedy(0);
    assert!(refusal.is_none(), "{refusal:?}");
    assert!(jobs > 0);
    if isochron_devices::memory_available_bytes().is_some() {
        assert!(limit < u64::MAX);
    }
}

#[test]
fn a_device_that_needs_more_than_there_is_is_refused_before_anything_is_taken() {
    if isochron_devices::memory_available_bytes().is_none() {
        return;
    }
    let (_, jobs, refusal) = with_greedy(1 << 60);
    assert_eq!(jobs, 0);
    let Some(Error::Memory { rank, needed_bytes, .. }) = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(rank, Some(0));
    assert!(needed_bytes >= 1 << 60);
}

#[test]
fn short_runs_repeat_the_fewest_times() {
    let default = MeasureConfig::default();
    let cases = [
        (10, 1.0, default.min_reps),
        (1000, 64.0, default.min_reps),
        (400, 2.0, 7),
        // A part of a sixteenth takes a sixteenth of the time.
        (160, 1.0 / 16.0, default.max_reps.min(89)),
        (u64::MAX, 1.0, default.max_reps),
    ];
    for (steps, updates, reps) in cases {
        assert_eq!(limit_reps(default, steps, updates).max_reps, reps);
    }
}

#[test]
fn a_node_of_which_nothing_is_known_divides_evenly() {
    let devices = [(); 2].map(|()| -> Box<dyn Worker> { Box::new(FakeDevice::new(1, 0)) });
    let mut team = DeviceTeam::new(devices.into()).unwrap();
    let comm = LocalComm::new();
    let mut measurer = prepare_measurer(&comm, &mut team, 64);
    // An even division shares no knowledge of devices.
    measurer.take_known(&[]);
    let division = Division::K { shares: vec![64], held: slice_cols(64, &[64]).unwrap() };
    assert_eq!(measurer.slice_part(&division), [32, 32]);
}
