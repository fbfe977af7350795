//! A team computes what one device would, reports every device's own time, and survives failing devices.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the report of a test")]

use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    CpuWorker, Depth, DeviceClock, DeviceError, DeviceInfo, DeviceKind, DeviceTeam, EmbeddedBlas,
    JobNeeds, JobShape, MeasureConfig, Pace, PacedWorker, PanelPair, Scalar, Topology, UpdateTime,
    Updates, View, ViewMut, Worker, measure_team,
};
use isochron_hierarchy::times::Measurement;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

/// Returns this machine's topology, which takes longer to find than most cases to run: hwloc loads its plugins each time.
fn share_topology() -> Arc<Topology> {
    static TOPOLOGY: LazyLock<Arc<Topology>> =
        LazyLock::new(|| Arc::new(Topology::discover().unwrap()));
    Arc::clone(&TOPOLOGY)
}

fn cpu_worker(name: &str, threads: usize) -> Box<dyn Worker> {
    let topology = share_topology();
    let cores = topology.cores().into_iter().cycle().take(threads).collect();
    let blas = Arc::new(EmbeddedBlas);
    CpuWorker::new(topology, name, cores, false, blas).unwrap().into()
}

/// A device whose update is made up by the test.
struct MadeUp<F> {
    info: DeviceInfo,
    update: F,
    /// Seconds of a job's beginning; its end takes twice as long.
    begin_s: f64,
}

impl<F: FnMut() -> Result<UpdateTime, DeviceError> + Send> Worker for MadeUp<F> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn job_needs(&self, job: &JobShape) -> JobNeeds {
        JobNeeds { host_bytes: (job.rows * job.cols) as u64, own_bytes: 0, updates_per_visit: 1 }
    }
}

impl<T, F> Updates<T> for MadeUp<F>
where
    T: Scalar,
    F: FnMut() -> Result<UpdateTime, DeviceError> + Send,
{
    fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
        Ok(time(self.begin_s))
    }

    fn update_ahead(
        &mut self,
        _alpha: T,
        _panels: PanelPair<'_, T>,
        _next: Option<PanelPair<'_, T>>,
        _c: ViewMut<'_, T>,
    ) -> Result<UpdateTime, DeviceError> {
        (self.update)()
    }

    fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
        Ok(time(2.0 * self.begin_s))
    }
}

fn time(busy_s: f64) -> UpdateTime {
    UpdateTime { busy_s, cpu_s: 0.0 }
}

fn made_up_info(name: &str) -> DeviceInfo {
    DeviceInfo::new(name, DeviceKind::Cpu, DeviceClock::Cores)
}

fn made_up(
    name: &str,
    update: impl FnMut() -> Result<UpdateTime, DeviceError> + Send + 'static,
) -> Box<dyn Worker> {
    Box::new(MadeUp { info: made_up_info(name), update, begin_s: 0.0 })
}

/// A team of devices that copy C at both ends of a job.
fn copying_team(devices: usize) -> DeviceTeam {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for _ in 0..devices {
        workers.push(Box::new(MadeUp {
            info: made_up_info("copies"),
            update: || Ok(time(2.0)),
            begin_s: 10.0,
        }));
    }
    DeviceTeam::new(workers).unwrap()
}

fn measure_copies(depth: Depth) -> Measurement {
    measure_team(
        &mut copying_team(1),
        8,
        &[4],
        depth,
        &MeasureConfig::default(),
        &mut UpdateOperands::<f64>::default(),
        &mut repeat_alone,
    )
    .unwrap()
    .remove(0)
}

#[test]
fn the_ends_of_a_job_are_spread_over_its_updates() {
    // 10 s and 20 s over 15 updates; the measurement itself has had all of them, and three updates.
    let found = measure_copies(Depth::of(2, 15));
    assert_eq!((found.sample.seconds, found.fastest_s()), (4.0, 4.0));
    assert_eq!(found.sample.cost_s, 36.0);
    assert_eq!(measure_copies(Depth::endless(2)).sample.seconds, 2.0);
    let mut c = [0.0; 32];
    let mut team = copying_team(1);
    let begun = team.begin(ViewMut::new(&mut c, 8, 4, 8), &[4], Depth::of(2, 1));
    assert_eq!(begun.unwrap(), [time(10.0)]);
    let ended = team.finish(ViewMut::new(&mut c, 8, 4, 8), &[4]);
    assert_eq!(ended.unwrap(), [time(20.0)]);
}

