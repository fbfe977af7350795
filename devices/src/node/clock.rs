//! The times of this rank's devices in a run, as its host makes them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use isochron_hierarchy::times::{Quality, Sample};

use super::load::{Load, share_quota};
use crate::contract::{DeviceClock, DeviceInfo, UpdateTime};
use isochron_base::cpu_quota_cores;

/// Time after which a quota is read again.
const RENEWAL: Duration = Duration::from_millis(200);

/// Seconds in which the wall time of updates is compared with the time that the quota explains: many periods of a quota.
const WINDOW_S: f64 = 1.0;

/// Fewest and most updates in the window.
const WINDOW_UPDATES: [usize; 2] = [3, 64];

/// Ratio of wall time to the time that the quota explains above which an update counts as disturbed.
const UNEXPLAINED: f64 = 1.3;

/// Largest such ratio that one update contributes.
const MOST_UNEXPLAINED: f64 = 5.0;

/// The clock of a rank's devices in a run.
///
/// Under a quota the wall time of one update says little ([`UpdateTime::sustained_s`]), so the CPU time counts, over
/// the share of the quota as it is now. The wall time of many updates may exceed that: messages spend a part of the
/// quota, or other programs stop the threads. Then all times are as much longer.
pub struct HostClock {
    clocks: Vec<DeviceClock>,
    /// Number of threads with which each rank of this host computes.
    threads: Vec<usize>,
    share: f64,
    /// The share without a quota.
    free_share: f64,
    renewed: Instant,
    /// The last updates of each device.
    recent: Vec<RecentUpdates>,
    visits: Vec<VisitTimes>,
}

impl HostClock {
    /// Begins under this load. `together` are the updates of each device that
    /// [belong together](crate::JobNeeds::updates_per_visit), and `threads` the computing threads of each rank of this host.
    pub fn new(devices: &[DeviceInfo], together: &[usize], threads: &[usize], load: Load) -> Self {
        Self {
            clocks: devices.iter().map(|device| device.clock).collect(),
            threads: threads.to_vec(),
            share: load.share,
            free_share: load.share_of_cores,
            renewed: Instant::now(),
            recent: vec![RecentUpdates::default(); devices.len()],
            visits: together.iter().map(|&updates| VisitTimes::of(updates)).collect(),
        }
    }

    /// Returns the time of each device's update of these columns in the long run; `None` until the visit of every device is
    /// complete.
    pub fn read(&mut self, times: &[UpdateTime], columns: &[usize]) -> Option<Vec<Sample>> {
        if self.renewed.elapsed() >= RENEWAL {
            self.renewed = Instant::now();
            self.renew_share(cpu_quota_cores());
        }
        // Every device has to count this update, also if one before it has no mean yet.
        let samples: Vec<Option<Sample>> = (0..times.len())
            .map(|device| {
                let read = self.read_device(device, times[device]);
                let seconds = self.visits[device].add(columns[device], read.seconds)?;
                Some(Sample { units: columns[device] as u64, seconds, ..read })
            })
            .collect();
        samples.into_iter().collect()
    }

    /// Takes over the quota as it is now, in cores.
    fn renew_share(&mut self, quota: Option<f64>) {
        self.share = quota.map_or(self.free_share, |quota| share_quota(quota, &self.threads));
    }

    /// Returns the time of one device; an invalid time is returned unchanged.
    fn read_device(&mut self, device: usize, time: UpdateTime) -> Sample {
        let is_time = |time_s: f64| time_s.is_finite() && time_s >= 0.0;
        let as_measured = Sample::measured(0, time.busy_s, 1, 0.0);
        let are_times = is_time(time.busy_s) && is_time(time.cpu_s);
        if !are_times || !self.clocks[device].keeps_cores_busy() {
            return as_measured;
        }
        let explained_s = time.sustained_s(self.clocks[device], self.share);
        let (seconds, is_stopped) = if self.share >= 1.0 {
            (explained_s, time.busy_s > UNEXPLAINED * time.cpu_s)
        } else {
            let recent = &mut self.recent[device];
            recent.add(time.busy_s.min(MOST_UNEXPLAINED * explained_s), explained_s);
            let factor = recent.find_factor();
            (explained_s * factor, factor > UNEXPLAINED)
        };
        Sample {
            seconds,
            quality: if is_stopped { Quality::Disturbed } else { Quality::Measured },
            ..as_measured
        }
    }
}