/// Runs one update of ones on `slices`, from C = 0.
fn run_update(
    team: &mut DeviceTeam,
    slices: &[usize],
    meanwhile: &mut dyn FnMut() -> bool,
) -> Result<(Vec<UpdateTime>, Vec<f64>), DeviceError> {
    let (rows, k, cols) = (5, 4, slices.iter().sum());
    let (a, b, mut c) = (vec![1.0; rows * k], vec![1.0; k * cols], vec![0.0; rows * cols]);
    let depth = Depth::of(k, 1);
    team.begin(ViewMut::new(&mut c, rows, cols, rows), slices, depth)?;
    let times = team.update(
        0.5,
        (View::new(&a, rows, k, rows), View::new(&b, k, cols, k)),
        None,
        ViewMut::new(&mut c, rows, cols, rows),
        slices,
        meanwhile,
    )?;
    team.finish(ViewMut::new(&mut c, rows, cols, rows), slices)?;
    Ok((times, c))
}

#[test]
fn every_slice_is_updated_once() {
    let mut team =
        DeviceTeam::new(vec![cpu_worker("a", 1), cpu_worker("b", 2), cpu_worker("c", 1)]).unwrap();
    let mut calls = 0;
    let (times, c) = run_update(&mut team, &[3, 0, 8], &mut || {
        calls += 1;
        false
    })
    .unwrap();
    assert_eq!(c, vec![2.0; 5 * 11]);
    assert_eq!(times.len(), 3);
    assert_eq!(times[1], UpdateTime::default());
    assert_eq!(calls, 1);
    let names: Vec<&str> = team.infos().iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn only_devices_whose_columns_change_end_their_job() {
    let (rows, k, cols) = (5, 4, 11);
    let (a, b) = (vec![1.0; rows * k], vec![1.0; k * cols]);
    let panels = (View::new(&a, rows, k, rows), View::new(&b, k, cols, k));
    let workers = ["a", "b", "c"].map(|name| cpu_worker(name, 1));
    let mut team = DeviceTeam::new(workers.into()).unwrap();
    let mut copying = copying_team(3);
    let mut c = vec![0.0; rows * cols];
    let mut view = ViewMut::new(&mut c, rows, cols, rows);
    let mut slices: &[usize] = &[3, 0, 8];
    let depth = Depth::endless(k);
    team.begin(view.reborrow(), slices, depth).unwrap();
    for (next, busy_s) in
        [(&[3, 5, 3], [0.0, 10.0, 30.0]), (&[3, 5, 3], [0.0; 3]), (&[0, 8, 3], [20.0, 30.0, 0.0])]
    {
        let update = team.update(1.0, panels, None, view.reborrow(), slices, &mut || false);
        assert_eq!(update.unwrap().len(), 3);
        team.redivide(view.reborrow(), [slices, next], depth).unwrap();
        let times = copying.redivide(view.reborrow(), [slices, next], depth);
        assert_eq!(times.unwrap(), busy_s.map(time));
        slices = next;
    }
    let refused = team.redivide(view.reborrow(), [slices, &[1, 1, 1]], depth);
    assert!(matches!(refused, Err(DeviceError::Width { .. })));
    let update = team.update(1.0, panels, None, view.reborrow(), slices, &mut || false);
    assert_eq!(update.unwrap().len(), 3);
    team.finish(view, slices).unwrap();
    assert_eq!(c, vec![16.0; rows * cols]);
}

#[test]
fn a_team_without_devices_is_ordinary() {
    let mut team = DeviceTeam::new(Vec::new()).unwrap();
    assert!(team.is_empty());
    assert!(run_update(&mut team, &[], &mut || false).unwrap().0.is_empty());
}

/// Sends a message to another device, and waits for its own.
fn meet(send: &Sender<()>, receive: &Receiver<()>) -> Result<UpdateTime, DeviceError> {
    send.send(()).unwrap();
    receive.recv().unwrap();
    Ok(UpdateTime { busy_s: 1.0, cpu_s: 0.5 })
}

/// Each device waits in its update for a message of the other: run one after the other, they would wait for ever.
#[test]
fn devices_run_at_the_same_time() {
    let (to_b, from_a) = channel();
    let (to_a, from_b) = channel();
    let workers = vec![
        made_up("a", move || meet(&to_b, &from_b)),
        made_up("b", move || meet(&to_a, &from_a)),
    ];
    let mut team = DeviceTeam::new(workers).unwrap();
    for _ in 0..50 {
        let (times, _) = run_update(&mut team, &[1, 1], &mut || false).unwrap();
        assert_eq!(times[1].busy_s, 1.0);
    }
}

/// The device ends only when the calling thread has run `meanwhile` three times during its update.
#[test]
fn meanwhile_runs_during_the_update() {
    let (send, receive) = channel();
    let worker = made_up("a", move || {
        for _ in 0..3 {
            receive.recv().unwrap();
        }
        Ok(UpdateTime::default())
    });
    let mut team = DeviceTeam::new(vec![worker, cpu_worker("b", 1)]).unwrap();
    run_update(&mut team, &[2, 2], &mut || {
        // After the third message the device no longer listens.
        send.send(()).is_ok()
    })
    .unwrap();
}

#[test]
fn a_short_update_of_one_device_stays_on_the_calling_thread() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&threads);
    let worker = made_up("a", move || {
        seen.lock().unwrap().push(thread::current().id());
        Ok(UpdateTime::default())
    });
    let mut team = DeviceTeam::new(vec![worker]).unwrap();
    let mut calls = 0;
    run_update(&mut team, &[2], &mut || {
        calls += 1;
        true
    })
    .unwrap();
    assert_eq!(*threads.lock().unwrap(), [thread::current().id()]);
    assert_eq!(calls, 1);
}