/// Wall times of a device's last updates, each with the time that the quota explains.
#[derive(Debug, Clone, Default)]
struct RecentUpdates {
    times_s: VecDeque<[f64; 2]>,
}

impl RecentUpdates {
    fn add(&mut self, wall_s: f64, explained_s: f64) {
        let [fewest, most] = WINDOW_UPDATES;
        self.times_s.push_back([wall_s, explained_s]);
        let mut kept_s: f64 = self.times_s.iter().map(|[_, explained_s]| explained_s).sum();
        while self.times_s.len() > most || (kept_s > WINDOW_S && self.times_s.len() > fewest) {
            let oldest = self.times_s.pop_front();
            kept_s -= oldest.map_or(0.0, |[_, explained_s]| explained_s);
        }
    }

    /// Returns the wall time over the time that the quota explains, at least 1. The update that was stopped for longest is
    /// left out: a single one says nothing of the others.
    fn find_factor(&self) -> f64 {
        let Some(worst) =
            self.times_s.iter().max_by(|a, b| (a[0] - a[1]).total_cmp(&(b[0] - b[1])))
        else {
            return 1.0;
        };
        let [wall_s, explained_s] = [0, 1].map(|of| {
            let sum: f64 = self.times_s.iter().map(|times| times[of]).sum();
            sum - worst[of]
        });
        if explained_s > 0.0 { (wall_s / explained_s).max(1.0) } else { 1.0 }
    }
}

/// The times of a device that gathers the panels of several updates: the last update of a visit takes nearly all of its
/// time.
#[derive(Debug, Clone)]
struct VisitTimes {
    /// Updates of a visit.
    updates: usize,
    cols: usize,
    /// The times of the last updates on these columns.
    last: VecDeque<f64>,
}

impl VisitTimes {
    /// Begins with a device on which this number of updates belong together.
    fn of(updates: usize) -> Self {
        Self { updates, cols: 0, last: VecDeque::new() }
    }

    /// Adds the time of an update. Returns the mean time of the updates of a visit, once it is complete.
    fn add(&mut self, cols: usize, time_s: f64) -> Option<f64> {
        if cols != self.cols {
            self.last.clear();
            self.cols = cols;
        }
        self.last.push_back(time_s);
        if self.last.len() > self.updates {
            self.last.pop_front();
        }
        let is_whole = self.last.len() == self.updates;
        is_whole.then(|| self.last.iter().sum::<f64>() / self.updates as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(clock: DeviceClock, share: f64) -> HostClock {
        HostClock {
            clocks: vec![clock],
            ..HostClock::new(&[], &[], &[1], Load { share, share_of_cores: 1.0, ..Load::NONE })
        }
    }

    fn update(busy_s: f64, cpu_s: f64) -> UpdateTime {
        UpdateTime { busy_s, cpu_s }
    }

    fn read(clock: &mut HostClock, time: UpdateTime) -> f64 {
        clock.read_device(0, time).seconds
    }

    #[test]
    fn a_quota_stretches_cpu_time_and_other_programs_the_wall_time() {
        let mut quota = clock(DeviceClock::Cores, 0.25);
        quota.recent = vec![RecentUpdates::default()];
        assert_eq!(read(&mut quota, update(0.01, 0.01)), 0.04);
        // The quota stops this update, and explains it.
        for _ in 0..20 {
            assert_eq!(read(&mut quota, update(0.04, 0.01)), 0.04);
        }
        // It explains no half of this.
        let last = (0..200).map(|_| read(&mut quota, update(0.09, 0.01))).last();
        assert!(last.is_some_and(|last| (last - 0.09).abs() < 1e-3), "{last:?}");
    }

    #[test]
    fn messages_that_spend_a_part_of_the_quota_lengthen_the_times() {
        // Updates of a hundredth of a second and of two seconds.
        for cpu_s in [0.01, 0.5] {
            let mut quota = clock(DeviceClock::Cores, 0.25);
            quota.recent = vec![RecentUpdates::default()];
            let wall_s = 4.8 * cpu_s;
            let times: Vec<f64> = (0..6).map(|_| read(&mut quota, update(wall_s, cpu_s))).collect();
            assert_eq!(times[0], 4.0 * cpu_s);
            for time_s in &times[1..] {
                assert!((time_s - wall_s).abs() < 1e-12 * wall_s, "{times:?}");
            }
        }
    }

    #[test]
    fn a_thread_that_did_not_run_was_stopped_unless_the_quota_explains_it() {
        let mut free = clock(DeviceClock::Cores, 1.0);
        let mut quota = clock(DeviceClock::Cores, 0.25);
        let mut gpu = clock(DeviceClock::Accelerator, 1.0);
        for host in [&mut free, &mut quota, &mut gpu] {
            host.recent = vec![RecentUpdates::default()];
        }
        let late = update(0.04, 0.01);
        let is_stopped =
            |host: &mut HostClock, time| host.read_device(0, time).quality == Quality::Disturbed;
        assert!(is_stopped(&mut free, late));
        assert!(!is_stopped(&mut free, update(0.012, 0.01)));
        assert!(!is_stopped(&mut gpu, late));
        assert!((0..50).all(|_| !is_stopped(&mut quota, late)));
        let worse = (0..200).map(|_| is_stopped(&mut quota, update(0.09, 0.01)));
        assert_eq!(worse.last(), Some(true));
    }

    #[test]
    fn times_follow_a_quota_that_shrinks_and_is_lifted() {
        let mut host = clock(DeviceClock::Cores, 1.0);
        (host.threads, host.free_share) = (vec![1, 1], 1.0);
        host.recent = vec![RecentUpdates::default()];
        for (quota, factor) in [(None, 1.0), (Some(0.5), 4.0), (Some(2.0), 1.0), (None, 1.0)] {
            host.renew_share(quota);
            // The first update may run through, whatever the quota.
            let first = read(&mut host, update(0.1, 0.1));
            assert!((first - 0.1 * factor).abs() < 1e-12, "{quota:?}: {first}");
            for _ in 0..50 {
                let next = read(&mut host, update(0.1 * factor, 0.1));
                assert!((next - 0.1 * factor).abs() < 1e-12, "{quota:?}: {next}");
            }
        }
    }

    #[test]
    fn an_update_that_is_stopped_for_long_leaves_those_after_it_alone() {
        for (share, wall_s) in [(1.0, 0.01), (0.25, 0.04)] {
            let mut host = clock(DeviceClock::Cores, share);
            host.recent = vec![RecentUpdates::default()];
            for step in 0..300 {
                let is_stopped = step == 100;
                let busy_s = if is_stopped { 10.0 } else { wall_s };
                let read = read(&mut host, update(busy_s, 0.01));
                assert!(is_stopped || (read - wall_s).abs() < 1e-12, "{step}: {read}");
            }
        }
    }

    #[test]
    fn a_time_that_is_none_leaves_those_after_it_alone() {
        for wrong in [f64::INFINITY, f64::NAN, -1000.0] {
            let mut free = clock(DeviceClock::Cores, 1.0);
            free.recent = vec![RecentUpdates::default()];
            for time in [0.4, wrong, 0.3, 0.2] {
                let read = read(&mut free, update(time, 0.1));
                assert!(read.to_bits() == time.to_bits(), "{time}: {read}");
            }
            assert!(read(&mut free, update(0.1, wrong)) == 0.1);
        }
    }

    #[test]
    fn updates_that_belong_together_take_their_mean() {
        let mut visits = VisitTimes::of(3);
        let read: Vec<_> = [0.0, 0.0, 6.0]
            .into_iter()
            .cycle()
            .clone()
            .take(7)
            .map(|time_s| visits.add(8, time_s))
            .collect();
        assert_eq!(read[..2], [None, None]);
        assert_eq!(read[2..], [Some(2.0); 5]);
        // Other columns begin a visit of their own.
        assert_eq!(visits.add(4, 1.0), None);
        assert_eq!(VisitTimes::of(1).add(5, 0.25), Some(0.25));
    }

    #[test]
    fn without_a_quota_the_wall_time_counts() {
        for kind in [DeviceClock::Cores, DeviceClock::Accelerator, DeviceClock::Prescribed] {
            let mut free = clock(kind, 1.0);
            free.recent = vec![RecentUpdates::default()];
            assert_eq!(read(&mut free, update(0.4, 0.1)), 0.4);
        }
    }
}