#[test]
fn a_failing_device_is_named_and_the_team_lives_on() {
    let mut failures = 1;
    let failing = made_up("gpu7", move || {
        if failures > 0 {
            failures -= 1;
            return Err(DeviceError::Memory { needed_bytes: 8, missing_bytes: 3 });
        }
        Ok(UpdateTime::default())
    });
    let mut team = DeviceTeam::new(vec![cpu_worker("a", 1), failing]).unwrap();
    match run_update(&mut team, &[1, 1], &mut || false).unwrap_err() {
        DeviceError::Device { device, source } => {
            assert_eq!(device, "gpu7");
            assert!(matches!(*source, DeviceError::Memory { missing_bytes: 3, .. }));
        }
        other => panic!("{other}"),
    }
    assert!(run_update(&mut team, &[1, 1], &mut || false).is_ok());
}

#[test]
fn a_panicking_device_is_an_error() {
    let panicking = made_up("a", || panic!("the device burnt down"));
    let mut team = DeviceTeam::new(vec![panicking, cpu_worker("b", 2)]).unwrap();
    match run_update(&mut team, &[1, 3], &mut || false).unwrap_err() {
        DeviceError::Device { device, source } => {
            assert_eq!(device, "a");
            assert!(source.to_string().contains("the device burnt down"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn slices_that_do_not_fit_are_errors() {
    let mut team = DeviceTeam::new(vec![cpu_worker("a", 1), cpu_worker("b", 1)]).unwrap();
    let mut c = [0.0; 4];
    let [few, wide] = [&[4][..], &[4, 1]].map(|slices| {
        let c = ViewMut::new(&mut c, 1, 4, 1);
        team.begin(c, slices, Depth::of(1, 1)).unwrap_err()
    });
    assert!(matches!(few, DeviceError::Slices { devices: 2, slices: 1 }));
    assert!(matches!(wide, DeviceError::Width { covered: 5, cols: 4 }));
}

#[test]
fn paced_time_is_the_slowdown_times_the_cpu_time() {
    let paced = PacedWorker::new(cpu_worker("a", 1), Pace::Slowdown(3.0)).unwrap();
    assert_eq!(paced.info().paced.as_deref(), Some("slowdown 3"));
    let mut team = DeviceTeam::new(vec![paced.into()]).unwrap();
    let (times, c) = run_update(&mut team, &[2], &mut || false).unwrap();
    assert_eq!(times[0].busy_s, 3.0 * times[0].cpu_s);
    assert_eq!(c, vec![2.0; 10]);
}

#[test]
fn real_devices_are_measured() {
    let mut team = DeviceTeam::new(vec![cpu_worker("a", 1), cpu_worker("b", 1)]).unwrap();
    let config = MeasureConfig { max_reps: 5, ..MeasureConfig::default() };
    let found = measure_team(
        &mut team,
        32,
        &[16, 0],
        Depth::endless(8),
        &config,
        &mut UpdateOperands::<f64>::default(),
        &mut repeat_alone,
    )
    .unwrap();
    // Disturbed times add up to half as many.
    let repetitions = found[0].sample.reps + found[0].outliers;
    assert!(found[0].sample.seconds > 0.0 && (3..=8).contains(&repetitions), "{found:?}");
    assert_eq!(found[1].sample.reps, 0);
}
